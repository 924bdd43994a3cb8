import type { SinkAccess } from '../sink-access.ts';
import { ledgerFileAccess } from './ledger-file-access.ts';

export function sqliteAccess(file: string): SinkAccess {
  return ledgerFileAccess({
    file,
    place: file,
    loadFormat: async () => (await import('./schema.ts')).sqliteFormat,
    open: async (how) => {
      const { openSqliteSink } = await import('./open-ledger.ts');
      return await openSqliteSink({ ...how, file });
    },
    openClosedFiles: async () => null,
  });
}
