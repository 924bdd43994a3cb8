import { DuckDBTimestampTZValue, type DuckDBValue } from '@duckdb/node-api';
import { describe, expect } from 'vitest';
import { readJson } from '../../src/core/json-text.ts';
import type { ColumnValue, EntityTable, FieldType } from '../../src/core/records.ts';
import { type FileFormat, ownColumns, type WrittenFile } from '../../src/publish/row-files.ts';
import type { StoredRecord } from '../../src/sinks/record-reader.ts';
import { it } from '../support/it.ts';
import { duckdbLists, identifier, literal } from '../support/publish/duckdb.ts';
import { hostileRows, hostileTable } from '../support/publish/hostile-rows.ts';
import { filesIn, writeRowFiles } from '../support/publish/write-row-files.ts';
import { isLong, startSeed } from '../support/trials.ts';

const formats: readonly FileFormat[] = ['parquet', 'jsonl', 'csv'];

const sqlType: Readonly<Record<FieldType, string>> = {
  string: 'VARCHAR',
  integer: 'BIGINT',
  number: 'DOUBLE',
  boolean: 'BOOLEAN',
  object: 'JSON',
  array: 'JSON',
  any: 'JSON',
};
const ownTypes: Readonly<Record<(typeof ownColumns)[number], string>> = {
  _extra: 'JSON',
  _seq: 'BIGINT',
  _changed_at: 'TIMESTAMPTZ',
  _run_id: 'VARCHAR',
  _deleted: 'BOOLEAN',
  _deleted_at: 'TIMESTAMPTZ',
};

/** What reads the files back; of a format without types, they are given. */
function source(format: FileFormat, files: readonly WrittenFile[], { columns }: EntityTable): string {
  const list = `[${files.map(({ path }) => literal(path)).join(', ')}]`;
  const types = [
    ...columns.map(({ name, type }) => [name, sqlType[type]] as const),
    ...ownColumns.map((name) => [name, ownTypes[name]] as const),
  ]
    .map(([name, type]) => `${literal(name)}: ${literal(type)}`)
    .join(', ');
  switch (format) {
    case 'parquet':
      return `read_parquet(${list})`;
    case 'jsonl':
      return `read_json(${list}, format = 'newline_delimited', columns = {${types}}, maximum_object_size = 33554432)`;
    case 'csv':
      return `read_csv(${list}, header = true, columns = {${types.replaceAll("'JSON'", "'VARCHAR'")}}, auto_detect = false, delim = ',', quote = '"', escape = '"', new_line = '\\r\\n', allow_quoted_nulls = false, max_line_size = 33554432)`;
  }
}

function expectedRow(
  format: FileFormat,
  { columns, key }: EntityTable,
  record: StoredRecord,
): readonly unknown[] {
  const { isDeleted, seq, changedAt, run, values, extra } = record;
  const json = (text: ColumnValue): unknown =>
    format === 'jsonl' && typeof text === 'string' ? readJson(withoutHalves(text)) : text;
  const instant = BigInt(Date.parse(changedAt)) * 1000n;
  return [
    ...columns.map(({ name, type }, index) => {
      const value = values[index] ?? null;
      if (value === null || (isDeleted && !key.includes(name))) return null;
      if (type === 'integer') return BigInt(value);
      if (type === 'number') return Number(value);
      if (type === 'boolean') return Number(value) === 1;
      return type === 'string' ? `>${value}` : json(value);
    }),
    isDeleted ? null : json(extra),
    BigInt(seq),
    instant,
    run,
    isDeleted,
    isDeleted ? instant : null,
  ];
}

/** The halves of pairs that `hostileRows` has. */
function withoutHalves(json: string): string {
  return json.replaceAll(/(?<!\\)\\u(d800|dc00|d83d(?!\\ude00)|dfff)/g, '\ufffd');
}

/** DuckDB writes JSON of JSON Lines in its own way, with the same values. */
function readRow(
  format: FileFormat,
  { columns }: EntityTable,
  row: readonly DuckDBValue[],
): readonly unknown[] {
  return row.map((value, index) => {
    if (value instanceof DuckDBTimestampTZValue) return value.micros;
    const type = index === columns.length ? 'any' : columns[index]?.type;
    const isJson = format === 'jsonl' && (type === 'object' || type === 'array' || type === 'any');
    return isJson && typeof value === 'string' ? readJson(value) : value;
  });
}

const rows = isLong ? 45_000 : 400;
const seeds = Array.from({ length: isLong ? 3 : 1 }, (_, index) => startSeed() + index);

describe.each(formats)('%s files', (format) => {
  it.for(seeds)(
    'read back by DuckDB to the digit, seed %i',
    { timeout: 300_000 },
    async (seed, { folder }) => {
      const records = hostileRows(rows, seed);
      const options = { ...filesIn(folder, format, hostileTable), maxRows: rows / 2 };
      const files = await writeRowFiles(options, records.slice(0, rows / 4), records.slice(rows / 4));
      expect(files.map(({ rows: count }) => count)).toEqual([rows / 2, rows / 2]);
      // Marked, because the client takes a byte order mark off a text.
      const columns = hostileTable.columns.map(({ name, type }) =>
        type === 'string' ? `'>' || ${identifier(name)}` : identifier(name),
      );
      const read = await duckdbLists(
        `SELECT ${[...columns, ...ownColumns].join(', ')} FROM ${source(format, files, hostileTable)} ORDER BY _seq`,
      );
      expect(read.length).toBe(rows);
      for (const [at, row] of read.entries()) {
        expect(readRow(format, hostileTable, row)).toStrictEqual(
          expectedRow(format, hostileTable, records[at] as StoredRecord),
        );
      }
    },
  );
});
