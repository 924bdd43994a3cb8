import type { JsonObject } from '../../../src/core/json.ts';
import { textOf } from '../../../src/sample/sample-values.ts';
import { AnswerInstead, basicOf, jsonAnswer } from '../upstream/fake-server.ts';
import { type Listing, type ReadyService, rows, since, sortedBy, time, whole } from './ready-service.ts';

const error = (_status: number, description: string): JsonObject => ({ description, errors: [] });

/** The day on which the test reads: tickets of 30 days before are shown without `updated_since`. */
const monthAgo = time(120);

/** Tickets newest first unless `order_by` and `order_type` say otherwise, at most 300 pages of them. */
function list({ records, kind, request, url }: Listing) {
  const { query } = request;
  const isTickets = kind === 'tickets';
  const changed = query.get('updated_since');
  const shown =
    isTickets && changed === null
      ? records.filter(({ created_at: made }) => textOf(made) >= monthAgo)
      : since(records, 'updated_at', changed);
  const sorted = sortedBy(shown, query.get('order_by') ?? 'created_at');
  const inOrder = isTickets && query.get('order_type') !== 'asc' ? sorted.toReversed() : sorted;
  const size = whole(request, 'per_page', 30, 100);
  const page = whole(request, 'page', 1, 1e6);
  if (isTickets && page > 300) throw new AnswerInstead(jsonAnswer(400, error(400, 'page')));
  const next = new URLSearchParams([...query].filter(([name]) => name !== 'page'));
  next.set('page', String(page + 1));
  const link = `<${url}/${kind}?${next.toString()}>; rel="next"`;
  return jsonAnswer(
    200,
    inOrder.slice((page - 1) * size, page * size),
    page * size < inOrder.length ? { link } : {},
  );
}

const dated = (n: number): JsonObject => ({ created_at: time(n), updated_at: time(n) });

export const freshdesk: ReadyService = {
  name: 'freshdesk',
  base: '/api/v2',
  signIn: ['API key', { domain: 'acme', api_key: 'fd-1' }],
  identity: '',
  isKnown: (request) => basicOf(request)?.join(':') === 'fd-1:X',
  others: { '/agents/me': { id: 1, contact: { email: 'ada@example.test' } } },
  knows: ['updated_since', 'order_by', 'order_type', 'page', 'per_page', 'include', 'filter', 'state'],
  error,
  list,
  long: 'tickets',
  deleted: { tickets: () => null, contacts: () => null },
  changed: (record) => ({ ...record, status: 5, updated_at: time(90_000) }),
  sinceParam: 'updated_since',
  kinds: {
    tickets: {
      path: '/tickets',
      rows: rows(230, (n) => ({
        id: n,
        subject: `Ticket ${n}`,
        status: n % 3 === 0 ? 5 : 2,
        tags: [],
        ...dated(n),
      })),
    },
    conversations: {
      path: '/tickets/{ticket_id}/conversations',
      rows: rows(
        3,
        (n) => ({ id: n, body_text: `Text ${n}`, incoming: n === 1, private: false, ...dated(n) }),
        {
          ticket_id: '7',
        },
      ),
    },
    contacts: {
      path: '/contacts',
      rows: rows(102, (n) => ({ id: n, name: `Ada ${n}`, active: true, ...dated(n) })),
    },
    companies: { path: '/companies', rows: rows(2, (n) => ({ id: n, name: `Company ${n}`, ...dated(n) })) },
    agents: {
      path: '/agents',
      rows: rows(2, (n) => ({ id: n, contact: { email: 'a@b.test' }, ...dated(n) })),
    },
    groups: { path: '/groups', rows: rows(1, (n) => ({ id: n, name: 'Support', ...dated(n) })) },
  },
};
