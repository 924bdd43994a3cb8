import { createHash } from 'node:crypto';
import {
  type FieldType,
  keyTextOf,
  type ColumnValue,
  type EntityTable,
  type DerivedColumn,
  type DerivedKind,
} from '../../core/records.ts';
import { type Tx, type Cells, quoted, textHash } from '../../sql/database.ts';
import {
  type BinaryType,
  type BinaryValue,
  encodeArray,
  encodeRows,
} from '../../sql/postgres/encode-binary.ts';
import type {
  RecordTables,
  CellColumn,
  CellTable,
  CellType,
  FoundBy,
  RecordTable,
  RowOwner,
  Stamp,
  TablePlace,
} from '../ledger/driver.ts';
import { rowOwn } from '../records/own-names.ts';
import {
  recordTables,
  sourceOf,
  type FoundView,
  type ShownView,
  type Views,
} from '../records/record-tables.ts';
import { binaryType, canonicalKey, sqlType, tableName } from './column-types.ts';
import { type Instant, timeForm } from '../../core/clock.ts';
import { postgresTx } from '../../sql/postgres/session.ts';
import { storedHash } from '../decisions/meet-record.ts';
import { columnsMissingIn, isJsonColumn } from '../decisions/stored-table.ts';
import {
  keyedColumns,
  keyedRow,
  storedColumns,
  storedRow,
  type KeyedCells,
  type NewestRow,
  type StoredCells,
} from '../records/mark-rows.ts';

/** Tables of records in the schema of the transaction. */
export function postgresTables(schema: string): RecordTables {
  return recordTables({
    tableName,
    findViews,
    putView: (tx, view, found) => putView(tx, schema, view, found),
    types: { ...sqlType, time: 'timestamptz', flag: 'integer', bytes: 'bytea' },
    tableEnding: '',
    // The hash of the key's text.
    moreOwn: [{ ...keyColumn, isRequired: true }],
    keyColumns: () => [keyColumn.name],
    ownerIndex: '(_partition, _row) WHERE _deleted_at IS NULL',
    replacesViews: true,
    rows: (place, name) => ({ ...findAndPut(quoted(name), place), ...findRows(quoted(name), place.table) }),
    // ALTER TABLE waits for every reader of the table, and later readers wait for it: therefore several short
    // attempts.
    addColumns: (tx, name, definitions) => {
      tx.put(`SET LOCAL lock_timeout = '5s'`);
      tx.put(`ALTER TABLE ${name} ${definitions.map((definition) => `ADD COLUMN ${definition}`).join(', ')}`);
      tx.put(`SET LOCAL lock_timeout = '10s'`);
    },
    insertRows,
  });
}

/** The cost of every record of a page: a search for its key, and a write where it is new or changed. */
function findAndPut(name: string, place: TablePlace) {
  const found = `SELECT ${storedColumns.map((column) => `t.${column}`).join(', ')}, k.n
    FROM unnest(:keys::bytea[]) WITH ORDINALITY AS k(key, n) JOIN ${name} AS t ON t._key = k.key`;
  const inserting = insertOf(name, place.table);
  const updating = updateOf(name, place);
  return {
    find: async (tx: Tx, records: readonly FoundBy[]) => {
      const hashes = records.map(({ keyText }) => textHash(keyText));
      const keys = encodeArray('bytea', hashes);
      const rows = await postgresTx(tx).arrays(found, { keys });
      return new Map(
        (rows as StoredCells[]).map((row) => [records[(row[5] ?? 0) - 1]?.keyText ?? '', storedRow(row)]),
      );
    },
    put: async (tx: Tx, rows: readonly NewestRow[], stamp: Stamp) => {
      const isNew = (one: NewestRow): boolean => one.owner !== undefined;
      inserting(tx, rows.filter(isNew), stamp);
      const changed = rows.filter((one) => !isNew(one));
      updating(tx, changed, stamp);
    },
  };
}

