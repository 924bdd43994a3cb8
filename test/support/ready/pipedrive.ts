import type { JsonObject } from '../../../src/core/json.ts';
import { textOf } from '../../../src/sample/sample-values.ts';
import { AnswerInstead, jsonAnswer } from '../upstream/fake-server.ts';
import { type Listing, type ReadyService, rows, since, sortedBy, time, whole } from './ready-service.ts';

const error = (_status: number, text: string): JsonObject => ({
  success: false,
  error: text,
  error_info: '',
});

/** Version 2: by id unless `sort_by` says otherwise, with a cursor. */
function list(listing: Listing) {
  const { records, request } = listing;
  if (request.path.includes('/v1/')) return oldList(listing);
  const shown = sortedBy(
    since(records, 'update_time', request.query.get('updated_since')),
    request.query.get('sort_by') ?? 'id',
  );
  const cursor = request.query.get('cursor');
  const [, text] = /^from (\d+)$/.exec(Buffer.from(cursor ?? '', 'base64url').toString()) ?? [];
  if (cursor !== null && text === undefined) {
    throw new AnswerInstead(jsonAnswer(400, error(400, 'Invalid cursor')));
  }
  const least = Number(text ?? 0);
  const left = shown.filter(({ id }) => Number(id) >= least);
  const size = whole(request, 'limit', 100, 500);
  const next = left[size]?.['id'];
  return jsonAnswer(200, {
    success: true,
    data: left.slice(0, size),
    additional_data: {
      next_cursor: next === undefined ? null : Buffer.from(`from ${textOf(next)}`).toString('base64url'),
    },
  });
}

/** Version 1: users all at once, others by `start`; no records are null. */
function oldList({ records, kind, request }: Listing) {
  if (kind === 'users') return jsonAnswer(200, { success: true, data: records });
  const start = whole(request, 'start', 0, 1e9);
  const limit = whole(request, 'limit', 100, 500);
  const found = records.slice(start, start + limit);
  const more = start + limit < records.length;
  const pagination = {
    start,
    limit,
    more_items_in_collection: more,
    ...(more ? { next_start: start + limit } : {}),
  };
  return jsonAnswer(200, {
    success: true,
    data: found.length === 0 ? null : found,
    additional_data: { pagination },
  });
}

const thing = (more: (n: number) => JsonObject) => (n: number) => ({
  id: n,
  add_time: time(n),
  update_time: time(n),
  is_deleted: false,
  ...more(n),
});
const deal = (n: number): JsonObject => ({
  title: `Deal ${n}`,
  value: 10.5 * n,
  status: 'open',
  custom_fields: {},
});

export const pipedrive: ReadyService = {
  name: 'pipedrive',
  base: '/api',
  signIn: ['API token', { api_token: 'pd-1' }],
  identity: '42',
  isKnown: ({ headers }) => headers['x-api-token'] === 'pd-1',
  others: { '/v1/users/me': { success: true, data: { id: 1, company_id: 42, company_name: 'Acme' } } },
  knows: [
    'cursor',
    'limit',
    'updated_since',
    'updated_until',
    'sort_by',
    'sort_direction',
    'status',
    'start',
    'sort',
  ],
  error,
  list,
  long: 'persons',
  deleted: { persons: () => null, deals: () => null, notes: () => null },
  changed: (record) => ({ ...record, name: 'Ada King', update_time: time(90_000) }),
  sinceParam: 'updated_since',
  kinds: {
    users: { path: '/v1/users', rows: rows(3, (n) => ({ id: n, name: `User ${n}`, active_flag: n < 3 })) },
    pipelines: {
      path: '/v2/pipelines',
      rows: rows(
        1,
        thing(() => ({ name: 'Sales' })),
      ),
    },
    stages: {
      path: '/v2/stages',
      rows: rows(
        4,
        thing((n) => ({ name: `Stage ${n}`, pipeline_id: 1 })),
      ),
    },
    organizations: {
      path: '/v2/organizations',
      rows: rows(
        5,
        thing((n) => ({ name: `Org ${n}` })),
      ),
    },
    persons: {
      path: '/v2/persons',
      rows: rows(
        1_100,
        thing((n) => ({ name: `Ada ${n}`, emails: [{ value: 'a@example.test', primary: true }] })),
      ),
    },
    archived_deals: {
      path: '/v2/deals/archived',
      rows: rows(
        2,
        thing((n) => ({ ...deal(n), id: 900 + n, is_archived: true })),
      ),
    },
    deals: {
      path: '/v2/deals',
      rows: rows(
        6,
        thing((n) => ({ ...deal(n), is_archived: false })),
      ),
    },
    deal_products: {
      path: '/v2/deals/{deal_id}/products',
      rows: rows(
        2,
        thing((n) => ({ product_id: n, item_price: 9.5, quantity: n })),
        { deal_id: '3' },
      ),
    },
    activities: {
      path: '/v2/activities',
      rows: rows(
        3,
        thing((n) => ({ subject: `Call ${n}`, done: n === 1 })),
      ),
    },
    products: {
      path: '/v2/products',
      rows: rows(
        2,
        thing((n) => ({ name: `Product ${n}`, prices: [] })),
      ),
    },
    notes: {
      path: '/v1/notes',
      rows: rows(3, (n) => ({
        id: n,
        content: `<b>${n}</b>`,
        add_time: `2026-01-0${n} 08:00:00`,
        user_id: 1,
      })),
    },
  },
};
