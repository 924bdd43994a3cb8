import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import { describe, expect } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import type { Column } from '../../src/core/records.ts';
import { openDuckdbTarget, startDuckdbProcess } from '../../src/publish/duckdb/duckdb-target.ts';
import type { PlannedEntity, Target } from '../../src/publish/target.ts';
import type { StoredRecord } from '../../src/sinks/record-reader.ts';
import { takeLock } from '../../src/sql/sqlite/lock.ts';
import { untilEnd } from '../contracts/target-contract.ts';
import { it } from '../support/it.ts';
import { askDuckdbFile } from '../support/publish/read-duckdb-file.ts';
import {
  addEntity,
  emptyModel,
  publishModel,
  remove,
  store,
  tableOf,
  type StoredEntity,
  type StoredModel,
} from '../support/publish/stored-model.ts';
import { isLong } from '../support/trials.ts';

const columns: readonly Column[] = [
  { name: 'id', type: 'string' },
  { name: 'name', type: 'string' },
  { name: 'more', type: 'object' },
];

function fileOf(folder: string): string {
  return path.join(folder, 'desk.duckdb');
}

function open(folder: string, keepMs: number | null = null): Target {
  return openDuckdbTarget({ path: fileOf(folder), keepMs, clock: systemClock, signal: untilEnd });
}

function people(model: StoredModel, count = 3): StoredEntity {
  const entity = addEntity(model, 'people', columns);
  for (let id = 1; id <= count; id += 1) store(model, entity, { id: `p${id}`, name: 'Ada' });
  return entity;
}

async function names(folder: string): Promise<readonly unknown[]> {
  const rows = await askDuckdbFile(fileOf(folder), 'SELECT name FROM news.people ORDER BY id');
  return rows.map(({ name }) => name);
}

/* Each test starts processes, for which `npm test` has little time. */

