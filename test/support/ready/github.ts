import type { JsonObject } from '../../../src/core/json.ts';
import { jsonAnswer, tokenOf } from '../upstream/fake-server.ts';
import { type Listing, type ReadyService, rows, since, sortedBy, time, whole } from './ready-service.ts';

/** Newest first unless `sort` and `direction` say otherwise; the `Link` header names the other pages. */
function list({ records, kind, request, url }: Listing) {
  const { query } = request;
  const state = query.get('state') ?? (kind === 'issues' || kind === 'pull_requests' ? 'open' : 'all');
  const changed = since(records, 'updated_at', query.get('since'));
  const shown = changed.filter((record) => state === 'all' || record['state'] === state);
  const field = query.get('sort') === 'updated' ? 'updated_at' : 'created_at';
  const sorted = sortedBy(shown, field);
  const inOrder = query.has('sort') && query.get('direction') === 'asc' ? sorted : sorted.toReversed();
  const size = whole(request, 'per_page', 30, 100);
  const page = whole(request, 'page', 1, 1e6);
  const link = (to: number, rel: string): string => {
    const others = new URLSearchParams([...query].filter(([name]) => name !== 'page'));
    return `<${url}${request.path}?${others.toString()}&page=${to}>; rel="${rel}"`;
  };
  const links = [
    ...(page > 1 ? [link(page - 1, 'prev'), link(1, 'first')] : []),
    ...(page * size < inOrder.length ? [link(page + 1, 'next')] : []),
  ];
  return jsonAnswer(200, inOrder.slice((page - 1) * size, page * size), {
    'x-ratelimit-remaining': '4999',
    'x-ratelimit-reset': '1900000000',
    ...(links.length === 0 ? {} : { link: links.join(', ') }),
  });
}

const user = { login: 'ada', id: 7, type: 'User' };
const dated = (n: number): JsonObject => ({ created_at: time(n), updated_at: time(n) });
const ofAda = { owner: 'ada', repo: 'engine' };
const comment = (n: number): JsonObject => ({ id: 9000 + n, body: `Note ${n}`, user, ...dated(n) });

export const github: ReadyService = {
  name: 'github',
  base: '',
  signIn: ['Personal access token', { token: 'github_pat_11A' }],
  identity: '7',
  isKnown: (request) => tokenOf(request) === 'github_pat_11A',
  others: { '/user': { id: 7, login: 'ada' } },
  knows: ['visibility', 'affiliation', 'type', 'state', 'sort', 'direction', 'since', 'per_page', 'page'],
  error: (status, message) => ({ message, documentation_url: 'https://docs.github.com/rest', status }),
  list,
  long: 'issues',
  deleted: { issues: () => null, issue_comments: () => null },
  changed: (record) => ({ ...record, state: 'closed', updated_at: time(90_000), closed_at: time(90_000) }),
  sinceParam: 'since',
  kinds: {
    repositories: {
      path: '/user/repos',
      rows: ['engine', 'notes'].map((name, at) => ({
        record: {
          id: 100 + at,
          name,
          full_name: `ada/${name}`,
          owner: user,
          private: at === 1,
          archived: at === 1,
          temp_clone_token: 'ABC',
          ...dated(at),
          pushed_at: time(at + 5),
        },
        params: {},
      })),
    },
    issues: {
      path: '/repos/{owner}/{repo}/issues',
      rows: [ofAda, { owner: 'ada', repo: 'notes' }].flatMap((params, at) =>
        rows(
          at === 0 ? 230 : 1,
          (n) => ({
            id: 5000 + at * 900 + n,
            number: n,
            title: `Issue ${n}`,
            state: n % 3 === 0 ? 'closed' : 'open',
            user,
            labels: [{ name: 'bug' }],
            ...(n % 5 === 0 ? { pull_request: { url: `https://api.github.com/pulls/${n}` } } : {}),
            ...dated(n),
          }),
          params,
        ),
      ),
    },
    issue_comments: { path: '/repos/{owner}/{repo}/issues/comments', rows: rows(12, comment, ofAda) },
    pull_requests: {
      path: '/repos/{owner}/{repo}/pulls',
      rows: rows(
        4,
        (n) => ({
          id: 7000 + n,
          number: n * 5,
          state: n === 1 ? 'closed' : 'open',
          user,
          head: { ref: `fix-${n}`, sha: 'a1', repo: { id: 100 } },
          base: { ref: 'main', sha: 'b2', repo: { id: 100 } },
          ...dated(n),
        }),
        ofAda,
      ),
    },
    review_comments: {
      path: '/repos/{owner}/{repo}/pulls/comments',
      rows: rows(3, (n) => ({ ...comment(n), path: 'src/a.ts', line: null }), ofAda),
    },
  },
};
