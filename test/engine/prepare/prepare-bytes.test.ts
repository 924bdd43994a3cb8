import { hash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { writeJson } from '../../../src/core/json-text.ts';
import type { JsonObject, JsonValue } from '../../../src/core/json.ts';
import type { EntityName } from '../../../src/core/names.ts';
import type { FieldType } from '../../../src/core/records.ts';
import type { Entity } from '../../../src/definitions/definition.ts';
import { compilePrepareBytes } from '../../../src/engine/prepare/prepare-bytes.ts';
import { compilePrepare, readingVersion } from '../../../src/engine/prepare/prepare-record.ts';
import { recordShape, type RecordShape } from '../../../src/engine/prepare/record-shape.ts';
import { scanPage } from '../../../src/http/scan-json.ts';
import { readRecords, unreadRecords } from '../../../src/source/page-records.ts';
import { recorded } from '../../support/recorded-records.ts';
import { builtInDefinition } from '../../support/sample-service.ts';
import { seededRandom } from '../../support/seeded-random.ts';
import { isLong } from '../../support/trials.ts';

const rounds = isLong ? 20_000 : 1_500;

function entityOf(definition: string, entity: string): Entity {
  const found = builtInDefinition(definition).entities.get(entity as EntityName);
  if (found === undefined) throw new Error(`expected ${definition} ${entity}`);
  return found;
}

function scanned(text: string) {
  const page = scanPage(Buffer.from(text), [['result']], 500);
  if (page === null) throw new Error(`expected a page, got ${text.slice(0, 200)}`);
  return page;
}

const samples = recorded.map(({ definition, entity, record }) => ({
  entity: entityOf(definition, entity),
  record,
}));

describe('a record that is prepared from its bytes', () => {
  it('comes to what all of its values come to, or is left to them', () => {
    const random = dice(27);
    let fromBytes = 0;
    for (let round = 0; round < rounds; round += 1) {
      const sample = samples[random(samples.length)];
      if (sample === undefined) continue;
      const shape = recordShape(sample.entity);
      const prepareBytes = compilePrepareBytes(shape);
      const raw = changed(sample.record, random);
      const inject: Record<string, JsonValue> = random(4) === 0 ? { list_id: 'l1', campaign_id: 'c1' } : {};
      const page = scanned(`{"result":[${spelled(raw, random)}]}`);
      const value = unreadRecords(page).value(0);
      const expected = compilePrepare(shape)(value, inject);
      const found = prepareBytes?.({ page, index: 0, glance: value }, inject) ?? null;
      if (found === null) continue;
      fromBytes += 1;
      expect(found).toEqual(expected);
    }
    expect(fromBytes).toBeGreaterThan(rounds / 10);
  });

  it.each([
    ['a name that comes twice', '{"id":"a","id":"b"}'],
    ['a field that is not declared', '{"id":"a","news":1}'],
    ['a value that its column cannot hold', '{"id":"a","name":7}'],
    ['a lone surrogate', '{"id":"a","name":"\\ud800"}'],
    ['a key that is empty', '{"id":""}'],
    ['no key', '{"name":"a"}'],
  ])('is left to its values for %s', (_, text) => {
    const prepareBytes = compilePrepareBytes(recordShape(entityOf('email-marketing', 'segments')));
    expect(prepareBytes?.({ page: scanned(`{"result":[${text}]}`), index: 0, glance: null }, {})).toBeNull();
  });
});

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
    const stored = recorded.map(({ record }) => compilePrepare(shapeOf(record))(record, {}));
    expect({
      readingVersion,
      digest: hash('sha256', writeJson(stored), 'hex').slice(0, 16),
    }).toMatchInlineSnapshot(`
      {
        "digest": "7b2e327b77d3cec5",
        "readingVersion": 1,
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

type Dice = (below: number) => number;

function dice(seed: number): Dice {
  const random = seededRandom(seed);
  return (below) => Math.floor(random() * below);
}

const oddValues: readonly JsonValue[] = [
  null,
  true,
  0,
  -0,
  1e21,
  0.1,
  9_007_199_254_740_993n,
  '',
  'Łódź 😀 "q" \\',
  '\u2028',
  [],
  {},
  { b: 1, a: [{ d: 2, c: null }] },
  { '10': 1, '9': 2 },
];

/** The record with some of its members left out, replaced or added. */
function changed(record: JsonObject, random: Dice): JsonObject {
  const members = Object.entries(record).flatMap(([name, value]): [string, JsonValue][] => {
    const kind = random(40);
    if (kind === 0) return [];
    if (kind === 1) return [[name, oddValues[random(oddValues.length)] ?? null]];
    return [[name, value]];
  });
  if (random(6) === 0) members.push(['not_declared', 1]);
  return Object.fromEntries(random(2) === 0 ? members : members.toReversed());
}

/** JSON text, with spaces and escapes where they may be. */
function spelled(value: JsonValue, random: Dice): string {
  const space = (): string => (random(30) === 0 ? ' \n' : '');
  if (typeof value === 'string' && random(20) === 0 && value !== '') {
    const code = value.charCodeAt(0).toString(16).padStart(4, '0');
    return `"\\u${code}${JSON.stringify(value.slice(1)).slice(1)}`;
  }
  if (typeof value === 'bigint') return String(value);
  if (Object.is(value, -0)) return '-0';
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  if (Array.isArray(value)) {
    return `[${(value as readonly JsonValue[]).map((one) => `${space()}${spelled(one, random)}`).join(',')}]`;
  }
  const members = Object.entries(value as JsonObject).map(
    ([name, one]) => `${space()}${JSON.stringify(name)}${space()}:${space()}${spelled(one, random)}`,
  );
  return `{${members.join(',')}${space()}}`;
}
