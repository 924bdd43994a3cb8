import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
  readFileSync,
} from 'node:fs';
import path from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import { describe, expect } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import type { Column } from '../../src/core/records.ts';
import { openDuckdbTarget, startDuckdbProcess } from '../../src/publish/duckdb/duckdb-target.ts';
import { toDuckdbError } from '../../src/publish/duckdb/open-duckdb.ts';
import type { Target } from '../../src/publish/target.ts';
import { takeLock } from '../../src/sql/sqlite/lock.ts';
import { targetContract, untilEnd, type TargetKind } from '../contracts/target-contract.ts';
import { it } from '../support/it.ts';
import { askDuckdbFile } from '../support/publish/read-duckdb-file.ts';
import { duckdbTableRows } from '../support/publish/read-tables.ts';
import {
  tableOf,
  addEntity,
  emptyModel,
  publishModel,
  remove,
  store,
  type StoredEntity,
  type StoredModel,
} from '../support/publish/stored-model.ts';
import { isLong } from '../support/trials.ts';

function fileOf(folder: string): string {
  return path.join(folder, 'desk.duckdb');
}

function open(folder: string): Target {
  return openDuckdbTarget({ path: fileOf(folder), keepMs: null, clock: systemClock, signal: untilEnd });
}

describe('a target in a DuckDB file', () => {
  const kind: TargetKind = {
    open: async (folder) => open(folder),
    rows: async (folder, entity) =>
      await duckdbTableRows(fileOf(folder), { connector: entity.connector, table: tableOf(entity) }),
  };
  targetContract(kind, isLong);
});

describe('duckdb file', () => {
  const columns: readonly Column[] = [
    { name: 'id', type: 'string' },
    { name: 'name', type: 'string' },
    { name: 'more', type: 'object' },
  ];

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
        expect((await target.check(untilEnd)).problems).toContain(
          'table news.people has lost its column name',
        );
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
  });
});

