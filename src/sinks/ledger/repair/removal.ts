import { instant } from '../../../core/clock.ts';
import type { ConnectorName, EntityName } from '../../../core/names.ts';
import { cellOf, type Tx } from '../../../sql/database.ts';
import type { Holder } from '../../lease.ts';
import { parseNames } from '../../stored-json.ts';
import { noteAction } from '../actions.ts';
import { dropFacts } from '../copies/copied-tables.ts';
import { outsideRun, type Ledger } from '../ledger.ts';
import { transitions } from '../partitions/transitions.ts';
import { knownEntities } from '../tables.ts';

/** Rows that one transaction removes at most. */
const atOnce = 5_000;

/** Tables that may have as many rows of a connector as it has records, by what tells those rows apart. */
const largeTables = {
  _sync_also: 'entity, row, partition',
  _sync_missing: 'entity, row',
  _sync_quarantine: 'id',
  _sync_downloads: 'id',
} as const;

/**
 * What is small besides facts. People's acts stay, and so do the counter of changes and the notes of purged records,
 * which would come back otherwise.
 */
const smallTables = [
  '_sync_raw',
  '_sync_progress',
  '_sync_tables',
  '_sync_connectors',
  '_sync_copies',
  '_sync_pauses',
  '_sync_outbox',
  '_sync_removals',
] as const;

/**
 * Removes the connector with everything that is stored of it, but for what people did to it and the number of its
 * newest change: from here on nothing uses what is stored (`SyncError` REMOVAL_UNFINISHED), and it goes in transactions
 * of a bounded size. Holds it until it is disposed; one that ends early is resumed by the next. Throws
 * `ConnectorBusyError`.
 */
export async function openRemoval(ledger: Ledger, connector: ConnectorName, holder: Holder) {
  const { records } = ledger;
  const taken = await ledger.take(connector, holder, async () => undefined);
  const transact = async <Result>(work: (tx: Tx) => Promise<Result>): Promise<Result> =>
    await outsideRun(taken, work);
  try {
    const { entities, rows } = await transact(async (tx) => await begin(tx, ledger, connector));
    let areTablesDropped = false;
    return {
      /**
       * A bounded part, in one transaction; gives how many rows that were. Null: only what `finish` removes remains.
       */
      dropSome: async (): Promise<number | null> => {
        const dropped = await transact(async (tx) => await dropSome(tx, ledger, connector, entities));
        if (dropped > 0 || areTablesDropped) return dropped > 0 ? dropped : null;
        // Before the mark goes, so that the next removal repeats it after a kill.
        await transact(async (tx) => await records.drop(tx, connector, entities));
        await ledger.lines?.tidy(taken, null);
        areTablesDropped = true;
        return 0;
      },
      /** In one transaction: the connector is one that was never there. */
      finish: async () =>
        await transact(async (tx) => {
          await records.drop(tx, connector, entities);
          await dropFacts(tx, connector, [
            '_sync_actions',
            '_sync_purged',
            '_sync_purge_keys',
            '_sync_purge_work',
          ]);
          for (const table of smallTables) {
            await tx.run(`DELETE FROM ${table} WHERE connector = :connector`, { connector });
          }
          noteAction(tx, ledger, {
            action: 'remove',
            connector,
            detail: { entities: entities.length, rows },
          });
        }),
      [Symbol.asyncDispose]: async () => await taken.release(),
    };
  } catch (error) {
    await taken.release();
    throw error;
  }
}

interface Begun {
  readonly entities: readonly EntityName[];
  readonly rows: number;
}

async function begin(tx: Tx, { clock }: Ledger, connector: ConnectorName): Promise<Begun> {
  const known = await tx.first<{ readonly entities: string; readonly rows: number }>(
    `SELECT entities, rows FROM _sync_removals WHERE connector = :connector`,
    { connector },
  );
  const copied = await cellOf<string>(tx, `SELECT entities FROM _sync_copies WHERE connector = :connector`, {
    connector,
  });
  const stored = await cellOf<number | null>(
    tx,
    `SELECT CAST(sum(rows) AS bigint) FROM _sync_tables WHERE connector = :connector`,
    { connector },
  );
  const names = [known?.entities, copied].flatMap((text) => (text === undefined ? [] : parseNames(text)));
  // `as`: names of entities that this sink has written.
  const entities = [...new Set([...(names as EntityName[]), ...(await knownEntities(tx, connector))])];
  const rows = (known?.rows ?? 0) + (stored ?? 0);
  await tx.run(
    `INSERT INTO _sync_removals (connector, since, entities, rows) VALUES (:connector, :since, :entities, :rows)
     ON CONFLICT (connector) DO UPDATE SET entities = excluded.entities, rows = excluded.rows`,
    { connector, since: instant(clock.now()), entities: JSON.stringify(entities), rows },
  );
  for (const table of ['_sync_tables', '_sync_connectors', '_sync_copies']) {
    await tx.run(`DELETE FROM ${table} WHERE connector = :connector`, { connector });
  }
  return { entities, rows };
}

/** Gives how many rows went; 0 where only tables and what is small remain. */
async function dropSome(
  tx: Tx,
  { records }: Ledger,
  connector: ConnectorName,
  entities: readonly EntityName[],
): Promise<number> {
  for (const entity of entities) {
    const dropped = await records.clear(tx, connector, entity, atOnce);
    if (dropped > 0) return dropped;
  }
  for (const [table, key] of Object.entries(largeTables)) {
    const dropped = await tx.run(
      `DELETE FROM ${table} WHERE connector = :connector AND (${key}) IN
         (SELECT ${key} FROM ${table} WHERE connector = :connector LIMIT :atOnce)`,
      { connector, atOnce },
    );
    if (dropped > 0) return dropped;
  }
  return await transitions.dropSome(tx, { connector, atOnce });
}
