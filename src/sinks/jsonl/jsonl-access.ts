import { join } from 'node:path';
import type { SinkAccess } from '../sink-access.ts';
import { ledgerFileAccess } from '../sqlite/ledger-file-access.ts';
import { isSinkThere } from '../sqlite/open-database.ts';

export function jsonlAccess(directory: string): SinkAccess {
  const file = join(directory, '_ledger.db');
  return ledgerFileAccess({
    file,
    place: directory,
    loadFormat: async () => (await import('./schema.ts')).jsonlFormat,
    open: async (how) => {
      const { openJsonlSink } = await import('./jsonl-sink.ts');
      return await openJsonlSink({ ...how, directory, file });
    },
    openClosedFiles: async () => {
      if (!isSinkThere(file)) return null;
      const { openJsonlClosedFiles } = await import('./closed-files.ts');
      return openJsonlClosedFiles(directory, file);
    },
  });
}
