import { createHash } from 'node:crypto';
import { readFileSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect } from 'vitest';
import type { EntityName, RunId } from '../../src/core/names.ts';
import type { EntityTable } from '../../src/core/records.ts';
import { openRowFileWriters } from '../../src/publish/open-row-file-writers.ts';
import type { FileFormat, RowFilesOptions, WrittenFile } from '../../src/publish/row-files.ts';
import type { StoredRecord } from '../../src/sinks/record-reader.ts';
import { it } from '../support/it.ts';

const table: EntityTable = {
  entity: 'things' as EntityName,
  columns: [
    { name: 'id', type: 'string' },
    { name: 'count', type: 'integer' },
    { name: 'share', type: 'number' },
    { name: 'is_on', type: 'boolean' },
    { name: 'more', type: 'object' },
  ],
  key: ['id'],
};
const time = '2026-01-01T00:00:00.000Z';

function record(seq: number, change: Partial<StoredRecord> = {}): StoredRecord {
  const values = [`k${seq}`, null, null, null, null];
  return { isDeleted: false, seq, changedAt: time, run: 'r' as RunId, values, extra: null, ...change };
}

function optionsIn(folder: string, format: FileFormat): RowFilesOptions {
  return {
    format,
    table,
    // Another name than in the sink.
    columns: table.columns.map(({ name, type }) => ({
      name: name === 'id' ? 'key "id"' : name,
      field: name,
      type,
    })),
    pathOf: (part) => Promise.resolve(join(folder, `${part}.${format}`)),
    maxRows: 1000,
    maxBytes: 1_000_000,
  };
}

async function write(
  options: RowFilesOptions,
  ...batches: readonly (readonly StoredRecord[])[]
): Promise<readonly WrittenFile[]> {
  await using writers = openRowFileWriters();
  await using files = await writers.open(options);
  for (const batch of batches) await files.write(batch);
  return await files.finish();
}

const live = record(7, { values: ['a,b', 9007199254740993n, -0, 1n, '{"a":\n"b"}'], extra: '{"x":1}' });
const deleted = record(9, { isDeleted: true, values: ['', 1n, 1, 1n, '{}'], extra: '{}' });

it('writes a row as a JSON line, and of a deleted one the key', async ({ folder }) => {
  const [file] = await write(optionsIn(folder, 'jsonl'), [live, deleted]);
  expect(readFileSync(join(folder, '1.jsonl'), 'utf8').split('\n')).toEqual([
    `{"key \\"id\\"":"a,b","count":9007199254740993,"share":-0.0,"is_on":true,"more":{"a": "b"},"_extra":{"x":1},"_seq":7,"_changed_at":"${time}","_run_id":"r","_deleted":false,"_deleted_at":null}`,
    `{"key \\"id\\"":"","_seq":9,"_changed_at":"${time}","_run_id":"r","_deleted":true,"_deleted_at":"${time}"}`,
    '',
  ]);
  expect(file).toMatchObject({ rows: 2, firstSeq: 7, lastSeq: 9 });
});

it('writes a row as a line of CSV below a heading', async ({ folder }) => {
  await write(optionsIn(folder, 'csv'), [live], [deleted]);
  expect(readFileSync(join(folder, '1.csv'), 'utf8').split('\r\n')).toEqual([
    '"key ""id""",count,share,is_on,more,_extra,_seq,_changed_at,_run_id,_deleted,_deleted_at',
    `"a,b",9007199254740993,-0.0,true,"{""a"":\n""b""}","{""x"":1}",7,${time},r,false,`,
    `"",,,,,,9,${time},r,true,${time}`,
    '',
  ]);
});

describe.each(['jsonl', 'csv'] as const)('%s', (format) => {
  it('begins another file at a number of rows, and says of each what it is', async ({ folder }) => {
    const records = Array.from({ length: 25 }, (_, index) => record(100 - index));
    const files = await write(
      { ...optionsIn(folder, format), maxRows: 10 },
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

  it('begins another file at a number of bytes', async ({ folder }) => {
    const options = { ...optionsIn(folder, format), maxBytes: 5000 };
    const records = Array.from({ length: 10 }, (_, index) =>
      record(index, { extra: `{"x":"${'y'.repeat(1000)}"}` }),
    );
    const files = await write(options, ...records.map((one) => [one]));
    expect(files.map(({ rows }) => rows)).toEqual([5, 5]);
  });

  it('makes no file of no rows, and leaves none that is not finished', async ({ folder }) => {
    expect(await write(optionsIn(folder, format), [])).toEqual([]);
    {
      await using writers = openRowFileWriters();
      await using files = await writers.open({ ...optionsIn(folder, format), maxRows: 1 });
      await files.write([live, deleted]);
      expect(readdirSync(folder)).toHaveLength(2);
    }
    expect(readdirSync(folder)).toEqual([]);
  });

  it('writes over nothing', async ({ folder }) => {
    await write(optionsIn(folder, format), [live]);
    const before = readFileSync(join(folder, `1.${format}`));
    await expect(write(optionsIn(folder, format), [deleted])).rejects.toMatchObject({
      code: 'TARGET_FAILED',
      recovery: 'stop',
      context: { cause: 'EEXIST' },
    });
    expect(readFileSync(join(folder, `1.${format}`))).toEqual(before);
  });
});
