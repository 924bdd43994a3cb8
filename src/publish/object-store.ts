/** Where a target of files keeps them: a folder, or a bucket. Names are relative, with `/`. Rejects with `SyncError` TARGET_FAILED. */
export interface ObjectStore extends AsyncDisposable {
  /** In the order of their names, those behind `after` alone. */
  list(
    prefix: string,
    after?: string,
  ): AsyncIterable<{ readonly name: string; readonly bytes: number; readonly modifiedAtMs: number }>;
  /** Null where there is none. */
  read(name: string): Promise<Buffer | null>;
  /** A part of it after the other; none where there is none. */
  stream(name: string): AsyncIterable<Uint8Array>;
  /** Absolute path of a local file to write first; `put` takes it from there. */
  stage(name: string): Promise<string>;
  /** The staged file gets its name: whole, on the disk or acknowledged. The staged file is gone then. */
  put(
    name: string,
    staged: string,
    facts: { readonly bytes: number; readonly sha256: string },
  ): Promise<void>;
  /** A small text under a name that nothing has. `exists`: something has it, and is unchanged. An answer that is lost is looked up. */
  create(name: string, text: string): Promise<'created' | 'exists'>;
  /** A small text under a name that may exist. */
  replace(name: string, text: string): Promise<void>;
  /** Those that are not there are no error. */
  remove(names: readonly string[]): Promise<void>;
  /** Staged files and uploads that were begun before `beforeMs` and never ended: their processes were killed. */
  removeStaged(beforeMs: number): Promise<{ readonly files: number; readonly bytes: number }>;
}