describe('a target in a DuckDB file', () => {
  // Proves promise 20.5
  it('leaves readers the file that they have open, and others, their rights and views', async ({
    folder,
  }) => {
    await using target = open(folder);
    const model = emptyModel();
    const entity = people(model);
    await publishModel(target, model);
    expect(statSync(fileOf(folder)).mode & 0o777).toBe(0o600);
    chmodSync(fileOf(folder), 0o640);
    const own = await DuckDBInstance.create(fileOf(folder));
    const writer = await own.connect();
    await writer.run('CREATE VIEW mine AS SELECT count(*) AS people FROM news.people');
    writer.closeSync();
    own.closeSync();
    const reader = await DuckDBInstance.create(fileOf(folder), { access_mode: 'READ_ONLY' });
    const reading = await reader.connect();
    store(model, entity, { id: 'p4', name: 'Eve' });
    remove(model, entity, 'p1');
    remove(model, entity, 'p2');
    await publishModel(target, model);
    const before = await reading.runAndReadAll('SELECT people FROM mine');
    expect(before.getRows()).toEqual([[3n]]);
    reading.closeSync();
    reader.closeSync();
    expect(await askDuckdbFile(fileOf(folder), 'SELECT people FROM mine')).toEqual([{ people: 2n }]);
    expect(statSync(fileOf(folder)).mode & 0o777).toBe(0o640);
    expect(readdirSync(folder).toSorted()).toEqual(['desk.duckdb', 'desk.duckdb.lock']);
  });

  // Proves promise 20.5
  it.runIf(isLong)(
    'builds nothing on a file that another program writes, or that is not of a publication',
    async ({ folder }) => {
      await using target = open(folder);
      const model = emptyModel();
      people(model);
      writeFileSync(
        fileOf(folder),
        'no database, but long enough to be looked at by anybody who reads it'.repeat(200),
      );
      await expect(target.newest()).rejects.toMatchObject({
        code: 'TARGET_INCOMPATIBLE',
        message: expect.stringContaining('no DuckDB file'),
      });
      rmSync(fileOf(folder));
      const own = await DuckDBInstance.create(fileOf(folder));
      const writer = await own.connect();
      await expect(target.newest()).rejects.toMatchObject({
        code: 'TARGET_FAILED',
        recovery: 'retry',
        message: expect.stringMatching(/open for writing in another process.*-readonly/),
      });
      await writer.run('CREATE TABLE mine AS SELECT 1 AS one');
      writer.closeSync();
      own.closeSync();
      await expect(publishModel(target, model)).rejects.toMatchObject({ code: 'TARGET_INCOMPATIBLE' });
      expect(await askDuckdbFile(fileOf(folder), 'FROM mine')).toEqual([{ one: 1 }]);
      rmSync(fileOf(folder));
      await publishModel(target, model);
      writeFileSync(`${fileOf(folder)}.wal`, '');
      await expect(target.begin(2)).rejects.toMatchObject({
        code: 'TARGET_FAILED',
        message: expect.stringContaining('desk.duckdb.wal'),
      });
    },
  );

  it.runIf(isLong)('waits for the lock of another publisher', async ({ folder }) => {
    await using target = open(folder);
    const model = emptyModel();
    people(model);
    const lock = takeLock(`${fileOf(folder)}.lock`);
    const publishing = publishModel(target, model, {
      beforeCommit: async () => {
        setTimeout(() => lock?.release(), 200);
      },
    });
    expect(await publishing).toBe('published');
    expect(await names(folder)).toEqual(['Ada', 'Ada', 'Ada']);
  });

  it.runIf(isLong)('writes JSON that every reader of DuckDB takes apart', async ({ folder }) => {
    await using target = open(folder);
    const model = emptyModel();
    const entity = people(model, 1);
    const hostile =
      '{"a":"\\ud83d","b":"\\ude00\\ud83d\\ude00","c":"\\\\ud800","d":"x\\\\\\ud800y","e":12345678901234567890}';
    store(model, entity, { id: 'p2', name: 'a\ud800b\0c', more: hostile });
    await publishModel(target, model);
    const sql = `SELECT name, more->>'a' AS a, more->>'b' AS b, more->>'c' AS c, more->>'d' AS d, more->>'e' AS e FROM news.people ORDER BY id`;
    expect((await askDuckdbFile(fileOf(folder), sql))[1]).toEqual({
      name: 'a\ufffdb\0c',
      a: '\ufffd',
      b: '\ufffd\u{1F600}',
      c: String.raw`\ud800`,
      d: 'x\\\ufffdy',
      e: '12345678901234567890',
    });
  });

  it.runIf(isLong)(
    'keeps one row where keys differ in lone surrogates alone: the newest',
    async ({ folder }) => {
      await using target = open(folder);
      const model = emptyModel();
      const entity = people(model, 0);
      store(model, entity, { id: 'x\ud800', name: 'first' });
      store(model, entity, { id: 'x\ud801', name: 'second' });
      await publishModel(target, model);
      expect(await names(folder)).toEqual(['second']);
      store(model, entity, { id: 'x\ud801', name: 'third' });
      store(model, entity, { id: 'x\ud800', name: 'fourth' });
      await publishModel(target, model);
      expect(await names(folder)).toEqual(['fourth']);
    },
  );

  // Proves promise 20.5
  it.runIf(isLong)(
    'grows with what is stored, and not with what has changed',
    async ({ folder }) => {
      await using target = open(folder, 0);
      const model = emptyModel();
      const entity = people(model, 0);
      const rounds = isLong ? 60 : 6;
      const sizes: number[] = [];
      for (let round = 0; round < rounds; round += 1) {
        for (let id = 0; id < 2_000; id += 1) {
          store(model, entity, {
            id: `p${id}`,
            name: `${round} ${id} `.padEnd(1_000, String(Math.random())),
          });
        }
        await publishModel(target, model);
        sizes.push(statSync(fileOf(folder)).size);
      }
      expect(Math.max(...sizes)).toBeLessThan(5 * (sizes[0] ?? 0));
      // What is older than the newest publication is left out of the next file.
      expect(await askDuckdbFile(fileOf(folder), 'SELECT count(*) AS kept FROM _publications')).toEqual([
        { kept: 1n },
      ]);
    },
    300_000,
  );

  it.runIf(isLong)(
    'is checked row by row, and says where a table is not as it was published',
    async ({ folder }) => {
      await using target = open(folder);
      const model = emptyModel();
      const entity = people(model);
      await publishModel(target, model);
      const change = async (sql: string): Promise<void> => {
        const own = await DuckDBInstance.create(fileOf(folder));
        const writer = await own.connect();
        await writer.run(sql);
        writer.closeSync();
        own.closeSync();
      };
      await change("DELETE FROM news.people WHERE id = 'p1'");
      expect((await target.check(untilEnd)).problems).toEqual([
        'table news.people should have 3 rows, and has 2',
      ]);
      await change('ALTER TABLE news.people DROP COLUMN name');
      expect((await target.check(untilEnd)).problems).toContain('table news.people has lost its column name');
      store(model, entity, { id: 'p9' });
      await expect(publishModel(target, model)).rejects.toMatchObject({
        code: 'TARGET_INCOMPATIBLE',
        message: expect.stringMatching(/has lost its column name.*--new-generation/),
      });
      people(model, 2);
      await publishModel(target, model);
      expect(await target.check(untilEnd)).toMatchObject({ rows: 2, problems: [] });
      await change('DROP TABLE news.people');
      expect((await target.check(untilEnd)).problems).toEqual(['table news.people is gone']);
      await change('DELETE FROM _published_tables');
      expect((await target.check(untilEnd)).problems).toEqual([
        '_published_tables lacks news/people, which was published',
      ]);
    },
  );

  it.runIf(isLong)('is probed without leaving anything', async ({ folder }) => {
    mkdirSync(path.join(folder, 'there'));
    await using target = openDuckdbTarget({
      path: path.join(folder, 'there', 'not yet', 'desk.duckdb'),
      keepMs: null,
      clock: systemClock,
      signal: untilEnd,
    });
    await target.probe();
    expect(readdirSync(path.join(folder, 'there'))).toEqual([]);
  });

  it('names the command that adds DuckDB where that is missing', async ({ folder }) => {
    // The program beside all installed packages except DuckDB.
    cpSync(path.resolve('dist'), path.join(folder, 'dist'), { recursive: true });
    writeFileSync(path.join(folder, 'package.json'), '{"type":"module"}');
    mkdirSync(path.join(folder, 'node_modules'));
    for (const name of readdirSync('node_modules').filter((one) => one !== '@duckdb')) {
      symlinkSync(path.resolve('node_modules', name), path.join(folder, 'node_modules', name));
    }
    const entry = path.join(folder, 'dist/publish/duckdb/duckdb-process.js');
    await using child = startDuckdbProcess(untilEnd, new URL(`file://${entry}`));
    await expect(child.ask('check', { path: fileOf(folder) })).rejects.toMatchObject({
      code: 'PACKAGE_MISSING',
      message: expect.stringContaining('npm install @duckdb/node-api'),
    });
    expect(existsSync(fileOf(folder))).toBe(false);
  });

  it.runIf(isLong)('ends with the signal of the one who opened it', async ({ folder }) => {
    const stop = new AbortController();
    await using target = openDuckdbTarget({
      path: fileOf(folder),
      keepMs: null,
      clock: systemClock,
      signal: stop.signal,
    });
    const model = emptyModel();
    people(model);
    const publishing = publishModel(target, model, {
      beforeCommit: async () => stop.abort(new Error('stopped')),
    });
    await expect(publishing).rejects.toThrow('stopped');
    expect(readdirSync(folder)).toEqual([]);
  });

  it.runIf(isLong && process.platform === 'linux')(
    'takes as much memory of its process for many rows as for few',
    async ({ folder }) => {
      const peaks: number[] = [];
      // DuckDB compresses groups of 122,880 rows in memory: both have several.
      for (const count of [400_000, 1_200_000]) {
        const file = path.join(folder, `${count}.duckdb`);
        await using target = openDuckdbTarget({
          path: file,
          keepMs: null,
          clock: systemClock,
          signal: untilEnd,
        });
        const publication = await target.begin(1);
        const entity = addEntity(emptyModel(), 'people', columns);
        await publication.write(plannedEntity(entity), { changes: manyRows(count), snapshot: null });
        peaks.push(peakOfChildren());
        await publication[Symbol.asyncDispose]();
      }
      const [few = 0, many = 0] = peaks;
      expect(few).toBeGreaterThan(50);
      // More rows than fit into that: 1.2 GB.
      expect(many).toBeLessThan(1_100);
    },
    300_000,
  );
});

