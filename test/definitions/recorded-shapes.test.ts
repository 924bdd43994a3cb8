import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import * as z from 'zod';
import type { FieldType } from '../../src/core/records.ts';
import { builtInDefinitionsFolder, loadDefinitions } from '../../src/definitions/load-definitions.ts';

/** Records as the live service sent them, names and addresses replaced. */
const recorded = readFileSync(new URL('../fixtures/recorded-shapes.jsonl', import.meta.url), 'utf8')
  .trim()
  .split('\n')
  .map((line) => recordedLine().parse(JSON.parse(line)));

/** Fields that the service sends and the specification does not name: they go to `_extra`. */
const undeclared: Readonly<Record<string, readonly string[]>> = {
  reports: ['facebook_likes'],
};

const definitions = loadDefinitions([builtInDefinitionsFolder]);

describe('recorded records', () => {
  // No account had an automation to record, and the document library is not a live service.
  it('exist for every entity of a live service but automations', () => {
    const names = new Set(recorded.map(({ entity }) => entity));
    const missing = [...definitions.values()]
      .filter(({ name }) => name !== 'document-library')
      .flatMap((definition) => [...definition.entities.keys()].filter((entity) => !names.has(entity)));
    expect(missing).toEqual(['automations']);
  });

  it.each(recorded)('fit the declared types of $definition $entity', ({ definition, entity, record }) => {
    const fields = fieldsOf(definition, entity).fields;
    const misfits = Object.entries(record).flatMap(([name, value]) => {
      const type = fields.get(name);
      return type === undefined || fits(type, value) ? [] : [`${name}: ${type}, got ${typeof value}`];
    });
    expect(misfits).toEqual([]);
  });

  it.each(recorded)('hold nothing unknown in $definition $entity', ({ definition, entity, record }) => {
    const { fields, ignored } = fieldsOf(definition, entity);
    const unknown = Object.keys(record).filter((name) => !fields.has(name) && !ignored.has(name));
    expect(unknown).toEqual(undeclared[entity] ?? []);
  });

  it.each(recorded)('carry every part of the key that is not injected in $definition $entity', (line) => {
    const { key, parents } = fieldsOf(line.definition, line.entity);
    const injected = new Set(parents.flatMap((parent) => [...parent.inject.keys()]));
    const missing = key.filter((part) => !injected.has(part) && !Object.hasOwn(line.record, part));
    expect(missing).toEqual([]);
  });
});

function recordedLine() {
  return z.object({
    definition: z.string(),
    entity: z.string(),
    record: z.record(z.string(), z.unknown()),
  });
}

function fieldsOf(definition: string, entity: string) {
  for (const [name, found] of definitions.get(definition)?.entities ?? []) {
    if (name === entity) return found;
  }
  throw new Error(`no entity ${entity} in ${definition}`);
}

function fits(type: FieldType, value: unknown): boolean {
  if (value === null || type === 'any') return true;
  if (type === 'integer') return Number.isInteger(value);
  if (type === 'array') return Array.isArray(value);
  return typeof value === type && !Array.isArray(value);
}
