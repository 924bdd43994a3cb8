import { hash } from 'node:crypto';
import { instant } from '../../core/clock.ts';
import { SyncError, usage } from '../../core/errors.ts';
import { writeJson } from '../../core/json.ts';
import type { ConnectorName, EntityName } from '../../core/names.ts';
import { cellOf, type Cells, type Snapshot, type Tx, quoted } from '../../sql/database.ts';
import { alreadyHeldError, sharedTablesError } from '../sink-errors.ts';
import type { CopyHow } from '../requests.ts';
import type { Holder, StoredIdentity } from '../lease.ts';
import { versionsName, rowsTable, versionsTable } from '../records/own-names.ts';
import { parseNames } from '../stored-json.ts';
import * as connectors from './held-connectors.ts';
import { noteAction } from './noted-actions.ts';
import type { CellColumn, CellTable, CellType, numbered, RecordTables, Taken } from './driver.ts';
import { outsideRun, type Ledger } from './ledger.ts';
import { ledgerSql } from './ledger-schema.ts';
import { storedTables, type StoredTable, countVersions } from './tables.ts';

/**
 * Version of the copied data, raised with every change. A copy that another version of the program began starts again.
 */
const copyVersion = 7;

/**
 * Copies a connector with all its data and facts into another sink, table by table. Both sinks hold it meanwhile. A
 * table counts as copied once its rows were read back and compared; a copy that ended early resumes with its current
 * table of records. The copied data is used for nothing else before the last transaction.
 */
export function ledgerCopies(ledger: Ledger) {
  return {
    ledger,
    /**
     * Throws `ConnectorBusyError`; USAGE where nothing of the connector is stored, or the other sink holds it already;
     * SINK_INCOMPATIBLE where that cannot take it; the signal's reason.
     */
    into: (target: { readonly ledger: Ledger }, how: CopyHow) => copyInto(ledger, target.ledger, how),
    /** Removes the data of an unfinished copy; false where there is none. Throws `ConnectorBusyError`. */
    discard: async (connector: ConnectorName, holder: Holder) =>
      await connectors.holdingOnce(ledger, connector, holder, async (tx) => {
        const known = await readMarker(tx, connector);
        if (known === undefined || known.finishedAt !== null) return false;
        await dropCopy(tx, ledger.records, connector, known);
        noteAction(tx, ledger, { action: 'copy-discarded', connector });
        return true;
      }),
    /** Allows runs again of a connector that was copied away; false where it was not. Throws `ConnectorBusyError`. */
    reopen: async (connector: ConnectorName, holder: Holder) =>
      await connectors.holdingOnce(ledger, connector, holder, async (tx) => {
        const wasAway = await connectors.noteCopiedTo(tx, connector, null);
        if (wasAway) noteAction(tx, ledger, { action: 'copy-reopened', connector });
        return wasAway;
      }),
  };
}

async function copyInto(source: Ledger, target: Ledger, how: CopyHow) {
  const { connector, from, to, holder, signal } = how;
  const check = async (tx: Tx): Promise<void> => {
    await connectors.checkWhole(tx, connector);
    // A lease names its holder, the lock of a file does not.
    if (tx.dialect.name === 'sqlite') await connectors.noteHolder(tx, connector, holder);
  };
  return await connectors.holding(source, connector, { holder, check }, async (reading) => {
    await using snapshot = await source.db.openSnapshot(signal);
    const copied = await describe(snapshot, source, connector);
    const state = await connectors.holding(target, connector, { holder }, async (writing) => {
      const begun = await outsideRun(writing, async (tx) => await begin(tx, target, copied, how));
      if (begun.state !== 'done') {
        await copyTables({ source, target, snapshot, writing, how }, copied.tables, begun);
        signal.throwIfAborted();
        // Once the source is held no longer, it may have changed since.
        await reading.read(async () => Promise.resolve());
        await outsideRun(writing, async (tx) => {
          await connectors.holdConnector(tx, { ...copied.identity, connector, holder }, writing.epoch);
          await finish(tx, target, copied, begun, how);
        });
      }
      await outsideRun(reading, async (tx) => {
        const copiedTo = writeJson({ from, to, at: instant(source.clock.now()) });
        const isNew = await connectors.noteCopiedTo(tx, connector, copiedTo);
        if (isNew) noteAction(tx, source, { action: 'copy-to', connector, detail: { to } });
      });
      await target.lines?.write(writing);
      return begun.state;
    });
    const { tables, newestSeq, last } = copied;
    const lost = target.records.keepsVersions ? [] : tables.filter(({ hasVersions }) => hasVersions);
    return {
      connector,
      /** `done`: an earlier copy was complete, and nothing has changed in the source since. */
      state,
      rows: tables.reduce((sum, { rows }) => sum + rows, 0),
      deleted: tables.reduce((sum, { deleted }) => sum + deleted, 0),
      entities: tables.length,
      /** Entities whose earlier versions the target does not take. */
      withoutVersions: lost.map(({ entity }) => entity),
      /** Id of the target: `export` gives it. */
      toSink: target.sinkId,
      /** The highest change number of the source; later changes get higher ones in the target. */
      newestSeq,
      isPaused: last.some(({ table, rows }) => table.name === '_sync_pauses' && rows.length > 0),
    };
  });
}

