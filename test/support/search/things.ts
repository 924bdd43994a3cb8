import type { FieldType } from '../../../src/core/records.ts';
import type { Entity, SearchableField } from '../../../src/definitions/definition.ts';
import { entityName, testDefinition } from '../source/test-definition.ts';

/** Columns of every type; `loose` has none. */
export const thingFields: Readonly<Record<string, FieldType>> = {
  id: 'string',
  title: 'string',
  remark: 'string',
  kind: 'string',
  amount: 'integer',
  ratio: 'number',
  is_open: 'boolean',
  tags: 'array',
  body: 'object',
  props: 'object',
  whatever: 'any',
};

/** What can be searched: fields with another name, another type, several sources, one without a column, and pairs. */
export const thingSearchable: Readonly<Record<string, SearchableField>> = {
  ...Object.fromEntries(
    Object.entries(thingFields).map(([name, type]) => [name, { type, from: [name], shape: 'asIs' as const }]),
  ),
  kind: { type: 'object', from: ['kind'], shape: 'asIs' },
  note: { type: 'string', from: ['remark', 'title'], shape: 'asIs' },
  worth: { type: 'number', from: ['amount'], shape: 'asIs' },
  whole: { type: 'integer', from: ['ratio'], shape: 'asIs' },
  props: { type: 'array', from: ['props'], shape: 'pairs' },
  loose: { type: 'any', from: ['loose'], shape: 'asIs' },
  either: { type: 'object', from: ['loose', 'body'], shape: 'asIs' },
  strict: { type: 'string', from: ['loose'], shape: 'asIs' },
};

export function thingsEntity(change: Partial<Entity> = {}): Entity {
  const [some] = testDefinition().entities.values();
  if (some === undefined) throw new Error('no entity');
  const name = entityName('things');
  return {
    ...some,
    name,
    fields: new Map(Object.entries(thingFields)),
    key: ['id'],
    searchable: new Map(Object.entries(thingSearchable)),
    table: {
      entity: name,
      columns: Object.entries(thingFields).map(([column, type]) => ({ name: column, type })),
      key: ['id'],
    },
    ...change,
  };
}
