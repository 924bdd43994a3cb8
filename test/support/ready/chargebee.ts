import type { JsonObject } from '../../../src/core/json.ts';
import { textOf } from '../../../src/sample/sample-values.ts';
import { AnswerInstead, basicOf, jsonAnswer } from '../upstream/fake-server.ts';
import { type Listing, type ReadyService, rows, unix, whole } from './ready-service.ts';

const error = (status: number, message: string): JsonObject => ({
  message,
  api_error_code: 'invalid_request',
  http_status_code: status,
});

/** Newest first; each record stands below its own name, and the last page names no next one. */
function list({ records, kind, request }: Listing) {
  const { query } = request;
  const least = whole(request, 'updated_at[after]', 0, 1e11);
  const shown = records
    .filter(({ updated_at: changed }) => least === 0 || Number(changed) > least)
    .toReversed();
  const offset = query.get('offset');
  const [, id] = /^\["(.+)"\]$/.exec(offset ?? '') ?? [];
  const start = offset === null ? 0 : shown.findIndex((record) => record['id'] === id) + 1;
  if (offset !== null && start === 0) throw new AnswerInstead(jsonAnswer(400, error(400, 'invalid offset')));
  const end = start + whole(request, 'limit', 10, 100);
  const found = shown.slice(start, end);
  const name = kind.replace(/s$/, '');
  return jsonAnswer(200, {
    list: found.map((record) => ({ [name]: record })),
    ...(end < shown.length ? { next_offset: `["${textOf(found.at(-1)?.['id'])}"]` } : {}),
  });
}

const thing = (prefix: string, more: (n: number) => JsonObject) => (n: number) => ({
  id: `${prefix}${n}`,
  created_at: unix(n),
  updated_at: unix(n),
  resource_version: unix(n) * 1000,
  ...more(n),
});

export const chargebee: ReadyService = {
  name: 'chargebee',
  base: '/api/v2',
  signIn: ['API key', { site: 'acme-test', api_key: 'test_1' }],
  identity: '',
  isKnown: (request) => basicOf(request)?.join(':') === 'test_1:',
  others: { '/configurations': { configurations: [{ domain: 'acme-test', product_catalog_version: 'v2' }] } },
  knows: ['limit', 'offset', 'updated_at[after]', 'include_deleted', 'sort_by[asc]', 'sort_by[desc]'],
  error,
  list,
  long: 'invoices',
  deleted: { invoices: () => null, contacts: () => null },
  changed: (record) => ({ ...record, status: 'voided', updated_at: unix(90_000) }),
  sinceParam: 'updated_at[after]',
  kinds: {
    customers: {
      path: '/customers',
      rows: rows(
        4,
        thing('c', (n) => ({ email: `a${n}@example.test` })),
      ),
    },
    contacts: {
      path: '/customers/{customer_id}/contacts',
      rows: rows(3, (n) => ({ id: `k${n}`, first_name: `Ada ${n}`, enabled: true }), { customer_id: 'c2' }),
    },
    subscriptions: {
      path: '/subscriptions',
      rows: rows(
        3,
        thing('s', (n) => ({ customer_id: 'c1', status: n === 2 ? 'cancelled' : 'active' })),
      ),
    },
    invoices: {
      path: '/invoices',
      rows: rows(
        230,
        thing('i', (n) => ({ customer_id: 'c1', status: 'paid', total: 100 * n, line_items: [] })),
      ),
    },
    credit_notes: {
      path: '/credit_notes',
      rows: rows(
        1,
        thing('n', () => ({ status: 'adjusted' })),
      ),
    },
    transactions: {
      path: '/transactions',
      rows: rows(
        2,
        thing('t', () => ({ type: 'payment', amount: 900 })),
      ),
    },
    items: {
      path: '/items',
      rows: rows(
        2,
        thing('p', (n) => ({ type: 'plan', status: n === 1 ? 'archived' : 'active' })),
      ),
    },
    item_prices: {
      path: '/item_prices',
      rows: rows(
        2,
        thing('ip', () => ({ item_id: 'p1', price: 900 })),
      ),
    },
    coupons: {
      path: '/coupons',
      rows: rows(
        1,
        thing('cp', () => ({ status: 'expired' })),
      ),
    },
  },
};
