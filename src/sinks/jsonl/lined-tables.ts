import { usage } from '../../core/usage-error.ts';
import type { ConnectorName } from '../../core/names.ts';
import type { Tx } from '../../sql/database.ts';
import { quoted } from '../../sql/quoted.ts';
import { tableName } from '../decisions/stored-table.ts';
import type { RecordTables } from '../ledger/driver.ts';
import type { RecordTable, TablePlace, Stamp } from '../ledger/record-table.ts';
import type { ChangeFiles } from './change-files.ts';
import { lineWriters } from './line.ts';
import { deletedHash, stampLostDeletions } from './lost-rows.ts';
import { appendLinesOf, storedLines, type SeqRange } from './stored-lines.ts';

/**
 * Tables of records whose changes are lines as well: each row that gets a change number gets a line, in the transaction
 * that writes it.
 */
export function linedTables(tables: RecordTables, changes: ChangeFiles): RecordTables {
  return {
    ...tables,
    keepsVersions: false,
    open: (place) => linedTable(tables.open(place), place, changes),
    // Lines are never rewritten: a field has its column from now on, and stays in `_extra` of older ones. So no value
    // has to fit.
    fitting: async (_tx, _place, columns) => columns,
    fill: async (tx, place, _columns, stamp) =>
      await lined(tx, place, changes, stamp, (noting) => stampLostDeletions(tx, place, noting)),
    // Readers of the files have no use for views.
    renewViews: async () => undefined,
    drop: async (tx, connector, entities) => {
      await tables.drop(tx, connector, entities);
      for (const entity of entities) changes.drop(connector, entity);
    },
    writeWhole: async (tx, connector, table, rows, shift) => {
      await tables.writeWhole(tx, connector, { ...table, hasVersions: false }, rows, shift);
      const file = changes.of(connector, table.entity);
      const append = storedLines({ entity: table.entity, key: table.key, columns: table.stored }, file);
      for (const row of rows.toSorted((left, right) => left.seq - right.seq)) append(row);
    },
  };
}

function linedTable(table: RecordTable, place: TablePlace, changes: ChangeFiles): RecordTable {
  const lines = lineWriters(place.table);
  return {
    ...table,
    write: async (tx, rows, stamp) => {
      const { taken, stamp: noting } = notingSeqs(stamp);
      await table.write(tx, rows, noting);
      const range = taken();
      if (range === null) return;
      const file = changes.of(place.connector, place.table.entity);
      for (const [index, { record }] of rows.entries()) {
        const seq = range.from + index;
        file.append(lines.upsert(record, seq, stamp), seq);
      }
    },
    tombstone: async (tx, rows, stamp) =>
      await lined(tx, place, changes, stamp, (noting) => table.tombstone(tx, rows, noting)),
    revive: async (tx, rows, stamp) => {
      await checkFields(tx, place, rows);
      await lined(tx, place, changes, stamp, (noting) => table.revive(tx, rows, noting));
    },
  };
}

/** Appends the lines of rows as they are stored once `mark` has given them their numbers. */
async function lined(
  tx: Tx,
  { connector, table }: TablePlace,
  changes: ChangeFiles,
  stamp: Stamp,
  mark: (stamp: Stamp) => Promise<void>,
): Promise<void> {
  const { taken, stamp: noting } = notingSeqs(stamp);
  await mark(noting);
  const range = taken();
  if (range !== null) await appendLinesOf(tx, connector, table, range, changes.of(connector, table.entity));
}

/** A stamp that notes the numbers that are taken: in one transaction they follow each other. */
function notingSeqs(stamp: Stamp): { readonly stamp: Stamp; readonly taken: () => SeqRange | null } {
  let range: SeqRange | null = null;
  return {
    taken: () => range,
    stamp: {
      ...stamp,
      takeSeqs: async (count) => {
        const first = await stamp.takeSeqs(count);
        range = { from: range?.from ?? first, to: first + count - 1 };
        return first;
      },
    },
  };
}

/** Throws `SyncError` USAGE where a row was deleted by a version that kept the key alone. */
async function checkFields(
  tx: Tx,
  { connector, table }: { readonly connector: ConnectorName } & Pick<TablePlace, 'table'>,
  rows: readonly number[],
): Promise<void> {
  const bare = await tx.first(
    `SELECT 1 AS found FROM ${quoted(tableName(connector, table.entity))} WHERE _row IN {rows bigint} AND _hash = '${deletedHash}' LIMIT 1`,
    { rows },
  );
  if (bare === undefined) return;
  throw usage(
    'Deletions by earlier versions have left the keys of the records, not their fields, so they cannot be taken back. ' +
      'Fetch the record again, or sync with --full.',
  );
}
