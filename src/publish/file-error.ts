import { SyncError } from '../core/errors.ts';
import { noSpaceText, saysFull } from '../files/full-disk.ts';

/**
 * Says what a failure of the file system means for a file that is published: `SyncError` TARGET_FAILED. Anything else
 * is given back as it came.
 */
export function toFileError(error: unknown, file: string): unknown {
  if (!(error instanceof Error && 'syscall' in error && 'code' in error)) return error;
  const code = String(error.code);
  const context = { file, cause: code };
  if (saysFull(code)) {
    return new SyncError(
      `${noSpaceText(file, code)}; nothing of this publication is visible. Free space and publish again.`,
      { code: 'TARGET_FAILED', recovery: 'retry', context, cause: error },
    );
  }
  return new SyncError(
    `${file} could not be read or written (${code} in ${String(error.syscall)}). Check the folder, its owner and the disk, and publish again.`,
    { code: 'TARGET_FAILED', recovery: 'stop', context, cause: error },
  );
}
