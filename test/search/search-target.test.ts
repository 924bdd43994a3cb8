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
  it('is an entity by its elements where it explodes, each with what only their record knows', () => {
    using world = openSearchWorld(exploding);
    const things = entityName('things');
    world.store({ id: 'a', title: 'First', is_open: true }, things);
    world.store({ id: 'a', url: '/x', at: '1' });
    world.store({ id: 'a', url: '', at: '2' });
    world.store({ id: 'lost', url: '/y', at: '', other: 'kept beside' });
    expect(world.search({ query: {} }).data).toEqual([
      { id: 'a', title: 'First', is_open: true, url: '/x', at: '1', other: null },
      { id: 'a', title: 'First', is_open: true, url: null, at: '2', other: null },
      { id: 'lost', title: null, is_open: null, url: '/y', at: null, other: 'kept beside' },
    ]);
    const found = (filter: unknown): unknown => world.ids({ query: { filter } });
    expect(found({ eq: { title: 'First' } })).toEqual(['a', 'a']);
    expect(found({ keyword: { title: 'first' }, eq: { url: null } })).toEqual(['a']);
    expect(found({ eq: { is_open: null } })).toEqual(['lost']);
    world.store({ id: 'a', title: 'Second' }, things);
    expect(found({ like: { title: 'S%' } })).toEqual(['a', 'a']);
  });

  it('takes an empty part of an element’s key for none, in every condition and in the order', () => {
    using world = openSearchWorld(exploding);
    for (const [id, url] of Object.entries({ a: '/x', b: '', c: '/y' })) world.store({ id, url, at: '1' });
    const found = (filter: unknown, sort: unknown = []): unknown =>
      world.ids({ query: { filter, sort }, limit: 1 });
    expect(found({ eq: { url: null } })).toEqual(['b']);
    expect(found({ eq: { url: '' } })).toEqual([]);
    expect(found({ neq: { url: '' } })).toEqual(['a', 'b', 'c']);
    expect(found({ neq: { url: null } })).toEqual(['a', 'c']);
    expect(found({ in: { url: ['', '/x'] } })).toEqual(['a']);
    expect(found({ in: { url: [null, '/x'] } })).toEqual(['a', 'b']);
    expect(found({ lt: { url: '/y' } })).toEqual(['a']);
    expect(found({ gte: { url: '' } })).toEqual(['a', 'c']);
    expect(found({ like: { url: '%' } })).toEqual(['a', 'c']);
    expect(found({ contains: { url: '' } })).toEqual(['a', 'c']);
    expect(found({ not: { lt: { url: '/y' } } })).toEqual(['b', 'c']);
    expect(found(null, [{ url: 'asc' }])).toEqual(['b', 'a', 'c']);
    expect(found(null, [{ url: 'desc' }])).toEqual(['c', 'a', 'b']);
  });

  it('has no parent where the elements do not carry its whole key', () => {
    const target = searchTarget({ ...exploding, key: ['id', 'title'] }, 'shop' as ConnectorName, (entity) =>
      entity === clicks ? exploding.explodedTable : exploding.table,
    );
    expect(target).toMatchObject({ table: 'shop__clicks', parent: null });
    expect(target.fields.get('title')?.sources).toEqual([{ kind: 'extra', name: 'title' }]);
  });

  it('finds in what has no column yet what a column would hold', () => {
    using world = openSearchWorld(thingsEntity(), ['title', 'amount', 'is_open', 'tags']);
    world.store({ id: 'a', title: 'Some title', amount: 5, is_open: false, tags: ['x'] });
    const filter = {
      like: { title: 'Some%' },
      gt: { amount: 4.5 },
      eq: { is_open: false },
      contains: { tags: 'x' },
    };
    expect(world.search({ query: { filter }, fields: ['title', 'amount', 'is_open', 'tags'] }).data).toEqual([
      { title: 'Some title', amount: 5, is_open: false, tags: ['x'] },
    ]);
  });

  it('finds nothing where no table is there yet', () => {
    using world = openSearchWorld(thingsEntity());
    world.db.exec('DROP TABLE shop__things');
    expect(world.search({ query: {} })).toEqual({
      data: [],
      meta: { has_more: false, cursor: null, took_ms: 0 },
    });
  });

  it('is every column where nothing is declared as searchable', () => {
    using world = openSearchWorld(thingsEntity({ searchable: new Map() }));
    world.store({ id: 'a', kind: 'b' });
    expect([...world.target.fields.keys()]).toEqual(thingsEntity().table.columns.map(({ name }) => name));
    expect(world.ids({ query: { filter: { eq: { kind: 'b' } } } })).toEqual(['a']);
  });
});
