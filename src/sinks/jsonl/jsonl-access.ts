import { join } from 'node:path';
import { createNamedDirectory } from '../../files/private-file.ts';
import type { SinkAccess } from '../sink-access.ts';
import { ledgerFileAccess } from '../sqlite/sqlite-access.ts';
import { isSinkThere } from '../sqlite/open-database.ts';

export function jsonlAccess(directory: string): SinkAccess {
  const file = join(directory, '_ledger.db');
  return ledgerFileAccess({
    file,
    place: directory,
    loadFormat: async () => (await import('./manifest.ts')).jsonlFormat,
    open: async (how) => {
      const { openJsonlSink } = await import('./jsonl-sink.ts');
      if (how.sinkId === undefined) createNamedDirectory(directory);
      return await openJsonlSink({ ...how, directory, file });
    },
    openClosedFiles: async () => {
      if (!isSinkThere(file)) return null;
      const { openJsonlClosedFiles } = await import('./closed-files.ts');
      return openJsonlClosedFiles(directory, file);
    },
  });
}
