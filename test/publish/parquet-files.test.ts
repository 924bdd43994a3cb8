import { execFileSync, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, vi } from 'vitest';
import type { ColumnValue } from '../../src/core/records.ts';
import { openRowFileWriters } from '../../src/publish/row-files.ts';
import { testProgram } from '../support/ensure-built.ts';
import { it } from '../support/it.ts';
import { duckdb, duckdbLists, literal } from '../support/publish/duckdb.ts';
import { filesIn, thing, things, writeRowFiles } from '../support/publish/write-row-files.ts';
import { isLong } from '../support/trials.ts';

let mounted: string | null = null;
afterEach(() => {
  if (mounted !== null) execFileSync('umount', [mounted]);
  mounted = null;
});

describe('a Parquet file', () => {
  it('has a type for every column, and says which hold JSON', async ({ folder }) => {
    const values = ['a', 1n, 0.5, 1, '{}'];
    const [file] = await writeRowFiles(filesIn(folder, 'parquet'), [thing(1, { values, extra: '{"x":1}' })]);
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
    expect(notes).toEqual([['connector-sync.json-columns', '["more","_extra"]']]);
    const codecs = await duckdbLists(`SELECT DISTINCT compression FROM parquet_metadata(${path})`);
    const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
    expect(codecs).toEqual([[major > 22 || (major === 22 && minor >= 15) ? 'ZSTD' : 'SNAPPY']]);
  });

  it('has a group for every 20,000 rows, with the numbers of its rows', async ({ folder }) => {
    const rows = Array.from({ length: 20_001 }, (_, index) => thing(index + 5));
    const [file] = await writeRowFiles(filesIn(folder, 'parquet'), rows.slice(0, 15_000), rows.slice(15_000));
    const groups = await duckdbLists(
      `SELECT row_group_num_rows, stats_min_value, stats_max_value FROM parquet_metadata(${literal(file?.path ?? '')})
       WHERE path_in_schema = '_seq' ORDER BY row_group_id`,
    );
    expect(groups).toEqual([
      [20_000n, '5', '20004'],
      [1n, '20005', '20005'],
    ]);
  });

  it('has plain booleans, which every reader takes, also with nulls between them', async ({ folder }) => {
    const rows = Array.from({ length: 100 }, (_, index) =>
      thing(index + 1, { values: [`k${index}`, null, null, index % 3 === 0 ? null : index % 2, null] }),
    );
    const [file] = await writeRowFiles(filesIn(folder, 'parquet'), rows);
    const path = literal(file?.path ?? '');
    const encodings = await duckdbLists(
      `SELECT path_in_schema, encodings FROM parquet_metadata(${path}) WHERE type = 'BOOLEAN' ORDER BY ALL`,
    );
    expect(encodings).toEqual([
      ['_deleted', 'PLAIN'],
      ['is_on', 'PLAIN'],
    ]);
    const counts = `SELECT count(*), count(is_on), count(*) FILTER (is_on) FROM ${path}`;
    expect(await duckdbLists(counts)).toEqual([[100n, 66n, 33n]]);
  });

  it('keeps the sign of a zero among values that repeat', async ({ folder }) => {
    const rows = Array.from({ length: 40 }, (_, index) =>
      thing(index, { values: [`k${index}`, null, index % 2 === 0 ? 0 : -0, null, null] }),
    );
    const [file] = await writeRowFiles(filesIn(folder, 'parquet'), rows);
    const read = await duckdbLists(`SELECT share FROM ${literal(file?.path ?? '')} ORDER BY _seq`);
    expect(read).toStrictEqual(rows.map(({ values }) => [values[2]]));
  });

  it.for(isLong ? (['parquet', 'jsonl', 'csv'] as const) : (['parquet'] as const))(
    'holds a text of 10 MB: %s',
    async (format, { folder }) => {
      const text = 'é\n"'.repeat(2_500_000);
      const [file] = await writeRowFiles(filesIn(folder, format), [
        thing(1, { values: [text, null, null, null, null] }),
        thing(2),
      ]);
      const path = literal(file?.path ?? '');
      const source = {
        parquet: `read_parquet(${path})`,
        // Looking for types in it would take seconds.
        jsonl: `read_json(${path}, format = 'newline_delimited', columns = {id: 'VARCHAR'}, maximum_object_size = 33554432)`,
        csv: `read_csv(${path}, all_varchar = true, quote = '"', escape = '"', header = true, new_line = '\\r\\n', max_line_size = 33554432)`,
      }[format];
      const read = await duckdbLists(
        `SELECT length(id), md5(id) = md5(repeat('é' || chr(10) || '"', 2500000)) FROM ${source}`,
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
    mkdirSync(disk);
    try {
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=16k', 'tmpfs', disk], { stdio: 'ignore' });
      mounted = disk;
    } catch {
      // Mounting needs root and a kernel that allows it.
      skip('a tmpfs cannot be mounted here');
    }
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
    const holder = fork(testProgram('support/publish/row-file-holder.mjs'), [folder]);
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
