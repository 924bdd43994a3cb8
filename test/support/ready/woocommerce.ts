import type { JsonObject } from '../../../src/core/json.ts';
import { textOf } from '../../../src/sample/sample-values.ts';
import { basicOf, jsonAnswer } from '../upstream/fake-server.ts';
import { type Listing, type ReadyService, rows, sortedBy, time, whole } from './ready-service.ts';

const local = (n: number): string => time(n).replace('Z', '');

/** Newest first unless `orderby` and `order` say otherwise; a header says how many there are. */
function list({ records, kind, request }: Listing) {
  const { query } = request;
  const after = query.get('modified_after');
  const isGmt = query.get('dates_are_gmt') === 'true';
  const role = query.get('role') ?? 'customer';
  const shown = records
    .filter(
      (record) => after === null || textOf(record[isGmt ? 'date_modified_gmt' : 'date_modified']) > after,
    )
    .filter((record) => kind !== 'customers' || role === 'all' || record['role'] === role);
  const sorted = sortedBy(shown, query.get('orderby') === 'id' ? 'id' : 'date_created_gmt');
  const inOrder = query.get('order') === 'asc' ? sorted : sorted.toReversed();
  const size = whole(request, 'per_page', 10, 100);
  const page = whole(request, 'page', 1, 1e6);
  return jsonAnswer(200, inOrder.slice((page - 1) * size, page * size), {
    'x-wp-total': String(shown.length),
    'x-wp-totalpages': String(Math.ceil(shown.length / size)),
  });
}

/** The store's own time is two hours ahead. */
const thing = (more: (n: number) => JsonObject) => (n: number) => ({
  id: n,
  date_created: local(n + 120),
  date_created_gmt: local(n),
  date_modified: local(n + 120),
  date_modified_gmt: local(n),
  meta_data: [],
  _links: { self: [{ href: 'https://shop.example' }] },
  ...more(n),
});

export const woocommerce: ReadyService = {
  name: 'woocommerce',
  base: '/wp-json/wc/v3',
  signIn: [
    'REST API key',
    { store_url: 'https://shop.example', consumer_key: 'ck_1', consumer_secret: 'cs_1' },
  ],
  identity: '',
  isKnown: (request) => basicOf(request)?.join(' ') === 'ck_1 cs_1',
  others: { '/system_status': { environment: { site_url: 'https://shop.example' } } },
  knows: 'page per_page orderby order modified_after dates_are_gmt after status role _fields'.split(' '),
  error: (status, message) => ({ code: 'woocommerce_rest_error', message, data: { status } }),
  list,
  long: 'orders',
  deleted: { orders: () => null, product_variations: () => null, coupons: () => null },
  changed: (record) => ({
    ...record,
    status: 'completed',
    date_modified: local(90_120),
    date_modified_gmt: local(90_000),
  }),
  sinceParam: 'modified_after',
  kinds: {
    product_categories: {
      path: '/products/categories',
      rows: rows(3, (n) => ({ id: n, name: `Category ${n}`, parent: 0, count: n })),
    },
    products: {
      path: '/products',
      rows: rows(
        12,
        thing((n) => ({ name: `Product ${n}`, type: n === 5 ? 'variable' : 'simple', price: '9.50' })),
      ),
    },
    product_variations: {
      path: '/products/{product_id}/variations',
      rows: rows(
        3,
        thing((n) => ({ id: 500 + n, price: '9.50', manage_stock: n === 1 ? 'parent' : false })),
        {
          product_id: '5',
        },
      ),
    },
    coupons: {
      path: '/coupons',
      rows: rows(
        3,
        thing((n) => ({ code: `c-${n}`, amount: '5.00' })),
      ),
    },
    customers: {
      path: '/customers',
      rows: rows(
        4,
        thing((n) => ({ role: n === 1 ? 'administrator' : 'customer', email: 'a@example.test' })),
      ),
    },
    orders: {
      path: '/orders',
      rows: rows(
        230,
        thing((n) => ({ number: `${n}`, status: 'pending', total: '12.00', line_items: [], refunds: [] })),
      ),
    },
  },
};
