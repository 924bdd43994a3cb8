/**
 * Where a target of files keeps them: a folder, or a bucket. Names are relative, with `/`. Rejects with `SyncError`
 * TARGET_FAILED.
 */
export interface ObjectStore extends AsyncDisposable {
  /** In the order of their names, those behind `after` alone. */
  list(
    prefix: string,
    after?: string,
  ): AsyncIterable<{ readonly name: string; readonly bytes: number; readonly modifiedAtMs: number }>;
  /** Bytes of those that are there, by their names. */
  sizes(names: readonly string[]): Promise<ReadonlyMap<string, number>>;
  /** Null where there is none. */
  read(name: string): Promise<Buffer | null>;
  /** A part of it after the other; none where there is none. */
  stream(name: string): AsyncIterable<Uint8Array>;
  /** Absolute path of a local file to write first; `put` takes it from there. */
  stage(name: string): Promise<string>;
  /** The staged file gets its name: whole, on the disk or acknowledged. The staged file no longer exists then. */
  put(
    name: string,
    staged: string,
    facts: { readonly bytes: number; readonly sha256: string },
  ): Promise<void>;
  /**
   * A small text under a name that nothing has. `exists`: something has it, and is unchanged. An answer that is lost is
   * looked up.
   */
  create(name: string, text: string): Promise<'created' | 'exists'>;
  /** A small text under a name that may exist. */
  replace(name: string, text: string): Promise<void>;
  /** Those that are not there are no error. */
  remove(names: readonly string[]): Promise<void>;
  /** Removes what processes left that were killed: staged files, uploads that never ended, claims. */
  removeStaged(ages: LeftoverAges): Promise<Leftovers>;
}

export interface FileCount {
  readonly files: number;
  readonly bytes: number;
}

export interface LeftoverAges {
  /** What is younger may belong to a process that is at work. */
  readonly ageMs: number;
  /**
   * Milliseconds since the epoch by the store's own clock, which costs a write: it is asked only where something was
   * found.
   */
  readonly now: () => Promise<number>;
  /** Counts, and removes nothing. */
  readonly isDryRun: boolean;
}

export interface Leftovers {
  readonly removed: FileCount;
  /** Too young to be removed. */
  readonly waiting: FileCount;
}

/** What was found of them, in a file, a folder or an upload. */
export interface Leftover extends FileCount {
  readonly modifiedAtMs: number;
}

/** Removes those that are old enough. */
export async function removeOld<Found extends Leftover>(
  found: readonly Found[],
  { ageMs, now, isDryRun }: LeftoverAges,
  remove: (old: readonly Found[]) => Promise<void>,
): Promise<Leftovers> {
  const beforeMs = found.length === 0 ? 0 : (await now()) - ageMs;
  const old = found.filter(({ modifiedAtMs }) => modifiedAtMs < beforeMs);
  if (!isDryRun && old.length > 0) await remove(old);
  return {
    removed: sumOf(old),
    waiting: sumOf(found.filter(({ modifiedAtMs }) => modifiedAtMs >= beforeMs)),
  };
}

export function sumOf(counts: readonly FileCount[]): FileCount {
  const sum = { files: 0, bytes: 0 };
  for (const { files, bytes } of counts) {
    sum.files += files;
    sum.bytes += bytes;
  }
  return sum;
}

/** Both, of several places. */
export function leftoversOf(all: readonly Leftovers[]): Leftovers {
  return {
    removed: sumOf(all.map(({ removed }) => removed)),
    waiting: sumOf(all.map(({ waiting }) => waiting)),
  };
}
