import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import { describe, expect } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import type { Column } from '../../src/core/records.ts';
import { openDuckdbTarget } from '../../src/publish/duckdb/duckdb-target.ts';
import { openDuckdb, toDuckdbError } from '../../src/publish/duckdb/open-duckdb.ts';
import type { Target } from '../../src/publish/target.ts';
import { untilEnd } from '../contracts/target-contract.ts';
import { it } from '../support/it.ts';
import { askDuckdbFile } from '../support/publish/read-duckdb-file.ts';
import {
  addEntity,
  emptyModel,
  publishModel,
  store,
  type StoredEntity,
  type StoredModel,
} from '../support/publish/stored-model.ts';
import { isLong } from '../support/trials.ts';

const columns: readonly Column[] = [
  { name: 'id', type: 'string' },
  { name: 'body', type: 'string' },
  { name: 'more', type: 'object' },
];

const mega = 1024 * 1024;

function fileOf(folder: string): string {
  return path.join(folder, 'desk.duckdb');
}

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
  it('are written, and change', async ({ folder }) => {
    await using target = open(fileOf(folder));
    const model = emptyModel();
    const entity = addEntity(model, 'pages', columns);
    // A hundred of them are more than the heap of the process.
    const count = isLong ? 100 : 5;
    storeLong(model, entity, count, 3 * mega);
    await publishModel(target, model);
    expect(await lengths(fileOf(folder))).toEqual([count, 3 * mega, 3 * mega]);
    storeLong(model, entity, 2, 4 * mega);
    await publishModel(target, model);
    expect(await lengths(fileOf(folder))).toEqual([count, 3 * mega, 4 * mega]);
  });

  const largest = 16 * mega;
  it.runIf(isLong)('are as long as records may be', async ({ folder }) => {
    await using target = open(fileOf(folder));
    const model = emptyModel();
    const entity = addEntity(model, 'pages', columns);
    // Three bytes each; and escapes, every one of which is replaced.
    for (let id = 0; id < 3; id += 1) store(model, entity, { id: `p${id}`, body: '\u20ac'.repeat(largest) });
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

  it('are not called a full disk, nor the other way round', async ({ folder }) => {
    using db = await openDuckdb(fileOf(folder), 'write');
    await db.run("SET memory_limit = '40MB'");
    const failed = async (sql: string): Promise<unknown> =>
      await db.run(sql).catch((error: unknown) => error);
    const tooLong = toDuckdbError(
      await failed("CREATE TABLE pages AS SELECT repeat('x', 3_000_000) AS body FROM range(30)"),
      'desk.duckdb',
    );
    expect(tooLong).toMatchObject({ recovery: 'stop', message: expect.stringContaining('too long') });
    await db.run("SET max_temp_directory_size = '1MB'");
    const full = toDuckdbError(
      await failed(
        'CREATE TABLE ids AS SELECT range AS id, random() AS a, random() AS b FROM range(20_000_000) ORDER BY a',
      ),
      'desk.duckdb',
    );
    expect(full).toMatchObject({ recovery: 'retry', message: expect.stringContaining('Free space') });
  });
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
    const lost = async (): Promise<readonly string[]> => await target.lost(newest, newest.manifest.entities);
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

  it('is checked and changed whatever its name', async ({ folder }) => {
    for (const name of [
      'news.duckdb',
      ...(isLong ? ['temp.duckdb', 'system.duckdb', 'main.duckdb', "it's.duckdb", 'a"b.duckdb'] : []),
    ]) {
      await using target = open(path.join(folder, name));
      const model = emptyModel();
      const entity = addEntity(model, 'pages', columns);
      for (const body of ['first', 'again']) {
        store(model, entity, { id: 'p1', body });
        await publishModel(target, model);
      }
      expect(await target.check(untilEnd)).toMatchObject({ publications: 2, rows: 1, problems: [] });
    }
  });
});
