import { describe, expect, it } from 'vitest';
import type { JsonObject, JsonValue } from '../../../src/core/json.ts';
import type { EntityName } from '../../../src/core/names.ts';
import type { FieldType, PreparedRecord, Quarantined } from '../../../src/core/records.ts';
import { compilePrepare } from '../../../src/engine/prepare/prepare-record.ts';

const fields: Record<string, FieldType> = {
  list_id: 'string',
  id: 'string',
  count: 'integer',
  rate: 'number',
  vip: 'boolean',
  stats: 'object',
  tags: 'array',
  parent: 'any',
  cover: 'object',
};

const prepare = compilePrepare({
  table: {
    entity: 'list_members' as EntityName,
    columns: Object.entries(fields).map(([name, type]) => ({ name, type })),
    key: ['list_id', 'id'],
  },
  ignored: new Set(['_links']),
  volatile: [['stats'], ['cover', 'file', 'url'], ['*', 'signed', 'url']],
  explodedField: 'activity',
});

function stored(
  raw: JsonObject,
  inject: JsonObject = { list_id: 'l1' },
): PreparedRecord & Record<string, unknown> {
  const prepared = prepare(raw, inject);
  if (prepared.kind === 'refused') throw new Error(prepared.refused.detail);
  const byName = Object.fromEntries(
    Object.keys(fields).map((name, index) => [`$${name}`, prepared.record.values[index]]),
  );
  return { ...prepared.record, ...byName };
}

function refused(raw: JsonValue, inject: JsonObject = { list_id: 'l1' }): Quarantined {
  const prepared = prepare(raw, inject);
  if (prepared.kind === 'record') throw new Error('it was stored');
  return prepared.refused;
}

const parse = (text: string): JsonObject => JSON.parse(text) as JsonObject;

