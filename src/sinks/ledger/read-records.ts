import type { Instant } from '../../core/clock.ts';
import { entityOfHistory, type ConnectorName, type EntityName, type RunId } from '../../core/names.ts';
import { keyTextOf, type EntityTable, type RowContent } from '../../core/records.ts';
import { cellOf, type Cells, type Snapshot, type Tx, quoted } from '../../sql/database.ts';
import { historyColumns, historyTable, otherKeyError } from '../decisions/stored-table.ts';
import { recordHash } from '../decisions/meet-record.ts';
import type { ComparedRow, StoredRecord } from '../readings.ts';
import type { LedgerDriver, RecordTables } from './driver.ts';
import { ledgerReader } from './history/history.ts';
import { beganAt, beganWith, columnValue } from '../records/mark-rows.ts';
import { versionsName } from '../records/own-names.ts';
import { storedTable, versionedEntities } from './tables.ts';

/** One state of a sink. Its reader disposes it. */
interface SinkSnapshot extends Pick<LedgerDriver, 'newestSeq' | 'sinkId' | 'records'> {
  readonly snapshot: Snapshot;
}

/**
 * Records as rows of their tables, in one state of the sink, however long the read takes and whichever process writes.
 * Only the newest result is held in memory: batches are read to their end, or left, before the next query. Integers
 * come with all their digits. Rejects with `SyncError` SINK_FAILED.
 */
export function recordReader({ snapshot, sinkId, records, newestSeq }: SinkSnapshot) {
  return {
    /** Random id made with the sink: numbers of another sink mean nothing here. */
    sinkId,
    /** The ledger in the same state. */
    history: ledgerReader(records, (work) => snapshot.read(work)),
    /** The newest change number of the connector in this state: later changes have higher ones. 0 before the first. */
    newestSeq: (connector: ConnectorName) => snapshot.read((tx) => newestSeq(tx, connector)),
    /**
     * Columns as they are stored, including those of earlier definitions; null where nothing was ever stored. Here and
     * in the other calls, `historyName` of an entity means the versions of its rows: null where it has none.
     */
    table: (connector: ConnectorName, name: EntityName): Promise<EntityTable | null> =>
      snapshot.read(async (tx) => {
        const entity = entityOfHistory(name);
        const table = await storedTable(tx, { connector, entity: entity ?? name });
        if (table === undefined || entity === null) return table ?? null;
        return (await versionedEntities(tx, connector)).has(entity) ? historyTable(table) : null;
      }),
    /**
     * Id of the entity's table, random text: `reset --data` makes another table, with another id, and all else keeps it
     * (new columns, a copy into another sink, an undone run). Null where nothing was ever stored.
     */
    tableId: (connector: ConnectorName, name: EntityName) =>
      snapshot.read((tx) => storedTableId(tx, connector, entityOfHistory(name) ?? name)),
    /**
     * Reads each record whose newest change has a number above `after`, once, in the order of the changes, in batches.
     * `table`: result of `table()`.
     */
    changes: async function* (connector: ConnectorName, table: EntityTable, after: number) {
      const entity = entityOfHistory(table.entity);
      const sql =
        entity === null
          ? `${selectRecords(records, connector, table)} WHERE _seq > :after ORDER BY _seq`
          : selectVersions(records.tableName(connector, entity), table);
      for await (const rows of snapshot.batches(sql, { after })) yield rows.map(storedRecord);
    },
    /**
     * Every row without a tombstone, by its key, in batches, in any order. `digestOf`: a digest of a row's values.
     * Throws SINK_INCOMPATIBLE where the rows have another key than `table`.
     */
    rows: async function* (
      connector: ConnectorName,
      table: EntityTable,
      digestOf: (row: RowContent) => string,
    ): AsyncGenerator<readonly ComparedRow[], void> {
      const stored = await snapshot.read((tx) => storedTable(tx, { connector, entity: table.entity }));
      if (stored === undefined) return;
      if (stored.key.join() !== table.key.join()) throw otherKeyError(connector, table, stored);
      const key = stored.key.map((name) => stored.columns.findIndex((column) => column.name === name));
      const sql = `${selectRecords(records, connector, stored, ['_hash'])} WHERE _deleted_at IS NULL`;
      for await (const rows of snapshot.batches(sql)) {
        yield rows.map(([hash, ...cells]) => {
          const row = storedRecord(cells);
          const keyText = keyTextOf(key.map((index) => row.values[index] ?? null));
          return {
            keyText,
            hash: recordHash(String(hash)),
            digest: digestOf({ ...row, columns: stored.columns }),
          };
        });
      }
    },
    /** Null where the key is not stored. */
    record: async (connector: ConnectorName, table: EntityTable, keyText: string) =>
      await snapshot.read(async (tx) => {
        const opened = records.open({ connector, table, stored: table.columns });
        const found = (await opened.rowsOf(tx, [keyText])).get(keyText);
        if (found === undefined) return null;
        const sql = `${selectRecords(records, connector, table)} WHERE _row = :row`;
        const row = await tx.first(sql, { row: found.row });
        return row === undefined ? null : storedRecord(Object.values(row));
      }),
    [Symbol.asyncDispose]: async () => await snapshot[Symbol.asyncDispose](),
  };
}

async function storedTableId(tx: Tx, connector: ConnectorName, entity: EntityName): Promise<string | null> {
  const sql = 'SELECT table_id FROM _sync_tables WHERE connector = :connector AND entity = :entity';
  return (await cellOf<string>(tx, sql, { connector, entity })) ?? null;
}

const own = ['_extra', '_deleted_at', '_seq', '_changed_at', '_run_id'];

function selectRecords(
  records: RecordTables,
  connector: ConnectorName,
  { entity, columns }: EntityTable,
  more: readonly string[] = [],
): string {
  // By position: names of columns may be alike in camel case, or begin as those of flags do.
  const names = [...more, ...own, ...columns.map(({ name }) => name)];
  const cells = names.map((name, index) => `${quoted(name)} AS c${index}`).join(', ');
  return `SELECT ${cells} FROM ${quoted(records.tableName(connector, entity))}`;
}

/**
 * Selects each version once, by its beginning. The end of a closed version is behind that, which keeps both reads
 * short.
 */
function selectVersions(name: string, { columns }: EntityTable): string {
  const values = columns.slice(historyColumns.length).map((column) => `, t.${quoted(column.name)}`);
  const cells = (began: string, at: string): string =>
    [
      `t._extra, NULL AS _deleted_at, ${began} AS _seq, ${at} AS _changed_at, t._run_id`,
      `${began} AS _version, CASE WHEN t._deleted_at IS NULL THEN 0 ELSE 1 END AS _is_deleted${values.join('')}`,
    ].join(', ');
  return `SELECT ${cells('t._seq', 't._valid_from')} FROM ${quoted(versionsName(name))} AS t
      WHERE t._seq_to > :after AND t._seq > :after
    UNION ALL SELECT ${cells(beganWith, beganAt)} FROM ${quoted(name)} AS t
      WHERE t._seq > :after AND ${beganWith} > :after
    ORDER BY 3`;
}

function storedRecord(cells: Cells): StoredRecord {
  const [extra, deletedAt, seq, changedAt, run, ...values] = cells;
  return {
    isDeleted: deletedAt !== null,
    seq: Number(seq),
    changedAt: changedAt as Instant,
    run: run as RunId,
    values: values.map(columnValue),
    extra: extra as string | null,
  };
}
