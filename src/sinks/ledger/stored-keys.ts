import type { Instant } from '../../core/clock.ts';
import type { ConnectorName, EntityName } from '../../core/names.ts';
import type { PreparedRecord } from '../../core/records.ts';
import type { Lease } from '../lease.ts';
import { parseParams } from '../stored-json.ts';
import {
  nothingStored,
  spreadOver,
  type RawRecord,
  type SameRow,
  type StoredAccount,
  type StoredKey,
} from '../stored-keys.ts';
import type { HeldConnector } from './ledger.ts';
import { tableNumbers } from './stored-rows.ts';
import { cellOf, type Tx } from '../../sql/database.ts';

/** Cheap queries on what is stored of the entities of the lease's run. Read only. */
export function ledgerStoredKeys(heldOf: (lease: Lease) => HeldConnector) {
  return {
    /** Nothing before a sync has ended well. Costs a row, however many are stored. */
    account: async (lease: Lease, entity: EntityName): Promise<StoredAccount> =>
      await heldOf(lease).read(async (tx) => {
        const numbers = await tableNumbers(tx, { connector: lease.connector, entities: [entity] });
        const found = numbers.get(entity);
        return found === undefined || (await lastEnd(tx, lease.connector)) === null
          ? nothingStored
          : { live: found.live, isAdopted: found.adoptedAt !== null };
      }),
    /** How many of these records have a row that is not deleted. */
    known: async (lease: Lease, entity: EntityName, records: readonly PreparedRecord[]) => {
      const held = heldOf(lease);
      return await held.read(async (tx) => {
        const byKey = new Map(records.map((record) => [record.keyText, record]));
        const found = await held.run?.tables.get(entity)?.find(tx, [...byKey.values()]);
        return records.filter(({ keyText }) => found?.get(keyText)?.deletedAt === null).length;
      });
    },
    /**
     * Of each record, in order, the hashes of its row where that is not deleted and is known to have been stored from
     * the same bytes; `other` where it was stored from other ones; null where that is not known. Looks for no row where
     * nothing is remembered of the entity. A commit may change the answer.
     */
    same: async (
      lease: Lease,
      entity: EntityName,
      records: readonly RawRecord[],
    ): Promise<readonly (SameRow | 'other' | null)[]> => {
      const { run, read } = heldOf(lease);
      const table = run?.tables.get(entity);
      if (run === null || table === undefined) return records.map(() => null);
      return await run.raw.same(read, entity, table, records);
    },
    /**
     * At most `count` rows that are not deleted, spread over all that were stored when a sync last ended well; none
     * where none has.
     */
    spread: async (lease: Lease, entity: EntityName, count: number): Promise<readonly StoredKey[]> => {
      const held = heldOf(lease);
      return await held.read(async (tx) => {
        const table = held.run?.tables.get(entity);
        const before = await lastEnd(tx, lease.connector);
        if (table === undefined || before === null) return [];
        const numbers = await tableNumbers(tx, { connector: lease.connector, entities: [entity] });
        const { lastRow = 0 } = numbers.get(entity) ?? {};
        const rows = new Set<number>();
        for (const after of spreadOver(lastRow, count)) {
          for (const row of await table.liveBefore(tx, before, after, 1)) rows.add(row);
        }
        const stored = [...(await table.rows(tx, [...rows])).values()];
        const places = await placesOf(
          tx,
          stored.flatMap(({ owner }) => (owner === null ? [] : [owner])),
        );
        return stored.map(({ keyText, owner }): StoredKey => {
          const place = owner === null ? undefined : places.get(owner);
          const [params, inject] = [place?.params ?? '{}', place?.inject ?? '{}'];
          return { keyText, params: parseParams(params), inject: parseParams(inject) };
        });
      });
    },
  };
}

async function lastEnd(tx: Tx, connector: ConnectorName): Promise<Instant | null> {
  const found = await cellOf<Instant | null>(
    tx,
    `SELECT max(finished_at) FROM _sync_runs
     WHERE connector = :connector AND kind = 'sync' AND state IN ('ok', 'degraded')`,
    { connector },
  );
  return found ?? null;
}

async function placesOf(
  tx: Tx,
  ids: readonly number[],
): Promise<ReadonlyMap<number, Readonly<Record<'params' | 'inject', string>>>> {
  if (ids.length === 0) return new Map();
  const found = await tx.rows<{ id: number; params: string; inject: string }>(
    `SELECT id, params, inject FROM _sync_partitions WHERE id IN {ids bigint}`,
    { ids: [...new Set(ids)] },
  );
  return new Map(found.map(({ id, ...place }) => [id, place]));
}
