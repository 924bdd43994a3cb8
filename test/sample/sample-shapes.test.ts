import { beforeAll, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/core/json.ts';
import type { Entity } from '../../src/definitions/definition.ts';
import { createSampleAccount } from '../../src/sample/sample-service.ts';
import type { SampleAccount } from '../../src/sample/sample-account.ts';
import { sampleTruth } from '../support/sample-truth.ts';
import { definitions } from '../support/service/served-api.ts';
import { recorded } from '../support/recorded-records.ts';
import { addKinds, type Kinds } from '../support/value-kinds.ts';

const accounts = new Map<string, SampleAccount>();
const kindsByEntity = new Map<string, Kinds>();
const entities: readonly (readonly [string, string, Entity])[] = [...definitions].flatMap(
  ([definition, { entities }]) =>
    [...entities.values()].map((entity) => [definition, entity.name, entity] as const),
);

beforeAll(() => {
  for (const [definition, name, entity] of entities) {
    const account =
      accounts.get(definition) ?? createSampleAccount({ definitionName: definition, seed: 7, size: 'small' });
    accounts.set(definition, account);
    const kinds: Kinds = new Map();
    for (const { record } of sampleTruth(account, name)) addKinds(kinds, '', record);
    for (const record of gotten(account, entity)) addKinds(kinds, '', record);
    kindsByEntity.set(name, kinds);
  }
});

/** What `get` answers for a few records: it has fields of its own. */
function gotten(account: SampleAccount, entity: Entity): readonly JsonObject[] {
  const key = [...(entity.actions.get('get')?.key ?? [])];
  if (key.length === 0) return [];
  return [...sampleTruth(account, entity.name)].slice(0, 5).flatMap(({ record }) => {
    const got = account.get(
      entity.name,
      Object.fromEntries(key.map(([param, field]) => [param, record[field] ?? null])),
    );
    return got === null ? [] : [got];
  });
}

const kindsOf = (entity: string): Kinds => kindsByEntity.get(entity) ?? new Map();

describe.each(recorded.map((line) => [line.entity, line] as const))('recorded %s', (entity, line) => {
  it('has only fields that generated records have, with the same kinds of value', () => {
    const expected: Kinds = new Map();
    addKinds(expected, '', line.record);
    const kinds = kindsOf(entity);
    const missing = [...expected].flatMap(([path, met]) =>
      [...met].filter((kind) => kinds.get(path)?.has(kind) !== true).map((kind) => `${path}: ${kind}`),
    );
    expect(missing).toEqual([]);
  });

  it('or the specification has every field that generated records have', () => {
    const account = accounts.get(line.definition);
    const declared = entities.find(([, name]) => name === entity)?.[2];
    const known = new Set([
      ...Object.keys(line.record),
      ...(declared?.fields.keys() ?? []),
      ...(declared?.ignored ?? []),
    ]);
    const records =
      account === undefined ? [] : [...sampleTruth(account, entity)].map(({ record }) => record);
    const searchable = declared?.searchable ?? new Map();
    const names = new Set(records.flatMap((record) => Object.keys(record)));
    expect([...names].filter((name) => !known.has(name) && !searchable.has(name))).toEqual([]);
  });
});

describe.each(entities)('%s %s', (_definition, name, entity) => {
  // Proves specification 2.5.2, 2.7.6
  it('shows every declared field somewhere, with the declared type', () => {
    const kinds = kindsOf(name);
    const filledIn = new Set([
      ...entity.parents.flatMap(({ inject }) => [...inject.keys()]),
      ...(entity.recursive === null
        ? []
        : [entity.recursive.rootField, entity.recursive.depthField, entity.recursive.positionField]),
    ]);
    // The wire calls them otherwise, and the service fills them in.
    const absent = new Set(entity.filledFrom.keys());
    const kindByType = {
      string: 'string',
      integer: 'number',
      number: 'number',
      boolean: 'boolean',
      object: 'object',
      array: 'array',
    };
    const wrong = [...entity.fields].flatMap(([field, type]) => {
      const met = kinds.get(`.${field}`);
      if (met === undefined) return filledIn.has(field) || absent.has(field) ? [] : [`${field} never comes`];
      const odd = [...met].filter((kind) => type !== 'any' && kind !== 'null' && kind !== kindByType[type]);
      return odd.map((kind) => `${field} comes as ${kind}`);
    });
    expect(wrong).toEqual([]);
  });

  // Proves specification 2.5.2, 2.7.6
  it('has its key in every record, and no key twice', () => {
    const account = accounts.get(_definition);
    const keys = new Set<string>();
    let records = 0;
    for (const { record, params } of account === undefined ? [] : sampleTruth(account, name)) {
      records += 1;
      const inject = entity.parents[0]?.inject ?? new Map<string, string>();
      const key = entity.key.map((field) => params[inject.get(field) ?? ''] ?? record[field]);
      expect(key).not.toContain(undefined);
      expect(record['id']).not.toBeNull();
      keys.add(JSON.stringify(key));
    }
    expect([records > 0, keys.size]).toEqual([true, records]);
  });
});
