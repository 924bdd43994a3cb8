import { fork } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, vi } from 'vitest';
import { DuckDBTimestampTZValue, type DuckDBValue } from '@duckdb/node-api';
import { readJson } from '../../src/core/json.ts';
import type { ColumnValue, EntityTable, FieldType } from '../../src/core/records.ts';
import { ownColumns } from '../../src/publish/manifest.ts';
import {
  type FileFormat,
  openRowFileWriters,
  type RowFilesOptions,
  type WrittenFile,
} from '../../src/publish/row-files.ts';
import type { StoredRecord } from '../../src/sinks/readings.ts';
import { testProgram } from '../support/ensure-built.ts';
import { it } from '../support/it.ts';
import { duckdbLists, identifier, literal, duckdb } from '../support/publish/read-tables.ts';
import { changedAt, filesIn, thing, writeRowFiles, things } from '../support/publish/write-row-files.ts';
import { isLong, startSeed } from '../support/trials.ts';
import { mountDisk } from '../support/small-disk.ts';
import type { EntityName, RunId } from '../../src/core/names.ts';
import { seededRandom } from '../support/seeded-random.ts';

/** Names that a field of a service may have, with a column of every type among them. */
const columns: readonly (readonly [string, FieldType])[] = [
  ['id', 'string'],
  ['n"o', 'integer'],
  ['select', 'string'],
  ['a.b', 'integer'],
  ["it's", 'number'],
  ['is on', 'boolean'],
  ['größe', 'object'],
  ['😀,\t{}', 'array'],
  ['__proto__', 'any'],
  ['line\nbreak', 'string'],
  [' ', 'number'],
  ['constructor', 'boolean'],
  ['never set', 'string'],
];

const hostileTable: EntityTable = {
  entity: 'things' as EntityName,
  columns: columns.map(([name, type]) => ({ name, type })),
  key: ['id', 'n"o'],
};

const nested = `${'['.repeat(200)}"deep"${']'.repeat(200)}`;

/** What a sink may hold in a column of the type. */
const valuesOf: Readonly<Record<FieldType, readonly Exclude<ColumnValue, null>[]>> = {
  string: [
    '',
    ' ',
    'null',
    'NULL',
    '\u0000',
    'a\u0000b',
    '"',
    '""',
    "'",
    '\\',
    '\\N',
    '\r\n',
    '\n',
    ',',
    'a,"b"\r\n',
    '\ufeffbom',
    '\u2028',
    '\u007f\u0001',
    '😀👩‍👩‍👧‍👦',
    '\uffff\ue000𐀀',
    '\u{10ffff}'.repeat(20),
    'é'.repeat(17),
    '=1+1',
    '0012',
    '-0',
    'true',
    '2026-01-01',
    '{"a":1}',
  ],
  integer: [
    0n,
    1n,
    -1,
    7,
    9_007_199_254_740_993n,
    -9_007_199_254_740_993n,
    2n ** 63n - 1n,
    -(2n ** 63n),
    Number.MAX_SAFE_INTEGER,
  ],
  number: [
    0,
    -0,
    1,
    1n,
    -1.5,
    0.1,
    1 / 3,
    5e-324,
    -5e-324,
    2.2250738585072014e-308,
    1.7976931348623157e308,
    -1.7976931348623157e308,
    2 ** 53,
    2 ** 63,
    1e21,
    1e-7,
    123456789.12345679,
  ],
  boolean: [0, 1, 0n, 1n],
  object: [
    '{}',
    '{"":null}',
    '{"a":9007199254740993,"b":-0.0}',
    '{"x":{"y":[1,"\\ud800",null]}}',
    '{"n":"\\u0000"}',
    '{"\\\\ud800":"\\ud83d\\ude00\\udfff"}',
  ],
  array: ['[]', '[null,true,"a,\\"b\\""]', nested, '["😀","\\r\\n"]'],
  any: ['"text"', '""', '0', '12345678901234567890', 'true', '{"a":[]}', '[1.50]', '"\\udc00"', '-0.0'],
};

