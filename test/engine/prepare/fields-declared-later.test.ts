import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../../src/core/json.ts';
import type { PreparedRecord } from '../../../src/core/records.ts';
import type { Entity } from '../../../src/definitions/definition.ts';
import { builtInDefinitionsFolder, loadDefinitions } from '../../../src/definitions/load-definitions.ts';
import { compilePrepare, recordShape } from '../../../src/engine/prepare/prepare-record.ts';

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
  it('is there in eight entities', () => {
    expect(withLater.map(({ name }) => name)).toEqual([
      'lists',
      'campaigns',
      'automations',
      'reports',
      'list_members',
      'segment_members',
      'blocks',
      'comments',
    ]);
  });

  it.each(withLater)('gets a column and changes no hash, of $name', (entity) => {
    for (const { name, type, isEvolved } of entity.table.columns) {
      if (isEvolved !== true) continue;
      const values = { string: 'a', object: { id: 1 }, array: [{ id: 1 }] };
      for (const value of [values[type as keyof typeof values], null]) {
        const [before, now] = [
          prepared(earlier(entity), { [name]: value }),
          prepared(entity, { [name]: value }),
        ];
        expect(now.hash).toBe(before.hash);
        expect(now.volatileHash).toBe(before.volatileHash);
        expect([before.extra === null, now.extra]).toEqual([false, null]);
      }
      const other = { ...values, string: 'b', object: { id: 2 }, array: [] }[type as keyof typeof values];
      const first = values[type as keyof typeof values];
      expect(prepared(entity, { [name]: other }).hash).not.toBe(prepared(entity, { [name]: first }).hash);
    }
  });
});

describe('an address that the service has moved', () => {
  const pages = entities.filter(({ moved }) => moved.size > 0);

  it('is that of pages and data sources', () => {
    expect(pages.map(({ name }) => name)).toEqual(['pages', 'data_sources']);
  });

  it.each(pages)(
    'changes nothing of $name that is stored, and the new one is stored with the next change',
    (entity) => {
      const at = (url: string): PreparedRecord => prepared(entity, { url });
      const old = at('https://www.notion.so/Plans-39a69b4e');
      const moved = at('https://app.notion.com/p/Plans-39a69b4e');
      expect([moved.hash, moved.volatileHash]).toEqual([old.hash, old.volatileHash]);
      expect(moved.values).toContain('https://app.notion.com/p/Plans-39a69b4e');
      expect(at('https://app.notion.com/p/Plan-B-39a69b4e').hash).not.toBe(old.hash);
      expect(at('https://other.example/Plans-39a69b4e').hash).not.toBe(old.hash);
    },
  );
});
