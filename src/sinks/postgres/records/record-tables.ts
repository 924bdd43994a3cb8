import type { Column, EntityTable } from '../../../core/records.ts';
import type { Tx } from '../../../sql/database.ts';
import type { BinaryType, BinaryValue } from '../../../sql/postgres/encode-binary.ts';
import { quoted } from '../../../sql/quoted.ts';
import { textHash } from '../../../sql/text-hash.ts';
import { columnsMissingIn } from '../../decisions/stored-table.ts';
import type { RecordTables } from '../../ledger/driver.ts';
import type { Stamp } from '../../ledger/record-table.ts';
import { dropOwnViews, dropViewsOf, renewCurrentViews } from '../../records/current-views.ts';
import { fillFromExtra, fittingColumns, type MovedRow } from '../../records/fill-from-extra.ts';
import { rowFactsSql } from '../../records/mark-rows.ts';
import { retypeColumns } from '../../records/retype-columns.ts';
import { binaryType, canonicalKey, sqlType } from '../column-types.ts';
import { viewsIn } from './current-views.ts';
import { indexSuffixes, quotedTable, tableName } from './names.ts';
import { fromArrays, openRecordTable } from './open-record-table.ts';
import { insertRows } from './rows-into.ts';
import { checkRoom, columnsThatFit, usedColumns } from './row-limits.ts';
import { addColumns, createViews, dropVersions, dropViews, ensureVersions } from './version-tables.ts';

/** Tables of records in the schema of the transaction. */
export function postgresTables(schema: string): RecordTables {
  const views = viewsIn(schema);
  return {
    tableName,
    keepsVersions: true,
    open: openRecordTable,
    ensure: async (tx, place) => {
      const { connector, table, stored } = place;
      const name = quotedTable(connector, table.entity);
      const missing = columnsMissingIn(table.columns, stored);
      if (missing.length > 0 || place.versions?.isNew === true) {
        checkRoom(place, missing, await usedColumns(tx, name));
      }
      if (stored.length > 0) {
        addColumns(tx, name, missing);
      } else {
        await dropOwnViews(tx, views, [tableName(connector, table.entity)]);
        createTable(tx, tableName(connector, table.entity), table);
      }
      ensureVersions(tx, schema, place);
    },
    retype: async (tx, { connector, table, stored, versions }, columns, to) => {
      const name = tableName(connector, table.entity);
      await dropViewsOf(tx, views, [name]);
      dropViews(tx, name);
      await retypeColumns(tx, { name, isVersioned: versions !== undefined }, columns, sqlType[to]);
      if (versions === undefined) return;
      createViews(tx, schema, name, {
        columns: [...stored, ...columnsMissingIn(table.columns, stored)],
        isNew: true,
      });
    },
    fitting: async (tx, { connector, table, stored }, columns) => {
      const name = quotedTable(connector, table.entity);
      const fitting = await fittingColumns(tx, name, columns);
      const missing = columnsMissingIn(fitting, stored);
      const added = new Set(columnsThatFit(stored, missing, await usedColumns(tx, name)));
      return fitting.filter((column) => added.has(column) || !missing.includes(column));
    },
    fill: async (tx, place, columns, stamp) =>
      await fillFromExtra(
        tx,
        tableName(place.connector, place.table.entity),
        place,
        columns,
        stamp,
        writeMoved,
      ),
    renewViews: async (tx, connector) => await renewCurrentViews(tx, views, connector),
    clear: async () => Promise.resolve(0),
    drop: async (tx, connector, entities) => {
      if (entities.length === 0) return;
      const names = entities.map((entity) => tableName(connector, entity));
      await dropViewsOf(tx, views, names);
      for (const name of names) dropVersions(tx, name);
      await tx.run(`DROP TABLE IF EXISTS ${names.map(quoted).toSorted().join(', ')}`);
    },
    row: async (tx, connector, table, keyText) => {
      const canonical = canonicalKey(table, keyText);
      if (canonical === null) return undefined;
      const sql = rowFactsSql(quotedTable(connector, table.entity), '_key = :key');
      return await tx.first(sql, { key: textHash(canonical) });
    },
    insertRows: async (tx, table, rows) => {
      insertRows(tx, table, rows);
      return Promise.resolve();
    },
  };
}

/**
 * Columns beside the declared ones. A declared name never starts with `_`. `_row` is the row number in the seen rows,
 * `_key` the hash of the key's text, by which rows are found; `_partition` is the row's owner.
 */
const ownColumns = `
  _key bytea NOT NULL,
  _extra json,
  _first_seen_at timestamptz NOT NULL,
  _changed_at timestamptz NOT NULL,
  _run_id text COLLATE "C" NOT NULL,
  _seq bigint NOT NULL,
  _hash text COLLATE "C" NOT NULL,
  _volatile_hash text COLLATE "C",
  _deleted_at timestamptz,
  _partition bigint`;

function createTable(tx: Tx, plain: string, table: EntityTable): void {
  const name = quoted(plain);
  const columns = table.columns.map(
    ({ name: column, type }) =>
      `${quoted(column)} ${sqlType[type]}${table.key.includes(column) ? ' NOT NULL' : ''}`,
  );
  const index = (suffix: string): string => quoted(`${plain}${suffix}`);
  tx.put(`CREATE TABLE ${name} (_row bigint PRIMARY KEY, ${[...columns, ownColumns].join(', ')})`);
  tx.put(`CREATE UNIQUE INDEX ${index(indexSuffixes.key)} ON ${name} (_key)`);
  tx.put(`CREATE INDEX ${index(indexSuffixes.seq)} ON ${name} (_seq)`);
  tx.put(
    `CREATE INDEX ${index(indexSuffixes.owner)} ON ${name} (_partition, _row) WHERE _deleted_at IS NULL`,
  );
}

async function writeMoved(
  tx: Tx,
  name: string,
  columns: readonly Column[],
  moved: readonly MovedRow[],
  { now, run }: Stamp,
): Promise<void> {
  const cell = (type: BinaryType, of: (row: MovedRow) => BinaryValue) => ({ type, of });
  const arrays = fromArrays([
    cell('bigint', ({ row }) => row),
    cell('bigint', ({ seq }) => seq),
    cell('json', ({ extra }) => extra),
    ...columns.flatMap(({ type }, index) => [
      cell('boolean', ({ values }) => Number(values[index] !== undefined)),
      cell(binaryType[type], ({ values }) => values[index] ?? null),
    ]),
  ]);
  const sets = columns.map(({ name: plain }, index) => {
    const column = quoted(plain);
    const at = 3 + 2 * index;
    return `${column} = CASE WHEN v.c${at} THEN v.c${at + 1} ELSE t.${column} END`;
  });
  await tx.run(
    `UPDATE ${name} AS t SET ${sets.join(', ')}, _extra = v.c2, _seq = coalesce(v.c1, t._seq),
       _changed_at = CASE WHEN v.c1 IS NULL THEN t._changed_at ELSE :now::timestamptz END,
       _run_id = CASE WHEN v.c1 IS NULL THEN t._run_id ELSE :run END
     FROM ${arrays.sql} WHERE t._row = v.c0`,
    { ...arrays.valuesOf(moved), now, run },
  );
}
