import { encodeRows, type BinaryType, type BinaryValue } from '../../sql/postgres/encode-binary.ts';
import { quoted } from '../../sql/quoted.ts';
import { binaryType, sqlType } from '../../sinks/postgres/column-types.ts';
import type { PostgresTx as Tx } from '../../sql/postgres/session.ts';
import type { StoredRecord } from '../../sinks/record-reader.ts';
import type { PlannedEntity } from '../target.ts';

type Shape = Pick<PlannedEntity, 'columns' | 'key'>;

/** What a row has besides the published columns; no published name begins with `_`. */
export const ownColumns: readonly (readonly [name: string, sql: string, type: BinaryType])[] = [
  ['_extra', 'json', 'json'],
  ['_seq', 'bigint NOT NULL', 'bigint'],
  ['_changed_at', 'timestamptz NOT NULL', 'timestamptz'],
  ['_run_id', 'text COLLATE "C" NOT NULL', 'text'],
  ['_deleted', 'boolean NOT NULL', 'boolean'],
  ['_deleted_at', 'timestamptz', 'timestamptz'],
];

/** Those that a deletion changes. */
export const markColumns: readonly string[] = ownColumns
  .map(([name]) => name)
  .filter((name) => name !== '_extra');

/** Quoted, in the order of a row. */
export function namesOf({ columns }: Pick<Shape, 'columns'>): readonly string[] {
  return [...columns.map(({ name }) => quoted(name)), ...ownColumns.map(([name]) => name)];
}

/** As `CREATE TABLE` has them. */
export function columnsSql({ columns, key }: Shape): string {
  const published = columns.map(
    ({ name, type }) => `${quoted(name)} ${sqlType[type]}${key.includes(name) ? ' NOT NULL' : ''}`,
  );
  return [...published, ...ownColumns.map(([name, sql]) => `${name} ${sql}`)].join(', ');
}

/** Puts records into a table of these columns. Of a deleted one the key alone: nothing else is sure to be there. */
export function copyInto(table: string, shape: Shape): (tx: Tx, records: readonly StoredRecord[]) => void {
  const { columns, key } = shape;
  const types = [...columns.map(({ type }) => binaryType[type]), ...ownColumns.map(([, , type]) => type)];
  const isKey = columns.map(({ name }) => key.includes(name));
  const sql = `COPY ${table} (${namesOf(shape).join(', ')}) FROM STDIN (FORMAT binary)`;
  const cells = ({ values, extra, seq, changedAt, run, isDeleted }: StoredRecord): readonly BinaryValue[] => {
    if (!isDeleted) return [...values, extra, seq, changedAt, run, 0, null];
    const keyAlone = values.map((value, index) => (isKey[index] === true ? value : null));
    return [...keyAlone, null, seq, changedAt, run, 1, changedAt];
  };
  return (tx, records) => {
    if (records.length > 0) tx.put(sql, {}, encodeRows(types, records.map(cells)));
  };
}
