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
import { describe, expect } from 'vitest';
import { DuckDBInstance } from '@duckdb/node-api';
import { openDuckdbTarget, startDuckdbProcess } from '../../src/publish/duckdb-target.ts';
import { toDuckdbError } from '../../src/publish/open-duckdb.ts';
import { takeLock } from '../../src/sql/sqlite/lock.ts';
import { targetContract, type TargetKind } from '../contracts/target-contract.ts';
import { it } from '../support/it.ts';
import { askDuckdbFile, duckdbTableRows } from '../support/publish/read-tables.ts';
import {
  addColumns,
  addEntity,
  people,
  publishedModel,
  remove,
  store,
  tableHow,
  tableOf,
  untilEnd,
  type StoredEntity,
} from '../support/publish/stored-model.ts';
import { isLong } from '../support/trials.ts';

function fileOf(folder: string): string {
  return path.join(folder, 'desk.duckdb');
}

/** Runs statements as another program. */
async function change(file: string, ...statements: readonly string[]): Promise<void> {
  const own = await DuckDBInstance.create(file);
  const writer = await own.connect();
  for (const statement of statements) await writer.run(statement);
  writer.closeSync();
  own.closeSync();
}

function open(folder: string, how: { keepMs?: number; signal?: AbortSignal } = {}) {
  const file = fileOf(folder);
  const desk = publishedModel(openDuckdbTarget({ path: file }, { ...tableHow, ...how }));
  return {
    ...desk,
    file,
    ask: async (sql: string) => await askDuckdbFile(file, sql),
    change: async (...statements: readonly string[]) => await change(file, ...statements),
    /** People with names of so many characters of one byte. */
    storeLong: (entity: StoredEntity, count: number, chars: number): void => {
      for (let id = 0; id < count; id += 1) {
        // Another one for each row, that no dictionary of DuckDB makes short.
        const name = `${id} `.padEnd(chars, String(Math.random()));
        store(desk.model, entity, { id: `p${id}`, name });
      }
    },
    /** How many people there are, and the lengths of the shortest and the longest name. */
    lengths: async (): Promise<readonly unknown[]> => {
      const [row = {}] = await askDuckdbFile(
        file,
        'SELECT count(*)::INT AS rows, min(strlen(name))::INT AS least, max(strlen(name))::INT AS most FROM news.people',
      );
      return Object.values(row);
    },
  };
}

const mega = 1024 * 1024;
const built = ['desk.duckdb', 'desk.duckdb.lock'];

