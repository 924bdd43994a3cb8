import { copyFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterEach, beforeEach, describe, expect, it, afterAll, beforeAll } from 'vitest';
import { keptParts } from '../../src/search/narrowing.ts';
import type { SearchField, SearchTarget } from '../../src/search/search-target.ts';
import { indexEntity, indexTable } from '../../src/search/sqlite-index.ts';
import { member, members, membersTable, news, record } from '../contracts/sink/fixture.ts';
import { IndexFile, IndexWorld, membersTarget, listMembers } from '../support/search/index-world.ts';
import { isNear } from '../support/search/plain-search.ts';
import { indexWords, openPostgresWorld, type PostgresWorld } from '../support/search/postgres-world.ts';
import { thingsEntity } from '../support/search/search-world.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { startSeed } from '../support/trials.ts';

describe('sqlite index', () => {
  let world: IndexWorld;

  beforeEach(async () => {
    world = await IndexWorld.open();
  });

  afterEach(async () => {
    await world.close();
  });

  describe('the search index', () => {
    it('leads to rows by letters of texts in columns, inside of values, and of fields without a column', async () => {
      await world.store(
        record(membersTable, {
          list_id: 'a',
          id: '1',
          name: 'Ada Lovelace',
          address: '{"city":{"name":"North West"},"zip":8005}',
          tags: '["vip",["kitchen"],{"x":"deep"}]',
          anything: '"just text"',
        }),
        member('2', 'CHARLES', { extra: '{"nick":"The Count"}' }),
      );
      await world.index();
      expect(world.read('name', 'lovelace')).toEqual(['1']);
      expect(world.read('name', 'lovelace', 'charles')).toEqual(['1', '2']);
      expect(world.read('address', 'north')).toEqual(['1']);
      expect(world.read('tags', 'kitchen')).toEqual(['1']);
      expect(world.read('anything', 'just')).toEqual(['1']);
      expect(world.read('nick', 'count')).toEqual(['2']);
      expect(world.read('name', 'nobody')).toEqual([]);
    });

    it('leads to every text with signs beyond ASCII, and to all rows for less than three letters', async () => {
      await world.store(member('1', 'Zoë'), member('2', 'Zoe'), member('3', 'nu\0l'), member('4', 'Ada'));
      await world.index();
      expect(world.read('name', 'zoe')).toEqual(['1', '2', '3']);
      expect(world.read('name', '東京タワー')).toEqual(['1', '3']);
      expect(world.read('name', 'ad')).toBeNull();
      expect(world.read('name', 'ada', 'x')).toBeNull();
    });

    it('is equal to a fresh one after inserts, changes, tombstones and removed rows', async () => {
      await world.index();
      await world.store(
        member('1', 'Ada'),
        member('2', 'Ada'),
        member('3', 'Grace', { extra: '{"nick":"Amazing"}' }),
      );
      await world.index();
      await world.store(member('2', 'Barbara'), member('4', 'Ada'), member('3', 'Grace'));
      await world.sink.repair.tombstoneRecord(world.started.lease, world.started.run, members, '["a","1"]');
      expect(world.read('name', 'ada')).toEqual(['4']);
      expect(world.read('name', 'barbara')).toEqual(['2']);
      expect(world.read('nick', 'amazing')).toEqual([]);
      await world.store(member('1', 'Ada again'));
      expect(world.read('name', 'again')).toEqual(['1']);
      const copy = join(world.bench.folder, 'copy.db');
      await world.bench.closeSinks();
      const direct = new Database(world.file);
      direct.exec(`DELETE FROM news__members WHERE id = '4'`);
      direct.close();
      expect(world.read('name', 'ada')).toEqual(['1']);
      copyFileSync(world.file, copy);
      const fresh = new IndexFile(copy);
      expect(await fresh.hasIndex()).toBe(true);
      indexTable(copy, membersTarget, false);
      expect(world.contents()).toBe(fresh.contents());
      expect(world.contents()).toContain('"aga"');
    });

    it('is made again for other fields, and not used for a field that it lacks', async () => {
      await world.store(member('1', 'Ada'));
      expect(await world.hasIndex()).toBe(false);
      await world.index();
      const fewer = withFields([...membersTarget.fields.values()].filter(({ name }) => name !== 'tags'));
      expect(await world.hasIndex()).toBe(true);
      expect(await world.hasIndex(fewer)).toBe(false);
      await world.index(fewer);
      expect(await world.hasIndex(fewer)).toBe(true);
      expect(await world.hasIndex()).toBe(false);
    });

    it('is made again when the table was dropped and filled again', async () => {
      await world.store(member('1', 'Ada'), member('2', 'Grace'));
      await world.index();
      const { lease } = world.started;
      await lease[Symbol.asyncDispose]();
      await world.sink.repair.reset(news, { entity: null, tables: [membersTable], withData: true, now: '' });
      const again = await IndexWorld.again(world);
      await again.store(member('9', 'Grace'));
      expect(await world.hasIndex()).toBe(false);
      await world.index();
      expect(world.read('name', 'grace')).toEqual(['9']);
      expect(world.contents()).not.toContain('"ada"');
    });

    it('has an index of each column of texts and numbers, and leaves the others alone', async () => {
      await world.store(member('1'));
      const before = indexNames();
      await world.index();
      expect(indexNames().filter((name) => !before.includes(name))).toEqual(
        ['id', 'list_id', 'name', 'score', 'visits'].map((column) => `_search_news__members__by_${column}`),
      );
    });

    it('leaves nothing of itself where there is no table yet, and makes no sink where there is none', async () => {
      const before = world.look(schemaNames);
      await indexEntity(world.file, news, listMembers);
      expect(world.look(schemaNames)).toEqual(before);
      const nowhere = `${world.file}.not`;
      await expect(indexEntity(nowhere, news, listMembers)).rejects.toMatchObject({ code: 'SINK_FAILED' });
      expect(() => new Database(nowhere, { fileMustExist: true })).toThrow('unable to open');
    });
  });

  describe('a sink with a search index', () => {
    it('opens, writes, drops and takes new columns as before', async () => {
      await world.store(member('1', 'Ada', { extra: '{"nick":"Countess"}' }));
      await world.index();
      await world.started.lease[Symbol.asyncDispose]();
      const nick = { name: 'nick', type: 'string' } as const;
      const wider = { ...membersTable, columns: [...membersTable.columns, nick] };
      const again = await IndexWorld.again(world, { tables: [wider] });
      await again.store(record(wider, { list_id: 'a', id: '2', name: 'Grace', nick: 'Amazing' }));
      const target = withFields([
        ...membersTarget.fields.values(),
        { ...nick, shape: 'asIs', sources: [{ kind: 'column', column: 'nick', type: 'string' }] },
      ]);
      await world.index(target);
      expect(await world.hasIndex(target)).toBe(true);
      expect(world.look((db) => db.pragma('integrity_check', { simple: true }))).toBe('ok');
      expect(indexNames()).toContain('_search_news__members__by_nick');
    });
  });

  function withFields(fields: readonly SearchField[]): SearchTarget {
    return { ...membersTarget, fields: new Map(fields.map((field) => [field.name, field])) };
  }

  function indexNames(): readonly string[] {
    return world.look((db) =>
      db
        .prepare<[], string>(
          "SELECT name FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'news__members' ORDER BY name",
        )
        .pluck()
        .all(),
    );
  }

  function schemaNames(db: Database.Database): readonly string[] {
    return db.prepare<[], string>('SELECT name FROM sqlite_schema ORDER BY name').pluck().all();
  }
});

