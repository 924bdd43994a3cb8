import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect } from 'vitest';
import { Secret } from '../../src/core/secret.ts';
import { systemClock } from '../../src/core/clock.ts';
import type { JsonObject } from '../../src/core/json.ts';
import type { Definition } from '../../src/definitions/definition.ts';
import { loadDefinitions } from '../../src/definitions/load-definitions.ts';
import { syncConnector } from '../../src/engine/sync-connector.ts';
import { openSink } from '../../src/sinks/registry.ts';
import { openDirectClient, openDirectSource } from '../../src/source/direct/open-direct-source.ts';
import { apiError, success } from '../support/hostile/replies.ts';
import { startHostileServer } from '../support/hostile-server.ts';
import { it } from '../support/it.ts';
import { sampleSinks } from '../support/sample-sinks.ts';
import { allEntities, entityNamed, identityFor, syncOnce } from '../support/sync-once.ts';

/** One entity for each way to page that an API and a service can have in common. */
const definitionText = (baseUrl: string): string => `
name: pager
title: Pager
id: 5b1f2f0a-6a44-4b37-9d0e-5f4b6f0c2a11
rateLimit: { requestsPerSecond: 1000, concurrency: 2 }
credentials: [{ title: Key, fields: { api_key: {} } }]
entities:
  counted:
    fields: &fields { id: integer, name: string }
    key: [id]
    actions: { list: { params: { page: integer, 'page[size]': integer } } }
    pagination: { kind: page, pageParam: page, first: 1, sizeParam: 'page[size]', maxSize: 20, totalKeys: [meta.count] }
  flagged:
    fields: *fields
    key: [id]
    actions: { list: { params: { page: integer } } }
    pagination: { kind: page, pageParam: page, first: 0, maxSize: 10, flagKeys: [next_page] }
  refusing:
    fields: *fields
    key: [id]
    growsOnly: true
    deletes: never
    actions: { list: { params: { page: integer } } }
    pagination: { kind: page, pageParam: page, first: 1, maxSize: 10, end: { status: 404 } }
  following:
    fields: *fields
    key: [id]
    actions: { list: { params: { since_id: integer, limit: { type: integer, max: 50 } } } }
    pagination: { kind: lastRecord, tokenParam: since_id, field: id, sizeParam: limit, maxSize: 50 }
  nested:
    fields: *fields
    key: [id]
    actions: { list: { params: { offset: string } } }
    pagination: { kind: pageToken, tokenParam: offset, tokenKeys: [next_page.offset] }
  addressed:
    fields: *fields
    key: [id]
    actions: { list: { params: { 'page[cursor]': string } } }
    pagination: { kind: pageToken, tokenParam: 'page[cursor]', tokenKeys: [{ key: links.next, param: 'page[cursor]' }] }
upstream:
  baseUrl: ${baseUrl}
  auth: { Key: { kind: bearer, token: { field: api_key } } }
  check: { path: /me, identity: id }
  limits: { concurrency: 4, requestsPerSecond: 1000, timeoutMs: 10000, maxBodyBytes: 1000000 }
  message: [message]
  entities:
    counted: { list: { path: /counted, records: items, metadata: { meta.count: meta.count } } }
    flagged: { list: { path: /flagged, records: items, metadata: { next_page: next_page } } }
    refusing: { list: { path: /refusing, records: items } }
    following: { list: { path: /following, records: items } }
    nested: { list: { path: /nested, records: items, metadata: { next_page: next_page } } }
    addressed: { list: { path: /addressed, records: items, metadata: { links: links } } }
`;

const rows = Array.from({ length: 57 }, (_, index): JsonObject => ({
  id: 100 + index,
  name: `Row ${index}`,
}));
const names = ['counted', 'flagged', 'refusing', 'following', 'nested', 'addressed'];

/** What each entity answers to these parameters; null: 404. */
function answerOf(entity: string, asked: (name: string) => string | null) {
  const cut = (start: number, size: number) => rows.slice(start, start + size);
  const hasMore = (end: number): boolean => end < rows.length;
  switch (entity) {
    case 'counted': {
      const size = Math.min(15, Number(asked('page[size]')));
      return { items: cut((Number(asked('page')) - 1) * size, size), meta: { count: rows.length } };
    }
    case 'flagged': {
      const page = Number(asked('page'));
      return { items: cut(page * 10, 10), next_page: hasMore(page * 10 + 10) ? page + 1 : null };
    }
    case 'refusing': {
      const start = (Number(asked('page')) - 1) * 10;
      return start >= rows.length ? null : { items: cut(start, 10) };
    }
    case 'following': {
      const behind = rows.filter(({ id }) => Number(id) > Number(asked('since_id') ?? 0));
      return { items: behind.slice(0, Math.min(25, Number(asked('limit')))) };
    }
    case 'nested': {
      const start = Number(asked('offset') ?? 0);
      return { items: cut(start, 12), next_page: hasMore(start + 12) ? { offset: `${start + 12}` } : null };
    }
    default: {
      const start = Number(asked('page[cursor]') ?? 0);
      const next = `/addressed?page%5Bcursor%5D=${start + 12}&page%5Bsize%5D=12`;
      return { items: cut(start, 12), links: hasMore(start + 12) ? { self: '/', next } : { self: '/' } };
    }
  }
}

