import { readFileSync } from 'node:fs';
import { relative } from 'node:path';

/** One step of the recorded process. `descriptor` means what the last `opened` of that number means. */
export type Operation =
  | {
      readonly kind: 'opened';
      readonly descriptor: number;
      readonly path: string;
      readonly isCreated: boolean;
      readonly isEmptied: boolean;
    }
  | { readonly kind: 'written'; readonly descriptor: number; readonly offset: number; readonly data: Buffer }
  | { readonly kind: 'truncated'; readonly descriptor: number; readonly length: number }
  /** Of a file or a folder. */
  | { readonly kind: 'synced'; readonly descriptor: number }
  | { readonly kind: 'renamed'; readonly from: string; readonly to: string }
  | { readonly kind: 'removed'; readonly path: string }
  | { readonly kind: 'folder-made'; readonly path: string }
  /** What the process wrote to its standard output: from here on its user had the report. */
  | { readonly kind: 'told'; readonly text: string };

/** What a folder holds: path -> content; null of a folder, which comes before what is in it. */
export type Contents = ReadonlyMap<string, Buffer | null>;

export interface Recording {
  /** The folder when the recording began. */
  readonly before: Contents;
  readonly operations: readonly Operation[];
}

const headBytes = 24;

/** What `record-writes.c` has appended to `log`, in order. Paths are relative to `folder`. */
export function readOperations(log: string, folder: string): readonly Operation[] {
  const bytes = readFileSync(log);
  const operations: Operation[] = [];
  for (let at = 0; at < bytes.length;) {
    const length = bytes.readUInt32LE(at + 20);
    operations.push(
      readOperation(bytes, at, bytes.subarray(at + headBytes, at + headBytes + length), folder),
    );
    at += headBytes + length;
  }
  return operations;
}

function readOperation(bytes: Buffer, at: number, data: Buffer, folder: string): Operation {
  const kind = bytes.readUInt32LE(at);
  const descriptor = bytes.readInt32LE(at + 4);
  const offset = Number(bytes.readBigInt64LE(at + 8));
  const flags = bytes.readUInt32LE(at + 16);
  const [path = '', other = ''] = [1, 5, 6, 7].includes(kind)
    ? data
        .toString()
        .split('\n')
        .map((name) => relative(folder, name))
    : [];
  switch (kind) {
    case 1:
      return {
        kind: 'opened',
        descriptor,
        path,
        isCreated: (flags & 1) > 0,
        isEmptied: (flags & 2) > 0,
      };
    case 2:
      return { kind: 'written', descriptor, offset, data };
    case 3:
      return { kind: 'truncated', descriptor, length: offset };
    case 4:
      return { kind: 'synced', descriptor };
    case 5:
      return { kind: 'renamed', from: path, to: other };
    case 6:
      return { kind: 'removed', path };
    case 7:
      return { kind: 'folder-made', path };
    case 8:
      return { kind: 'told', text: data.toString() };
    default:
      throw new Error(`${kind} at byte ${at} is no kind of operation`);
  }
}
