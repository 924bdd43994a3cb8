import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import Database from 'better-sqlite3';
import { member, members, membersTable, news, record } from '../../contracts/sink/fixture.ts';
import { updateSearchIndex } from '../../../src/search/index/update-search-index.ts';
import type { SearchTarget } from '../../../src/search/search-target.ts';
import { IndexWorld, membersTarget, never } from '../../support/search/index-world.ts';

let world: IndexWorld;

beforeEach(async () => {
  world = await IndexWorld.open();
});

afterEach(async () => {
  await world.close();
});

describe('the search index', () => {
  it('reports that it does not exist before it was built', async () => {
    await world.store(member('1', 'Ada Lovelace'));
    expect(world.indexedSeq()).toBe(0);
    expect(world.withWord('name', 'ada')).toBeNull();
    expect(world.near('name', 'lovelace')).toBeNull();
  });

  it('finds words of texts in columns, inside of values, and of fields without a column', async () => {
    await world.store(
      record(
        membersTable,
        {
          list_id: 'a',
          id: '1',
          name: 'Ada Lovelace',
          address: '{"city":{"name":"Zürich West"},"zip":8005}',
          tags: '["vip",["Küche"],{"x":"deep"}]',
          anything: '"just text"',
        },
        { extra: '{"nick":"The Countess","other":"unseen"}' },
      ),
      member('2', 'Charles'),
    );
    expect(await world.update()).toBe(2);
    expect(world.withWord('name', 'lovelace')).toEqual(['1']);
    expect(world.withWord('name', 'lovelace', 'charles')).toEqual(['1', '2']);
    expect(world.withWord('address', 'zurich')).toEqual(['1']);
    expect(world.withWord('tags', 'kuche')).toEqual(['1']);
    expect(world.withWord('tags', 'deep')).toEqual(['1']);
    expect(world.withWord('anything', 'just')).toEqual(['1']);
    expect(world.withWord('nick', 'countess')).toEqual(['1']);
    // Of another field, a name of a member, a number, a field that is not searched.
    expect(world.withWord('address', 'lovelace')).toEqual([]);
    expect(world.withWord('address', 'city')).toEqual([]);
    expect(world.withWord('address', '8005')).toEqual([]);
    expect(world.withWord('nick', 'unseen')).toEqual([]);
  });

  it('cannot answer for fields without text, for unknown fields, and for words too long to be kept', async () => {
    await world.store(member('1', `x ${'y'.repeat(65)}`));
    await world.update();
    expect(world.withWord('visits', 'ada')).toBeNull();
    expect(world.withWord('__proto__', 'ada')).toBeNull();
    expect(world.withWord('name', 'x', 'y'.repeat(65))).toBeNull();
    expect(world.near('name', 'y'.repeat(65))).toBeNull();
    expect(world.withWord('name', 'x')).toEqual(['1']);
  });

  it('follows inserts, changes, tombstones and revivals', async () => {
    await world.store(member('1', 'Ada'), member('2', 'Ada'), member('3', 'Grace'));
    await world.update();
    await world.store(member('2', 'Barbara'), member('4', 'Ada'));
    await world.sink.repair.tombstoneRecord(world.started.lease, world.started.run, members, '["a","1"]');
    expect(await world.update()).toBe(3);
    expect(world.withWord('name', 'ada')).toEqual(['4']);
    expect(world.withWord('name', 'barbara')).toEqual(['2']);
    expect(entriesOf('ada')).toHaveLength(1);
    await world.store(member('1', 'Ada'));
    expect(await world.update()).toBe(1);
    expect(world.withWord('name', 'ada')).toEqual(['1', '4']);
    expect(await world.update()).toBe(0);
  });

  it('knows nothing yet of what came after it, and says up to where it knows', async () => {
    await world.store(member('1', 'Ada'), member('2', 'Ada'));
    await world.update();
    await world.store(member('2', 'Grace'), member('3', 'Ada'));
    expect(world.indexedSeq()).toBe(2);
    expect(world.withWord('name', 'ada')).toEqual(['1', '2']);
  });

  it('takes more rows than fit one transaction, and rows larger than all of it', async () => {
    const long = 'lorem '.repeat(150_000);
    await world.storeMany(4_500, (index) => `name${index} common`);
    await world.store(
      ...['x', 'y', 'z'].map((id) => member(id, `${long}${id}`, { extra: '{"nick":"n"}' })),
      record(membersTable, {
        list_id: 'a',
        id: 'big',
        name: 'big',
        tags: JSON.stringify([`${long}${long}${long}`]),
      }),
    );
    const progress: number[] = [];
    const options = { signal: never, onProgress: (rows: number) => void progress.push(rows) };
    const { rows } = await updateSearchIndex(world.file, membersTarget, options);
    expect(rows).toBe(4_504);
    expect(progress[0]).toBe(4_000);
    expect(progress.at(-1)).toBe(4_504);
    expect(world.withWord('name', 'common')).toHaveLength(4_500);
    expect(world.withWord('name', 'name4499')).toEqual(['4499']);
    expect(world.withWord('name', 'lorem')).toEqual(['x', 'y', 'z']);
    expect(world.withWord('tags', 'lorem')).toEqual(['big']);
  });

  it('is rebuilt for other fields, and not used for fields that it lacks', async () => {
    await world.store(member('1', 'Ada', { extra: '{"alias":"enchantress"}' }));
    await world.update();
    const wider: SearchTarget = {
      ...membersTarget,
      fields: new Map([
        [
          'alias',
          { name: 'alias', type: 'string', sources: [{ kind: 'extra', name: 'alias' }], shape: 'asIs' },
        ],
        ...membersTarget.fields,
      ]),
    };
    expect(world.indexedSeq(wider)).toBe(0);
    expect(await world.update(wider)).toBe(1);
    expect(world.indexedSeq(wider)).toBe(1);
    expect(world.indexedSeq()).toBe(0);
  });

  it('is one or the other in the end where two updates for different fields run at once', async () => {
    await world.storeMany(4_100, () => 'Ada');
    const fewer = new Map([...membersTarget.fields].filter(([name]) => name !== 'tags'));
    const targets = [membersTarget, { ...membersTarget, fields: fewer }];
    const stop = new AbortController();
    let transactions = 0;
    const onProgress = (): void => {
      transactions += 1;
      if (transactions > 10) stop.abort(new Error('they take turns for ever'));
    };
    const { signal } = stop;
    await Promise.all(targets.map((target) => updateSearchIndex(world.file, target, { signal, onProgress })));
    const seqs = targets.map((target) => world.indexedSeq(target));
    expect(seqs.toSorted((left, right) => left - right)).toEqual([0, 4_100]);
  });

  it('starts from the beginning when the table was dropped and filled again', async () => {
    await world.store(member('1', 'Ada'), member('2', 'Grace'));
    await world.update();
    const { lease } = world.started;
    await lease[Symbol.asyncDispose]();
    await world.sink.repair.reset(news, { entity: null, tables: [membersTable], withData: true, now: '' });
    expect(await world.update()).toBe(0);
    const again = await IndexWorld.again(world);
    await again.store(member('9', 'Grace'));
    expect(await world.update()).toBe(1);
    expect(world.withWord('name', 'grace')).toEqual(['9']);
    expect(entriesOf('ada')).toEqual([]);
    expect(entriesOf('grace')).toHaveLength(1);
  });

  it('has indexes for texts and numbers, drops those that are not asked for, and leaves the others alone', async () => {
    await world.store(member('1'));
    const before = indexNames();
    await world.update();
    const made = indexNames().filter((name) => !before.includes(name));
    expect(made).toEqual(
      ['id', 'list_id', 'name', 'score', 'visits'].map((column) => `_search_news__members__by_${column}`),
    );
    const fewer = new Map([...membersTarget.fields].filter(([name]) => name === 'id' || name === 'tags'));
    await world.update({ ...membersTarget, fields: fewer });
    expect(indexNames().filter((name) => !before.includes(name))).toEqual(['_search_news__members__by_id']);
  });

  it('leaves nothing of itself where there is no table yet', async () => {
    const before = schemaNames();
    expect(await world.update({ ...membersTarget, table: 'news__strangers' })).toBe(0);
    expect(schemaNames()).toEqual(before);
  });

  it('makes no sink where there is none', async () => {
    const nowhere = `${world.file}.not`;
    await expect(updateSearchIndex(nowhere, membersTarget, { signal: never })).rejects.toMatchObject({
      code: 'SINK_FAILED',
    });
    expect(() => new Database(nowhere, { fileMustExist: true })).toThrow('unable to open');
  });

  it('ends when its signal is aborted, and resumes there', async () => {
    await world.storeMany(4_100, () => 'Ada');
    const stop = new AbortController();
    const stopped = updateSearchIndex(world.file, membersTarget, {
      signal: stop.signal,
      onProgress: () => stop.abort(new Error('enough')),
    });
    await expect(stopped).rejects.toThrow('enough');
    expect(world.indexedSeq()).toBe(4_000);
    expect(await world.update()).toBe(100);
    expect(world.withWord('name', 'ada')).toHaveLength(4_100);
  });
});

