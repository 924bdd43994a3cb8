import type { JsonObject } from '../../../src/core/json.ts';
import { AnswerInstead, jsonAnswer, tokenOf } from '../upstream/fake-server.ts';
import { type Listing, type ReadyService, rows, unix, whole } from './ready-service.ts';

const error = (_status: number, message: string): JsonObject => ({
  error: { type: 'invalid_request_error', message },
});

const thing = (prefix: string, object: string, more: (n: number) => JsonObject) => (n: number) => ({
  id: `${prefix}_${String(n).padStart(4, '0')}`,
  object,
  created: unix(n),
  livemode: false,
  metadata: { order: `o-${n}` },
  ...more(n),
});

/** Newest first; `starting_after` names the last record of the page before. */
function list({ records, kind, request }: Listing) {
  const { query } = request;
  const least = whole(request, 'created[gte]', 0, 1e12);
  const status = kind === 'subscriptions' ? (query.get('status') ?? 'not canceled') : 'all';
  const shown = records
    .filter(({ created }) => created === undefined || Number(created) >= least)
    .filter((record) => {
      const isCanceled = record['status'] === 'canceled';
      return status === 'all' || (status === 'not canceled' ? !isCanceled : record['status'] === status);
    })
    .toReversed();
  const after = query.get('starting_after');
  const at = after === null ? 0 : shown.findIndex(({ id }) => id === after) + 1;
  if (after !== null && at === 0) {
    throw new AnswerInstead(jsonAnswer(400, error(400, `No such ${kind}: '${after}'`)));
  }
  const end = at + whole(request, 'limit', 10, 100);
  return jsonAnswer(200, {
    object: 'list',
    url: request.path,
    has_more: end < shown.length,
    data: shown.slice(at, end),
  });
}

const money = (n: number): JsonObject => ({ amount: 100 * n, currency: 'eur' });

export const stripe: ReadyService = {
  name: 'stripe',
  base: '/v1',
  signIn: ['API key', { api_key: 'sk_test_51a' }],
  identity: 'acct_1032D82eZvKYlo2C',
  isKnown: (request) => tokenOf(request) === 'sk_test_51a',
  others: { '/account': { id: 'acct_1032D82eZvKYlo2C', settings: { dashboard: { display_name: 'Shop' } } } },
  knows: ['limit', 'starting_after', 'ending_before', 'created[gte]', 'status', 'subscription'],
  error,
  list,
  long: 'customers',
  changed: (record) => ({ ...record, name: 'Ada King' }),
  sinceParam: null,
  deleted: { customers: () => null, subscription_items: () => null, invoice_lines: () => null },
  kinds: {
    customers: {
      path: '/customers',
      rows: rows(
        230,
        thing('cus', 'customer', (n) => ({ name: `Ada ${n}`, email: null, balance: 0 })),
      ),
    },
    products: {
      path: '/products',
      rows: rows(
        3,
        thing('prod', 'product', (n) => ({ active: n > 1, updated: unix(n), name: `P ${n}` })),
      ),
    },
    prices: {
      path: '/prices',
      rows: rows(
        3,
        thing('price', 'price', (n) => ({ active: n > 1, product: 'prod_0001', unit_amount: n })),
      ),
    },
    subscriptions: {
      path: '/subscriptions',
      rows: rows(
        3,
        thing('sub', 'subscription', (n) => ({ status: n === 2 ? 'canceled' : 'active' })),
      ),
    },
    subscription_items: {
      path: '/subscription_items',
      needs: ['subscription'],
      rows: ['sub_0001', 'sub_0002'].flatMap((subscription, at) =>
        rows(
          2,
          (n) => ({
            id: `si_${at}${n}`,
            object: 'subscription_item',
            created: unix(n),
            subscription,
            price: { id: 'price_0001' },
            quantity: n,
          }),
          { subscription },
        ),
      ),
    },
    invoices: {
      path: '/invoices',
      rows: rows(
        2,
        thing('in', 'invoice', (n) => ({ status: 'paid', total: n, lines: { data: [] } })),
      ),
    },
    invoice_lines: {
      path: '/invoices/{invoice_id}/lines',
      rows: rows(
        120,
        (n) => ({
          id: `il_${n}`,
          object: 'line_item',
          ...money(n),
          period: { start: unix(n), end: unix(n + 1) },
        }),
        { invoice_id: 'in_0002' },
      ),
    },
    payment_intents: {
      path: '/payment_intents',
      rows: rows(
        2,
        thing('pi', 'payment_intent', (n) => ({ ...money(n), client_secret: 'pi_secret' })),
      ),
    },
    charges: { path: '/charges', rows: rows(2, thing('ch', 'charge', money)) },
    refunds: { path: '/refunds', rows: rows(1, thing('re', 'refund', money)) },
    disputes: { path: '/disputes', rows: rows(1, thing('dp', 'dispute', money)) },
    balance_transactions: {
      path: '/balance_transactions',
      rows: rows(
        2,
        thing('txn', 'balance_transaction', (n) => ({ ...money(n), exchange_rate: 1.25, fee: 30 })),
      ),
    },
    payouts: { path: '/payouts', rows: rows(1, thing('po', 'payout', money)) },
    events: {
      path: '/events',
      rows: rows(
        5,
        thing('evt', 'event', () => ({ type: 'customer.updated' })),
      ),
    },
  },
};
