import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JsonObject, JsonValue } from '../../src/core/json.ts';
import type { Entity } from '../../src/definitions/definition.ts';
import { createSampleAccount } from '../../src/sample/sample-service.ts';
import type { SampleAccount } from '../../src/sample/sample-account.ts';
import { sampleTruth, type TruthRecord } from '../support/sample-truth.ts';
import { definitions, object, objects, serveApi, type ServedApi } from '../support/service/served-api.ts';

let api: ServedApi;
beforeAll(async () => {
  api = await serveApi({
    accounts: types.map((definitionName) => ({
      connectorId: definitionName,
      workspace: 'default',
      definitionName,
      seed: 7,
      size: 'small' as const,
    })),
  });
});
afterAll(() => api.service.close());

const types = ['email-marketing', 'workspace-notes', 'document-library'] as const;
type ConnectorType = (typeof types)[number];

const accounts = new Map<string, SampleAccount>();

/** The first records that a complete walk of the entity finds, with the parameters that they are listed under. */
function someOf(type: string, entity: string, count: number): readonly TruthRecord[] {
  const account = accounts.get(type) ?? createSampleAccount({ definitionName: type, seed: 7, size: 'small' });
  accounts.set(type, account);
  const found: TruthRecord[] = [];
  for (const one of sampleTruth(account, entity)) {
    if (found.push(one) === count) break;
  }
  return found;
}

/** A block's place is no parameter. */
function listParams({ params }: TruthRecord): JsonObject {
  const { page_id: _page, depth: _depth, position: _position, ...rest } = params;
  return rest;
}

const entities = types.flatMap((type) =>
  [...(definitions.get(type)?.entities.values() ?? [])].map((entity) => [type, entity.name, entity] as const),
);

const link: JsonObject = {
  rel: expect.any(String) as string,
  href: expect.stringMatching(/^https:/) as string,
  method: expect.any(String) as string,
};

/** The keys of the connector and no other ones, however long the list is. */
function expectPaging(type: ConnectorType, metadata: JsonObject): void {
  switch (type) {
    case 'email-marketing': {
      expect(Object.keys(metadata)).toEqual(['links']);
      const links = objects(metadata['links']);
      expect(links.length).toBeGreaterThan(0);
      for (const one of links) expect(one).toMatchObject(link);
      return;
    }
    case 'workspace-notes':
      expect(metadata).toEqual(
        metadata['has_more'] === true
          ? { has_more: true, next_cursor: expect.any(String) as string }
          : { has_more: false, next_cursor: null },
      );
      return;
    case 'document-library':
      expect(metadata).toEqual(
        metadata['has_next_page'] === true
          ? { has_next_page: true, end_cursor: expect.any(String) as string }
          : { has_next_page: false, end_cursor: null },
      );
  }
}

/** Pages of one record, most of which others follow, and as large as may be. */
function pageSizes({ pagination }: Entity): readonly JsonObject[] {
  if (pagination.kind === 'single' || pagination.sizeParam === null) return [{}];
  return [{ [pagination.sizeParam]: 1 }, { [pagination.sizeParam]: pagination.maxSize ?? 1_000 }];
}

describe('every list', () => {
  // Proves specification 2.2.3, 2.2.5, 2.5.3, 2.7.2
  it.each(entities)(
    'of %s %s carries the paging keys of its connector and no others',
    async (type, name, entity) => {
      const [first] = someOf(type, name, 1);
      expect(first).toBeDefined();
      const params = first === undefined ? {} : listParams(first);
      for (const page of pageSizes(entity)) {
        const { records, metadata } = await api.list(type, name, { ...params, ...page });
        expect(records.length).toBeGreaterThan(0);
        expectPaging(type, metadata);
      }
    },
  );
});

describe('get', () => {
  const gettable = entities.filter(([, , { actions }]) => actions.get('get')?.isDirectOnly === false);

  // Proves specification 4.7.1, 4.8.2
  it.each(gettable)('of %s %s brings the record that the list shows', async (type, name, entity) => {
    const records = someOf(type, name, 3);
    expect(records.length).toBeGreaterThan(0);
    for (const { record, params } of records) {
      const asked = getParams(entity, { ...params, ...record });
      const { status, body } = await api.execute(type, { entity: name, action: 'get', params: asked });
      expect([asked, status]).toEqual([asked, 200]);
      expect(object(body['result'])).toMatchObject(record);
    }
  });
});

function getParams(entity: Entity, record: JsonObject): JsonObject {
  const key = entity.actions.get('get')?.key ?? new Map<string, string>();
  return Object.fromEntries([...key].map(([param, field]) => [param, record[field] ?? null]));
}

describe('block_id of the blocks of workspace notes', () => {
  const parentOf = ({ parent }: JsonObject): readonly unknown[] => {
    const { type = null, page_id = null, block_id = null } = object(parent);
    return [type, page_id ?? block_id];
  };
  const blocks = someOf('workspace-notes', 'blocks', 400).map(({ record }) => record);
  const page = someOf('workspace-notes', 'pages', 1).map(({ record }) => record);
  // A copy shows the children of another block, a database its pages as children of its own.
  const others = new Set<unknown>(['synced_block', 'child_page', 'child_database']);
  const above = blocks.filter(({ has_children, type }) => has_children === true && !others.has(type));

  // Proves specification 4.8.3
  it.each([
    ['a page', 'page_id', page],
    ['a block', 'block_id', above.slice(0, 5)],
  ])('is %s, and lists what has it as its parent', async (_what, type, parents) => {
    expect(parents.length).toBeGreaterThan(0);
    for (const { id: block_id = null } of parents) {
      const { records } = await api.list('workspace-notes', 'blocks', { block_id });
      expect(records.length).toBeGreaterThan(0);
      for (const record of records) expect(parentOf(record)).toEqual([type, block_id]);
    }
  });
});

describe('a rich text of workspace notes', () => {
  const isA = (kind: string, value: JsonValue | undefined): boolean =>
    typeof value === kind && !Array.isArray(value);

  // Proves specification 2.7.3
  it.each([
    ['data_sources', 'title'],
    ['data_sources', 'description'],
    ['comments', 'rich_text'],
  ])('is an array of what the specification names: %s %s', (entity, field) => {
    const items = someOf('workspace-notes', entity, 200).flatMap(({ record }) => objects(record[field]));
    expect(items.length).toBeGreaterThan(0);
    for (const { type, text, annotations, plain_text, href } of items) {
      // A piece that is no text (a mention, a formula) has its own member in place of `text`.
      expect([type, isA('object', text ?? {}), type !== 'text' || text !== undefined]).toEqual([
        expect.any(String),
        true,
        true,
      ]);
      expect([isA('object', annotations), isA('string', plain_text)]).toEqual([true, true]);
      expect(href === null || isA('string', href)).toBe(true);
    }
  });
});