type Copied = Awaited<ReturnType<typeof describe>>;

/** Reads the connector as the source has it. */
async function describe(snapshot: Snapshot, ledger: Ledger, connector: ConnectorName) {
  const found = await snapshot.read((tx) =>
    tx.first<StoredIdentity & { readonly definitionHash: string; readonly epoch: number }>(
      `SELECT base_url, connector_id, definition, definition_hash, epoch FROM _sync_connectors
         WHERE connector = :connector AND ${connectors.hasIdentity}`,
      { connector },
    ),
  );
  if (found === undefined) {
    throw usage(`The sink at ${ledger.db.place} holds nothing of connector "${connector}".`);
  }
  const { epoch, ...identity } = found;
  const last: { readonly table: CopiedTable; readonly rows: readonly Cells[] }[] = [];
  for (const table of lastTables) {
    const rows: Cells[] = [];
    for await (const batch of snapshot.batches(selectCells(table, table.name), { connector })) {
      rows.push(...batch);
    }
    last.push({ table, rows });
  }
  const newestRun = 'SELECT max(number) FROM _sync_runs WHERE connector = :connector';
  return await snapshot.read(async (tx) => {
    const tables = await storedTables(tx, connector);
    // A run notes its epoch before it changes records. A reset with data drops tables, which `_sync_tables` shows.
    const parts: unknown[] = [copyVersion, ledger.sinkId, epoch, last[0]?.rows];
    // Versions may expire alone.
    for (const { entity } of tables.filter(({ hasVersions }) => hasVersions)) {
      parts.push([entity, await countVersions(tx, ledger.records, { connector, entity })]);
    }
    return {
      identity,
      /** Changes as soon as any record or table may have changed. */
      state: hash('sha256', JSON.stringify(parts), 'hex'),
      /** Rows of `lastTables`. */
      last,
      tables,
      /** Every change number that a reader can have seen is at most this one. */
      newestSeq: await ledger.newestSeq(tx, connector),
      /** The highest numbers that the connector's rows may name. */
      highest: {
        runs: (await cellOf<number | null>(tx, newestRun, { connector })) ?? 0,
        partitions: await ledger.reserveNumbers(tx, 'partitions', 0),
      },
    };
  });
}

/** Note of a copy in its target. The shift's numbers are added to the numbers of the source. */
interface Marker extends Shift {
  readonly state: string;
  /** JSON: the entities whose tables it has made. */
  readonly entities: string;
  /** Number of its tables that are copied. */
  readonly done: number;
  readonly finishedAt: string | null;
}

type Begun = Shift & { readonly done: number; readonly state: 'begun' | 'resumed' | 'done' };

async function readMarker(tx: Tx, connector: ConnectorName): Promise<Marker | undefined> {
  const sql =
    'SELECT state, entities, runs, partitions, done, finished_at FROM _sync_copies WHERE connector = :connector';
  return await tx.first<Marker>(sql, { connector });
}