describe('a target in a DuckDB file', () => {
  const kind: TargetKind = {
    open: async (folder) => open(folder).target,
    rows: async (folder, entity) =>
      await duckdbTableRows(fileOf(folder), { connector: entity.connector, table: tableOf(entity) }),
  };
  targetContract(kind, isLong);

  // Proves promise 20.5
  it('leaves readers the file that they have open, and others, their rights and views', async ({
    folder,
  }) => {
    await using desk = open(folder);
    const { model, file } = desk;
    const entity = await desk.publishPeople();
    expect(statSync(file).mode & 0o777).toBe(0o600);
    chmodSync(file, 0o640);
    await desk.change('CREATE VIEW mine AS SELECT count(*) AS people FROM news.people');
    const reader = await DuckDBInstance.create(file, { access_mode: 'READ_ONLY' });
    const reading = await reader.connect();
    store(model, entity, { id: 'p4', name: 'Eve' });
    remove(model, entity, 'p1');
    remove(model, entity, 'p2');
    await desk.publish();
    const before = await reading.runAndReadAll('SELECT people FROM mine');
    expect(before.getRows()).toEqual([[3n]]);
    reading.closeSync();
    reader.closeSync();
    expect(await desk.ask('SELECT people FROM mine')).toEqual([{ people: 2n }]);
    expect(statSync(file).mode & 0o777).toBe(0o640);
    expect(readdirSync(folder).toSorted()).toEqual(built);
  });

  // Proves promise 20.5
  it.runIf(isLong)(
    'builds nothing on a file that another program writes, or that is not of a publication',
    async ({ folder }) => {
      await using desk = open(folder);
      const { target, file } = desk;
      people(desk.model);
      writeFileSync(file, 'no database, but long enough to be looked at by anybody who reads it'.repeat(200));
      await desk.refused(/no DuckDB file/);
      rmSync(file);
      const own = await DuckDBInstance.create(file);
      const writer = await own.connect();
      await desk.refused(/open for writing in another process.*-readonly/, 'TARGET_FAILED');
      await writer.run('CREATE TABLE mine AS SELECT 1 AS one');
      writer.closeSync();
      own.closeSync();
      await desk.refused(/tables of another program/);
      expect(await desk.ask('FROM mine')).toEqual([{ one: 1 }]);
      rmSync(file);
      await desk.publish();
      writeFileSync(`${file}.wal`, '');
      await expect(target.begin(2)).rejects.toMatchObject({
        code: 'TARGET_FAILED',
        message: expect.stringContaining('desk.duckdb.wal'),
      });
    },
  );

  it.runIf(isLong)('waits for the lock of another publisher', async ({ folder }) => {
    await using desk = open(folder);
    people(desk.model);
    const lock = takeLock(`${desk.file}.lock`);
    const publishing = desk.publish({
      beforeCommit: async () => {
        setTimeout(() => lock?.release(), 200);
      },
    });
    expect(await publishing).toBe('published');
    expect(await desk.lengths()).toEqual([3, 3, 3]);
  });

  it.runIf(isLong)('writes JSON that every reader of DuckDB takes apart', async ({ folder }) => {
    await using desk = open(folder);
    const more =
      '{"a":"\\ud83d","b":"\\ude00\\ud83d\\ude00","c":"\\\\ud800","d":"x\\\\\\ud800y","e":12345678901234567890}';
    store(desk.model, people(desk.model, 0), { id: 'p2', name: 'a\ud800b\0c', more });
    await desk.publish();
    const sql = `SELECT name, more->>'a' AS a, more->>'b' AS b, more->>'c' AS c, more->>'d' AS d, more->>'e' AS e FROM news.people`;
    expect(await desk.ask(sql)).toEqual([
      {
        name: 'a\ufffdb\0c',
        a: '\ufffd',
        b: '\ufffd\u{1F600}',
        c: String.raw`\ud800`,
        d: 'x\\\ufffdy',
        e: '12345678901234567890',
      },
    ]);
  });

  // Proves promise 20.5
  it.runIf(isLong)(
    'grows with what is stored, and not with what has changed',
    async ({ folder }) => {
      await using desk = open(folder, { keepMs: 0 });
      const entity = people(desk.model, 0);
      const sizes: number[] = [];
      for (let round = 0; round < 60; round += 1) {
        desk.storeLong(entity, 2_000, 1_000);
        await desk.publish();
        sizes.push(statSync(desk.file).size);
      }
      expect(Math.max(...sizes)).toBeLessThan(5 * (sizes[0] ?? 0));
      // What is older than the newest publication is left out of the next file.
      expect(await desk.ask('SELECT count(*) AS kept FROM _publications')).toEqual([{ kept: 1n }]);
    },
    300_000,
  );

  it('names the command that adds DuckDB where that is missing', async ({ folder }) => {
    // The program beside all installed packages except DuckDB.
    cpSync(path.resolve('dist'), path.join(folder, 'dist'), { recursive: true });
    writeFileSync(path.join(folder, 'package.json'), '{"type":"module"}');
    mkdirSync(path.join(folder, 'node_modules'));
    for (const name of readdirSync('node_modules').filter((one) => one !== '@duckdb')) {
      symlinkSync(path.resolve('node_modules', name), path.join(folder, 'node_modules', name));
    }
    const entry = path.join(folder, 'dist/publish/duckdb-process.js');
    await using child = startDuckdbProcess(untilEnd, new URL(`file://${entry}`));
    await expect(child.ask('open', { path: fileOf(folder), how: 'read' })).rejects.toMatchObject({
      code: 'PACKAGE_MISSING',
      message: expect.stringContaining('npm install @duckdb/node-api'),
    });
    expect(existsSync(fileOf(folder))).toBe(false);
  });

  it.runIf(isLong)('ends with the signal of the one who opened it', async ({ folder }) => {
    const stop = new AbortController();
    await using desk = open(folder, { signal: stop.signal });
    people(desk.model);
    const publishing = desk.publish({ beforeCommit: async () => stop.abort(new Error('stopped')) });
    await expect(publishing).rejects.toThrow('stopped');
    expect(readdirSync(folder)).toEqual([]);
  });

  it('ends with that signal also where it was copying rows to erase others', async ({ folder }) => {
    const stop = new AbortController();
    await using desk = open(folder, { signal: stop.signal });
    desk.storeLong(people(desk.model, 0), 3_000, 10_000);
    await desk.publish();
    const erasing = desk.target.prune(Date.now(), false, true);
    const looking = setInterval(() => {
      if (readdirSync(folder).some((name) => name.includes('.new-'))) stop.abort(new Error('stopped'));
    }, 25);
    await expect(erasing).rejects.toThrow('stopped');
    clearInterval(looking);
    expect(readdirSync(folder).toSorted()).toEqual(built);
  });

  it('lets readers compare its texts with those of any collation', async ({ folder }) => {
    await using desk = open(folder);
    const entity = await desk.publishPeople(1);
    addColumns(entity, { name: 'late', type: 'string' });
    store(desk.model, entity, { id: 'p1', name: 'Ada', late: 'Lovelace' });
    await desk.publish();
    const sql = `SELECT id FROM news.people WHERE name = 'ADA' COLLATE NOCASE AND late = 'lovelace' COLLATE NOCASE`;
    expect(await desk.ask(sql)).toEqual([{ id: 'p1' }]);
  });
});

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
    await using desk = open(folder);
    const entity = people(desk.model, 0);
    // Three bytes each; and escapes, every one of which is replaced.
    for (let id = 0; id < 3; id += 1) {
      store(desk.model, entity, { id: `p${id}`, name: '\u20ac'.repeat(largest) });
    }
    const more = `"${String.raw`\ud800`.repeat(largest / 6)}"`;
    for (let id = 3; id < 6; id += 1) store(desk.model, entity, { id: `p${id}`, more });
    await desk.publish();
    const sql = 'SELECT sum(strlen(name))::INT AS name, sum(strlen(more))::INT AS more FROM news.people';
    expect(await desk.ask(sql)).toEqual([{ name: 9 * largest, more: 3 * more.length }]);
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
      await using desk = open(folder);
      const entity = people(desk.model, 0);
      for (const length of [chars, chars + 1]) {
        desk.storeLong(entity, count, length);
        await desk.publish();
        expect(await desk.lengths()).toEqual([count, length, length]);
        expect(peakOfChildren()).toBeLessThan(2_048);
      }
    },
  );

  it.runIf(isLong)(
    'are refused where 2,048 of them are too long together, which leaves the file',
    async ({ folder }) => {
      await using desk = open(folder);
      const entity = people(desk.model, 0);
      desk.storeLong(entity, 1, 10);
      await desk.publish();
      desk.storeLong(entity, 300, 3 * mega);
      await desk.refused(/ows are too long, as it holds 2,048.*files, s3 or postgres/s, 'TARGET_FAILED');
      expect(readdirSync(folder).toSorted()).toEqual(built);
      expect(await desk.lengths()).toEqual([1, 10, 10]);
      expect(peakOfChildren()).toBeLessThan(1_100);
    },
    300_000,
  );

  it.runIf(isLong)(
    'are written, and change, where they have hundreds of columns',
    async ({ folder }) => {
      await using desk = open(folder);
      const many = Array.from(
        { length: 200 },
        (_, index) => ({ name: `c${index}`, type: 'number' }) as const,
      );
      const entity = addEntity(desk.model, 'people', [{ name: 'id', type: 'integer' }, ...many]);
      const values = (id: number) => ({
        id,
        ...Object.fromEntries(many.map(({ name }) => [name, Math.random()])),
      });
      // More than one group of rows, which DuckDB holds at once.
      for (const count of [130_000, 10]) {
        for (let id = 0; id < count; id += 1) store(desk.model, entity, values(id));
        await desk.publish();
      }
      expect(await desk.target.check(untilEnd)).toMatchObject({ rows: 130_000, problems: [] });
      expect(peakOfChildren()).toBeLessThan(2_048);
    },
    300_000,
  );
});