/** Finds rows by owner and by key. */
function findRows(name: string, table: EntityTable): Pick<RecordTable, 'liveRows' | 'countLive' | 'rowsOf'> {
  return {
    liveRows: async (tx, owners, limit) =>
      await tx.rows<RowOwner>(
        `SELECT few.row, few.owner FROM (
           SELECT v.n, v.owner, live.row FROM ${ofOwners}
           CROSS JOIN LATERAL (SELECT t._row AS row FROM ${name} AS t WHERE ${isInOwner}
             ORDER BY t._row LIMIT :limit) AS live
           LIMIT :limit) AS few
         ORDER BY few.n, few.row`,
        { v: owners, limit },
      ),
    countLive: async (tx, owners, most) => {
      const counted = await tx.rows<{ readonly owner: number; readonly live: number }>(
        `SELECT v.owner, (SELECT count(*) FROM (SELECT 1 FROM ${name} AS t WHERE ${isInOwner} LIMIT :most) AS live) AS live
         FROM ${ofOwners}`,
        { v: owners, most },
      );
      return new Map(counted.flatMap(({ owner, live }) => (live > 0 ? [[owner, live]] : [])));
    },
    rowsOf: async (tx, keyTexts) => {
      const known = keyTexts.flatMap((text) => {
        const canonical = canonicalKey(table, text);
        return canonical === null ? [] : [{ text, key: textHash(canonical) }];
      });
      if (known.length === 0) return new Map();
      const found = await tx.rows<KeyedCells & { readonly n: number }>(
        `SELECT k.n, ${keyedColumns(table)} FROM {k: key bytea, n} JOIN ${name} AS t ON t._key = k.key`,
        { k: known },
      );
      return new Map(found.map((cells) => [known[cells.n - 1]?.text ?? '', keyedRow(cells, table)]));
    },
  };
}

/**
 * Owners in the order of the query. Through the index on the owner, LATERAL looks up one partition after the other, and
 * stops as soon as there are enough rows. Sorted before its limit, it would read all their rows wherever the server has
 * no statistics yet.
 */
const ofOwners = '{v: owner bigint, after bigint, n}';
const isInOwner = 't._partition = v.owner AND t._row > v.after AND t._deleted_at IS NULL';

type Writing = (tx: Tx, rows: readonly NewestRow[], stamp: Stamp) => void;

/** The keys are new, and no other process may add any. */
function insertOf(name: string, table: EntityTable): Writing {
  const put = rowsInto(name, [keyColumn, ...rowOwn, ...table.columns]);
  return (tx, rows, { now, run }) => {
    if (rows.length > 0) put(tx, cellsOf(rows, now, run));
  };
}

function* cellsOf(rows: readonly NewestRow[], now: Instant, run: string) {
  for (const { row, record, seq, owner = null } of rows) {
    const { keyText, extra, values } = record;
    const hash = storedHash(record, now);
    yield [textHash(keyText), row, extra, now, now, run, seq, hash, null, owner, ...values];
  }
}

/** Key columns are not set: their values are the same. Undeclared columns lose their old value. */
function updateOf(name: string, { table, stored }: TablePlace): Writing {
  const columns: readonly {
    readonly name: string;
    readonly type: BinaryType;
    readonly of: (row: NewestRow, now: Instant) => BinaryValue;
  }[] = [
    { name: '_row', type: 'bigint', of: ({ row }) => row },
    { name: '_extra', type: 'json', of: ({ record }) => record.extra },
    { name: '_seq', type: 'bigint', of: ({ seq }) => seq },
    { name: '_hash', type: 'text', of: ({ record }, now) => storedHash(record, now) },
    ...table.columns.flatMap((column, index) =>
      table.key.includes(column.name)
        ? []
        : [
            {
              name: quoted(column.name),
              type: binaryType[column.type],
              of: ({ record }: NewestRow) => record.values[index] ?? null,
            },
          ],
    ),
  ];
  const sets = [
    ...columns.flatMap((column, index) => (index === 0 ? [] : [`${column.name} = v.c${index}`])),
    ...columnsMissingIn(stored, table.columns).map((column) => `${quoted(column.name)} = NULL`),
  ];
  const arrays = columns.map(({ type }, n) => `:c${n}::${type}[]`);
  const sql = `UPDATE ${name} AS t
    SET ${sets.join(', ')}, _changed_at = :now::timestamptz, _run_id = :run, _deleted_at = NULL
    FROM unnest(${arrays.join(', ')}) AS v(${columns.map((_, n) => `c${n}`).join(', ')}) WHERE t._row = v.c0`;
  return (tx, rows, { now, run }) => {
    if (rows.length === 0) return;
    const values = columns.map(({ type, of }, n) => {
      const cells = rows.map((row) => of(row, now));
      return [`c${n}`, encodeArray(type, cells)] as const;
    });
    tx.put(sql, { ...Object.fromEntries(values), now, run });
  };
}

