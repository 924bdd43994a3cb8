import { SyncError } from '../../core/errors.ts';

const fullCodes: ReadonlySet<string> = new Set(['ENOSPC', 'EDQUOT']);

/** Says what a failure of the file system means for the files kept below `folder`. Anything else is given back as it came. */
export function toFileError(error: unknown, folder: string): unknown {
  if (!(error instanceof Error && 'syscall' in error && 'code' in error)) return error;
  const code = String(error.code);
  if (fullCodes.has(code)) {
    return new SyncError(
      `No space is left for the files in ${folder}; what was being written is removed. Free space and sync again.`,
      { code: 'SINK_FULL', recovery: 'retry', context: { folder, cause: code }, cause: error },
    );
  }
  return new SyncError(
    `The files in ${folder} could not be read or written (${code} in ${String(error.syscall)}). Check the folder, its owner and the disk.`,
    { code: 'SINK_FAILED', recovery: 'stop', context: { folder, cause: code }, cause: error },
  );
}