async function startService() {
  const paths: string[] = [];
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? '/', 'http://service');
    paths.push(`${url.pathname}${url.search}`);
    const answer =
      url.pathname === '/me'
        ? { id: 'account-1' }
        : answerOf(url.pathname.slice(1), (name) => url.searchParams.get(name));
    response.writeHead(answer === null ? 404 : 200, { 'content-type': 'application/json' });
    response.end(JSON.stringify(answer ?? { message: 'no such page' }));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    baseUrl: `http://127.0.0.1:${port}`,
    host: `127.0.0.1:${port}`,
    paths,
    [Symbol.asyncDispose]: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function pager(folder: string, baseUrl: string): Definition {
  writeFileSync(path.join(folder, 'pager.yaml'), definitionText(baseUrl));
  const definition = loadDefinitions([folder]).get('pager');
  if (definition === undefined) throw new Error('no definition pager');
  return definition;
}

function expectAll(folder: string, definition: Definition): void {
  for (const name of names) {
    const stored = sampleSinks.sqlite.rows(folder, 'pager', entityNamed(definition, name).table);
    expect({ name, stored: stored.size }).toEqual({ name, stored: rows.length });
  }
}

describe('an entity whose pagination is the service’s own', () => {
  // Proves promise 3
  it('is read whole through the API', async ({ folder }) => {
    const definition = pager(folder, 'https://service.example');
    await using server = await startHostileServer({
      connectors: [{ id: 'c1', name: 'One', definitionId: definition.id }],
      respond: ({ entity, params }) => {
        const asked = (name: string): string | null => {
          const value = params[name] ?? null;
          return typeof value === 'string' || typeof value === 'number' ? `${value}` : null;
        };
        const answer = answerOf(entity, asked);
        if (answer === null) return apiError(404, 'no such page');
        const { items, ...metadata } = answer;
        return success(items, metadata);
      },
    });
    const report = await syncOnce({
      baseUrl: server.baseUrl,
      definition,
      connectorId: 'c1',
      sink: sampleSinks.sqlite.options(folder),
    });
    expect(report).toMatchObject({ outcome: 'ok', failures: [] });
    expectAll(folder, definition);
    const proven = report.entities.filter(({ isWhole, unordered }) => isWhole && unordered === 0);
    // The flag ends a listing of numbered pages, and says nothing of what moved between them.
    expect(proven.map(({ entity }) => entity).toSorted()).toEqual(
      names.filter((name) => name !== 'flagged').toSorted(),
    );
    const sent = server.calls.find(({ params }) => 'since_id' in params);
    expect(sent?.params).toEqual({ since_id: 124, limit: 50 });
  });

  // Proves promise 3
  it('is read whole from the service itself', async ({ folder }) => {
    await using service = await startService();
    const definition = pager(folder, service.baseUrl);
    await using client = openDirectClient({
      allowHosts: [service.host],
      clock: systemClock,
      maxThrottleWaitMs: 1000,
    });
    const credentials = new Map([['api_key', new Secret('a-key-of-the-tests')]]);
    await using source = openDirectSource(client.account({ name: 'pager', definition, credentials }), {
      definition,
      address: service.baseUrl,
      concurrency: 2,
      requestsPerSecond: 10_000,
    });
    await using sink = await openSink(sampleSinks.sqlite.options(folder), { clock: systemClock });
    const report = await syncConnector({
      identity: identityFor({ definition, connectorId: 'account-1' }),
      definition,
      entities: allEntities(definition),
      source,
      sink,
      concurrency: 2,
      requestsPerSecond: 10_000,
      clock: systemClock,
      onEvent: () => undefined,
      signal: new AbortController().signal,
    });
    expect(report).toMatchObject({ outcome: 'ok', failures: [] });
    expectAll(folder, definition);
    expect(service.paths).toContain('/addressed?page%5Bcursor%5D=48');
  });
});