const cellTypes: Readonly<Record<CellType, BinaryType>> = {
  ...binaryType,
  time: 'timestamptz',
  flag: 'integer',
  bytes: 'bytea',
};

/** Column by which rows of records are found. */
const keyColumn = { name: '_key', type: 'bytes' } as const;

/** Puts rows straight into a table, with cells in the order of the columns. */
function rowsInto(name: string, columns: readonly CellColumn[]) {
  const names = columns.map((column) => quoted(column.name));
  const types = columns.map(({ type }) => cellTypes[type]);
  const copy = `COPY ${name} (${names.join(', ')}) FROM STDIN (FORMAT binary)`;
  return (tx: Tx, rows: Iterable<readonly BinaryValue[]>): void =>
    postgresTx(tx).put(copy, {}, encodeRows(types, rows));
}

/** `RecordTables.insertRows`. */
async function insertRows(tx: Tx, { name, columns, key }: CellTable, given: readonly Cells[]): Promise<void> {
  // `as`: as the columns say.
  const rows = given as readonly (readonly BinaryValue[])[];
  if (key === null) return rowsInto(quoted(name), columns)(tx, rows);
  const indexes = key.map((part) => columns.findIndex((column) => column.name === part));
  const keyOf = (cells: Cells): Buffer =>
    textHash(keyTextOf(indexes.map((index) => (cells[index] ?? null) as ColumnValue)));
  const keyed = rows.map((cells) => [keyOf(cells), ...cells]);
  rowsInto(quoted(name), [keyColumn, ...columns])(tx, keyed);
}

const made = 'Made by connector-sync: ';

/**
 * A view keeps its columns in their order, because PostgreSQL replaces no other one, and drops none that others are
 * made of.
 */
function putView(
  tx: Tx,
  schema: string,
  { name, connector, entity, columns, derived }: ShownView,
  found: FoundView | undefined,
): void {
  const types = new Map(columns.map((column) => [column.name, column.type]));
  const shown = [
    ...columns.map((column) => ({
      name: column.name,
      type: binaryType[column.type],
      sql: quoted(column.name),
    })),
    ...derived.map((column) => ({
      name: column.name,
      type: derivedTypes[column.as],
      sql: derivedSql(column, types),
    })),
  ];
  const byName = new Map(shown.map((column) => [column.name, column]));
  const isReplaced = found?.columns?.every((column) => byName.get(column.name)?.type === column.type) ?? true;
  if (!isReplaced && found?.isUsed === true) return;
  const before = new Set(isReplaced ? found?.columns?.map((column) => column.name) : []);
  const ordered = [
    ...[...before].flatMap((column) => byName.get(column) ?? []),
    ...shown.filter((column) => !before.has(column.name)),
  ];
  const list = ordered.map((column) => `${column.sql} AS ${quoted(column.name)}`).join(', ');
  const table = `${quoted(schema)}.${quoted(tableName(connector, entity))}`;
  const select = `SELECT ${list} FROM ${table} WHERE _deleted_at IS NULL`;
  const hash = createHash('sha256').update(select).digest('hex').slice(0, 10);
  const wanted = `${made}rows of ${connector}/${entity} that are not deleted (${hash})`;
  if (found?.text === wanted) return;
  const view = quoted(name);
  if (!isReplaced) tx.put(`DROP VIEW ${view}`);
  tx.put(`CREATE OR REPLACE VIEW ${view} AS ${select}`);
  tx.put(`COMMENT ON VIEW ${view} IS '${wanted}'`);
}

