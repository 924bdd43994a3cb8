import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { createServer, type ServerResponse } from 'node:http';
import { join } from 'node:path';
import { describe, expect } from 'vitest';
import { it } from '../support/it.ts';
import { listen } from '../support/listen.ts';
import { callCli } from '../support/run-cli.ts';

interface Tried {
  readonly calls: readonly {
    readonly rows: readonly {
      readonly rows: readonly { readonly fields: Readonly<Record<string, unknown>> }[];
    }[];
  }[];
}

const examples = readdirSync('docs/examples').filter((name) => /^paging-.*\.yaml$/.test(name));
/** More than two pages of a hundred. */
const projects = Array.from({ length: 205 }, (_, at) => ({
  id: `p${1000 + at}`,
  displayName: `Project ${at}`,
  createdAt: '2026-03-01T10:00:00Z',
}));

/** One page of the service that the first line of each example describes. */
const answers: Readonly<Record<string, (query: URLSearchParams, response: ServerResponse) => unknown>> = {
  'paging-offset.yaml': (query) => ({ items: part(Number(query.get('offset'))), total: projects.length }),
  'paging-pages.yaml': (query) => part((Number(query.get('page')) - 1) * Number(query.get('perPage'))),
  'paging-token.yaml': (query) => ({ items: part(placeOf(query)), nextCursor: next(query) }),
  'paging-next-url.yaml': (query) => ({
    items: part(placeOf(query)),
    links: { next: next(query) === null ? null : `https://api.example.com/projects?cursor=${next(query)}` },
  }),
  'paging-link.yaml': (query, response) => {
    const link = `<https://api.example.com/projects?cursor=${next(query)}>; rel="next"`;
    if (next(query) !== null) response.setHeader('Link', link);
    return part(placeOf(query));
  },
  'paging-last-id.yaml': (query) => {
    const from = projects.findIndex(({ id }) => id === query.get('startingAfter')) + 1;
    return { items: part(from), hasMore: from + 100 < projects.length };
  },
  'paging-single.yaml': () => ({ items: projects }),
};

describe('the definitions docs/examples/paging-*.yaml', () => {
  it('are all tried', () => {
    expect(examples).toEqual(Object.keys(answers).toSorted());
  });

  it.for(examples)('%s reads every page of a service that writes camelCase', async (name, { folder }) => {
    const server = createServer((request, response) => {
      const { pathname, searchParams } = new URL(request.url ?? '', 'http://service');
      const account = { account: { id: 'a-1', name: 'Acme' } };
      const answer = pathname === '/me' ? account : answers[name]?.(searchParams, response);
      response.setHeader('content-type', 'application/json').end(JSON.stringify(answer));
    });
    const { host, origin, close } = await listen(server);
    const text = readFileSync(join('docs/examples', name), 'utf8').replaceAll(
      'https://api.example.com',
      origin,
    );
    writeFileSync(join(folder, name), text);
    const asked = ['definitions', 'try', `./${name}`, 'projects', '--max-calls', '9', '--json'];
    const env = { CONNECTOR_SYNC_CREDENTIAL_TOKEN: 'a-token-of-the-tests' };
    const tried = await callCli([...asked, '--allow-upstream-host', host], { cwd: folder, env });
    await close();
    expect(tried).toMatchObject({ code: 0, stderr: '' });
    const { calls } = JSON.parse(tried.stdout) as Tried;
    const rows = calls.flatMap((call) =>
      call.rows.flatMap((shown) => shown.rows.map(({ fields }) => fields)),
    );
    const stored = projects.map(({ id, displayName, createdAt }) => `${id} ${displayName} ${createdAt}`);
    const shown = rows.map((row) => [row['id'], row['display_name'], row['created_at']].join(' '));
    expect([...new Set(shown)].toSorted()).toEqual(stored);
    expect(calls.length).toBeLessThan(9);
  });
});

function part(from: number): readonly object[] {
  return projects.slice(from, from + 100);
}

function placeOf(query: URLSearchParams): number {
  return Number((query.get('cursor') ?? 'c0').slice(1));
}

function next(query: URLSearchParams): string | null {
  const from = placeOf(query) + 100;
  return from < projects.length ? `c${from}` : null;
}