describe('a sink with a search index', () => {
  it('opens, writes, drops and takes new columns as before', async () => {
    await world.store(member('1', 'Ada', { extra: '{"nick":"Countess"}' }));
    await world.update();
    await world.started.lease[Symbol.asyncDispose]();
    const wider = {
      ...membersTable,
      columns: [...membersTable.columns, { name: 'nick', type: 'string' as const }],
    };
    const again = await IndexWorld.again(world, { tables: [wider] });
    await again.store(record(wider, { list_id: 'a', id: '2', name: 'Grace', nick: 'Amazing' }));
    const nick = { name: 'nick', type: 'string', shape: 'asIs' } as const;
    const target: SearchTarget = {
      ...membersTarget,
      fields: new Map([
        ...membersTarget.fields,
        ['nick', { ...nick, sources: [{ kind: 'column', column: 'nick', type: 'string' }] }],
      ]),
    };
    expect(await world.update(target)).toBe(2);
    expect(world.read((db) => db.pragma('integrity_check', { simple: true }))).toBe('ok');
    expect(indexNames()).toContain('_search_news__members__by_nick');
    expect(schemaNames().filter((name) => name.startsWith('_sync_'))).not.toEqual([]);
  });
});

/** Rows that the words table has for a word of the name, tombstoned ones too. */
function entriesOf(word: string): readonly unknown[] {
  const position = [...membersTarget.fields.values()]
    .filter(({ type }) => !['integer', 'number', 'boolean'].includes(type))
    .findIndex(({ name }) => name === 'name');
  return world.read((db) =>
    db
      .prepare('SELECT rowid FROM _search_news__members__words WHERE _search_news__members__words MATCH ?')
      .all(`"0${position}${word}"`),
  );
}

function indexNames(): readonly string[] {
  return world.read((db) =>
    db
      .prepare<[], string>(
        "SELECT name FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'news__members' ORDER BY name",
      )
      .pluck()
      .all(),
  );
}

function schemaNames(): readonly string[] {
  return world.read((db) =>
    db.prepare<[], string>('SELECT name FROM sqlite_schema ORDER BY name').pluck().all(),
  );
}
