import { linearPattern, type LinearPattern } from '../definitions/linear-pattern.ts';
import type { FileFormat } from './row-files.ts';

/** A file of a publication, as its name tells of it. */
export interface PartName {
  readonly connector: string;
  readonly entity: string;
  readonly generation: number;
  readonly kind: 'changes' | 'snapshot';
  /** The day, UTC, on which the publication was begun. */
  readonly date: string;
  readonly publication: number;
  readonly part: number;
}

const placeholder = /\{([a-z]+)\}/g;

/** `layout` with its placeholders filled in, then 8 hex digits of the attempt: no name comes twice. */
export function partName(layout: string, part: PartName, attempt: string, format: FileFormat): string {
  const texts: Readonly<Record<string, string>> = {
    connector: part.connector,
    entity: part.entity,
    generation: String(part.generation),
    kind: part.kind,
    date: part.date,
    publication: String(part.publication).padStart(8, '0'),
    part: String(part.part).padStart(4, '0'),
  };
  const name = layout.replaceAll(placeholder, (_found, what: string) => texts[what] ?? '');
  return `${name}-${attempt}.${format}`;
}

const shapes: Readonly<Record<string, string>> = {
  connector: '[a-z0-9_-]+',
  entity: '[a-z0-9_]+',
  generation: '\\d+',
  kind: '(?:changes|snapshot)',
  date: '\\d{4}-\\d\\d-\\d\\d',
  publication: '\\d{8,}',
  part: '\\d{4,}',
};

/**
 * Matches what `partName` makes of this layout, and no file that another program may have put there. Its groups:
 * `publication` and `attempt`.
 */
export function partNamePattern(layout: string): LinearPattern {
  const pattern = layout
    .replaceAll('.', '\\.')
    .replace('{publication}', `(?<publication>${shapes['publication']})`)
    .replaceAll(placeholder, (_found, what: string) => shapes[what] ?? '');
  return linearPattern(`${pattern}-(?<attempt>[0-9a-f]{8})\\.(?:parquet|jsonl|csv)`);
}
