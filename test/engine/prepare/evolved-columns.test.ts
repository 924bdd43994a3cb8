import { describe, expect, it } from 'vitest';
import type { JsonObject, JsonValue } from '../../../src/core/json.ts';
import type { EntityName } from '../../../src/core/names.ts';
import type { Column, PreparedRecord } from '../../../src/core/records.ts';
import { withEvolved } from '../../../src/engine/prepare/schema-policy.ts';
import { compilePrepare, type RecordShape } from '../../../src/engine/prepare/prepare-record.ts';
import { seededRandom } from '../../support/seeded-random.ts';

const shape: RecordShape = {
  table: {
    entity: 'things' as EntityName,
    columns: [
      { name: 'id', type: 'string' },
      { name: 'name', type: 'string' },
      { name: 'stats', type: 'object' },
    ],
    key: ['id'],
  },
  ignored: new Set(['_links']),
  volatile: [['stats'], ['more', 'url'], ['*', 'signed']],
  explodedField: null,
};
const evolvable = [
  { name: 'city', type: 'string' },
  { name: 'age', type: 'integer' },
  { name: 'rate', type: 'number' },
  { name: 'open', type: 'boolean' },
  { name: 'more', type: 'object' },
  { name: 'tags', type: 'array' },
] as const;

function prepared(columns: readonly Column[], raw: JsonObject): PreparedRecord {
  const table = withEvolved(shape.table, { evolved: columns });
  const result = compilePrepare({ ...shape, table })(raw, {});
  if (result.kind === 'refused') throw new Error(result.refused.detail);
  return result.record;
}

describe('a column that was added for an undeclared field', () => {
  it.each([1, 2, 3, 4, 5])('changes no hash of any record (seed %i)', (seed) => {
    const random = seededRandom(seed);
    for (let trial = 0; trial < 400; trial += 1) {
      const raw = randomRecord(random);
      const evolved = evolvable.filter(() => random() < 0.5);
      const before = prepared([], raw);
      const after = prepared(evolved, raw);
      const what = `seed ${seed}, trial ${trial}: ${JSON.stringify(raw, (_, value: unknown) => (typeof value === 'bigint' ? String(value) : value))}`;
      expect([after.hash, after.volatileHash, after.keyText], what).toEqual([
        before.hash,
        before.volatileHash,
        before.keyText,
      ]);
      expect(after.values.length).toBe(3 + evolved.length);
    }
  });

  it('still hashes every change of its value differently, to null and to nothing among them', () => {
    const column = [{ name: 'city', type: 'string' }] as const;
    const values: JsonObject[] = [{ city: 'Kyiv' }, { city: 'Lviv' }, { city: null }, { city: 7 }, {}];
    const hashes = values.map((value) => prepared(column, { id: 'a', ...value }).hash);
    expect(new Set(hashes).size).toBe(values.length);
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
    2 ** 60,
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