/** `types`: of the columns that it is made of. `source`: their value; where it is JSON, of type json. */
export function derivedSql(
  column: DerivedColumn,
  types: ReadonlyMap<string, FieldType>,
  source = sourceOf(column),
): string {
  const { from, path, as } = column;
  const [first = ''] = from;
  if (as === 'texts') return joinedTexts(takeableJson(source), path);
  if (!isJsonColumn(types.get(first) ?? 'string')) return convertText(`${source}::text`, as);
  const steps = path.map((step) => ` -> '${step.replaceAll("'", "''")}'`).join('');
  return `(SELECT ${convertText('t', as)} FROM (${scalarIn(source, steps)}) AS scalar)`;
}

/** Texts in the order of the document. */
function joinedTexts(json: string, path: readonly string[]): string {
  let value = json;
  const loops: string[] = [];
  for (const step of path) {
    if (step !== '*') {
      value = `(${value} -> '${step.replaceAll("'", "''")}')`;
      continue;
    }
    const each = `e${loops.length}`;
    loops.push(`LATERAL (SELECT ${value} AS v) AS ${each}v CROSS JOIN LATERAL (
      SELECT value, n FROM json_each(CASE json_typeof(${each}v.v) WHEN 'object' THEN ${each}v.v ELSE '{}'::json END) WITH ORDINALITY AS o(key, value, n)
      UNION ALL
      SELECT value, n FROM json_array_elements(CASE json_typeof(${each}v.v) WHEN 'array' THEN ${each}v.v ELSE '[]'::json END) WITH ORDINALITY AS a(value, n)
    ) AS ${each}`);
    value = `${each}.value`;
  }
  const order = loops.map((_, depth) => `e${depth}.n`);
  loops.push(`LATERAL (SELECT ${value} AS v) AS found`);
  const by = order.length === 0 ? '' : ` ORDER BY ${order.join(', ')}`;
  return `(SELECT string_agg(found.v #>> '{}', ''${by}) FROM ${loops.join(' CROSS JOIN ')} WHERE json_typeof(found.v) = 'string') COLLATE "C"`;
}

export const findViews: Views['findViews'] = async (tx, names) => {
  if (names.length === 0) return new Map();
  const rows = await tx.rows<Omit<FoundView, 'columns'> & { readonly columns: string }>(
    `SELECT c.relname::text AS name, coalesce(m.text, '') AS text, coalesce(starts_with(m.text, '${made}'), false) AS is_own,
       (SELECT coalesce(json_agg(json_build_object('name', a.attname, 'type', format_type(a.atttypid, NULL)) ORDER BY a.attnum), '[]')::text FROM pg_catalog.pg_attribute AS a
        WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) AS columns,
       EXISTS (SELECT 1 FROM pg_catalog.pg_depend AS d JOIN pg_catalog.pg_rewrite AS r ON r.oid = d.objid
        WHERE d.classid = 'pg_rewrite'::regclass AND d.refobjid = c.oid AND r.ev_class <> c.oid) AS is_used
     FROM pg_catalog.pg_class AS c
     CROSS JOIN LATERAL (SELECT CASE WHEN c.relkind = 'v' THEN obj_description(c.oid, 'pg_class') END) AS m(text)
     WHERE c.relnamespace = to_regnamespace(quote_ident(current_schema())) AND c.relname IN {names text}`,
    { names },
  );
  return new Map(
    rows.map((row) => [row.name, { ...row, columns: JSON.parse(row.columns) as FoundView['columns'] }]),
  );
};

