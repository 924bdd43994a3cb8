import { mkdirSync } from 'node:fs';
import path from 'node:path';
import * as zlib from 'node:zlib';
import Database from 'better-sqlite3';
import type { SchemaElement } from 'hyparquet';
import { fileWriter, ParquetWriter } from 'hyparquet-writer';

/**
 * What a script would do: reads the same columns of the same table, and writes them with the same library in one
 * process. No hash, no sync, no check.
 */
const [, , file = '', directory = ''] = process.argv;
const groupRows = 20_000;
const partRows = 1_000_000;

const startedMs = performance.now();
const db = new Database(file, { readonly: true });
const own = new Set(['_row', '_first_seen_at', '_hash', '_partition', '_deleted_at']);
const columns = db
  .prepare<[], { name: string; type: string }>(
    `SELECT name, type FROM pragma_table_info('bench__list_members')`,
  )
  .all()
  .filter(({ name }) => !own.has(name));
const isTime = (name: string): boolean => name === '_changed_at';
const elements = columns.map(({ name, type }): SchemaElement => {
  const column = { name, repetition_type: 'OPTIONAL' } as const;
  if (isTime(name)) return { ...column, type: 'INT64', converted_type: 'TIMESTAMP_MILLIS' };
  if (type === 'INTEGER') return { ...column, type: 'INT64' };
  return type === 'REAL'
    ? { ...column, type: 'DOUBLE' }
    : { ...column, type: 'BYTE_ARRAY', converted_type: 'UTF8' };
});
const zstd = 'zstdCompressSync' in zlib ? (zlib.zstdCompressSync as (bytes: Uint8Array) => Uint8Array) : null;
const compression =
  zstd === null ? ({ codec: 'SNAPPY' } as const) : ({ codec: 'ZSTD', compressors: { ZSTD: zstd } } as const);

mkdirSync(directory);
let part = 0;
let inPart = 0;
let writer = nextPart();
let data: unknown[][] = columns.map(() => []);
const rows = db
  .prepare<[], unknown[]>(
    `SELECT ${columns.map(({ name }) => `"${name}"`).join(', ')} FROM bench__list_members WHERE _seq > 0 ORDER BY _seq`,
  )
  .raw(true)
  .safeIntegers(true)
  .iterate();
for (const row of rows) {
  for (const [index, { name }] of columns.entries()) {
    const value = row[index];
    data[index]?.push(isTime(name) ? BigInt(Date.parse(String(value))) : value);
  }
  if (data[0]?.length !== groupRows) continue;
  flush();
  if (inPart < partRows) continue;
  void writer.finish();
  writer = nextPart();
}
flush();
void writer.finish();
db.close();
console.log(performance.now() - startedMs);

function flush(): void {
  const count = data[0]?.length ?? 0;
  if (count === 0) return;
  const columnData = columns.map(({ name }, index) => ({ name, data: data[index] ?? [] }));
  void writer.write({ columnData, rowGroupSize: count });
  inPart += count;
  data = columns.map(() => []);
}

function nextPart(): ParquetWriter {
  part += 1;
  inPart = 0;
  return new ParquetWriter({
    writer: fileWriter(path.join(directory, `${part}.parquet`)),
    schema: [{ name: 'row', num_children: columns.length }, ...elements],
    ...compression,
  });
}
