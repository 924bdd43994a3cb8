import { expect, it } from 'vitest';
import { searchCall } from '../../../src/source/api/open-api-source.ts';
import { success } from '../../support/hostile/replies.ts';
import {
  connectorId,
  failureOf,
  never,
  openTestSource,
  type TestSource,
} from '../../support/source/open-test-source.ts';
import { entityName, testDefinition } from '../../support/source/test-definition.ts';

let open: TestSource;

const definition = testDefinition();
const search = async (result: unknown) => {
  open = await openTestSource({ respond: () => success(result) });
  const entity = definition.entities.get(entityName('members'));
  if (entity === undefined) throw new Error('no entity');
  const params = { query: {}, limit: 5 };
  const call = searchCall({ connector: connectorId('c1'), definition, entity, params });
  const budget = open.client.openBudget({ concurrency: 1, requestsPerSecond: 1000 });
  return open.client.call(call, budget, () => undefined, never);
};

it.each<[string, unknown, object]>([
  ['an array', [1], { records: [1], hasMore: false, cursor: null, tookMs: null }],
  [
    'data and meta',
    { data: [1], meta: { has_more: true, cursor: 'n', took_ms: 4 } },
    { records: [1], hasMore: true, cursor: 'n', tookMs: 4 },
  ],
  [
    'a last page that has a cursor all the same',
    { data: [1], meta: { has_more: false, cursor: 'n' } },
    { hasMore: false },
  ],
  [
    'a flag without a cursor',
    { data: [1], meta: { has_more: true, cursor: '' } },
    { hasMore: false, cursor: null },
  ],
  [
    'hits',
    { hits: [{ id: 'x', score: 1, data: 1 }], next_cursor: 'n', took_ms: 4 },
    { records: [1], hasMore: true, cursor: 'n', tookMs: 4 },
  ],
  ['null', null, { records: [], hasMore: false }],
  ['null in place of data', { data: null, meta: null }, { records: [], hasMore: false }],
  ['data and a null meta', { data: [], meta: null }, { records: [], hasMore: false }],
])('reads %s', async (_title, result, expected) => {
  expect(await search(result)).toMatchObject(expected);
  expect(open.server.calls[0]?.body).toMatchObject({
    action: 'context_store_search',
    skip_truncation: true,
  });
});

it.each([['text'], [{ rows: [] }], [{ hits: [{ id: 'x' }] }]])('refuses %j as a result', async (result) => {
  expect(await failureOf(search(result))).toMatchObject({ code: 'BODY_INVALID' });
});
