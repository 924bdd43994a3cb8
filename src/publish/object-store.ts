import { eachOf } from '../core/grouped.ts';

/**
 * Stores the files of a target: a folder, or a bucket. Names are relative, with `/`. Rejects with `SyncError`
 * TARGET_FAILED.
 */
export interface ObjectStore extends AsyncDisposable {
  /** Lists objects in the order of their names, only those after `after`. */
  list(prefix: string, after?: string): AsyncIterable<ListedObject>;
  /** Bytes of the existing objects, by name. */
  sizes(names: readonly string[]): Promise<ReadonlyMap<string, number>>;
  /** Null if it does not exist. */
  read(name: string): Promise<Buffer | null>;
  /** Yields its parts in order; nothing if it does not exist. */
  stream(name: string): AsyncIterable<Uint8Array>;
  /** Absolute path of a local file to write first; `put` takes it from there. */
  stage(name: string): Promise<string>;
  /**
   * Stores the staged file under its name: complete, and on the disk or acknowledged. The staged file no longer exists
   * then.
   */
  put(name: string, staged: string, facts: { readonly bytes: number }): Promise<void>;
  /**
   * Writes a small text under an unused name. `exists`: the name is in use, and its content is unchanged. If the answer
   * is lost, it is looked up.
   */
  create(name: string, text: string): Promise<'created' | 'exists'>;
  /** Writes a small text under a name that may exist. */
  replace(name: string, text: string): Promise<void>;
  /** Removes objects; a missing one is no error. */
  remove(names: readonly string[]): Promise<void>;
  /** Leftovers of killed processes: staged files, uploads that never ended. */
  leftovers(): Promise<readonly Leftover[]>;
}

export interface ListedObject {
  readonly name: string;
  readonly bytes: number;
  readonly modifiedAtMs: number;
}

export interface FileCount {
  readonly files: number;
  readonly bytes: number;
}

/** A file, a folder or an upload. */
export interface Leftover extends FileCount {
  /** Name of the object that it is, or would have become. */
  readonly name?: string;
  /** It may be another program's, unless its name is one of the target's layout. */
  readonly isShared?: boolean;
  readonly modifiedAtMs: number;
  /** Another attempt has won: however young it is, it is never needed. */
  readonly isOver?: boolean;
  /** Removes it; no error if another process has removed it meanwhile. */
  readonly remove: () => Promise<void>;
}

/** Requests at once for objects by their names: not every server takes many of them in one. */
export const atOnce = 8;

/** Leftovers younger than a day may belong to a running process. */
const leftoverMs = 24 * 3_600_000;

/**
 * Removes leftovers of attempts that are over, and those that are old enough at `nowMs`; a dry run counts them.
 * `waiting`: those that are too young.
 */
export async function removeOld(found: readonly Leftover[], nowMs: number, isDryRun: boolean) {
  const isYoung = ({ isOver, modifiedAtMs }: Leftover): boolean =>
    isOver !== true && modifiedAtMs >= nowMs - leftoverMs;
  const [young, old] = [found.filter(isYoung), found.filter((one) => !isYoung(one))];
  if (!isDryRun) await eachOf(old, atOnce, async ({ remove }) => await remove());
  return { removed: sumOf(old), waiting: sumOf(young) };
}

export function sumOf(counts: readonly FileCount[]): FileCount {
  const sum = { files: 0, bytes: 0 };
  for (const { files, bytes } of counts) {
    sum.files += files;
    sum.bytes += bytes;
  }
  return sum;
}