/** Resumes the unfinished copy of the same state of the same source; one of another state begins again. */
async function begin(
  tx: Tx,
  ledger: Ledger,
  { tables, state, highest }: Copied,
  { connector, from, to, holder }: CopyHow,
): Promise<Begun> {
  const { records } = ledger;
  const rival = await connectors.rivalOf(tx, connector);
  if (rival !== undefined) throw sharedTablesError(connector, rival);
  const known = await readMarker(tx, connector);
  const isSame = known?.state === state;
  if ((await connectors.storedIdentity(tx, connector)) !== undefined) {
    if (isSame && known.finishedAt !== null) return { ...known, state: 'done' };
    throw alreadyHeldError(connector, to);
  }
  const runs = await ledger.reserveNumbers(tx, 'runs', highest.runs);
  const names = { connector, from, to, holder: writeJson(holder), runs };
  await connectors.dropFacts(tx, connector);
  if (isSame && known.finishedAt === null) {
    await tx.run(
      `UPDATE _sync_copies SET holder = :holder, source_name = :from, target_name = :to, runs = :runs
       WHERE connector = :connector`,
      names,
    );
    return { ...known, runs, state: 'resumed' };
  }
  if (known !== undefined) await dropCopy(tx, records, connector, known);
  for (const table of tables) await makeTable(tx, records, connector, table);
  const partitions = await ledger.reserveNumbers(tx, 'partitions', highest.partitions);
  const entities = JSON.stringify(tables.map(({ entity }) => entity));
  await tx.run(
    `INSERT INTO _sync_copies (connector, source_name, target_name, state, entities, runs, partitions, done, holder, since)
     VALUES (:connector, :from, :to, :state, :entities, :runs, :partitions, 0, :holder, :since)`,
    { ...names, partitions, state, entities, since: instant(ledger.clock.now()) },
  );
  return { runs, partitions, done: 0, state: 'begun' };
}

async function makeTable(
  tx: Tx,
  records: RecordTables,
  connector: ConnectorName,
  { entity, key, stored, hasVersions }: StoredTable,
): Promise<void> {
  const table = { entity, key, columns: stored };
  const kept = hasVersions && records.keepsVersions ? { versions: { isNew: true, isOn: true } } : {};
  await records.ensure(tx, { connector, table, stored: [], ...kept });
}

async function dropCopy(tx: Tx, records: RecordTables, connector: ConnectorName, { entities }: Marker) {
  // `as`: as `begin` has written them.
  await records.drop(tx, connector, parseNames(entities) as readonly EntityName[]);
  await connectors.dropFacts(tx, connector);
  await tx.run('DELETE FROM _sync_copies WHERE connector = :connector', { connector });
}

interface Copying {
  readonly source: Ledger;
  readonly target: Ledger;
  readonly snapshot: Snapshot;
  readonly writing: Taken;
  readonly how: CopyHow;
}

async function copyTables(copying: Copying, tables: readonly StoredTable[], begun: Begun): Promise<void> {
  const { source, target, writing, how } = copying;
  const { connector } = how;
  const allRows = tables.reduce((sum, { rows }) => sum + rows, 0);
  let before = 0;
  for (const [index, table] of copiedTables(source.records, target.records, connector, tables).entries()) {
    const { whole } = table;
    if (index >= begun.done || factTables.includes(table)) {
      await outsideRun(writing, async (tx) => {
        const sql = 'UPDATE _sync_copies SET done = :index WHERE connector = :connector';
        await tx.run(sql, { connector, index });
        // Remove rows that an earlier attempt has copied.
        if (whole === null) return await clearTable(tx, table, connector);
        await target.records.drop(tx, connector, [whole.entity]);
        await makeTable(tx, target.records, connector, whole);
      });
      const rows = before;
      await copyTable(copying, table, begun, async (stored) => {
        const entity = whole?.entity ?? null;
        await how.onProgress({ entity, rows: entity === null ? rows : rows + stored, allRows });
      });
    }
    before += whole?.rows ?? 0;
  }
}

