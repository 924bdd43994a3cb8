import { join } from 'node:path';
import type { ConnectorName } from '../core/names.ts';
import type { ConnectorStatus, LedgerReader } from './ledger-reader.ts';
import { openLedgerReader } from './ledger/history.ts';
import { isSinkThere, openReadonlyDatabase } from './ledger/open-database.ts';
import type { SinkPlace } from './sink-options.ts';

/** Opens what a sink says of its runs, read only; works while another process writes. Throws when there is no sink yet. */
export function openHistory(options: SinkPlace): LedgerReader & Disposable {
  const file = ledgerFile(options);
  // A worker keeps one of these open for each sink: with SQLite's own 16 MiB, a hundred of them would take a gigabyte.
  const db = openReadonlyDatabase({ file, kind: options.type, cacheKiB: 2048 });
  return { ...openLedgerReader(db, file), [Symbol.dispose]: () => void db.close() };
}

/**
 * A sink's ledger for reading; null when nothing has been synced into it yet. The caller disposes it. Throws where that
 * cannot be known (no permission) or something else is there.
 */
export function openExistingHistory(sink: SinkPlace): (LedgerReader & Disposable) | null {
  return isSinkThere(ledgerFile(sink)) ? openHistory(sink) : null;
}

/** The SQLite file that holds a sink's `_sync_*` tables. */
export function ledgerFile(sink: SinkPlace): string {
  return sink.type === 'sqlite' ? sink.path : join(sink.directory, '_ledger.db');
}

export function statusOf(history: LedgerReader, connector: ConnectorName): ConnectorStatus | null {
  return history.connectors([connector])[0] ?? null;
}
