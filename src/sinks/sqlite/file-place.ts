import { statSync } from 'node:fs';
import { SyncError } from '../../core/errors.ts';

/**
 * Which file is at a path, as device and inode; null where there is none. Throws the system's error where that cannot
 * be known.
 */
export function fileAt(path: string): string | null {
  const stats = statSync(path, { bigint: true, throwIfNoEntry: false });
  return stats === undefined ? null : `${stats.dev}:${stats.ino}`;
}

/**
 * Remembers which file is at `path`. The check throws SINK_MOVED once another one, or none, is there: SQLite would
 * write on into a file nobody finds.
 */
export function rememberPlace(path: string): () => void {
  const opened = fileAt(path);
  return () => {
    const found = fileAt(path);
    if (found !== opened || found === null) throw movedError(path, found === null);
  };
}

export function movedError(path: string, isMissing: boolean): SyncError {
  return new SyncError(
    `The sink's file should be at ${path}; ${isMissing ? 'it is not there any more' : 'another file is there now'}. ` +
      'Nothing is written. Put the file back, then sync again.',
    { code: 'SINK_MOVED', recovery: 'retry', context: { file: path, isMissing } },
  );
}