/** Copies a table. Throws SINK_FAILED where the target does not hold the rows that were read. */
async function copyTable(
  { snapshot, target, writing, how }: Copying,
  table: CopiedTable,
  shift: Shift,
  onStored: (rows: number) => Promise<void>,
): Promise<void> {
  const { connector, signal } = how;
  let read = noRows;
  await onStored(0);
  for await (const batch of snapshot.batches(selectCells(table, table.from), { connector })) {
    signal.throwIfAborted();
    const rows = batch.map((cells) => movedCells(table, cells, shift));
    read = withRows(read, rows);
    await outsideRun(writing, async (tx) => await target.records.insertRows(tx, table, rows));
    await onStored(read.rows);
  }
  if (read.rows === 0) return;
  await using written = await target.db.openSnapshot(signal);
  let stored = noRows;
  for await (const batch of written.batches(selectCells(table, table.name), { connector })) {
    stored = withRows(stored, batch);
  }
  if (stored.rows === read.rows && stored.digest === read.digest) return;
  const found = `${stored.rows} rows with digest ${stored.digest.toString(16)}`;
  const expected = `${read.rows} rows with digest ${read.digest.toString(16)}`;
  throw new SyncError(
    `Table ${table.name} of sink ${how.to} holds ${found}; ${expected} were copied. Another process may have written to it: copy again.`,
    { code: 'SINK_FAILED', recovery: 'stop', context: { connector, table: table.name } },
  );
}

/** Digest of no rows. It does not depend on their order, because databases sort texts in different ways. */
const noRows = { rows: 0, digest: 0n };

function withRows({ rows, digest }: typeof noRows, batch: readonly Cells[]): typeof noRows {
  let sum = digest;
  for (const cells of batch) {
    const texts = cells.map((cell) => {
      if (typeof cell === 'boolean') return Number(cell);
      if (typeof cell === 'bigint') return String(cell);
      return Buffer.isBuffer(cell) ? cell.toString('base64') : cell;
    });
    sum += BigInt(`0x${hash('sha256', JSON.stringify(texts), 'hex').slice(0, 32)}`);
  }
  return { rows: rows + batch.length, digest: BigInt.asUintN(128, sum) };
}

/** Completes the copy: the connector is then the same as in the source. */
async function finish(
  tx: Tx,
  ledger: Ledger,
  { tables, last, newestSeq }: Copied,
  shift: Shift,
  { connector, from }: CopyHow,
): Promise<void> {
  const { records } = ledger;
  for (const { table, rows } of last) {
    if (rows.length > 0) await clearTable(tx, table, connector);
    const moved = rows.map((cells) => movedCells(table, cells, shift));
    await records.insertRows(tx, table, moved);
  }
  for (const { entity } of tables) {
    await tx.run(
      'UPDATE _sync_tables SET name = :name, current_view = NULL WHERE connector = :connector AND entity = :entity',
      { connector, entity, name: records.tableName(connector, entity) },
    );
  }
  // Change numbers continue above those of the source, and of an earlier connector of that name.
  await ledger.raiseSeq(tx, connector, newestSeq);
  await records.renewViews(tx, connector);
  noteAction(tx, ledger, { action: 'copy-from', connector, detail: { from } });
  await tx.run('UPDATE _sync_copies SET finished_at = :now WHERE connector = :connector', {
    connector,
    now: instant(ledger.clock.now()),
  });
}

/** A table as a copy reads it in one sink and writes it in another. */
interface CopiedTable extends CellTable {
  /** Name in the source; `name` is the name in the target. */
  readonly from: string;
  /** Table of records; null: the table has versions of records, or facts of the ledger. */
  readonly whole: StoredTable | null;
  readonly columns: readonly CopiedColumn[];
  /** The rows of `:connector`. */
  readonly where: string;
  readonly order: string;
}

interface CopiedColumn extends CellColumn {
  /** Kind of number that the target raises, because other connectors may use it there. 0 and null mean no number. */
  readonly of?: keyof typeof numbered;
}

/** Offsets added to numbers of the source. */
type Shift = Readonly<Record<keyof typeof numbered, number>>;