function plannedEntity(entity: StoredEntity): PlannedEntity {
  const { connector, entity: name, key } = entity;
  const published = entity.columns.map(({ name: column, type }) => ({ name: column, field: column, type }));
  return {
    connector,
    entity: name,
    key,
    columns: published,
    table: tableOf(entity),
    layout: null,
    isNewGeneration: true,
    generation: 1,
    base: 1,
    tableId: 't',
    schema: 1,
    after: 0,
    through: 1,
    asOf: null,
    run: null,
  };
}

/** A kilobyte each. */
async function* manyRows(count: number): AsyncGenerator<readonly StoredRecord[]> {
  for (let first = 0; first < count; first += 1_000) {
    yield Array.from({ length: 1_000 }, (_, index): StoredRecord => {
      const seq = first + index + 1;
      const values = [`p${seq}`, `${seq} `.padEnd(1_000, String(Math.random())), null];
      const run = '20261122T100000000Z-0123abcd' as StoredRecord['run'];
      return { isDeleted: false, seq, changedAt: '2026-11-22T10:00:00.000Z', run, values, extra: null };
    });
  }
}

/** Of the processes of DuckDB that this one has started: the highest they have had, in MiB. */
function peakOfChildren(): number {
  const task = `/proc/${process.pid}/task/${process.pid}/children`;
  const peaks = readFileSync(task, 'utf8')
    .split(' ')
    .filter((pid) => pid !== '' && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('duckdb-process'))
    .map(
      (pid) => Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1_024,
    );
  return Math.max(...peaks);
}