describe('prepareRecord', () => {
  // Proves specification 2.7.5
  it('puts every declared field into its column as the sink binds it', () => {
    const record = stored({
      id: 'a',
      count: 3,
      rate: 0.5,
      vip: true,
      stats: { b: 1, a: 2 },
      tags: [1, 'x'],
      parent: 'w',
      activity: [{}],
    });
    expect(record.values).toEqual(['l1', 'a', 3, 0.5, 1, '{"a":2,"b":1}', '[1,"x"]', '"w"', null]);
    expect(record.extra).toBeNull();
    expect(record.keyText).toBe('["l1","a"]');
  });

  // Proves promise 7
  it('keeps what has no column, what starts with an underscore and what does not fit, whole and in one place', () => {
    const record = stored({
      id: 'a',
      count: 1.5,
      rate: 'n/a',
      vip: 'yes',
      _own: 1,
      surprise: { deep: [null] },
      activity: 'none',
      _links: [],
    });
    expect(record.values.slice(2, 5)).toEqual([null, null, null]);
    expect(parse(record.extra ?? '')).toEqual({
      count: 1.5,
      rate: 'n/a',
      vip: 'yes',
      _own: 1,
      surprise: { deep: [null] },
      activity: 'none',
    });
  });

  it('gives a field the value that the service sends under another name, and the record the hash that it had without', () => {
    const table = {
      entity: 'reports' as EntityName,
      columns: [
        { name: 'id', type: 'string' },
        { name: 'likes', type: 'object' },
      ] as const,
      key: ['id'],
    };
    const shape = { table, ignored: new Set<string>(), volatile: [], explodedField: null };
    const filling = compilePrepare({ ...shape, filledFrom: new Map([['likes', 'thumbs']]) });
    const likesOf = (raw: JsonObject, prepareIt = filling): readonly unknown[] => {
      const prepared = prepareIt({ id: 'a', ...raw }, {});
      if (prepared.kind === 'refused') throw new Error(prepared.refused.detail);
      return [prepared.record.values[1], prepared.record.extra, prepared.record.hash];
    };
    const [, extra, hash] = likesOf({ thumbs: { up: 1, down: 2 } }, compilePrepare(shape));
    const filled = ['{"down":2,"up":1}', extra, hash];
    expect(likesOf({ thumbs: { up: 1, down: 2 } })).toEqual(filled);
    expect(likesOf({ thumbs: { up: 1, down: 2 }, likes: null })).toEqual(filled);
    expect(likesOf({ thumbs: { up: 1, down: 2 }, likes: { down: 2, up: 1 } })).toEqual(filled);
    for (const own of [{ likes: { up: 7 } }, { likes: { up: 7 }, thumbs: { up: 1 } }, { likes: null }, {}]) {
      expect(likesOf(own)).toEqual(likesOf(own, compilePrepare(shape)));
    }
    expect(likesOf({ thumbs: 'many' })).toEqual(likesOf({ thumbs: 'many' }, compilePrepare(shape)));
  });

  // Proves promise 7
  it('keeps integers above 2^53 to the last digit, in columns and inside nested values', () => {
    const record = stored({
      id: 'a',
      count: 9_007_199_254_740_993n,
      stats: { n: 9_007_199_254_740_993n },
      big: 2n ** 70n,
    });
    expect(record['$count']).toBe(9_007_199_254_740_993n);
    expect(record['$stats']).toBe('{"n":9007199254740993}');
    expect(record.extra).toBe(`{"big":${2n ** 70n}}`);
    expect(stored({ id: 'a', count: 2n ** 70n }).extra).toBe(`{"count":${2n ** 70n}}`);
  });

  it('keeps a text that UTF-8 cannot hold as JSON text', () => {
    const lone = JSON.parse('"\\ud800"') as string;
    const record = compilePrepare({
      table: {
        entity: 'e' as EntityName,
        columns: [
          { name: 'id', type: 'string' },
          { name: 'name', type: 'string' },
        ],
        key: ['id'],
      },
      ignored: new Set(),
      volatile: [],
      explodedField: null,
    })({ id: 'a', name: lone }, {});
    expect(record).toMatchObject({
      kind: 'record',
      record: { values: ['a', null], extra: String.raw`{"name":"\ud800"}` },
    });
    expect(refused({ id: lone }).reason).toBe('key-type');
  });

  it('treats a field called __proto__ as a field like any other', () => {
    const record = stored(parse('{"id":"a","__proto__":{"polluted":true},"constructor":1}'));
    expect(record.extra).toBe('{"__proto__":{"polluted":true},"constructor":1}');
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
  });

  it('lets the partition win over the record for an injected field and keeps the value of the record', () => {
    expect(stored({ id: 'a', list_id: 'l1' }).extra).toBeNull();
    const record = stored({ id: 'a', list_id: 'other' });
    expect(record.keyText).toBe('["l1","a"]');
    expect(record.extra).toBe('{"list_id":"other"}');
  });

  it('hashes the same whatever the order of keys, and differently for every stored difference', () => {
    const base = stored({ id: 'a', tags: [{ x: 1, y: 2 }], parent: { p: 1, q: 2 }, extra1: { m: 1, n: 2 } });
    expect(
      stored(parse('{"extra1":{"n":2,"m":1},"parent":{"q":2,"p":1},"tags":[{"y":2,"x":1}],"id":"a"}')).hash,
    ).toBe(base.hash);
    const others = [
      { tags: [{ x: 1, y: 3 }] },
      { parent: null },
      { extra1: 1 },
      { count: 0 },
      { vip: false },
      { rate: 0 },
    ];
    const hashes = others.map(
      (other) =>
        stored({ id: 'a', tags: [{ x: 1, y: 2 }], parent: { p: 1, q: 2 }, extra1: { m: 1, n: 2 }, ...other })
          .hash,
    );
    expect(new Set([base.hash, ...hashes]).size).toBe(others.length + 1);
  });

  it('hashes the same when the definition declares another field, or its fields in another order', () => {
    const hashWith = (names: readonly string[]) => {
      const columns = names.map((name) => ({ name, type: 'string' }) as const);
      const shape = {
        table: { entity: 'e' as EntityName, columns, key: ['id'] },
        ignored: new Set<string>(),
        volatile: [],
        explodedField: null,
      };
      const prepared = compilePrepare(shape)({ id: 'a', name: 'n' }, {});
      return prepared.kind === 'record' ? prepared.record.hash : prepared.refused.detail;
    };
    expect(hashWith(['name', 'id'])).toBe(hashWith(['id', 'name']));
    expect(hashWith(['id', 'name', 'added'])).toBe(hashWith(['id', 'name']));
    expect(hashWith(['id'])).not.toBe(hashWith(['id', 'name']));
  });

  it('leaves volatile paths out of the hash and notices them in a hash of their own', () => {
    const one = stored({
      id: 'a',
      stats: { n: 1 },
      cover: { type: 'file', file: { url: 'https://x/1', kind: 'k' } },
    });
    const two = stored({
      id: 'a',
      stats: { n: 2 },
      cover: { type: 'file', file: { url: 'https://x/2', kind: 'k' } },
    });
    const three = stored({
      id: 'a',
      stats: { n: 2 },
      cover: { type: 'file', file: { url: 'https://x/2', kind: 'other' } },
    });
    expect(two.hash).toBe(one.hash);
    expect(two.volatileHash).not.toBe(one.volatileHash);
    expect(three.hash).not.toBe(one.hash);
  });

  it('leaves volatile paths out of the hash in undeclared fields, too', () => {
    const one = stored({ id: 'a', audio: { signed: { url: 'https://x/1', kind: 'k' } } });
    const two = stored({ id: 'a', audio: { signed: { url: 'https://x/2', kind: 'k' } } });
    expect(two.hash).toBe(one.hash);
    expect(two.volatileHash).not.toBe(one.volatileHash);
    expect(two.extra).toContain('https://x/2');
  });

  it.each([
    ['not-an-object', null],
    ['not-an-object', [1]],
    ['not-an-object', 'text'],
    ['key-missing', {}],
    ['key-missing', { id: null }],
    ['key-missing', { id: '' }],
    ['key-type', { id: 7 }],
    ['key-type', { id: { a: 1 } }],
  ] as const)('refuses %s: %j, and keeps it whole', (reason, raw) => {
    const quarantined = refused(raw);
    expect(quarantined.reason).toBe(reason);
    expect(JSON.parse(quarantined.record)).toEqual(raw);
  });

  // Proves promise 7
  it('refuses a record nested deeper than any reader could follow, without falling over it', () => {
    const depth = 100_000;
    const deep = JSON.parse(`{"id":"a","parent":${'['.repeat(depth)}${']'.repeat(depth)}}`) as JsonObject;
    const quarantined = refused(deep);
    expect(quarantined.reason).toBe('too-deep');
    expect(quarantined.record).toContain('[[[[');
  });

  it('stores ten megabytes in one field and refuses forty, saying so', () => {
    expect(stored({ id: 'a', note: 'x'.repeat(10 * 1024 * 1024) }).extra?.length).toBeGreaterThan(10_000_000);
    const quarantined = refused({ id: 'a', note: 'x'.repeat(40 * 1024 * 1024) });
    expect(quarantined.reason).toBe('too-large');
    expect(quarantined.detail).toContain('are kept');
    expect(quarantined.record.length).toBe(1024 * 1024);
  });

  it('stores three thousand undeclared fields and fields that differ only in case', () => {
    const many = Object.fromEntries(Array.from({ length: 3000 }, (_, index) => [`field${index}`, index]));
    expect(Object.keys(parse(stored({ id: 'a', ...many, ID: 'b' }).extra ?? ''))).toHaveLength(3001);
  });
});