const instants = [
  '1970-01-01T00:00:00.000Z',
  '1969-12-31T23:59:59.999Z',
  '0001-01-01T00:00:00.000Z',
  '1582-10-14T12:00:00.001Z',
  '2026-02-28T23:59:59.999Z',
  '9999-12-31T23:59:59.999Z',
] as const;

/** The same rows for the same seed; each value of every list is in the first of them. */
function hostileRows(count: number, seed: number): readonly StoredRecord[] {
  const random = seededRandom(seed);
  const oneOf = <Value>(list: readonly Value[]): Value => list[Math.floor(random() * list.length)] as Value;
  const valueAt = (type: FieldType, at: number): ColumnValue => {
    const list = valuesOf[type];
    if (at < list.length) return list[at] ?? null;
    if (random() < 0.2) return null;
    if (random() < 0.5) return oneOf(list);
    switch (type) {
      case 'string':
        return Array.from({ length: Math.floor(random() * 20) }, () => randomCharacter(random)).join('');
      case 'integer':
        return BigInt.asIntN(
          64,
          BigInt(Math.floor(random() * 2 ** 32)) * 4_294_967_291n * BigInt(1 + (at % 7)),
        );
      case 'number':
        return randomDouble(random);
      case 'boolean':
      case 'object':
      case 'array':
      case 'any':
        return oneOf(list);
    }
  };
  return Array.from({ length: count }, (_, at) => {
    const values = columns.map(([name, type]) => (name === 'never set' ? null : valueAt(type, at)));
    values[0] = `${at} ${String(values[0] ?? '')}`;
    values[1] ??= 0n;
    return {
      isDeleted: at % 11 === 10,
      seq: at * 3 + 1,
      changedAt: instants[at % instants.length] ?? instants[0],
      run: '01JD0000000000000000000000' as RunId,
      values,
      extra: at % 3 === 0 ? null : `{"big":123456789012345678901234567890,"half":"\\ud83d","at":${at}}`,
    };
  });
}

function randomCharacter(random: () => number): string {
  const code = Math.floor(random() * (random() < 0.5 ? 0x80 : 0x10ffff));
  return code >= 0xd800 && code <= 0xdfff ? '?' : String.fromCodePoint(code);
}

function randomDouble(random: () => number): number {
  const bits = new DataView(new ArrayBuffer(8));
  bits.setUint32(0, Math.floor(random() * 2 ** 32));
  bits.setUint32(4, Math.floor(random() * 2 ** 32));
  const value = bits.getFloat64(0);
  return Number.isFinite(value) ? value : 0.5;
}

const live = thing(7, { values: ['a,b', 9007199254740993n, -0, 1n, '{"a":\n"b"}'], extra: '{"x":1}' });
const deleted = thing(9, { isDeleted: true, values: ['', 1n, 1, 1n, '{}'], extra: '{}' });

/** Another name than in the sink. */
function renamed(folder: string, format: FileFormat): RowFilesOptions {
  const options = filesIn(folder, format);
  const [, ...others] = options.columns;
  return { ...options, columns: [{ name: 'key "id"', field: 'id', type: 'string' }, ...others] };
}

it('writes a row as a JSON line, and of a deleted one the key', async ({ folder }) => {
  const [file] = await writeRowFiles(renamed(folder, 'jsonl'), [live, deleted]);
  expect(readFileSync(join(folder, '1.jsonl'), 'utf8').split('\n')).toEqual([
    `{"key \\"id\\"":"a,b","count":9007199254740993,"share":-0.0,"is_on":true,"more":{"a": "b"},"_extra":{"x":1},"_seq":7,"_changed_at":"${changedAt}","_run_id":"r","_deleted":false,"_deleted_at":null}`,
    `{"key \\"id\\"":"","_seq":9,"_changed_at":"${changedAt}","_run_id":"r","_deleted":true,"_deleted_at":"${changedAt}"}`,
    '',
  ]);
  expect(file).toMatchObject({ rows: 2, firstSeq: 7, lastSeq: 9 });
});

