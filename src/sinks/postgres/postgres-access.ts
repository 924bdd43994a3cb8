import { ledgerReaders } from '../ledger-readers.ts';
import type { SinkAccess } from '../sink-access.ts';
import { placeOf } from '../../sql/postgres/place.ts';
import type { PostgresPlace } from './open-ledger.ts';

/** The client library is loaded when something is opened: a command that uses no such sink does not load it. */
export function postgresAccess(at: PostgresPlace): SinkAccess {
  const place = placeOf(at.connection, at.schema);
  return {
    ...ledgerReaders(async () => (await import('./open-ledger.ts')).openToRead(at)),
    place,
    ledgerPlace: place,
    isThere: async () => {
      const { isSinkThere } = await import('./open-ledger.ts');
      return await isSinkThere(at);
    },
    open: async (how) => {
      const { openPostgresSink } = await import('./postgres-sink.ts');
      return await openPostgresSink(at, how);
    },
    openServed: async (how) => {
      const { openServedPostgres } = await import('./open-ledger.ts');
      return await openServedPostgres(at, how);
    },
    openWatched: async () => {
      const { openWatchedPostgres } = await import('./open-ledger.ts');
      return await openWatchedPostgres(at);
    },
    openClosedFiles: async () => null,
    freeBytes: async () => null,
    check: async (how) => {
      const { checkServer } = await import('./check-server.ts');
      return await checkServer(at, how);
    },
  };
}
