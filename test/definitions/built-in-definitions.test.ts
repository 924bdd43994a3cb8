import { readFileSync, writeFileSync } from 'node:fs';
import type { PreparedRecord } from '../../src/core/records.ts';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import * as z from 'zod';
import type { JsonObject } from '../../src/core/json.ts';
import type { FieldType } from '../../src/core/records.ts';
import { definitionFile } from '../../src/definitions/definition-file.ts';
import {
  servedDefinition,
  type Definition,
  type Entity,
  type Param,
} from '../../src/definitions/definition.ts';
import { dataDictionary } from '../../src/definitions/describe-tables.ts';
import {
  builtInDefinitionsFolder,
  loadDefinitions,
  parseDefinition,
} from '../../src/definitions/load-definitions.ts';
import { upstreamFile } from '../../src/definitions/upstream/upstream-file.ts';
import { compilePrepare } from '../../src/engine/prepare/prepare-record.ts';
import { recorded } from '../support/recorded-records.ts';

interface SpecifiedEntity {
  readonly fields: Readonly<Record<string, string>>;
  readonly actions: Readonly<Record<string, string>>;
  readonly searchable?: Readonly<Record<string, string>>;
}

// `as`: the file has no other shape.
const { emailMarketing, workspaceNotes, sentSince } = parse(
  readFileSync('test/fixtures/specified-entities.yaml', 'utf8'),
) as {
  readonly emailMarketing: Readonly<Record<string, SpecifiedEntity>>;
  readonly workspaceNotes: Readonly<Record<string, SpecifiedEntity>>;
  readonly sentSince: Readonly<Record<string, Pick<SpecifiedEntity, 'fields'>>>;
};
const definitions = loadDefinitions([builtInDefinitionsFolder]);

describe.each([
  ['email-marketing', 'b03a9f3e-22a5-11eb-adc1-0242ac120002', emailMarketing],
  ['workspace-notes', '6e00b415-b02e-4160-bf02-58176a0ae687', workspaceNotes],
])('the built-in definition %s', (name, id, specified) => {
  it('carries the id that the catalog knows it by', () => {
    expect(definition(name).id).toBe(id);
  });

  it('names exactly the entities of the specification', () => {
    expect([...definition(name).entities.keys()].toSorted()).toEqual(Object.keys(specified).toSorted());
  });

  // Proves specification 2.5.1, 2.6.1, 2.7.1, 2.7.4, 2.7.5, 2.8.1, 3.4, 3.5, 4.7.1, 4.8.2
  it.each(Object.entries(specified))(
    'declares exactly the fields, actions and parameters of %s',
    (entity, spec) => {
      const offered = servedDefinition(definition(name));
      expect(asSpecified(entityOf(offered, entity))).toEqual(sorted(withSince(entity, spec)));
    },
  );
});

// A connector of these types can be behind an API too, which knows the parameters by these names.
it.each([definition('email-marketing'), definition('workspace-notes')])(
  'sends each parameter of $name under its own name',
  ({ upstream }) => {
    const others = [...(upstream?.entities.values() ?? [])].flatMap(({ list, get }) =>
      [...list.params, ...(get?.params ?? [])].filter(([name, place]) => {
        if (place.kind === 'body') return place.at.join('.') !== name;
        return place.kind === 'query' ? place.name !== name : place.kind !== 'path';
      }),
    );
    expect(others).toEqual([]);
  },
);

