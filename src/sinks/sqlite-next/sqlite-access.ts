import type { SinkAccess } from '../sink-access.ts';
import { ledgerFileAccess } from './ledger-file-access.ts';

export function sqliteNextAccess(file: string): SinkAccess {
  return ledgerFileAccess({
    file,
    place: file,
    loadFormat: async () => (await import('./schema.ts')).sqliteFormat,
    open: async (how) => {
      const { openSqliteNextSink } = await import('./sqlite-sink.ts');
      return await openSqliteNextSink({ ...how, file });
    },
    openClosedFiles: async () => null,
  });
}
