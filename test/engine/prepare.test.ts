import { hash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { SyncError } from '../../src/core/errors.ts';
import { canonicalJson } from '../../src/core/canonical-json.ts';
import { readFields, writeJson, isJsonObject, type JsonObject, type JsonValue } from '../../src/core/json.ts';
import type { EntityName } from '../../src/core/names.ts';
import type {
  FieldType,
  PreparedRecord,
  Quarantined,
  Column,
  ContentDifference,
  RecordMask,
} from '../../src/core/records.ts';
import { timeMs } from '../../src/core/clock.ts';
import type { Entity } from '../../src/definitions/definition.ts';
import { builtInDefinitionsFolder, loadDefinitions } from '../../src/definitions/load-definitions.ts';
import type { OnSchemaChange } from '../../src/engine/chosen-entities.ts';
import { compileChangeSpan, countUndated } from '../../src/engine/prepare/change-span.ts';
import { entityMaskings } from '../../src/engine/prepare/mask-row.ts';
import {
  compilePrepare,
  type RecordShape,
  recordShape,
  readingVersion,
  type Prepared,
} from '../../src/engine/prepare/prepare-record.ts';
import { withEvolved, schemaPolicyOf } from '../../src/engine/prepare/schema-policy.ts';
import { scanPage } from '../../src/http/scan-json.ts';
import type { KnownDrift } from '../../src/sinks/readings.ts';
import { readRecords, unreadRecords } from '../../src/source/source.ts';
import { recorded } from '../support/recorded-records.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { isLong } from '../support/trials.ts';

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

/** Of records of members, whose columns have these types. */
function shaped(types: Record<string, FieldType>, key: readonly string[] = ['id']) {
  const columns = Object.entries(types).map(([name, type]): Column => ({ name, type }));
  return {
    table: { entity: 'members' as EntityName, columns, key },
    ignored: new Set<string>(),
    volatile: [],
    explodedField: null,
  };
}

const prepare = compilePrepare({
  ...shaped(fields, ['list_id', 'id']),
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

/** How a record differs from the row of one that was prepared for the same columns. */
function compared(record: PreparedRecord, { values, extra }: PreparedRecord): ContentDifference {
  const columns = Object.entries(fields).map(([name, type]) => ({ name, type }));
  return record.compare(record, { columns, values, extra });
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

  it('gives a field the value that the service sends under another name', () => {
    const shape = shaped({ id: 'string', likes: 'object' });
    const filling = compilePrepare({ ...shape, filledFrom: new Map([['likes', 'thumbs']]) });
    const likesOf = (raw: JsonObject, prepareIt = filling): readonly unknown[] => {
      const prepared = prepareIt({ id: 'a', ...raw }, {});
      if (prepared.kind === 'refused') throw new Error(prepared.refused.detail);
      return [prepared.record.values[1], prepared.record.extra];
    };
    const filled = ['{"down":2,"up":1}', '{"thumbs":{"down":2,"up":1}}'];
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
    const record = compilePrepare(shaped({ id: 'string', name: 'string' }))({ id: 'a', name: lone }, {});
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

  it('compares the same whatever the order of keys, and differently for every stored difference', () => {
    const raw = { id: 'a', tags: [{ x: 1, y: 2 }], parent: { p: 1, q: 2 }, extra1: { m: 1, n: 2 } };
    const base = stored(raw);
    const mixed = '{"extra1":{"n":2,"m":1},"parent":{"q":2,"p":1},"tags":[{"y":2,"x":1}],"id":"a"}';
    expect(compared(stored(parse(mixed)), base)).toBe('same');
    const others = [
      { tags: [{ x: 1, y: 3 }] },
      { parent: null },
      { extra1: 1 },
      { count: 0 },
      { vip: false },
      { rate: 0 },
    ].map((other) => stored({ ...raw, ...other }));
    for (const one of others) expect(compared(one, base)).toBe('content');
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

  it('stores three thousand undeclared fields and fields that differ only in case', () => {
    const many = Object.fromEntries(Array.from({ length: 3000 }, (_, index) => [`field${index}`, index]));
    expect(Object.keys(parse(stored({ id: 'a', ...many, ID: 'b' }).extra ?? ''))).toHaveLength(3001);
  });
});

describe('a time', () => {
  it.each<[JsonValue, string | null]>([
    ['2026-05-01T10:00:00+00:00', '2026-05-01T10:00:00.000Z'],
    ['2026-05-01T12:00:00+0200', '2026-05-01T10:00:00.000Z'],
    ['2026-05-01T10:00:00.123456Z', '2026-05-01T10:00:00.123Z'],
    ['2026-05-01 10:00:00', '2026-05-01T10:00:00.000Z'],
    ['2026-05-01T10:00', '2026-05-01T10:00:00.000Z'],
    ['2026-05-01', '2026-05-01T00:00:00.000Z'],
    ['2026-05-01 10:00:00+00', '2026-05-01T10:00:00.000Z'],
    ['2026-05-01 10:00:00 UTC', '2026-05-01T10:00:00.000Z'],
    ['2026-05-01 12:30:00 +0230', '2026-05-01T10:00:00.000Z'],
    ['2026-04-31', null],
    ['2026-13-01T10:00:00Z', null],
    ['yesterday', null],
    ['', null],
    [null, null],
    [1_777_629_600, null],
    [{ at: '2026-05-01' }, null],
  ])('%j is read as %j, in UTC where it names no zone', (value, expected) => {
    const ms = timeMs(value);
    expect(ms === null ? null : new Date(ms).toISOString()).toBe(expected);
  });
});

describe('the change values of a record', () => {
  const spanOf = compileChangeSpan({ field: 'activity.at' });
  const at = (day: number): string => `2026-05-0${day}T00:00:00Z`;
  const day = (number: number): number => Date.UTC(2026, 4, number);

  it('lie between the oldest and the newest element of an array', () => {
    expect(spanOf({ activity: [{ at: at(2) }, { at: at(1) }, { at: 'never' }, { at: at(3) }] })).toEqual({
      lowestMs: day(1),
      highestMs: day(3),
    });
  });

  it.each<[string, JsonValue]>([
    ['an empty array', { activity: [] }],
    ['no such field', {}],
    ['another shape', { activity: 'x' }],
    ['elements that are no objects', { activity: [1, null, [{ at: '2026-05-01' }]] }],
    ['no object', 'x'],
  ])('are unknown where there is %s', (_, record) => {
    expect(spanOf(record)).toBeNull();
  });

  it.each<['unix' | 'unixMs', JsonValue, string | null]>([
    ['unix', 1_777_629_600, '2026-05-01T10:00:00.000Z'],
    ['unix', 1_777_629_600.25, '2026-05-01T10:00:00.250Z'],
    ['unix', '1777629600.000200', '2026-05-01T10:00:00.000Z'],
    ['unixMs', 1_777_629_600_123, '2026-05-01T10:00:00.123Z'],
    ['unix', 1_777_629_600_123, null],
    ['unix', -1, null],
    ['unix', '2026-05-01', null],
    ['unix', 9_007_199_254_740_993n, null],
    ['unix', null, null],
  ])('are times as %s: %s is %s', (format, value, expected) => {
    const span = compileChangeSpan({ field: 'at', format })({ at: value });
    expect(span === null ? null : new Date(span.highestMs).toISOString()).toBe(expected);
  });

  it('are found in an array of any length', () => {
    const one = { at: at(1) };
    const activity = Array.from({ length: 150_000 }, () => one);
    expect(spanOf({ activity })).toEqual({ lowestMs: day(1), highestMs: day(1) });
  });

  it.each<[string, JsonValue, number]>([
    ['an empty array', { activity: [] }, 0],
    ['elements without one', { activity: [{ other: 1 }, { at: null }] }, 0],
    ['another time', { activity: [{ at: 'never' }] }, 1],
    ['no object on the way', { activity: 7 }, 1],
  ])('are counted as no time where there is one: %s', (_what, raw, count) => {
    expect(countUndated({ field: 'activity.at' }, [raw], [spanOf(raw)])).toBe(count);
  });
});

const shape: RecordShape = {
  ...shaped({ id: 'string', name: 'string', stats: 'object' }),
  ignored: new Set(['_links']),
  volatile: [['stats'], ['more', 'url'], ['*', 'signed']],
};
const evolvable = [
  { name: 'city', type: 'string' },
  { name: 'age', type: 'integer' },
  { name: 'rate', type: 'number' },
  { name: 'open', type: 'boolean' },
  { name: 'more', type: 'object' },
  { name: 'tags', type: 'array' },
] as const;

function prepared(columns: readonly Column[], raw: JsonObject) {
  const table = withEvolved(shape.table, { evolved: columns });
  const result = compilePrepare({ ...shape, table })(raw, {});
  if (result.kind === 'refused') throw new Error(result.refused.detail);
  return { ...result.record, columns: table.columns };
}

describe('a column that was added for an undeclared field', () => {
  it.each([1, 2, 3, 4, 5])('is no difference, whichever side has it (seed %i)', (seed) => {
    const random = seededRandom(seed);
    for (let trial = 0; trial < (isLong ? 400 : 60); trial += 1) {
      const raw = randomRecord(random);
      const evolved = evolvable.filter(() => random() < 0.5);
      const before = prepared([], raw);
      const after = prepared(evolved, raw);
      const what = `seed ${seed}, trial ${trial}: ${JSON.stringify(raw, (_, value: unknown) => (typeof value === 'bigint' ? String(value) : value))}`;
      expect([after.compare(after, before), before.compare(before, after)], what).toEqual(['same', 'same']);
      expect(after.keyText, what).toBe(before.keyText);
      expect(after.values.length).toBe(3 + evolved.length);
    }
  });

  it('holds what fits it; what does not stays beside it, whole', () => {
    const columns = [
      { name: 'city', type: 'string' },
      { name: 'age', type: 'integer' },
    ] as const;
    const record = prepared(columns, { id: 'a', city: 'Kyiv', age: 'old', left: 1 });
    expect(record.values).toEqual(['a', null, null, 'Kyiv', null]);
    expect(record.extra).toBe('{"age":"old","left":1}');
    expect(prepared(columns, { id: 'a', city: 'Kyiv' }).extra).toBeNull();
  });

  it('gives way to a column that the definition declares by now', () => {
    const table = withEvolved(shape.table, { evolved: [{ name: 'name', type: 'integer' }] });
    expect(table).toEqual(shape.table);
  });
});

function randomRecord(random: () => number): JsonObject {
  const raw: Record<string, JsonValue> = { id: `id ${Math.floor(random() * 1000)}` };
  const names = [...evolvable.map(({ name }) => name), 'name', 'stats', 'left', 'City', '_own', '_links'];
  for (const name of names.toSorted(() => random() - 0.5)) {
    if (random() < 0.6) raw[name] = randomValue(random);
  }
  return raw;
}

function randomValue(random: () => number, depth = 0): JsonValue {
  const scalars: readonly JsonValue[] = [
    null,
    true,
    false,
    0,
    -0,
    7,
    1.5,
    1e21,
    9_007_199_254_740_993n,
    2n ** 70n,
    '',
    'Kyiv',
    '\ud800',
    String.raw`C:\udata`,
    'a\u0000b',
  ];
  const pick = random();
  if (depth < 2 && pick < 0.15) return [randomValue(random, depth + 1), randomValue(random, depth + 1)];
  if (depth < 2 && pick < 0.4) {
    return {
      url: randomValue(random, depth + 1),
      signed: randomValue(random, 2),
      kept: randomValue(random, 2),
    };
  }
  return scalars[Math.floor(random() * scalars.length)] ?? null;
}

it.each([
  ['{"b":1,"__proto__":{"z":1,"a":2}}', '{"__proto__":{"a":2,"z":1},"b":1}'],
  [
    '{"b":[9007199254740993,-0.0],"__proto__":{"z":1,"a":2}}',
    '{"__proto__":{"a":2,"z":1},"b":[9007199254740993,-0.0]}',
  ],
])('canonical JSON of %s is %s', (text, expected) => {
  expect(canonicalJson(readFields(text))).toBe(expected);
});

it('a stored row under a mask keeps integers of other fields to the last digit', () => {
  const [entity] = [...loadDefinitions([builtInDefinitionsFolder]).values()].flatMap(({ entities }) => [
    ...entities.values(),
  ]);
  if (entity === undefined) throw new Error('There are built-in definitions');
  const stored = (value: JsonValue) => (isJsonObject(value) ? { ...value, name: null } : value);
  const [masking] = entityMaskings(entity, { stored } as RecordMask);
  const columns: readonly Column[] = [{ name: 'id', type: 'string' }];
  const masked = masking?.cells(columns, { values: ['a'], extra: `{"big":${2n ** 60n},"name":"Ada"}` });
  expect(masked).toMatchObject({ values: ['a'], extra: `{"big":${2n ** 60n},"name":null}` });
});

describe('fields declared later', () => {
  const definitions = loadDefinitions([builtInDefinitionsFolder]);
  const entities = [...definitions.values()].flatMap((definition) => [...definition.entities.values()]);
  const withLater = entities.filter(({ table }) => table.columns.some(({ isEvolved }) => isEvolved === true));

  function prepared(entity: Entity, record: JsonObject): PreparedRecord {
    const key = Object.fromEntries(
      entity.key.map((name) => [name, entity.fields.get(name) === 'integer' ? 7 : 'key']),
    );
    const made = compilePrepare(recordShape(entity, undefined))({ ...key, ...record }, {});
    if (made.kind === 'refused') throw new Error(made.refused.detail);
    return made.record;
  }

  /** As an earlier version of the definition declared it: these fields went to `_extra`. */
  function earlier(entity: Entity): Entity {
    const columns = entity.table.columns.filter(({ isEvolved }) => isEvolved !== true);
    return { ...entity, table: { ...entity.table, columns } };
  }

  describe('a field that a definition declares later', () => {
    it.each(withLater)('gets a column and is no difference, of $name', (entity) => {
      for (const { name, type, isEvolved } of entity.table.columns) {
        if (isEvolved !== true) continue;
        const values = { string: 'a', object: { id: 1 }, array: [{ id: 1 }] };
        for (const value of [values[type as keyof typeof values], null]) {
          const [before, now] = [
            prepared(earlier(entity), { [name]: value }),
            prepared(entity, { [name]: value }),
          ];
          const { columns } = earlier(entity).table;
          expect(now.compare(now, { ...before, columns })).toBe('same');
          expect([before.extra === null, now.extra]).toEqual([false, null]);
        }
        const other = { ...values, string: 'b', object: { id: 2 }, array: [] }[type as keyof typeof values];
        const [one, two] = [values[type as keyof typeof values], other].map((value) =>
          prepared(entity, { [name]: value ?? null }),
        );
        if (one === undefined || two === undefined) throw new Error('There are two');
        expect(two.compare(two, { ...one, columns: entity.table.columns })).toBe('content');
      }
    });
  });
});

function scanned(text: string) {
  const page = scanPage(Buffer.from(text), [['result']], 500);
  if (page === null) throw new Error(`expected a page, got ${text.slice(0, 200)}`);
  return page;
}

describe('the members by which a record is recognized', () => {
  it('are those that it has as a whole', () => {
    const text = '{"result":[{"a":1,"\\u0062":{"c":[2,3]},"a":"x\\"y","d":null},[1],"s",{}]}';
    const unread = unreadRecords(scanned(text));
    const read = readRecords([...unread]);
    const names = new Set(['a', 'b', 'z']);
    expect([0, 1, 2, 3].map((index) => unread.glance(index, names))).toEqual([
      { a: 'x"y', b: { c: [2, 3] } },
      [1],
      's',
      {},
    ]);
    expect([...unread]).toEqual([...read]);
  });
});

describe('what is stored of a record', () => {
  it('is the same in every program of this reading version: raise it where this digest changes', () => {
    const stored = recorded.map(({ record }) => {
      const made = compilePrepare(shapeOf(record))(record, {});
      return made.kind === 'refused' ? made : [made.record.keyText, made.record.values, made.record.extra];
    });
    expect({
      readingVersion,
      digest: hash('sha256', writeJson(stored), 'hex').slice(0, 16),
    }).toMatchInlineSnapshot(`
      {
        "digest": "947afcbd504399b7",
        "readingVersion": 2,
      }
    `);
  });
});

/** Without a definition, which may change by itself. */
function shapeOf(record: JsonObject): RecordShape {
  const columns = Object.entries(record).map(([name, value]) => ({ name, type: typeOf(value) }));
  const isKey = ({ name }: { readonly name: string }): boolean => name === 'id' || name.endsWith('_id');
  const key = columns.filter(isKey).map(({ name }) => name);
  const table = { entity: 'some' as EntityName, columns: columns.slice(0, -1), key };
  return { table, ignored: new Set(), volatile: [[columns[2]?.name ?? '', '*']], explodedField: null };
}

function typeOf(value: JsonValue): FieldType {
  const type = typeof value;
  if (Array.isArray(value)) return 'array';
  if (type === 'string' || type === 'number' || type === 'boolean') return type;
  return value === null ? 'any' : 'object';
}

const established: KnownDrift = {
  evolved: [{ name: 'city', type: 'string' }],
  fields: new Set(['nick']),
  misfits: new Map([['age', new Set(['string'] as const)]]),
  isEstablished: true,
};

function preparing(onSchemaChange: OnSchemaChange, known: Partial<KnownDrift> = {}) {
  const own = shaped({ id: 'string', list_id: 'string', age: 'integer' });
  const prepare = compilePrepare({
    ...own,
    table: withEvolved(own.table, established),
    ignored: new Set(['_links']),
    explodedField: 'activity',
    policy: schemaPolicyOf({ onSchemaChange }, { ...established, ...known }),
  });
  return (raw: JsonObject): Prepared => prepare({ id: 'a', ...raw }, { list_id: 'l1' });
}

const noted = (prepared: Prepared) => prepared.drift.map(({ field, kind, type }) => [field, kind, type]);

describe('what is noted of a record', () => {
  it('names fields without a column and values that do not fit theirs, with their type and without their value', () => {
    const prepare = preparing('keepExtra');
    const raw = {
      nick: 'x',
      _own: null,
      age: 'old',
      flags: [1],
      more: {},
      rate: 1.5,
      big: 2n ** 70n,
      _links: 1,
    };
    expect(noted(prepare(raw))).toEqual([
      ['nick', 'undeclared', 'string'],
      ['_own', 'undeclared', 'null'],
      ['age', 'misfit', 'string'],
      ['flags', 'undeclared', 'array'],
      ['more', 'undeclared', 'object'],
      ['rate', 'undeclared', 'number'],
      ['big', 'undeclared', 'integer'],
    ]);
    expect(JSON.stringify(prepare({ nick: 'hush', age: 'hush' }).drift)).not.toContain('hush');
  });

  it('is the very same note for the same field and type, record after record', () => {
    const prepare = preparing('keepExtra');
    expect(prepare({ nick: 'x' }).drift[0]).toBe(prepare({ nick: 'y' }).drift[0]);
    expect(prepare({ nick: 1 }).drift[0]).not.toBe(prepare({ nick: 'y' }).drift[0]);
  });

  it('says of an exploded field that is no list that it does not fit', () => {
    expect(noted(preparing('keepExtra')({ activity: 'none' }))).toEqual([['activity', 'misfit', 'string']]);
    expect(noted(preparing('keepExtra')({ activity: [] }))).toEqual([]);
  });

  it('says nothing of a value that the partition knows better, as long as it fits', () => {
    expect(noted(preparing('keepExtra')({ list_id: 'other' }))).toEqual([]);
    expect(noted(preparing('keepExtra')({ list_id: 7 }))).toEqual([['list_id', 'misfit', 'integer']]);
  });

  it('cuts names that have no end, and holds only so many of them apart', () => {
    const prepare = preparing('keepExtra');
    const [cut] = prepare({ [`${'x'.repeat(199)}\ud83d\ude00`]: 1 }).drift;
    expect([cut?.field.length, cut?.field.isWellFormed()]).toEqual([200, true]);
    const names = new Set<string>();
    for (let index = 0; index < 5000; index += 1) {
      for (const { field } of prepare({ [`made up ${index}`]: index }).drift) names.add(field);
    }
    expect(names.size).toBe(1000);
    expect(names).toContain('*');
  });
});

describe('a change of the schema', () => {
  it.each(['keepExtra', 'evolve'] as const)('is stored with %s', (policy) => {
    expect(preparing(policy)({ fresh: 1, age: 1.5 }).kind).toBe('record');
  });

  it('puts a record into quarantine, whole, with a reason that names the field and not its value', () => {
    const prepared = preparing('quarantine')({ nick: 'known', fresh: 'hush' });
    expect(prepared).toMatchObject({
      kind: 'refused',
      refused: { reason: 'schema-change', record: '{"id":"a","nick":"known","fresh":"hush"}' },
      drift: [{ field: 'fresh', kind: 'undeclared', type: 'string', isRefused: true }],
    });
    if (prepared.kind !== 'refused') throw new Error('it was stored');
    expect(prepared.refused.detail).toBe(
      'it has the new field "fresh" (a string), which the definition does not declare',
    );
  });

  it('fails with an error that says what came and what to do, while other entities continue', () => {
    const error = errorOf(() => preparing('fail')({ fresh: [1] }));
    expect(error).toMatchObject({
      code: 'SCHEMA_CHANGED',
      recovery: 'skip-entity',
      context: { entity: 'members', field: 'fresh', type: 'array' },
    });
    expect(error.message).toBe(
      'records of members came with the new field "fresh" (an array), which the definition does not declare; declare it in the definition, or let it in with onSchemaChange: keepExtra, and sync again',
    );
  });

  it.each([
    ['a field that was met before', { nick: [1] }],
    ['a field that has a column by now', { city: 'Kyiv' }],
    ['a type that came in this column before', { age: 'old' }],
    ['a field that is ignored', { _links: [] }],
  ])('is not: %s', (_what, raw) => {
    expect(preparing('quarantine')(raw).kind).toBe('record');
    expect(preparing('fail')(raw).kind).toBe('record');
  });

  it.each([
    ['a new field', { fresh: null }],
    ['a type that never came in this column', { age: 1.5 }],
    ['a value that does not fit the column that was added for it', { city: 7 }],
  ])('is: %s', (_what, raw) => {
    expect(preparing('quarantine')(raw).kind).toBe('refused');
    expect(errorOf(() => preparing('fail')(raw)).code).toBe('SCHEMA_CHANGED');
  });

  it('is none before the entity was read whole', () => {
    expect(preparing('quarantine', { isEstablished: false })({ fresh: 1 }).kind).toBe('record');
    expect(preparing('fail', { isEstablished: false })({ fresh: 1 }).kind).toBe('record');
  });

  it('is none where more fields were met than are tracked by name', () => {
    expect(preparing('quarantine', { fields: new Set(['*']) })({ fresh: 1 }).kind).toBe('record');
  });

  it('is not looked for in a record that has no key', () => {
    expect(preparing('fail')({ id: null, fresh: 1 })).toMatchObject({
      refused: { reason: 'key-missing' },
      drift: [],
    });
  });
});

function errorOf(act: () => unknown): SyncError {
  try {
    act();
  } catch (error) {
    if (error instanceof SyncError) return error;
    throw error;
  }
  throw new Error('it was stored');
}