it('writes a row as a line of CSV below a heading', async ({ folder }) => {
  await writeRowFiles(renamed(folder, 'csv'), [live], [deleted]);
  expect(readFileSync(join(folder, '1.csv'), 'utf8').split('\r\n')).toEqual([
    '"key ""id""",count,share,is_on,more,_extra,_seq,_changed_at,_run_id,_deleted,_deleted_at',
    `"a,b",9007199254740993,-0.0,true,"{""a"":\n""b""}","{""x"":1}",7,${changedAt},r,false,`,
    `"",,,,,,9,${changedAt},r,true,${changedAt}`,
    '',
  ]);
});

describe.each(['parquet', 'jsonl', 'csv'] as const)('%s', (format) => {
  it('begins another file at a number of rows, and says of each what it is', async ({ folder }) => {
    const records = Array.from({ length: 25 }, (_, index) => thing(100 - index));
    const files = await writeRowFiles(
      { ...filesIn(folder, format), maxRows: 10 },
      records.slice(0, 3),
      records.slice(3),
    );
    expect(files.map(({ rows, firstSeq, lastSeq }) => [rows, firstSeq, lastSeq])).toEqual([
      [10, 91, 100],
      [10, 81, 90],
      [5, 76, 80],
    ]);
    for (const { path, bytes, sha256 } of files) {
      const content = readFileSync(path);
      expect([content.byteLength, createHash('sha256').update(content).digest('hex')]).toEqual([
        bytes,
        sha256,
      ]);
      expect(statSync(path).mode & 0o777).toBe(0o600);
    }
  });

  it('makes no file of no rows, and leaves none that is not finished', async ({ folder }) => {
    expect(await writeRowFiles(filesIn(folder, format), [])).toEqual([]);
    {
      await using writers = openRowFileWriters();
      await using files = await writers.open({ ...filesIn(folder, format), maxRows: 1 });
      await files.write([live, deleted]);
      expect(readdirSync(folder)).toHaveLength(2);
    }
    expect(readdirSync(folder)).toEqual([]);
  });

  it('writes over nothing', async ({ folder }) => {
    await writeRowFiles(filesIn(folder, format), [live]);
    const before = readFileSync(join(folder, `1.${format}`));
    await expect(writeRowFiles(filesIn(folder, format), [deleted])).rejects.toMatchObject({
      code: 'TARGET_FAILED',
      recovery: 'stop',
      context: { cause: 'EEXIST' },
    });
    expect(readFileSync(join(folder, `1.${format}`))).toEqual(before);
  });
});

