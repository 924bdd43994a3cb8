import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/core/json.ts';
import type { Entity } from '../../src/definitions/definition.ts';
import type { EntityName } from '../../src/core/names.ts';
import { createSampleAccount, listPage } from '../../src/sample/sample-service.ts';
import { sampleTruth } from '../support/sample-truth.ts';
import { isLong } from '../support/trials.ts';
import {
  definitions,
  mailing,
  notes,
  sampleAccounts,
  serveApi,
  type ServedApi,
  text,
} from '../support/service/served-api.ts';

let api: ServedApi;
beforeAll(async () => {
  api = await serveApi({ accounts: sampleAccounts('small') });
});
afterAll(() => api.service.close());

const account = (definitionName: string) => createSampleAccount({ definitionName, seed: 7, size: 'small' });

/** Every page of one list, at the size that is asked for. */
async function wholeList(
  connector: string,
  entity: Entity,
  params: JsonObject,
  size: number,
): Promise<JsonObject[]> {
  const records: JsonObject[] = [];
  const { pagination } = entity;
  for (let token: JsonObject = {}; ;) {
    const paging: JsonObject =
      pagination.kind === 'single' ? {} : { [pagination.sizeParam ?? '']: size, ...token };
    const page = await api.list(connector, entity.name, { ...params, ...paging });
    records.push(...page.records);
    if (pagination.kind === 'single') return records;
    if (pagination.kind === 'offset') {
      if (page.records.length < size) return records;
      token = { [pagination.offsetParam]: records.length };
      continue;
    }
    if (pagination.kind !== 'pageToken') throw new Error('expected offsets or tokens');
    if (page.metadata['has_more'] !== true) return records;
    token = { [pagination.tokenParam]: page.metadata['next_cursor'] ?? null };
  }
}

describe.each([
  [mailing, 'email-marketing'],
  [notes, 'workspace-notes'],
])('%s', (connector, definitionName) => {
  const entities = [...(definitions.get(definitionName)?.entities.values() ?? [])];

  // Proves specification 4.4.6, 4.7.15, 4.8.9
  it.each(entities.map((entity) => [entity.name, entity] as const))(
    '%s: page by page over all parents brings the truth, each record once and in order',
    async (_name, entity) => {
      const expected = new Map<string, { params: JsonObject; records: JsonObject[] }>();
      for (const { record, params } of sampleTruth(account(definitionName), entity.name)) {
        // A block's place is no parameter.
        const { page_id: _page, depth: _depth, position: _position, ...parent } = params;
        const list = expected.get(JSON.stringify(parent)) ?? { params: parent, records: [] };
        const filled = [...entity.filledFrom].map(([field, source]) => [field, record[source] ?? null]);
        list.records.push({ ...record, ...Object.fromEntries(filled) } as JsonObject);
        expected.set(JSON.stringify(parent), list);
      }
      expect(expected.size).toBeGreaterThan(0);
      const lists = [...expected.values()];
      // All of them: `npm run test:long`.
      const walked = isLong || lists.length < 10 ? lists : lists.filter((_, index) => index % 5 === 0);
      for (const { params, records } of walked) {
        // A size that does not divide the lists' lengths, so that last pages are short.
        const size = records.length > 1_000 ? 1_000 : 97;
        expect(await wholeList(connector, entity, params, size)).toEqual(records);
      }
    },
  );
});

describe('offset paging', () => {
  const listId = (): string => text(account('email-marketing').list('lists', {}).slice(0, 1)[0]?.['id']);

  // Proves specification 8.1
  it('answers with ten records when no count is given', async () => {
    expect((await api.list(mailing, 'list_members', { list_id: listId() })).records).toHaveLength(10);
    expect((await api.list(mailing, 'campaigns')).records).toHaveLength(10);
  });

  // Proves specification 8.1
  it('caps count at 1000 silently', async () => {
    const capped = await api.list(mailing, 'list_members', { list_id: listId(), count: 5_000 });
    expect(capped.records).toHaveLength(1_000);
    expect(Object.keys(capped.metadata)).toEqual(['links']);
  });

  // Proves specification 4.7.15
  it('answers an offset past the end with an empty page', async () => {
    expect((await api.list(mailing, 'list_members', { list_id: listId(), offset: 2_300 })).records).toEqual(
      [],
    );
    expect((await api.list(mailing, 'lists', { offset: 2 ** 40 })).records).toEqual([]);
  });
});

describe('page tokens', () => {
  const filter = { property: 'object', value: 'page' };
  const tokenOf = async (params: JsonObject): Promise<string> =>
    text((await api.list(notes, 'pages', { filter, ...params })).metadata['next_cursor']);
  const statusOf = async (entity: string, params: JsonObject): Promise<number> =>
    (await api.execute(notes, { entity, action: 'list', params })).status;

  // Proves specification 4.8.10
  it('hold for the list they were given for, at any page size', async () => {
    const start_cursor = await tokenOf({ page_size: 10 });
    expect(await statusOf('pages', { filter, start_cursor, page_size: 7 })).toBe(200);
    expect(await statusOf('pages', { start_cursor })).toBe(400);
    expect(await statusOf('users', { start_cursor })).toBe(400);
  });

  it('are refused when one character is changed', async () => {
    const token = await tokenOf({ page_size: 10 });
    for (const at of [0, 20, token.length - 1]) {
      const changed = token.slice(0, at) + (token[at] === 'A' ? 'B' : 'A') + token.slice(at + 1);
      expect(await statusOf('pages', { filter, start_cursor: changed })).toBe(400);
    }
  });

  // Proves specification 4.8.10
  it('do not outlive the service that gave them', async () => {
    await using other = await serveApi({ accounts: sampleAccounts('small') });
    const token = text((await other.list(notes, 'users', { page_size: 5 })).metadata['next_cursor']);
    expect(await statusOf('users', { start_cursor: token })).toBe(400);
  });
});

it('refuses a way of paging that no definition with sample data has', () => {
  const campaigns = definitions.get('email-marketing')?.entities.get('campaigns' as EntityName);
  if (campaigns === undefined) throw new Error('no campaigns');
  const keys = { flagKeys: [], totalKeys: [] } as const;
  const pagination = {
    kind: 'page',
    pageParam: 'page',
    first: 1,
    sizeParam: null,
    maxSize: 4,
    ...keys,
  } as const;
  const request = { entity: { ...campaigns, pagination }, params: {}, signal: new AbortController().signal };
  expect(() => listPage(account('email-marketing'), request, 'c1', Buffer.alloc(32))).toThrow(
    "Sample accounts page by offset or by token, not as 'campaigns' does ('page').",
  );
});
