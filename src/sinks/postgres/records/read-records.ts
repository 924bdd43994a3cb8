import { keyTextOf, type EntityTable } from '../../../core/records.ts';
import type { Instant } from '../../../core/clock.ts';
import type { ConnectorName, RunId } from '../../../core/names.ts';
import { otherKeyError } from '../../decisions/stored-table.ts';
import type { KeyReader, RecordReader, StoredRecord } from '../../record-reader.ts';
import { ledgerReader } from '../../ledger/history/history.ts';
import { openLedgerToRead, type PostgresPlace } from '../open-ledger.ts';
import { toSinkError } from '../sink-error.ts';
import type { Values } from '../../../sql/database.ts';
import { readSettingsIn } from '../../../sql/postgres/transaction-settings.ts';
import { txOn, type PostgresTx as Tx } from '../../../sql/postgres/session.ts';
import { knownTables } from '../../ledger/tables.ts';
import { textHash } from '../../../sql/text-hash.ts';
import { tableAt } from './names.ts';
import { postgresTables } from './record-tables.ts';
import { quoted } from '../../../sql/quoted.ts';
import { canonicalKey, columnValue } from '../column-types.ts';

/** Records as rows of their tables. Integers come with all their digits. Throws `SyncError` SINK_FAILED where there is no sink. */
export async function openPostgresRecords(place: PostgresPlace): Promise<RecordReader> {
  const snapshot = await openSnapshot(place);
  const { at, sinkId, ask } = snapshot;
  return {
    sinkId,
    history: ledgerReader(postgresTables(at), ask),
    newestSeq: async (connector) =>
      await ask(async (tx) => {
        const counter = await tx.first<{ readonly seq: number }>(
          `SELECT seq FROM ${at}_sync_counters WHERE connector = :connector`,
          { connector },
        );
        return counter?.seq ?? 0;
      }),
    table: async (connector, entity) => await storedTable(snapshot, connector, entity),
    tableId: async (connector, entity) =>
      await ask(async (tx) => {
        // A sink of version 1 has no such column; its migration gives every table the id of the sink.
        const found = await tx.first<{ readonly id: string }>(
          `SELECT coalesce(to_json(t) ->> 'table_id', :sinkId) AS id
           FROM ${at}_sync_tables AS t WHERE connector = :connector AND entity = :entity`,
          { connector, entity, sinkId },
        );
        return found?.id ?? null;
      }),
    changes: async function* (connector, table, after) {
      const sql = `${selectRecords(at, connector, table)} WHERE _seq > :after ORDER BY _seq`;
      for await (const rows of inBatches(snapshot, sql, { after })) {
        yield rows.map(storedRecord);
      }
    },
    record: async (connector, table, keyText) => {
      const canonical = canonicalKey(table, keyText);
      if (canonical === null) return null;
      const sql = `${selectRecords(at, connector, table)} WHERE _key = :key`;
      const [row] = await ask(async (tx) => await tx.arrays(sql, { key: textHash(canonical) }));
      return row === undefined ? null : storedRecord(row);
    },
    [Symbol.asyncDispose]: snapshot.end,
  };
}

/** Keys as the columns of each table hold them. Throws `SyncError` SINK_FAILED where there is no sink. */
export async function openPostgresKeys(place: PostgresPlace): Promise<KeyReader> {
  const snapshot = await openSnapshot(place);
  return {
    keys: async function* (connector, table) {
      const stored = await storedTable(snapshot, connector, table.entity);
      if (stored === null) return;
      if (stored.key.join() !== table.key.join()) throw otherKeyError(connector, table, stored);
      const columns = ['_hash', ...table.key.map(quoted)].join(', ');
      const sql = `SELECT ${columns} FROM ${tableAt(snapshot.at, connector, table.entity)} WHERE _deleted_at IS NULL`;
      for await (const rows of inBatches(snapshot, sql, {})) {
        yield rows.map(([hash, ...key]) => ({
          keyText: keyTextOf(key.map(columnValue)),
          hash: String(hash),
        }));
      }
    },
    [Symbol.asyncDispose]: snapshot.end,
  };
}

