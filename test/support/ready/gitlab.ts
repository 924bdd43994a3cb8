import type { JsonObject } from '../../../src/core/json.ts';
import { jsonAnswer } from '../upstream/fake-server.ts';
import { type Listing, type ReadyService, rows, since, sortedBy, time, whole } from './ready-service.ts';

/** Newest first unless `order_by` and `sort` say otherwise; headers name the next page. */
function list({ records, kind, request }: Listing) {
  const { query } = request;
  const state = query.get('state') ?? 'all';
  const shown = since(records, 'updated_at', query.get('updated_after'))
    .filter((record) => state === 'all' || record['state'] === state)
    .filter((record) => query.get('membership') !== 'true' || record['permissions'] !== null);
  const sorted = sortedBy(shown, query.get('order_by') ?? (kind === 'labels' ? 'name' : 'created_at'));
  const inOrder = query.get('sort') === 'asc' ? sorted : sorted.toReversed();
  const size = whole(request, 'per_page', 20, 100);
  const page = whole(request, 'page', 1, 1e6);
  return jsonAnswer(200, inOrder.slice((page - 1) * size, page * size), {
    'x-page': String(page),
    'x-per-page': String(size),
    'x-next-page': page * size < inOrder.length ? String(page + 1) : '',
    'ratelimit-remaining': '1999',
    'ratelimit-reset': '1900000000',
  });
}

const author = { id: 7, username: 'ada', name: 'Ada', state: 'active' };
const dated = (n: number): JsonObject => ({ created_at: time(n), updated_at: time(n) });
const ofEngine = { project_id: '101' };
const text = 'owned starred membership archived order_by sort page per_page state scope updated_after';

export const gitlab: ReadyService = {
  name: 'gitlab',
  base: '/api/v4',
  signIn: ['Access token', { token: 'glpat-1', url: 'https://gitlab.example' }],
  identity: '7',
  isKnown: ({ headers }) => headers['private-token'] === 'glpat-1',
  others: { '/user': { id: 7, username: 'ada' } },
  knows: text.split(' '),
  error: (status, message) => ({ message: `${status} ${message}` }),
  list,
  long: 'issues',
  isThere: ({ permissions }) => permissions !== null,
  deleted: { issues: () => null, issue_notes: () => null, milestones: () => null },
  changed: (record) => ({ ...record, state: 'closed', updated_at: time(90_000), closed_at: time(90_000) }),
  sinceParam: 'updated_after',
  kinds: {
    projects: {
      path: '/projects',
      rows: rows(3, (n) => ({
        id: 100 + n,
        path_with_namespace: `ada/project-${n}`,
        namespace: { id: 7, kind: 'user', full_path: 'ada' },
        issues_access_level: n === 2 ? 'disabled' : 'enabled',
        merge_requests_access_level: 'enabled',
        // Of the last one, which is public, the user is no member.
        permissions: n === 3 ? null : { project_access: { access_level: 30 } },
        runners_token: 'GR1',
        ...dated(n),
      })),
    },
    issues: {
      path: '/projects/{project_id}/issues',
      rows: rows(
        230,
        (n) => ({
          id: 5000 + n,
          iid: n,
          project_id: 101,
          title: `Issue ${n}`,
          state: n % 3 === 0 ? 'closed' : 'opened',
          author,
          labels: ['bug'],
          milestone: n === 1 ? { id: 31, iid: 1, title: 'v1' } : null,
          ...dated(n),
        }),
        ofEngine,
      ),
    },
    issue_notes: {
      path: '/projects/{project_id}/issues/{issue_iid}/notes',
      rows: rows(
        120,
        (n) => ({
          id: 9000 + n,
          body: `Note ${n}`,
          author,
          system: n === 2,
          noteable_id: 5001,
          noteable_iid: 1,
          project_id: 101,
          ...dated(n),
        }),
        { ...ofEngine, issue_iid: '1' },
      ),
    },
    merge_requests: {
      path: '/projects/{project_id}/merge_requests',
      rows: rows(
        4,
        (n) => ({
          id: 7000 + n,
          iid: n,
          project_id: 102,
          source_project_id: 102,
          state: n === 1 ? 'merged' : 'opened',
          author,
          source_branch: `fix-${n}`,
          target_branch: 'main',
          merge_status: 'unchecked',
          ...dated(n),
        }),
        { project_id: '102' },
      ),
    },
    milestones: {
      path: '/projects/{project_id}/milestones',
      rows: rows(
        3,
        (n) => ({ id: 30 + n, iid: n, project_id: 101, title: `v${n}`, state: 'active', ...dated(n) }),
        ofEngine,
      ),
    },
    labels: {
      path: '/projects/{project_id}/labels',
      // That of a group stands in both listings.
      rows: [101, 102].flatMap((project) =>
        rows(2, (n) => ({ id: n === 1 ? 50 : project, name: `Label ${n}`, is_project_label: n === 2 }), {
          project_id: String(project),
        }),
      ),
    },
  },
};
