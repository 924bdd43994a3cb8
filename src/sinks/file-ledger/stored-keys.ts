import type { Instant } from '../../core/clock.ts';
import type { ConnectorName, EntityName } from '../../core/names.ts';
import type { Lease } from '../lease.ts';
import { parseParams } from '../stored-json.ts';
import { nothingStored, spreadOver, type StoredKey, type StoredKeys } from '../stored-keys.ts';
import type { HeldConnector, Ledger } from './ledger.ts';
import { columnOf, statement } from './statement.ts';

/** `read`: a look by the holder of the lease, outside a transaction. */
export function ledgerStoredKeys(
  { db }: Ledger,
  read: <Result>(lease: Lease, look: (held: HeldConnector) => Result) => Result,
): StoredKeys {
  return {
    account: async (lease, entity) =>
      read(lease, ({ connector }) => {
        const found = accountOf(db).get(connector, entity);
        return found === undefined
          ? nothingStored
          : { live: found.live, isAdopted: found.adoptedAt !== null };
      }),
    known: async (lease, entity, records) =>
      read(lease, ({ run }) => {
        const table = run?.tables.get(entity)?.table;
        return records.filter((record) => table?.find(record) !== undefined).length;
      }),
    spread: async (lease, entity, count) =>
      read(lease, ({ connector, run }) => {
        const table = run?.tables.get(entity)?.table;
        const before = lastEnd(db).get(connector) ?? null;
        if (table === undefined || before === null) return [];
        const lastRow = accountOf(db).get(connector, entity)?.rows ?? 0;
        const rows = spreadOver(lastRow, count).flatMap((after) => table.liveBefore(before, after, 1));
        return [...new Set(rows)].flatMap((row): readonly StoredKey[] => {
          const stored = table.row(row);
          if (stored === undefined) return [];
          const home = stored.home === null ? undefined : placeOf(db).get(stored.home);
          const [params, inject] = [home?.params ?? '{}', home?.inject ?? '{}'];
          return [{ keyText: stored.keyText, params: parseParams(params), inject: parseParams(inject) }];
        });
      }),
  };
}

const accountOf = statement<
  [connector: ConnectorName, entity: EntityName],
  { readonly rows: number; readonly live: number; readonly adoptedAt: Instant | null }
>(
  'SELECT rows, rows - deleted AS live, adopted_at AS adoptedAt FROM _sync_tables WHERE connector = ? AND entity = ?',
);
const lastEnd = columnOf<[connector: ConnectorName], Instant | null>(
  `SELECT max(finished_at) FROM _sync_runs WHERE connector = ? AND kind = 'sync' AND state IN ('ok', 'degraded')`,
);
const placeOf = statement<[id: number], Readonly<Record<'params' | 'inject', string>>>(
  'SELECT params, inject FROM _sync_partitions WHERE id = ?',
);