/** One state of the sink, over a connection of its own. Writers are not kept from writing; the server cleans up nothing newer until it ends. */
interface Snapshot {
  readonly at: string;
  readonly sinkId: string;
  readonly ask: <Result>(work: (tx: Tx) => Promise<Result>) => Promise<Result>;
  readonly end: () => Promise<void>;
}

/** Rows come by the index that has their order, where sorting a large table first would take as much space again. */
const settingsIn = (
  schema: string,
): string => `${readSettingsIn(schema)}; SET LOCAL cursor_tuple_fraction = 0.0001;
  SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0`;

async function openSnapshot(place: PostgresPlace): Promise<Snapshot> {
  await using opening = (await openLedgerToRead(place)).server;
  const client = await opening.connect();
  // A connection that breaks is told of by the question that it breaks.
  client.on('error', () => undefined);
  const at = `${quoted(place.schema)}.`;
  const ask: Snapshot['ask'] = async (work) => {
    try {
      return await work(txOn(client));
    } catch (error) {
      throw toSinkError(error, opening.place);
    }
  };
  try {
    const meta = await ask(async (tx) => {
      await client.query(`BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; ${settingsIn(place.schema)}`);
      // The state is that of the first reading.
      return await tx.first<{ readonly sinkId: string }>(`SELECT sink_id FROM ${at}_sync_meta`);
    });
    return { at, sinkId: meta?.sinkId ?? '', ask, end: async () => await client.end() };
  } catch (error) {
    await client.end();
    throw error;
  }
}

async function storedTable(
  { ask }: Snapshot,
  connector: ConnectorName,
  entity: EntityTable['entity'],
): Promise<EntityTable | null> {
  const known = await ask(async (tx) => await knownTables(tx, connector, [entity]));
  const table = known.get(entity);
  return table === undefined ? null : { entity, columns: table.stored, key: table.key };
}

const firstRows = 100;
const mostRows = 1_000;
/** Characters of a batch, as far as its rows are of one length: records may be large. */
const wantedLength = 4_000_000;

/** Rows of a statement, as many at a time as their length allows. The cursor is closed when its reader stops early too. */
async function* inBatches(
  { ask }: Pick<Snapshot, 'ask'>,
  sql: string,
  values: Values,
): AsyncGenerator<readonly (readonly unknown[])[]> {
  await ask(async (tx) => await tx.run(`DECLARE reading NO SCROLL CURSOR FOR ${sql}`, values));
  let isOpen = true;
  try {
    for (let limit = firstRows; ;) {
      const count = limit;
      const rows = await ask(async (tx) => await tx.arrays(`FETCH ${count} FROM reading`));
      if (rows.length > 0) yield rows;
      if (rows.length < count) return;
      limit = Math.max(1, Math.min(mostRows, Math.floor((rows.length * wantedLength) / lengthOf(rows))));
    }
  } catch (error) {
    isOpen = false;
    throw error;
  } finally {
    if (isOpen) await ask(async (tx) => await tx.run('CLOSE reading'));
  }
}

function lengthOf(rows: readonly (readonly unknown[])[]): number {
  let length = 1;
  for (const row of rows) {
    for (const cell of row) length += typeof cell === 'string' ? cell.length : 8;
  }
  return length;
}

function selectRecords(at: string, connector: ConnectorName, { entity, columns }: EntityTable): string {
  const own = ['_extra', '_deleted_at', '_seq', '_changed_at', '_run_id'];
  return `SELECT ${[...own, ...columns.map(({ name }) => quoted(name))].join(', ')} FROM ${tableAt(at, connector, entity)}`;
}

function storedRecord(row: readonly unknown[]): StoredRecord {
  const [extra, deletedAt, seq, changedAt, run, ...values] = row;
  return {
    isDeleted: deletedAt !== null,
    seq: Number(seq),
    changedAt: changedAt as Instant,
    run: run as RunId,
    values: values.map(columnValue),
    extra: extra as string | null,
  };
}