describe('a search of a PostgreSQL sink', () => {
  const keyword = { query: { filter: { keyword: { title: 'quarterly' } } }, fields: ['id'] };
  let world: PostgresWorld;

  beforeAll(async () => {
    world = await openPostgresWorld(thingsEntity());
    await world.store([
      { id: 'a', title: 'A QUARTERLY report' },
      { id: 'b', title: 'Ｑuarterly, réport' },
      { id: 'c', title: 'Some plan' },
    ]);
  });
  afterAll(async () => {
    await world[Symbol.asyncDispose]();
  });

  it('ends on the server too when it is interrupted, and at its deadline', async () => {
    const waiting = `SELECT count(*)::integer AS n FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%news__things%'`;
    const waitingSearches = async (): Promise<unknown> => (await world.run(waiting))[0]?.['n'];
    await using lock = await world.lock('news__things');
    const interrupted = new AbortController();
    const search = world.search(keyword, { signal: interrupted.signal });
    await expect.poll(waitingSearches, { timeout: 20_000 }).toBe(1);
    interrupted.abort(new Error('enough'));
    await expect(search).rejects.toThrow('enough');
    await expect.poll(waitingSearches, { timeout: 20_000 }).toBe(0);
    await expect(world.search(keyword, { deadlineMs: 500 })).rejects.toMatchObject({
      code: 'SEARCH_TOO_SLOW',
    });
    await expect.poll(waitingSearches, { timeout: 20_000 }).toBe(0);
    await lock.end();
    expect((await world.search(keyword)).data).toEqual([{ id: 'a' }, { id: 'b' }]);
  }, 60_000);

  it('compares texts with signs that PostgreSQL cannot store, or that stand for them, as they were', async () => {
    await world.store([
      { id: 'nul', remark: 'b\0' },
      { id: 'mark', remark: 'b\uE000' },
    ]);
    const found = async (filter: object): Promise<unknown> =>
      (await world.search({ query: { filter }, fields: ['id'] })).data.map(({ id }) => id);
    expect(await found({ lt: { remark: 'b\x01' } })).toEqual(['nul']);
    expect(await found({ gt: { remark: 'b\x01' } })).toEqual(['mark']);
    expect(await found({ like: { remark: '__' } })).toEqual(['nul', 'mark']);
    expect(await found({ contains: { remark: '1' } })).toEqual([]);
    expect(await found({ eq: { remark: 'b\uE000' } })).toEqual(['mark']);
  });

  it('looks for parts of a word of which every near word has one', () => {
    const random = seededRandom(startSeed());
    const letter = (): string => 'abc'[Math.floor(random() * 3)] ?? 'a';
    const wordOf = (length: number): string => Array.from({ length }, letter).join('');
    for (let trial = 0; trial < 2_000; trial += 1) {
      const word = wordOf(1 + Math.floor(random() * 12));
      const other = withSlips(word, letter, random);
      if (!isNear(word, other)) continue;
      expect(
        keptParts(word).some((part) => other.includes(part)),
        `${word} ${other}`,
      ).toBe(true);
    }
  });

  it('reads by the trigram indexes whose SQL it prints', async () => {
    await indexWords(world);
    const scans = `SELECT sum(idx_scan)::integer AS n FROM pg_stat_user_indexes AS u
    JOIN pg_index AS i USING (indexrelid) WHERE u.relname = 'news__things' AND i.indexprs IS NOT NULL`;
    const search = async (): Promise<unknown> => {
      expect((await world.search(keyword)).data).toEqual([{ id: 'a' }, { id: 'b' }]);
      return (await world.run(scans))[0]?.['n'];
    };
    // The server counts when a connection ends.
    await expect.poll(search, { timeout: 20_000 }).toBeGreaterThan(0);
  }, 60_000);

  /** Two letters put in, left out, taken for others, or swapped with the next. */
  function withSlips(word: string, letter: () => string, random: () => number): string {
    const letters = Array.from(word);
    for (let slip = 0; slip < 2; slip += 1) {
      const at = Math.floor(random() * letters.length);
      const kind = Math.floor(random() * 4);
      const [one = '', next = ''] = letters.slice(at, at + 2);
      if (kind === 0) letters.splice(at, 0, letter());
      else if (kind === 1) letters.splice(at, 1);
      else if (kind === 2) letters.splice(at, 1, letter());
      else letters.splice(at, 2, next, one);
    }
    return letters.join('');
  }
});
