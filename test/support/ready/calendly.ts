import type { JsonObject } from '../../../src/core/json.ts';
import { textOf } from '../../../src/sample/sample-values.ts';
import { AnswerInstead, jsonAnswer, tokenOf } from '../upstream/fake-server.ts';
import { type Listing, type ReadyService, rows, sortedBy, time, whole } from './ready-service.ts';

const api = 'https://api.calendly.com';
const error = (_status: number, message: string): JsonObject => ({ title: 'Invalid Argument', message });

/** By token; canceled meetings are listed too unless `status` says otherwise. */
function list({ records, request, url }: Listing) {
  const { query } = request;
  const status = query.get('status');
  const shown = records.filter((record) => status === null || record['status'] === status);
  const [field = 'created_at', direction = 'asc'] = query.get('sort')?.split(':') ?? [];
  const inOrder = direction === 'desc' ? sortedBy(shown, field).toReversed() : sortedBy(shown, field);
  const token = query.get('page_token');
  const last = Buffer.from(token ?? '', 'base64url').toString();
  const start = token === null ? 0 : inOrder.findIndex(({ uri }) => uri === last) + 1;
  if (token !== null && start === 0) throw new AnswerInstead(jsonAnswer(400, error(400, 'page_token')));
  const end = start + whole(request, 'count', 20, 100);
  const found = inOrder.slice(start, end);
  const isLast = end >= inOrder.length;
  const next = isLast ? null : Buffer.from(textOf(found.at(-1)?.['uri'])).toString('base64url');
  return jsonAnswer(200, {
    collection: found,
    pagination: {
      count: found.length,
      next_page: isLast ? null : `${url}?page_token=${next}`,
      next_page_token: next,
    },
  });
}

const dated = (n: number): JsonObject => ({ created_at: time(n), updated_at: time(n) });
const organization = `${api}/organizations/AAAA`;
const inOrganization = { organization };

export const calendly: ReadyService = {
  name: 'calendly',
  base: '',
  signIn: ['Personal access token', { token: 'cal-1' }],
  settings: inOrganization,
  identity: organization,
  isKnown: (request) => tokenOf(request) === 'cal-1',
  others: {
    '/users/me': { resource: { uri: `${api}/users/U1`, name: 'Ada', current_organization: organization } },
  },
  knows: [
    'organization',
    'user',
    'count',
    'page_token',
    'sort',
    'status',
    'min_start_time',
    'max_start_time',
  ],
  error,
  list,
  long: 'scheduled_events',
  deleted: { scheduled_events: () => null, invitees: () => null },
  changed: (record) => ({ ...record, status: 'canceled', updated_at: time(90_000) }),
  sinceParam: null,
  kinds: {
    memberships: {
      path: '/organization_memberships',
      needs: ['organization'],
      rows: rows(
        3,
        (n) => ({
          uri: `${api}/organization_memberships/M${n}`,
          role: 'user',
          user: { email: 'a@b.test' },
          ...dated(n),
        }),
        inOrganization,
      ),
    },
    event_types: {
      path: '/event_types',
      needs: ['organization'],
      rows: rows(
        2,
        (n) => ({ uri: `${api}/event_types/T${n}`, active: n === 1, ...dated(n) }),
        inOrganization,
      ),
    },
    scheduled_events: {
      path: '/scheduled_events',
      needs: ['organization'],
      rows: rows(
        230,
        (n) => ({
          uri: `${api}/scheduled_events/E${n}`,
          name: `Call ${n}`,
          status: n === 4 ? 'canceled' : 'active',
          start_time: time(n + 1_000),
          ...dated(n),
        }),
        inOrganization,
      ),
    },
    invitees: {
      path: '/scheduled_events/{event_uuid}/invitees',
      rows: rows(
        3,
        (n) => ({
          uri: `${api}/scheduled_events/E3/invitees/I${n}`,
          event: `${api}/scheduled_events/E3`,
          status: n === 1 ? 'canceled' : 'active',
          ...dated(n),
        }),
        { event_uuid: 'E3' },
      ),
    },
  },
};