describe('the email-marketing definition', () => {
  // Proves specification 8.1, 8.2
  it('asks for at most 1000 records a page, the number that the service caps at', () => {
    for (const entity of definition('email-marketing').entities.values()) {
      const count = entity.actions.get('list')?.params.get('count');
      if (entity.name === 'tags') {
        expect(count).toBeUndefined();
        expect(entity.pagination).toEqual({ kind: 'single', totalKeys: ['total_items'] });
      } else {
        expect(count).toEqual({
          type: 'integer',
          required: false,
          enum: null,
          default: 10,
          min: 1,
          max: 1000,
          aboveMax: 'cap',
        });
        expect(entity.pagination).toEqual({
          kind: 'offset',
          offsetParam: 'offset',
          sizeParam: 'count',
          maxSize: 1000,
          totalKeys: ['total_items'],
          totalCountsListing: true,
          honoursSize: true,
        });
      }
    }
  });

  it.each([
    ['lists', ['id'], ''],
    ['campaigns', ['id'], ''],
    ['automations', ['id'], ''],
    ['reports', ['id'], ''],
    ['list_members', ['list_id', 'id'], 'lists list_id<-id inject list_id<-list_id'],
    ['tags', ['list_id', 'id'], 'lists list_id<-id inject list_id<-list_id'],
    ['interest_categories', ['list_id', 'id'], 'lists list_id<-id inject list_id<-list_id'],
    [
      'interests',
      ['list_id', 'category_id', 'id'],
      'interest_categories list_id<-list_id interest_category_id<-id inject list_id<-list_id category_id<-interest_category_id',
    ],
    ['segments', ['list_id', 'id'], 'lists list_id<-id inject list_id<-list_id'],
    [
      'segment_members',
      ['segment_id', 'id'],
      'segments list_id<-list_id segment_id<-id inject list_id<-list_id segment_id<-segment_id',
    ],
    [
      'email_activity',
      ['campaign_id', 'email_id'],
      'campaigns campaign_id<-id inject campaign_id<-campaign_id',
    ],
    [
      'unsubscribes',
      ['campaign_id', 'email_id', 'timestamp'],
      'campaigns campaign_id<-id inject campaign_id<-campaign_id',
    ],
  ])('identifies %s by %j and finds it by its parent', (name, key, parent) => {
    const entity = entityOf(definition('email-marketing'), name);
    expect(entity.key).toEqual(key);
    expect(entity.parents.map(describeParent).join('; ')).toBe(parent);
    expect(entity.ignored).toEqual(new Set(['_links']));
  });

  // Proves specification 2.5.4
  it('takes no change of the stats of a list for a change of the list', () => {
    const { table, ignored, volatile } = entityOf(definition('email-marketing'), 'lists');
    const prepare = compilePrepare({ table, ignored, volatile, explodedField: null });
    const prepared = (record: JsonObject): PreparedRecord => {
      const made = prepare({ id: 'l1', name: 'News', ...record }, {});
      if (made.kind === 'refused') throw new Error(made.refused.detail);
      return made.record;
    };
    const row = { ...prepared({ stats: { member_count: 1, open_rate: 0.5 } }), columns: table.columns };
    const other = prepared({ stats: { member_count: 2, open_rate: 0.25 } });
    expect(other.compare(other, row)).toBe('volatile');
    const renamed = prepared({ stats: { member_count: 1, open_rate: 0.5 }, name: 'Old news' });
    expect(renamed.compare(renamed, row)).toBe('content');
  });

  it('gives activity events a table of their own and takes the array out of the parent row', () => {
    const { table, explodedTable } = entityOf(definition('email-marketing'), 'email_activity');
    expect(table.columns.map(({ name }) => name)).not.toContain('activity');
    expect(explodedTable?.entity).toBe('email_activity_events');
    expect(explodedTable?.key).toEqual([
      'campaign_id',
      'email_id',
      'timestamp',
      'action',
      'type',
      'url',
      'ip',
    ]);
    expect(explodedTable?.columns.map(({ name }) => name)).toEqual([
      'campaign_id',
      'list_id',
      'email_id',
      'email_address',
      'action',
      'timestamp',
      'url',
      'type',
      'ip',
    ]);
  });

  it('reads in an order in which nothing slips before the walk', () => {
    const orders = [...definition('email-marketing').entities.values()].flatMap(({ name, order }) =>
      order === null ? [] : [[name, order.params['sort_field'], order.params['sort_dir']]],
    );
    expect(orders).toEqual([
      ['lists', 'date_created', 'ASC'],
      ['campaigns', 'create_time', 'ASC'],
      ['list_members', 'last_changed', 'ASC'],
    ]);
  });
});

