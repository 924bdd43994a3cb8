import type { ConnectorName, EntityName } from '../core/names.ts';

/**
 * The files that a sink has closed and never changes again. Read only, without a lease, beside a process that writes.
 */
export interface ClosedFiles extends AsyncDisposable {
  /** Compares lengths: some microseconds a file. Rejects with `SyncError` SINK_FAILED. */
  lengths(connector: ConnectorName): Promise<CheckedFiles>;
  /** Reads every file and compares its hash too. Rejects with the signal's reason; else as `lengths`. */
  contents(connector: ConnectorName, how: ContentsOptions): Promise<CheckedFiles>;
}

export interface ContentsOptions {
  readonly signal: AbortSignal;
  /** Called at least once for every MiB read. */
  readonly onProgress: (progress: ContentsProgress) => void;
}

export interface ContentsProgress {
  readonly files: number;
  readonly allFiles: number;
  readonly bytes: number;
  readonly allBytes: number;
}

export interface CheckedFiles {
  readonly files: number;
  /** Files for which an earlier version recorded no hash: only their length can be compared. */
  readonly withoutHash: number;
  /** How many of the files stand in for damaged lines: of each key they have only the newest line. */
  readonly partial: number;
  readonly damaged: readonly DamagedFile[];
}

export interface DamagedFile {
  readonly entity: EntityName;
  readonly path: string;
  /** In bytes, as it was closed. */
  readonly length: number;
  /** Its length now; null: it is not there. Equal to `length`: the content differs. */
  readonly found: number | null;
}

export function damageText({ path, length, found }: DamagedFile): string {
  const differs =
    found === null ? 'it is not there' : found === length ? 'its content has changed' : `it holds ${found}`;
  return `${path} should hold ${length} bytes of stored changes, but ${differs}`;
}

export function damageAdvice(connector: ConnectorName, program: string): string {
  return (
    `Restore it from a backup and sync again. Without a backup: \`${program} reset ${connector} --yes\` keeps all lines that are whole, ` +
    'and the next sync reads the records of the others again.'
  );
}
