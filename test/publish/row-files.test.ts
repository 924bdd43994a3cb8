import { createHash } from 'node:crypto';
import { readFileSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect } from 'vitest';
import { type FileFormat, openRowFileWriters, type RowFilesOptions } from '../../src/publish/row-files.ts';
import { it } from '../support/it.ts';
import { changedAt, filesIn, thing, writeRowFiles } from '../support/publish/write-row-files.ts';

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
