import type { JsonObject } from '../../../src/core/json.ts';
import { textOf } from '../../../src/sample/sample-values.ts';
import { AnswerInstead, basicOf, jsonAnswer } from '../upstream/fake-server.ts';
import { type Listing, type ReadyService, rows, time, unix, whole } from './ready-service.ts';

const error = (_status: number, description: string): JsonObject => ({ error: 'InvalidValue', description });

const encoded = (place: string): string => Buffer.from(place).toString('base64url');
const decoded = (cursor: string): string => Buffer.from(cursor, 'base64url').toString();

function refused(text: string): AnswerInstead {
  return new AnswerInstead(jsonAnswer(400, error(400, text)));
}

function list(listing: Listing) {
  return listing.request.path.includes('/incremental/') ? exportPage(listing) : page(listing);
}

/** All that changed since a time, oldest change first. The last page has a cursor too. */
function exportPage({ records, kind, request, url }: Listing) {
  const { query } = request;
  const changedAt = (record: JsonObject): number =>
    Number(record['generated_timestamp'] ?? Date.parse(textOf(record['updated_at'])) / 1000);
  const place = (record: JsonObject): string =>
    `${String(changedAt(record)).padStart(12, '0')}.${textOf(record['id']).padStart(8, '0')}`;
  const cursor = query.get('cursor');
  const start = query.get('start_time');
  if ((cursor === null) === (start === null)) throw refused('start_time or cursor');
  const from = cursor === null ? null : decoded(cursor);
  const shown = records
    .filter((record) =>
      from === null ? changedAt(record) >= whole(request, 'start_time', 0, 1e11) : place(record) > from,
    )
    .toSorted((left, right) => (place(left) < place(right) ? -1 : 1));
  const size = whole(request, 'per_page', 1000, 1000);
  const found = shown.slice(0, size);
  const last = found.at(-1);
  const after = encoded(last === undefined ? (from ?? '0') : place(last));
  return jsonAnswer(200, {
    [kind]: found,
    after_url: `${url}/incremental/${kind}/cursor?cursor=${after}&per_page=${size}`,
    after_cursor: after,
    before_url: null,
    before_cursor: null,
    end_of_stream: shown.length <= size,
  });
}

/** By cursor; oldest first. */
function page({ records, kind, request, url }: Listing) {
  const after = request.query.get('page[after]');
  const start = after === null ? 0 : records.findIndex(({ id }) => textOf(id) === decoded(after)) + 1;
  if (after !== null && start === 0) throw refused('invalid cursor');
  const end = start + whole(request, 'page[size]', 100, 100);
  const found = records.slice(start, end);
  const address = new URL(request.path, url).href;
  const cursor = found.length === 0 ? null : encoded(textOf(found.at(-1)?.['id']));
  return jsonAnswer(200, {
    [kind === 'ticket_comments' ? 'comments' : kind]: found,
    meta: { has_more: end < records.length, after_cursor: cursor, before_cursor: null },
    links: {
      next: end < records.length ? `${address}?page[size]=100&page[after]=${cursor}` : null,
      prev: null,
    },
  });
}

const dated = (n: number): JsonObject => ({ created_at: time(n), updated_at: time(n) });

export const zendesk: ReadyService = {
  name: 'zendesk',
  base: '/api/v2',
  signIn: ['API token', { subdomain: 'acme', email: 'ada@example.test', api_token: 'zd-1' }],
  identity: '',
  isKnown: (request) => basicOf(request)?.join(' ') === 'ada@example.test/token zd-1',
  others: { '/users/me': { user: { id: 1, email: 'ada@example.test', role: 'admin' } } },
  knows: ['start_time', 'cursor', 'per_page', 'page[size]', 'page[after]', 'page[before]', 'sort', 'include'],
  error,
  list,
  long: 'users',
  isThere: ({ active, status, deleted }) => active !== false && status !== 'deleted' && deleted !== true,
  deleted: {
    users: (record) => ({ ...record, active: false, updated_at: time(99_000) }),
    tickets: (record) => ({
      ...record,
      status: 'deleted',
      updated_at: time(99_000),
      generated_timestamp: unix(99_000),
    }),
    organizations: () => null,
  },
  changed: (record) => ({ ...record, name: 'Ada King', updated_at: time(90_000) }),
  sinceParam: 'start_time',
  kinds: {
    tickets: {
      path: '/incremental/tickets/cursor',
      rows: rows(12, (n) => ({
        id: n,
        subject: `Ticket ${n}`,
        status: n === 4 ? 'closed' : 'open',
        tags: ['a'],
        custom_fields: [{ id: 360, value: null }],
        via: { channel: 'email' },
        satisfaction_rating: n === 1 ? null : { score: 'offered' },
        ...dated(n),
        generated_timestamp: unix(n) + 7,
      })),
    },
    ticket_comments: {
      path: '/tickets/{ticket_id}/comments',
      rows: [1, 3].flatMap((ticket) =>
        rows(
          ticket === 1 ? 120 : 2,
          (n) => ({
            id: ticket * 1000 + n,
            type: 'Comment',
            body: `Text ${n}`,
            public: true,
            created_at: time(n),
          }),
          { ticket_id: String(ticket) },
        ),
      ),
    },
    users: {
      path: '/incremental/users/cursor',
      rows: rows(2_100, (n) => ({ id: n, name: `Ada ${n}`, role: 'end-user', active: true, ...dated(n) })),
    },
    organizations: {
      path: '/organizations',
      rows: rows(103, (n) => ({ id: n, name: `Org ${n}`, domain_names: [], ...dated(n) })),
    },
    groups: {
      path: '/groups',
      rows: rows(3, (n) => ({ id: n, name: `Group ${n}`, deleted: n === 2, ...dated(n) })),
    },
    ticket_fields: {
      path: '/ticket_fields',
      rows: rows(3, (n) => ({ id: 359 + n, type: 'text', title: `Field ${n}`, active: true, ...dated(n) })),
    },
  },
};
