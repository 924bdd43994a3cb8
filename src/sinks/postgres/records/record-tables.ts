import type { Column } from '../../../core/records.ts';
import type { Tx } from '../../../sql/database.ts';
import type { BinaryType, BinaryValue } from '../../../sql/postgres/encode-binary.ts';
import { quoted } from '../../../sql/quoted.ts';
import { textHash } from '../../../sql/text-hash.ts';
import type { RecordTables } from '../../ledger/driver.ts';
import type { Stamp } from '../../ledger/record-table.ts';
import type { MovedRow } from '../../records/fill-from-extra.ts';
import { asOfName, historyName } from '../../records/own-names.ts';
import { recordTables } from '../../records/record-tables.ts';
import { binaryType, canonicalKey, sqlType } from '../column-types.ts';
import { findViews, putView } from './current-views.ts';
import { tableName } from './names.ts';
import { fromArrays, insertRows, keyColumn, openRecordTable } from './open-record-table.ts';
import { checkRoom, columnsThatFit, usedColumns } from './row-limits.ts';

/** Tables of records in the schema of the transaction. */
export function postgresTables(schema: string): RecordTables {
  return recordTables({
    tableName,
    findViews,
    putView: putView(schema),
    types: { ...sqlType, time: 'timestamptz', flag: 'integer', bytes: 'bytea' },
    tableEnding: '',
    // The hash of the key's text.
    moreOwn: [{ ...keyColumn, isRequired: true }],
    keyColumns: () => [keyColumn.name],
    ownerIndexEnding: ' WHERE _deleted_at IS NULL',
    replacesViews: true,
    open: openRecordTable,
    asOfSql: (name) => {
      const history = quoted(historyName(name));
      return `CREATE FUNCTION ${quoted(asOfName(name))}(moment timestamptz) RETURNS SETOF ${history} LANGUAGE sql STABLE AS $$
    SELECT h.* FROM ${quoted(schema)}.${history} AS h
    WHERE h._valid_from <= moment AND (h._valid_to > moment OR h._valid_to IS NULL) AND h._deleted_at IS NULL $$`;
    },
    dropAsOfSql: (name) => `DROP FUNCTION IF EXISTS ${quoted(asOfName(name))}(timestamptz)`,
    // It waits for every reader of the table, and later readers wait for it: therefore several short attempts.
    addColumns: (tx, name, definitions) => {
      tx.put(`SET LOCAL lock_timeout = '5s'`);
      tx.put(`ALTER TABLE ${name} ${definitions.map((definition) => `ADD COLUMN ${definition}`).join(', ')}`);
      tx.put(`SET LOCAL lock_timeout = '10s'`);
    },
    atKey: (table, keyText) => {
      const canonical = canonicalKey(table, keyText);
      return canonical === null ? null : { condition: '_key = :key', values: { key: textHash(canonical) } };
    },
    room: {
      check: async (tx, place, name, added) => checkRoom(place, added, await usedColumns(tx, quoted(name))),
      fitting: async (tx, { stored }, name, added) =>
        columnsThatFit(stored, added, await usedColumns(tx, quoted(name))),
    },
    // Dropping takes no time, whatever is in a table.
    clear: async () => Promise.resolve(0),
    insertRows,
    writeMoved,
  });
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