/** PostgreSQL types of derived columns. */
const derivedTypes: Readonly<Record<DerivedKind, string>> = {
  texts: 'text',
  string: 'text',
  integer: 'bigint',
  number: 'double precision',
  boolean: 'boolean',
  timestamp: 'timestamp with time zone',
  unix: 'timestamp with time zone',
  unixMs: 'timestamp with time zone',
  date: 'date',
  decimal: 'numeric',
};

/** A number as JSON writes it, of a size that a cast can take. */
const isNumber = String.raw`'^\s*-?(0|[1-9][0-9]{0,250})(\.[0-9]{1,250})?([eE][+-]?[0-9]{1,3})?\s*$'`;
const isInteger = String.raw`'^\s*-?(0|[1-9][0-9]{0,18})\s*$'`;
const isTime = `'^(${timeForm})$'`;

/**
 * Converts `text` to a value of a type; null where it is none. A failed cast would fail the whole statement: each cast
 * is made only of text that is known to fit, inside a CASE, whose branches are not evaluated before.
 */
function convertText(text: string, as: Exclude<DerivedKind, 'texts'>): string {
  const numeric = `(CASE WHEN ${text} ~ ${isNumber} THEN ${text}::numeric END)`;
  switch (as) {
    case 'string':
      return `${text} COLLATE "C"`;
    case 'integer':
      return `CASE WHEN ${text} ~ ${isInteger} THEN CASE WHEN ${text}::numeric BETWEEN -9223372036854775808 AND 9223372036854775807 THEN ${text}::bigint END END`;
    case 'number':
      return `CASE WHEN ${numeric} = 0 OR abs(${numeric}) BETWEEN 1e-300 AND 1e308 THEN ${numeric}::double precision END`;
    case 'boolean':
      return `CASE WHEN ${text} IN ('true', '1') THEN true WHEN ${text} IN ('false', '0') THEN false END`;
    case 'timestamp':
      return `CASE WHEN ${text} ~ ${isTime} THEN CASE
        WHEN substr(${text}, 9, 2)::integer <= extract(day FROM (substr(${text}, 1, 7) || '-01')::date + interval '1 month -1 day')
        THEN (regexp_replace(replace(${text}, ',', '.'), '(\\.[0-9]{6})[0-9]+', '\\1') || CASE WHEN ${text} ~ '.{16}.*([ZzCT]|[+-].{2,5})$' THEN '' ELSE ' UTC' END)::timestamptz END END`;
    case 'unix':
      return fromSeconds(numeric);
    case 'unixMs':
      return fromSeconds(`${numeric} / 1000`);
    case 'date':
      return `CASE WHEN length(${text}) = 10 THEN (${convertText(text, 'timestamp')} AT TIME ZONE 'UTC')::date END`;
    case 'decimal':
      return numeric;
  }
}

/** Years 1 to 9999. */
function fromSeconds(seconds: string): string {
  return `CASE WHEN ${seconds} BETWEEN -62135596800 AND 253402300799 THEN to_timestamp((${seconds})::double precision) END`;
}

/**
 * Characters that the server cannot store as text, as JSON escapes: U+0000 and unpaired surrogates. Surrogate pairs are
 * never stored as escapes.
 */
const untakeable = String.raw`(?<!\\)((?:\\\\)*)\\u(?:0000|[dD][89a-fA-F][0-9a-fA-F]{2})`;

/** `json`: a column of type json, as a value whose texts can be taken out. */
function takeableJson(json: string): string {
  return `(CASE WHEN strpos(${json}::text, '\\u') = 0 THEN ${json} ELSE regexp_replace(${json}::text, '${untakeable}', '\\1\\\\ufffd', 'g')::json END)`;
}

/** A question for `t`: the text at a path that is no object and no array. `steps`: such as ` -> 'a' -> 'b'`. */
function scalarIn(json: string, steps: string): string {
  return `SELECT CASE WHEN json_typeof(v) NOT IN ('object', 'array') THEN v #>> '{}' END AS t FROM (SELECT ${takeableJson(json)}${steps} AS v) AS found`;
}
