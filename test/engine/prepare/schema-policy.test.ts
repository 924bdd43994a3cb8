import { describe, expect, it } from 'vitest';
import { SyncError } from '../../../src/core/errors.ts';
import type { JsonObject } from '../../../src/core/json.ts';
import type { EntityName } from '../../../src/core/names.ts';
import type { EntityTable } from '../../../src/core/records.ts';
import type { OnSchemaChange } from '../../../src/engine/chosen-entities.ts';
import { withEvolved, schemaPolicyOf } from '../../../src/engine/prepare/schema-policy.ts';
import { compilePrepare, type Prepared } from '../../../src/engine/prepare/prepare-record.ts';
import type { KnownDrift } from '../../../src/sinks/drift.ts';

const established: KnownDrift = {
  evolved: [{ name: 'city', type: 'string' }],
  fields: new Set(['nick']),
  misfits: new Map([['age', new Set(['string'] as const)]]),
  isEstablished: true,
};

function preparing(onSchemaChange: OnSchemaChange, known: Partial<KnownDrift> = {}) {
  const table: EntityTable = {
    entity: 'members' as EntityName,
    columns: [
      { name: 'id', type: 'string' },
      { name: 'list_id', type: 'string' },
      { name: 'age', type: 'integer' },
    ],
    key: ['id'],
  };
  const prepare = compilePrepare({
    table: withEvolved(table, established),
    ignored: new Set(['_links']),
    volatile: [],
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
