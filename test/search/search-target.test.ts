import { describe, expect, it } from 'vitest';
import type { ConnectorName } from '../../src/core/names.ts';
import { searchTarget } from '../../src/search/search-target.ts';
import { entityName } from '../support/source/test-definition.ts';
import { openSearchWorld } from '../support/search/search-world.ts';
import { thingsEntity } from '../support/search/things.ts';

const clicks = entityName('clicks');

/** Things whose clicks are rows of their own, known by a key of which parts may be absent. */
const exploding = thingsEntity({
  searchable: new Map(
    (['id', 'title', 'is_open', 'url', 'at', 'other'] as const).map((name) => [
      name,
      { type: name === 'is_open' ? 'boolean' : 'string', from: [name], shape: 'asIs' },
    ]),
  ),
  explode: {
    field: 'clicks',
    into: clicks,
    carry: ['id'],
    fields: new Map([
      ['url', 'string'],
      ['at', 'string'],
    ]),
    key: ['id', 'url', 'at'],
  },
  explodedTable: {
    entity: clicks,
    columns: [
      { name: 'id', type: 'string' },
      { name: 'url', type: 'string' },
      { name: 'at', type: 'string' },
    ],
    key: ['id', 'url', 'at'],
  },
});

describe('what a search reads', () => {
  it('is an entity by its elements where it explodes, each with what only their record knows', async () => {
    await using world = openSearchWorld(exploding);
    const things = entityName('things');
    world.store({ id: 'a', title: 'First', is_open: true }, things);
    world.store({ id: 'a', url: '/x', at: '1' });
    world.store({ id: 'a', url: '', at: '2' });
    world.store({ id: 'lost', url: '/y', at: '', other: 'kept beside' });
    expect((await world.search({ query: {} })).data).toEqual([
      { id: 'a', title: 'First', is_open: true, url: '/x', at: '1', other: null },
      { id: 'a', title: 'First', is_open: true, url: null, at: '2', other: null },
      { id: 'lost', title: null, is_open: null, url: '/y', at: null, other: 'kept beside' },
    ]);
    const found = async (filter: unknown): Promise<unknown> => await world.ids({ query: { filter } });
    expect(await found({ eq: { title: 'First' } })).toEqual(['a', 'a']);
    expect(await found({ keyword: { title: 'first' }, eq: { url: null } })).toEqual(['a']);
    expect(await found({ eq: { is_open: null } })).toEqual(['lost']);
    world.store({ id: 'a', title: 'Second' }, things);
    expect(await found({ like: { title: 'S%' } })).toEqual(['a', 'a']);
  });

  it('takes an empty part of an element’s key for none, in every condition and in the order', async () => {
    await using world = openSearchWorld(exploding);
    for (const [id, url] of Object.entries({ a: '/x', b: '', c: '/y' })) world.store({ id, url, at: '1' });
    const found = async (filter: unknown, sort: unknown = []): Promise<unknown> =>
      await world.ids({ query: { filter, sort }, limit: 1 });
    expect(await found({ eq: { url: null } })).toEqual(['b']);
    expect(await found({ eq: { url: '' } })).toEqual([]);
    expect(await found({ neq: { url: '' } })).toEqual(['a', 'b', 'c']);
    expect(await found({ neq: { url: null } })).toEqual(['a', 'c']);
    expect(await found({ in: { url: ['', '/x'] } })).toEqual(['a']);
    expect(await found({ in: { url: [null, '/x'] } })).toEqual(['a', 'b']);
    expect(await found({ lt: { url: '/y' } })).toEqual(['a']);
    expect(await found({ gte: { url: '' } })).toEqual(['a', 'c']);
    expect(await found({ like: { url: '%' } })).toEqual(['a', 'c']);
    expect(await found({ contains: { url: '' } })).toEqual(['a', 'c']);
    expect(await found({ not: { lt: { url: '/y' } } })).toEqual(['b', 'c']);
    expect(await found(null, [{ url: 'asc' }])).toEqual(['b', 'a', 'c']);
    expect(await found(null, [{ url: 'desc' }])).toEqual(['c', 'a', 'b']);
  });

  it('has no parent where the elements do not carry its whole key', async () => {
    const target = searchTarget({ ...exploding, key: ['id', 'title'] }, 'shop' as ConnectorName, (entity) =>
      entity === clicks ? exploding.explodedTable : exploding.table,
    );
    expect(target).toMatchObject({ table: 'shop__clicks', parent: null });
    expect(target.fields.get('title')?.sources).toEqual([{ kind: 'extra', name: 'title' }]);
  });

  it('finds in what has no column yet what a column would hold', async () => {
    await using world = openSearchWorld(thingsEntity(), ['title', 'amount', 'is_open', 'tags']);
    world.store({ id: 'a', title: 'Some title', amount: 5, is_open: false, tags: ['x'] });
    const filter = {
      like: { title: 'Some%' },
      gt: { amount: 4.5 },
      eq: { is_open: false },
      contains: { tags: 'x' },
    };
    expect(
      (await world.search({ query: { filter }, fields: ['title', 'amount', 'is_open', 'tags'] })).data,
    ).toEqual([{ title: 'Some title', amount: 5, is_open: false, tags: ['x'] }]);
  });

  it('finds nothing where no table is there yet', async () => {
    await using world = openSearchWorld(thingsEntity());
    world.db.exec('DROP TABLE shop__things');
    expect(await world.search({ query: {} })).toEqual({
      data: [],
      meta: { has_more: false, cursor: null, took_ms: 0 },
    });
  });

  it('is every column where nothing is declared as searchable', async () => {
    await using world = openSearchWorld(thingsEntity({ searchable: new Map() }));
    world.store({ id: 'a', kind: 'b' });
    expect([...world.target.fields.keys()]).toEqual(thingsEntity().table.columns.map(({ name }) => name));
    expect(await world.ids({ query: { filter: { eq: { kind: 'b' } } } })).toEqual(['a']);
  });
});