it('passes a failure of DuckDB on with its reason, without values of rows', () => {
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

describe('a DuckDB file that others use too', () => {
  it('keeps tables of others that refer to each other', async ({ folder }) => {
    await using desk = open(folder);
    desk.storeLong(people(desk.model, 0), 300, 100_000);
    await desk.publish();
    await desk.change(
      'CREATE TABLE main.parent (id INTEGER PRIMARY KEY)',
      'CREATE TABLE main.child (id INTEGER REFERENCES main.parent (id))',
      'INSERT INTO main.parent VALUES (1)',
      'INSERT INTO main.child VALUES (1)',
    );
    const entity = people(desk.model, 0);
    for (const id of ['p1', 'p2', 'p3']) {
      store(desk.model, entity, { id, name: 'short' });
      await desk.publish();
    }
    expect(await desk.lengths()).toEqual([3, 5, 5]);
    expect(await desk.ask('FROM main.child')).toEqual([{ id: 1 }]);
    expect(readdirSync(folder).toSorted()).toEqual(built);
  });

  it('holds texts that it cannot take as docs/publications.md says', async ({ folder }) => {
    await using desk = open(folder);
    const more = '{"a":"\\u0000\\ud83d"}';
    store(desk.model, people(desk.model, 0), { id: '1', name: 'a\0b\uE000c\ud83d', more });
    await desk.publish();
    expect(await desk.ask('SELECT name, more FROM news.people')).toEqual([
      { name: 'a\0b\uE000c\uFFFD', more: '{"a":"\\u0000\\ufffd"}' },
    ]);
  });

  // Proves promise 20.1
  it('says what it has lost of what was published, and a check says it too', async ({ folder }) => {
    await using desk = open(folder);
    await desk.publishPeople();
    const newest = await desk.target.newest();
    if (newest === null) throw new Error('Nothing was published');
    const lost = async (): Promise<readonly string[]> =>
      await desk.target.lost(newest, newest.manifest.entities);
    expect(await lost()).toEqual([]);
    for (const [damage, says] of [
      [
        `DELETE FROM news.people WHERE id = 'p1'`,
        'table news.people should have 3 rows and 0 deleted ones, and has 2 and 0',
      ],
      ['ALTER TABLE news.people DROP COLUMN name', 'table news.people has lost its column name'],
      ['DROP TABLE news.people', 'table news.people is gone'],
      ['DELETE FROM _published_tables', '_published_tables does not list news.people, which was published'],
    ] as const) {
      await desk.change(damage);
      expect(await lost()).toEqual([says]);
      if (isLong) expect(await desk.problems()).toContain(says);
    }
    expect(await desk.problems()).toContain(
      '_published_tables does not list news.people, which was published',
    );
  });

  it('notices that a large table has fewer rows than were published', async ({ folder }) => {
    await using desk = open(folder);
    await desk.publishPeople(11_000);
    await desk.change(`DELETE FROM news.people WHERE id = 'p1'`);
    const newest = await desk.target.newest();
    if (newest === null) throw new Error('nothing was published');
    expect(await desk.target.lost(newest, newest.manifest.entities)).toEqual([
      'table news.people should have 11000 rows and 0 deleted ones, and has 10999 and 0',
    ]);
  });

  it.for([
    ['ALTER TABLE news.people DROP COLUMN _extra', 'has lost its column _extra.*--new-generation'],
    [
      'DELETE FROM _published_tables',
      'does not list its table news.people. If there is such a table, rename it',
    ],
    ...(isLong
      ? [
          ['ALTER TABLE news.people DROP COLUMN _seq', 'has lost its column _seq'],
          [
            'DELETE FROM _published_tables; DROP TABLE news.people',
            'does not list its table news.people.*Then publish with --new-generation',
          ],
        ]
      : []),
  ])('is not changed where rows would be lost: %s', async ([damage = '', says = ''], { folder }) => {
    await using desk = open(folder);
    const entity = await desk.publishPeople();
    await desk.change(...damage.split('; '));
    store(desk.model, entity, { id: 'p1', name: 'changed' });
    await desk.refused(new RegExp(says));
    // A table that is not in the list is not of the target.
    if (damage === 'DELETE FROM _published_tables') return;
    await desk.publishPeople(2);
    expect(await desk.target.check(untilEnd)).toMatchObject({ rows: 2, problems: [] });
  });
});