describe('duckdb rows', () => {
  const columns: readonly Column[] = [
    { name: 'id', type: 'string' },
    { name: 'body', type: 'string' },
    { name: 'more', type: 'object' },
  ];

  const mega = 1024 * 1024;

  function open(file: string): Target {
    return openDuckdbTarget({ path: file, keepMs: null, clock: systemClock, signal: untilEnd });
  }

  /** Rows `p0`, `p1` and so on, each with a text of so many characters of one byte. */
  function storeLong(model: StoredModel, entity: StoredEntity, count: number, chars: number): void {
    for (let id = 0; id < count; id += 1) store(model, entity, { id: `p${id}`, body: longText(id, chars) });
  }

  /** Of each row another one, that no dictionary of DuckDB makes short. */
  function longText(id: number, chars: number): string {
    return `${id} `.padEnd(chars, String(Math.random()));
  }

  async function lengths(file: string): Promise<readonly unknown[]> {
    const rows = await askDuckdbFile(
      file,
      'SELECT count(*)::INT AS rows, min(strlen(body))::INT AS least, max(strlen(body))::INT AS most FROM news.pages',
    );
    return Object.values(rows[0] ?? {});
  }

  /** What another program does to the file. */
  async function change(file: string, ...statements: readonly string[]): Promise<void> {
    const own = await DuckDBInstance.create(file);
    const writer = await own.connect();
    for (const statement of statements) await writer.run(statement);
    writer.closeSync();
    own.closeSync();
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

  describe('long rows in a DuckDB file', () => {
    const largest = 16 * mega;
    it.runIf(isLong)('are as long as records may be', async ({ folder }) => {
      await using target = open(fileOf(folder));
      const model = emptyModel();
      const entity = addEntity(model, 'pages', columns);
      // Three bytes each; and escapes, every one of which is replaced.
      for (let id = 0; id < 3; id += 1) {
        store(model, entity, { id: `p${id}`, body: '\u20ac'.repeat(largest) });
      }
      const escapes = `"${String.raw`\ud800`.repeat(largest / 6)}"`;
      for (let id = 3; id < 6; id += 1) store(model, entity, { id: `p${id}`, more: escapes });
      await publishModel(target, model);
      const sql = 'SELECT sum(strlen(body))::INT AS body, sum(strlen(more))::INT AS more FROM news.pages';
      expect(await askDuckdbFile(fileOf(folder), sql)).toEqual([
        { body: 9 * largest, more: 3 * escapes.length },
      ]);
    });

    it.runIf(isLong && process.platform === 'linux').for([
      { count: 10, chars: 16 * mega },
      { count: 140, chars: 3 * mega },
      { count: 420, chars: mega },
      { count: 2_000, chars: 200_000 },
      { count: 2_500, chars: 150_000 },
      { count: 6_000, chars: 100_000 },
    ])(
      'take at most 2 GiB of memory of its process: $count rows of $chars characters',
      { timeout: 300_000 },
      async ({ count, chars }, { folder }) => {
        await using target = open(fileOf(folder));
        const model = emptyModel();
        const entity = addEntity(model, 'pages', columns);
        for (const length of [chars, chars + 1]) {
          storeLong(model, entity, count, length);
          await publishModel(target, model);
          expect(await lengths(fileOf(folder))).toEqual([count, length, length]);
          expect(peakOfChildren()).toBeLessThan(2_048);
        }
      },
    );

    it.runIf(isLong)(
      'are refused where 2,048 of them are too long together, which leaves the file',
      async ({ folder }) => {
        await using target = open(fileOf(folder));
        const model = emptyModel();
        const entity = addEntity(model, 'pages', columns);
        storeLong(model, entity, 1, 10);
        await publishModel(target, model);
        storeLong(model, entity, 300, 3 * mega);
        await expect(publishModel(target, model)).rejects.toMatchObject({
          code: 'TARGET_FAILED',
          recovery: 'stop',
          message: expect.stringMatching(/Rows are too long, as it holds 2,048.*files, s3 or postgres/s),
        });
        expect(readdirSync(folder).toSorted()).toEqual(['desk.duckdb', 'desk.duckdb.lock']);
        expect(await lengths(fileOf(folder))).toEqual([1, 10, 10]);
        expect(peakOfChildren()).toBeLessThan(1_100);
      },
      300_000,
    );

    it.runIf(isLong)(
      'are written, and change, where they have hundreds of columns',
      async ({ folder }) => {
        await using target = open(fileOf(folder));
        const model = emptyModel();
        const many = Array.from(
          { length: 200 },
          (_, index) => ({ name: `c${index}`, type: 'number' }) as const,
        );
        const entity = addEntity(model, 'pages', [{ name: 'id', type: 'integer' }, ...many]);
        const values = (id: number) => ({
          id,
          ...Object.fromEntries(many.map(({ name }) => [name, Math.random()])),
        });
        // More than one group of rows, which DuckDB holds at once.
        for (let id = 0; id < 130_000; id += 1) store(model, entity, values(id));
        await publishModel(target, model);
        for (let id = 0; id < 10; id += 1) store(model, entity, values(id));
        await publishModel(target, model);
        expect(await target.check(untilEnd)).toMatchObject({ rows: 130_000, problems: [] });
        expect(peakOfChildren()).toBeLessThan(2_048);
      },
      300_000,
    );
  });

  describe('a failure of DuckDB', () => {
    it('is passed on with its reason, without values of rows', () => {
      const saidOf = (error: unknown): string => toDuckdbError(error, '/desk.duckdb').message;
      expect(saidOf(new Error('number of values must equal chunk row count'))).toMatch(
        /^DuckDB(?: v[\d.]+)? failed on \/desk\.duckdb: number of values must equal chunk row count\. Check .*npm install @duckdb\/node-api@latest\)\.$/,
      );
      for (const error of [
        new Error('Conversion Error: Could not convert string "secret 77" to INT64\nLINE 1: secret'),
        new Error("Invalid Input Error: Malformed JSON at byte 77 of input: 'secret'"),
        new SyntaxError('Cannot convert secret to a BigInt'),
        'secret',
      ]) {
        expect(saidOf(error)).toMatch(/failed on/);
        expect(saidOf(error)).not.toMatch(/secret|77/);
      }
    });
  });

  describe('a DuckDB file that others use too', () => {
    it('keeps tables of others that refer to each other', async ({ folder }) => {
      await using target = open(fileOf(folder));
      const model = emptyModel();
      storeLong(model, addEntity(model, 'pages', columns), 300, 100_000);
      await publishModel(target, model);
      await change(
        fileOf(folder),
        'CREATE TABLE main.parent (id INTEGER PRIMARY KEY)',
        'CREATE TABLE main.child (id INTEGER REFERENCES main.parent (id))',
        'INSERT INTO main.parent VALUES (1)',
        'INSERT INTO main.child VALUES (1)',
      );
      const entity = addEntity(model, 'pages', columns);
      for (const id of ['p1', 'p2', 'p3']) {
        store(model, entity, { id, body: 'short' });
        await publishModel(target, model);
      }
      expect(await lengths(fileOf(folder))).toEqual([3, 5, 5]);
      expect(await askDuckdbFile(fileOf(folder), 'FROM main.child')).toEqual([{ id: 1 }]);
      expect(readdirSync(folder).toSorted()).toEqual(['desk.duckdb', 'desk.duckdb.lock']);
    });

    it('holds texts that it cannot take as docs/publications.md says', async ({ folder }) => {
      await using target = open(fileOf(folder));
      const model = emptyModel();
      const more = '{"a":"\\u0000\\ud83d"}';
      store(model, addEntity(model, 'pages', columns), { id: '1', body: 'a\0b\uE000c\ud83d', more });
      await publishModel(target, model);
      expect(await askDuckdbFile(fileOf(folder), 'SELECT body, more FROM news.pages')).toEqual([
        { body: 'a\0b\uE000c\uFFFD', more: '{"a":"\\u0000\\ufffd"}' },
      ]);
    });

    // Proves promise 20.1
    it('says what it has lost of what was published', async ({ folder }) => {
      await using target = open(fileOf(folder));
      const model = emptyModel();
      storeLong(model, addEntity(model, 'pages', columns), 3, 10);
      await publishModel(target, model);
      const newest = await target.newest();
      if (newest === null) throw new Error('Nothing was published');
      const lost = async (): Promise<readonly string[]> =>
        await target.lost(newest, newest.manifest.entities);
      expect(await lost()).toEqual([]);
      for (const [damage, says] of [
        [`DELETE FROM news.pages WHERE id = 'p1'`, 'table news.pages should have 3 rows, and has 2'],
        ['ALTER TABLE news.pages DROP COLUMN body', 'table news.pages has lost its column body'],
        ['DROP TABLE news.pages', 'table news.pages is gone'],
        ['DELETE FROM _published_tables', '_published_tables does not list news.pages, which was published'],
      ] as const) {
        await change(fileOf(folder), damage);
        expect(await lost()).toEqual([says]);
      }
    });

    it('is not changed where rows would be lost, until a new generation replaces its table', async ({
      folder,
    }) => {
      await using target = open(fileOf(folder));
      const model = emptyModel();
      storeLong(model, addEntity(model, 'pages', columns), 3, 10);
      await publishModel(target, model);
      for (const { damage, says } of [
        ...(isLong
          ? [{ damage: 'ALTER TABLE news.pages DROP COLUMN _seq', says: 'has lost its column _seq' }]
          : []),
        { damage: 'ALTER TABLE news.pages DROP COLUMN _extra', says: 'has lost its column _extra' },
        {
          damage: 'DELETE FROM _published_tables',
          says: 'Rename that table, and publish with --new-generation',
        },
        ...(isLong
          ? [
              {
                damage: 'DROP TABLE news.pages',
                says: 'does not list news.pages, which was published. Publish with',
              },
            ]
          : []),
      ]) {
        await change(fileOf(folder), damage);
        const { problems } = await target.check(untilEnd);
        if (says.startsWith('has')) expect(problems).toEqual([`table news.pages ${says}`]);
        const entity = model.entities.get('pages');
        if (entity !== undefined) store(model, entity, { id: 'p0', body: 'changed' });
        await expect(publishModel(target, model)).rejects.toMatchObject({
          code: 'TARGET_INCOMPATIBLE',
          message: expect.stringContaining(says),
        });
        // A table that is not in the list is not of the target.
        if (says.startsWith('Rename')) continue;
        storeLong(model, addEntity(model, 'pages', columns), 2, 10);
        await publishModel(target, model);
        expect(await target.check(untilEnd)).toMatchObject({ rows: 2, problems: [] });
      }
    });
  });
});