it('begins another file at a number of bytes', async ({ folder }) => {
  const options = { ...filesIn(folder, 'jsonl'), maxBytes: 5000 };
  const records = Array.from({ length: 10 }, (_, index) =>
    thing(index, { extra: `{"x":"${'y'.repeat(1000)}"}` }),
  );
  const files = await writeRowFiles(options, ...records.map((one) => [one]));
  expect(files.map(({ rows }) => rows)).toEqual([5, 5]);
});

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
const ownTypes: Readonly<Record<(typeof ownColumns)[number]['name'], string>> = {
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
    ...ownColumns.map(({ name }) => [name, ownTypes[name]] as const),
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
        `SELECT ${[...columns, ...ownColumns.map(({ name }) => name)].join(', ')} FROM ${source(format, files, hostileTable)} ORDER BY _seq`,
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

describe('parquet files', () => {
  describe('a Parquet file', () => {
    it('has a type for every column, and says which hold JSON', async ({ folder }) => {
      const values = ['a', 1n, 0.5, 1, '{}'];
      const [file] = await writeRowFiles(filesIn(folder, 'parquet'), [
        thing(1, { values, extra: '{"x":1}' }),
      ]);
      const path = literal(file?.path ?? '');
      const columns = await duckdb(`DESCRIBE SELECT * FROM ${path}`);
      expect(
        columns.map((column) => `${String(column['column_name'])} ${String(column['column_type'])}`),
      ).toEqual([
        'id VARCHAR',
        'count BIGINT',
        'share DOUBLE',
        'is_on BOOLEAN',
        'more VARCHAR',
        '_extra VARCHAR',
        '_seq BIGINT',
        '_changed_at TIMESTAMP WITH TIME ZONE',
        '_run_id VARCHAR',
        '_deleted BOOLEAN',
        '_deleted_at TIMESTAMP WITH TIME ZONE',
      ]);
      const schema = await duckdbLists(
        `SELECT name FROM parquet_schema(${path}) WHERE repetition_type = 'REQUIRED' AND name <> 'row'`,
      );
      expect(schema.flat()).toEqual(['id', '_seq', '_changed_at', '_run_id', '_deleted']);
      const notes = await duckdbLists(
        `SELECT decode(key), decode(value) FROM parquet_kv_metadata(${path}) WHERE decode(key) LIKE 'connector-sync%'`,
      );
      expect(notes).toContainEqual(['connector-sync.json-columns', '["more","_extra"]']);
      expect(notes).toContainEqual([
        'connector-sync.columns',
        expect.stringContaining('"_run_id":"The sync'),
      ]);
      const codecs = await duckdbLists(`SELECT DISTINCT compression FROM parquet_metadata(${path})`);
      const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
      expect(codecs).toEqual([[major > 22 || (major === 22 && minor >= 15) ? 'ZSTD' : 'SNAPPY']]);
    });

    it('has a group for every 20,000 rows, with the numbers of its rows', async ({ folder }) => {
      const rows = Array.from({ length: 20_001 }, (_, index) => thing(index + 5));
      const [file] = await writeRowFiles(
        filesIn(folder, 'parquet'),
        rows.slice(0, 15_000),
        rows.slice(15_000),
      );
      const groups = await duckdbLists(
        `SELECT row_group_num_rows, stats_min_value, stats_max_value FROM parquet_metadata(${literal(file?.path ?? '')})
       WHERE path_in_schema = '_seq' ORDER BY row_group_id`,
      );
      expect(groups).toEqual([
        [20_000n, '5', '20004'],
        [1n, '20005', '20005'],
      ]);
    });

    it.for(isLong ? (['parquet', 'jsonl', 'csv'] as const) : (['parquet'] as const))(
      'holds a text of 10 MB: %s',
      async (format, { folder }) => {
        const text = 'é\n"'.repeat(2_500_000);
        const files = await writeRowFiles(filesIn(folder, format), [
          thing(1, { values: [text, null, null, null, null] }),
          thing(2),
        ]);
        const read = await duckdbLists(
          `SELECT length(id), md5(id) = md5(repeat('é' || chr(10) || '"', 2500000)) FROM ${source(format, files, things)}`,
        );
        expect(read).toEqual([
          [7_500_000n, true],
          [2n, false],
        ]);
      },
    );

    const misfits: readonly (readonly [string, number, ColumnValue])[] = [
      ['an integer beyond 64 bits', 1, 2n ** 63n],
      ['a fraction as an integer', 1, 1.5],
      ['a text as an integer', 1, '1'],
      ['an integer that a double would round', 2, 2n ** 53n + 1n],
      ['a boolean that is neither', 3, 2],
      ['half a surrogate pair', 0, 'a\ud800'],
      ['an absent key', 0, null],
    ];
    it('is not written where a value would change', async ({ folder }) => {
      await using writers = openRowFileWriters();
      for (const [what, index, value] of misfits) {
        await using files = await writers.open(filesIn(folder, 'parquet'));
        const values = thing(7).values.with(index, value);
        const written = files.write([thing(7, { values })]).then(async () => await files.finish());
        const column = things.columns[index]?.name;
        await expect(written, what).rejects.toMatchObject({
          code: 'TARGET_FAILED',
          recovery: 'stop',
          message: expect.stringContaining(`Column "${column}" of the row with _seq 7`) as string,
        });
      }
      expect(readdirSync(folder)).toEqual([]);
    });
  });

  describe('the process that writes Parquet', () => {
    it('fails the file when it dies, and the next file has another one', async ({ folder }) => {
      await using writers = openRowFileWriters();
      {
        await using files = await writers.open(filesIn(folder, 'parquet'));
        await files.write([thing(1)]);
        const [pid] = childrenOf(process.pid).slice(-1);
        if (pid === undefined) throw new Error('no process');
        expect(environmentOf(pid)).not.toContain('PATH=');
        process.kill(pid, 'SIGKILL');
        await expect(files.finish()).rejects.toMatchObject({
          code: 'TARGET_FAILED',
          recovery: 'retry',
          context: { how: 'SIGKILL' },
        });
      }
      expect(readdirSync(folder)).toEqual([]);
      await using files = await writers.open(filesIn(folder, 'parquet'));
      await files.write([thing(1)]);
      expect(await files.finish()).toMatchObject([{ rows: 1 }]);
    });

    it('ends with its writers', async ({ folder }) => {
      const before = childrenOf(process.pid);
      const writers = openRowFileWriters();
      const files = await writers.open(filesIn(folder, 'parquet'));
      await files.write([thing(1)]);
      expect(childrenOf(process.pid).length).toBe(before.length + 1);
      await writers[Symbol.asyncDispose]();
      expect(childrenOf(process.pid)).toEqual(before);
      await files[Symbol.asyncDispose]();
      expect(readdirSync(folder)).toEqual([]);
    });

    it.runIf(isLong)(
      'stays below 500 MiB with long texts',
      async ({ folder }) => {
        await using writers = openRowFileWriters();
        await using files = await writers.open(filesIn(folder, 'parquet'));
        for (let seq = 0; seq < 100; seq += 1) {
          await files.write([thing(seq, { values: [`Ж${seq}`.repeat(1_500_000), null, null, null, null] })]);
        }
        const [pid] = childrenOf(process.pid).slice(-1);
        const peak = /VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
        await files.finish();
        expect(Number(peak) / 1024).toBeLessThan(500);
      },
      300_000,
    );

    it('says that the disk is full', async ({ folder, skip }) => {
      const disk = join(folder, 'disk');
      using _disk = mountDisk(disk, '16k', skip);
      const random = Array.from({ length: 5000 }, (_, index) =>
        thing(index, { extra: `{"x":${Math.random()}}` }),
      );
      for (const format of ['parquet', 'jsonl'] as const) {
        await expect(writeRowFiles(filesIn(disk, format), random), format).rejects.toMatchObject({
          code: 'TARGET_FAILED',
          recovery: 'retry',
          context: { cause: 'ENOSPC' },
        });
        expect(readdirSync(disk)).toEqual([]);
      }
    });

    it('ends when the program is killed that started it', async ({ folder }) => {
      const holder = fork(testProgram('publish/row-file-process.mjs'), [folder]);
      await once(holder, 'message');
      const pids = childrenOf(holder.pid ?? 0);
      expect(pids).toHaveLength(1);
      holder.kill('SIGKILL');
      await vi.waitFor(() => expect(pids.filter(isAlive)).toEqual([]), { timeout: 15_000 });
    });
  });

  function childrenOf(pid: number): readonly number[] {
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim();
    return children === '' ? [] : children.split(' ').map(Number);
  }

  function environmentOf(pid: number): string {
    return readFileSync(`/proc/${pid}/environ`, 'utf8');
  }

  function isAlive(pid: number): boolean {
    try {
      return process.kill(pid, 0);
    } catch {
      return false;
    }
  }
});