describe('the workspace-notes definition', () => {
  // Proves specification 8.4
  it('refuses pages of more than 100 and pages by token', () => {
    for (const entity of definition('workspace-notes').entities.values()) {
      expect(entity.actions.get('list')?.params.get('page_size')).toMatchObject({
        min: 1,
        max: 100,
        default: 100,
        aboveMax: 'refuse',
      });
      expect(entity.pagination).toEqual({
        kind: 'pageToken',
        tokenParam: 'start_cursor',
        sizeParam: 'page_size',
        maxSize: 100,
        flagKeys: ['has_more'],
        tokenKeys: ['next_cursor'],
        lifetimeMs: 60_000,
        totalKeys: [],
      });
    }
  });

  it('keeps pages and data sources apart by filter and by a check of the record', () => {
    for (const [name, value] of [
      ['pages', 'page'],
      ['data_sources', 'data_source'],
    ] as const) {
      const entity = entityOf(definition('workspace-notes'), name);
      expect(entity.fixedParams).toEqual({ filter: { property: 'object', value } });
      expect(entity.only).toEqual([{ field: 'object', values: [value], setting: null, isNot: false }]);
      expect(entity.order?.params).toEqual({
        sort: { timestamp: 'last_edited_time', direction: 'ascending' },
      });
    }
  });

  it('walks the blocks of a page as a tree and fills in where a block stands', () => {
    const blocks = entityOf(definition('workspace-notes'), 'blocks');
    expect(blocks.parents.map(describeParent)).toEqual(['pages block_id<-id inject page_id<-block_id']);
    expect(blocks.recursive).toMatchObject({
      param: 'block_id',
      flag: 'has_children',
      parentField: 'parent',
      maxDepth: 30,
      rootField: 'page_id',
      depthField: 'depth',
      positionField: 'position',
    });
    expect(blocks.recursive?.skipTypes).toEqual(
      new Set(['child_page', 'child_database', 'ai_block', 'unsupported']),
    );
  });

  it('finds comments by pages, and by blocks only when asked to', () => {
    expect(
      entityOf(definition('workspace-notes'), 'comments').parents.map(({ entity, byDefault }) => [
        entity,
        byDefault,
      ]),
    ).toEqual([
      ['pages', true],
      ['blocks', false],
    ]);
  });

  it.each([
    [400, 'body failed validation: start_cursor provided is invalid', 'restart-walk'],
    [400, 'Block type ai_block is not supported via the API.', 'skip-partition'],
    [400, "Can't list children of a block that is archived.", 'skip-partition'],
    [
      404,
      'Could not find block with ID: x. Make sure the relevant pages and databases are shared with your integration.',
      'skip-partition',
    ],
    [403, 'Insufficient permissions for this endpoint.', 'skip-entity'],
  ])('knows the answer %i "%s"', (status, message, then) => {
    const pattern = definition('workspace-notes').errors.find(
      (candidate) =>
        candidate.status === status && message.toLowerCase().includes(candidate.contains.toLowerCase()),
    );
    expect(pattern?.then).toBe(then);
  });
});

function definition(name: string): Definition {
  const found = definitions.get(name);
  if (found === undefined) throw new Error(`no definition ${name}`);
  return found;
}

function entityOf({ entities }: Definition, entity: string): Entity {
  for (const [key, found] of entities) {
    if (key === entity) return found;
  }
  throw new Error(`no entity ${entity}`);
}

/** Fields that the definition adds because the walk fills them in; the specification does not know them. */
const filledIn: Readonly<Record<string, readonly string[]>> = {
  tags: ['list_id'],
  segment_members: ['segment_id'],
  blocks: ['page_id', 'depth', 'position'],
};

