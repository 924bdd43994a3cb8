import type { ConnectorName, EntityName } from '../core/names.ts';

/** The files that a sink has closed. Read only, without a lease, beside a process that writes. */
export interface ClosedFiles extends AsyncDisposable {
  /**
   * Compares lengths, which takes some microseconds a file; with `how` reads every file and compares its hash. Rejects
   * with `SyncError` SINK_FAILED, and the signal's reason.
   */
  check(connector: ConnectorName, how?: ComparedContents): Promise<CheckedFiles>;
}

/** Comparison of files' contents: how it is aborted, and its progress. */
export interface ComparedContents {
  readonly signal: AbortSignal;
  /** Called at least once for every MiB read. */
  readonly onProgress: (progress: ContentsProgress) => void;
}

interface ContentsProgress {
  readonly files: number;
  readonly allFiles: number;
  readonly bytes: number;
  readonly allBytes: number;
}

export interface CheckedFiles {
  readonly files: number;
  readonly damaged: readonly DamagedFile[];
}

export interface DamagedFile {
  readonly entity: EntityName;
  readonly path: string;
  /** In bytes, as it was closed. */
  readonly length: number;
  /** Present length; null: the file is missing. Equal to `length`: the content differs. */
  readonly found: number | null;
}

export function damageText({ path, length, found }: DamagedFile): string {
  const differs =
    found === null ? 'it is not there' : found === length ? 'its content has changed' : `it holds ${found}`;
  return `${path} should hold ${length} bytes of stored changes, but ${differs}`;
}

export function damageAdvice(connector: ConnectorName, program: string): string {
  return (
    `Restore it from a backup and sync again. Without a backup: \`${program} reset ${connector} --yes\` writes it again from the stored records; ` +
    'earlier lines of those that changed again later are lost with it, so copy a damaged file away first.'
  );
}
