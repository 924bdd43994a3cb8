import type Database from 'better-sqlite3';
import type { ConnectorName, EntityName } from '../../core/names.ts';
import type { EntityTable } from '../../core/records.ts';
import { otherKeyError } from '../decisions/stored-table.ts';
import type { KeyAndHash, KeyReader, StoredRecord } from '../record-reader.ts';
import { openLedgerReader } from './history.ts';
import { openReadonlyDatabase, type DatabaseOptions } from './open-database.ts';
import { has } from './read-runs.ts';
import { toSinkError } from '../sqlite-next/sink-error.ts';
import { parseColumns, parseNames } from '../stored-json.ts';

/** A sink's database in one state. Writers go on, but cannot fold their log into the file until it is disposed. Throws when there is no sink yet. */
export function openReadTransaction(options: Pick<DatabaseOptions, 'file' | 'kind'>) {
  const { file } = options;
  const db = openReadonlyDatabase(options);
  try {
    db.exec('BEGIN');
    // The state is that of the first reading.
    const meta = db
      .prepare<[], { sinkId: string; seq: number }>('SELECT sink_id AS sinkId, seq FROM _sync_meta')
      .get();
    return {
      db,
      file,
      sinkId: meta?.sinkId ?? '',
      // One counter for all connectors: more than is asked of a sink.
      newestSeq: async () => meta?.seq ?? 0,
      history: openLedgerReader(db, file),
      table: async (connector: ConnectorName, entity: EntityName) => storedTable(db, connector, entity),
      tableId: async (connector: ConnectorName, entity: EntityName) => storedTableId(db, connector, entity),
      [Symbol.asyncDispose]: async () => void db.close(),
    };
  } catch (error) {
    db.close();
    throw toSinkError(error, file);
  }
}

const batchRows = 100;
/** Characters of a batch, which ends with the row that reaches them: records may be large. */
const batchLength = 4_000_000;

/** Rows of a statement that is being stepped through, as many at a time as their length allows. */
export async function* inBatches<Row>(
  rows: Iterable<Row>,
  lengthOf: (row: Row) => number,
  file: string,
): AsyncGenerator<readonly Row[]> {
  try {
    let batch: Row[] = [];
    let length = 0;
    for (const row of rows) {
      batch.push(row);
      length += lengthOf(row);
      if (batch.length < batchRows && length < batchLength) continue;
      yield batch;
      batch = [];
      length = 0;
    }
    if (batch.length > 0) yield batch;
  } catch (error) {
    throw toSinkError(error, file);
  }
}

/** Characters of a record's texts. */
export function recordLength({ values, extra }: StoredRecord): number {
  let length = extra === null ? 0 : extra.length;
  for (const value of values) if (typeof value === 'string') length += value.length;
  return length;
}

function storedTable(
  db: Database.Database,
  connector: ConnectorName,
  entity: EntityName,
): EntityTable | null {
  const row = db
    .prepare<[string, string], { key: string; stored: string }>(
      'SELECT key, stored FROM _sync_tables WHERE connector = ? AND entity = ?',
    )
    .get(connector, entity);
  return row === undefined ? null : { entity, columns: parseColumns(row.stored), key: parseNames(row.key) };
}

/** In a file of an older version every table has the id that its migration will give it. */
function storedTableId(db: Database.Database, connector: ConnectorName, entity: EntityName): string | null {
  const id = has(db, 'tableIds') ? 'table_id' : '(SELECT sink_id FROM _sync_meta)';
  const found = db
    .prepare<[string, string], string>(`SELECT ${id} FROM _sync_tables WHERE connector = ? AND entity = ?`)
    .pluck()
    .get(connector, entity);
  return found ?? null;
}

/** What a file sink says of its keys: `select` reads those of a table that is there. */
export function openStoredKeys(
  options: Pick<DatabaseOptions, 'file' | 'kind'>,
  select: (db: Database.Database, connector: ConnectorName, table: EntityTable) => Iterable<KeyAndHash>,
): KeyReader {
  const transaction = openReadTransaction(options);

  async function* keys(connector: ConnectorName, table: EntityTable): AsyncGenerator<readonly KeyAndHash[]> {
    const stored = await transaction.table(connector, table.entity);
    if (stored === null) return;
    if (stored.key.join() !== table.key.join()) throw otherKeyError(connector, table, stored);
    yield* inBatches(select(transaction.db, connector, table), ({ keyText }) => keyText.length, options.file);
  }

  return { keys, [Symbol.asyncDispose]: () => transaction[Symbol.asyncDispose]() };
}