function asSpecified(entity: Entity): SpecifiedEntity {
  const own = [...entity.fields].filter(([field]) => !(filledIn[entity.name] ?? []).includes(field));
  return sorted({
    fields: byType(own),
    actions: Object.fromEntries(
      [...entity.actions].map(([name, { params }]) => [name, [...params].map(describeParam).join(' ')]),
    ),
    ...(entity.searchable.size === 0
      ? {}
      : { searchable: byType([...entity.searchable].map(([field, { type }]) => [field, type])) }),
  });
}

function withSince(entity: string, { fields, ...rest }: SpecifiedEntity): SpecifiedEntity {
  const since = sentSince[entity] ?? { fields: {} };
  const merged = Object.entries(since.fields).map(([type, names]) => [
    type,
    `${fields[type] ?? ''} ${names}`,
  ]);
  return {
    ...rest,
    fields: { ...fields, ...Object.fromEntries(merged) },
  };
}

function byType(fields: readonly (readonly [string, string])[]): Record<string, string> {
  const names: Record<string, string> = {};
  for (const [name, type] of fields) names[type] = `${names[type] ?? ''} ${name}`;
  return names;
}

function describeParam([name, param]: readonly [string, Param]): string {
  const type = param.type === 'string' ? '' : `:${param.type}`;
  return `${name}${param.required ? '!' : ''}${type}${param.enum === null ? '' : `=${param.enum.join('|')}`}`;
}

function describeParent(parent: Entity['parents'][number]): string {
  const pairs = (map: ReadonlyMap<string, string>): string =>
    [...map].map(([to, from]) => `${to}<-${from}`).join(' ');
  return `${parent.entity} ${pairs(parent.params)} inject ${pairs(parent.inject)}`;
}

function sorted(entity: SpecifiedEntity): SpecifiedEntity {
  const sortWords = (texts: Readonly<Record<string, string>>): Record<string, string> =>
    Object.fromEntries(
      Object.entries(texts).map(([name, text]) => [name, text.trim().split(/\s+/).toSorted().join(' ')]),
    );
  return {
    fields: sortWords(entity.fields),
    actions: sortWords(entity.actions),
    ...(entity.searchable === undefined ? {} : { searchable: sortWords(entity.searchable) }),
  };
}

/** Fields that the service sends and the specification does not name: they go to `_extra`. */
const undeclared: Readonly<Record<string, readonly string[]>> = {
  reports: ['facebook_likes'],
};

