import { join } from 'node:path';
import type { ConnectorName, EntityName } from '../../core/names.ts';

/** `<epoch>-<number>.jsonl`, with `.open` behind it while it grows. Each epoch has files of its own. */
export interface FileNumber {
  readonly epoch: number;
  readonly number: number;
}

const pattern = /^(\d{1,15})-(\d{1,15})\.jsonl(\.open)?$/;

export function closedName({ epoch, number }: FileNumber): string {
  return `${epoch}-${number}.jsonl`;
}

export function growingName(file: FileNumber): string {
  return `${closedName(file)}.open`;
}

/** Null for a name that this sink never gives, so that other people's files are left alone. */
export function readFileName(name: string): (FileNumber & { readonly isGrowing: boolean }) | null {
  const match = pattern.exec(name);
  return match === null
    ? null
    : { epoch: Number(match[1]), number: Number(match[2]), isGrowing: match[3] !== undefined };
}

export function entityDirectory(directory: string, connector: ConnectorName, entity: EntityName): string {
  return join(directory, connector, entity);
}