const numbers: Readonly<Record<string, keyof typeof numbered>> = {
  number: 'runs',
  origin: 'runs',
  full_origin: 'runs',
  sweep_origin: 'runs',
  first_origin: 'runs',
  taken_over: 'runs',
  id: 'partitions',
  base: 'partitions',
  tree: 'partitions',
  partition: 'partitions',
};

const cellTypes: Readonly<Record<string, CellType>> = {
  TEXT: 'string',
  BIGINT: 'integer',
  INTEGER: 'flag',
  BYTEA: 'bytes',
};

const orders: Readonly<Record<string, string>> = {
  _sync_runs: 'ORDER BY number',
  _sync_tables: 'ORDER BY entity',
};

/** A table of the ledger as `ledger-schema.ts` has it. */
function ledgerTable(name: string): CopiedTable {
  const definition = new RegExp(`^CREATE TABLE ${name} \\(([^;]*);`, 'm').exec(ledgerSql)?.[1] ?? '';
  const columns = [...definition.matchAll(/^ {2}"?([a-z]\w*)"? (TEXT|BIGINT|INTEGER|BYTEA)\b/gm)];
  const isOrdered = columns.some(([, column]) => column === 'id');
  return {
    name,
    from: name,
    key: null,
    whole: null,
    columns: columns.flatMap(([, column = '', type = '']) => {
      // Other ids than those of partitions say only in which order rows came: the target gives new ones.
      if (column === 'id' && name !== '_sync_partitions') return [];
      const of = numbers[column];
      return [{ name: column, type: cellTypes[type] ?? 'string', ...(of === undefined ? {} : { of }) }];
    }),
    where: connectors.whichFacts(name),
    order: isOrdered ? 'ORDER BY id' : (orders[name] ?? ''),
  };
}

const factTables = connectors.factNames.map(ledgerTable);
/** Tables that make the others count. */
const lastTables = ['_sync_tables', '_sync_pauses'].map(ledgerTable);

/** The connector's tables in the order in which they are copied. */
function copiedTables(
  source: Pick<RecordTables, 'tableName'>,
  target: Pick<RecordTables, 'tableName' | 'keepsVersions'>,
  connector: ConnectorName,
  tables: readonly StoredTable[],
): readonly CopiedTable[] {
  const ofRows = tables.flatMap((whole): readonly CopiedTable[] => {
    const table = { ...whole, hasVersions: whole.hasVersions && target.keepsVersions };
    const { name, key, columns } = rowsTable(target, connector, table);
    const from = source.tableName(connector, whole.entity);
    const rows: CopiedTable = {
      name,
      from,
      key,
      whole,
      columns: columns.map((column) =>
        column.name === '_partition' ? { ...column, of: 'partitions' } : column,
      ),
      where: 'true',
      order: 'ORDER BY _row',
    };
    if (!table.hasVersions) return [rows];
    const versions = versionsTable(target, connector, table);
    const { where } = rows;
    return [rows, { ...versions, from: versionsName(from), whole: null, where, order: 'ORDER BY _seq_to' }];
  });
  return [...ofRows, ...factTables.filter(({ name }) => target.keepsVersions || name !== '_sync_versions')];
}

/** Reads the rows of `:connector`, cells in the order of the columns, from the table of this name. */
function selectCells({ columns, where, order }: CopiedTable, name: string): string {
  const cells = columns.map((column, index) => `${quoted(column.name)} AS c${index}`);
  return `SELECT ${cells.join(', ')} FROM ${quoted(name)} WHERE ${where} ${order}`;
}

/** Cells as every database takes them, with numbers of the target. */
function movedCells({ columns }: CopiedTable, cells: Cells, shift: Shift): Cells {
  return cells.map((cell, index) => {
    const of = columns[index]?.of;
    if (of !== undefined && typeof cell === 'number' && cell !== 0) return cell + shift[of];
    return typeof cell === 'boolean' ? Number(cell) : cell;
  });
}

async function clearTable(tx: Tx, { name, where }: CopiedTable, connector: ConnectorName): Promise<void> {
  if (name.startsWith('_sync_')) await connectors.clearFacts(tx, name, connector);
  else await tx.run(`DELETE FROM ${quoted(name)} WHERE ${where}`, { connector });
}