describe('recorded records', () => {
  // No account had an automation to record.
  it('exist for every entity of the catalog but automations', () => {
    const names = new Set(recorded.map(({ entity }) => entity));
    const missing = [definition('email-marketing'), definition('workspace-notes')].flatMap((definition) =>
      [...definition.entities.keys()].filter((entity) => !names.has(entity)),
    );
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

describe('data dictionary', () => {
  describe.each(
    ['document-library', 'email-marketing', 'workspace-notes'].map(
      (name) => [name, definition(name)] as const,
    ),
  )('docs/data-dictionary/%s.md', (name, definition) => {
    const file = `docs/data-dictionary/${name}.md`;
    const text = dataDictionary(definition, `connector-sync definitions --dictionary ${name}`);

    it('is what the command prints', () => {
      if (process.env['UPDATE_DICTIONARIES'] === '1') writeFileSync(file, text);
      expect(readFileSync(file, 'utf8')).toBe(text);
    });

    it('says what every column means', () => {
      expect(text.split('\n').filter((line) => /^\| .*\|\s*\|$/.test(line))).toEqual([]);
    });

    it('describes every entity, in one line', () => {
      expect([...definition.entities.values()].filter(({ description }) => description === null)).toEqual([]);
      expect(text.split('\n').filter((line) => line.startsWith('## '))).toHaveLength(
        [...definition.entities.values()].flatMap(({ explodedTable }) =>
          explodedTable === null ? [1] : [1, 2],
        ).length,
      );
    });
  });
});

const format = readFileSync(new URL('../../docs/definition-format.md', import.meta.url), 'utf8');
const inCode = new Set(format.match(/```[^]*?```|`[^`]+`/g)?.flatMap((code) => code.match(/[\w-]+/g) ?? []));

/** Keys at every depth of the schemas, the words that stand for a choice, and what is used where a key is absent. */
const found = { keys: new Set<string>(), words: new Set<string>(), defaults: new Set<string>() };
for (const schema of [definitionFile(), upstreamFile()]) {
  walk(z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }));
}

function walk(part: unknown): void {
  if (Array.isArray(part)) for (const one of part) walk(one);
  if (typeof part !== 'object' || part === null || Array.isArray(part)) return;
  for (const [name, inner] of Object.entries(part)) {
    if (name === 'properties') walkProperties(inner as object);
    else if (name === 'enum' || name === 'const') addWords(inner);
    else if (name !== 'default' && name !== 'required') walk(inner);
  }
}

function walkProperties(properties: object): void {
  for (const [key, schema] of Object.entries(properties) as [string, { readonly default?: unknown }][]) {
    found.keys.add(key);
    if (['string', 'number', 'boolean'].includes(typeof schema.default)) {
      found.defaults.add(`${key} (${String(schema.default)})`);
    }
    walk(schema);
  }
}

function addWords(values: unknown): void {
  for (const value of [values].flat()) if (typeof value === 'string') found.words.add(value);
}

describe('docs/definition-format.md', () => {
  it('names every key of the schema', () => {
    expect(found.keys.size).toBeGreaterThan(150);
    expect([...found.keys].filter((key) => !inCode.has(key))).toEqual([]);
  });

  it('names every value that a key may have', () => {
    expect(found.words.size).toBeGreaterThan(60);
    expect([...found.words].filter((word) => !inCode.has(word))).toEqual([]);
  });

  it('names what is used where a key is absent', () => {
    const plain = format.replaceAll('`', '').replaceAll(/\s+/g, ' ');
    const isNamed = (one: string): boolean => {
      const [, key = '', value = ''] = /^(.*) \((.*)\)$/.exec(one) ?? [];
      const escaped = value.replaceAll(/[^\w]/g, '.');
      return new RegExp(String.raw`\b${key}\b[^.;(]{0,120}\((?:[^)]*\b)?${escaped}`).test(plain);
    };
    expect(found.defaults.size).toBeGreaterThan(10);
    expect([...found.defaults].filter((one) => !isNamed(one))).toEqual([]);
  });
});

describe('documented connector', () => {
  const document = readFileSync(new URL('../../docs/adding-a-connector.md', import.meta.url), 'utf8');
  const fixture = readFileSync(
    new URL('../fixtures/definitions/issue-tracker.yaml', import.meta.url),
    'utf8',
  );
  const example = readFileSync(new URL('../../docs/examples/issue-tracker.yaml', import.meta.url), 'utf8');

  describe('docs/adding-a-connector.md', () => {
    it('links to the definition that the tests run with', () => {
      expect(document).toContain('(examples/issue-tracker.yaml)');
      expect(example).toBe(fixture);
    });

    it('links to a definition that loads', () => {
      expect(parseDefinition('issue-tracker.yaml', example).problems).toEqual([]);
    });

    it('links to a definition that says how the service is asked', () => {
      const helpDesk = readFileSync('docs/examples/help-desk.yaml', 'utf8');
      expect(document).toContain('(examples/help-desk.yaml)');
      const upstream = parseDefinition('help-desk.yaml', helpDesk).definition?.upstream;
      expect(upstream?.host.get('company')?.pattern).toBe('[a-z0-9][a-z0-9-]{0,62}');
      const [tickets] = [...(upstream?.entities.values() ?? [])];
      expect(tickets?.list.paging).toEqual({
        kind: 'nextUrl',
        url: ['links', 'next'],
        keep: ['page[after]'],
        isAlone: false,
      });
      expect(tickets?.list.params.get('cursor')).toEqual({ kind: 'paging' });
      expect(tickets?.list.params.get('limit')).toMatchObject({ kind: 'query', name: 'page[size]' });
      expect(tickets?.get?.params.get('ticket_id')).toEqual({ kind: 'path' });
    });
  });
});
