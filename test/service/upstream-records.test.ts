import { describe, expect } from 'vitest';
import { instant } from '../../src/core/clock.ts';
import type { JsonObject } from '../../src/core/json.ts';
import type { Params } from '../../src/core/records.ts';
import type { Entity } from '../../src/definitions/definition.ts';
import type { SampleAccount } from '../../src/sample/sample-account.ts';
import { textOf } from '../../src/sample/sample-values.ts';
import type { UpstreamAccount } from '../../src/upstream/open-upstream.ts';
import { type Row, expectedRows } from '../support/expected-rows.ts';
import { it } from '../support/it.ts';
import { sampleSinks } from '../support/sample-sinks.ts';
import { asTexts, expectedRecords } from '../support/service/expected-search.ts';
import { jsonRequest, object, objects, text } from '../support/service/served-api.ts';
import { searchable } from '../support/service/store-world.ts';
import { syncOnce } from '../support/sync-once.ts';
import { isLong } from '../support/trials.ts';
import { redirectTo } from '../support/upstream/faults.ts';
import {
  connectorsPath,
  opened,
  refusalOf,
  serveWorlds,
  type ServedWorld,
} from '../support/upstream/served-world.ts';
import {
  deskWorld,
  mailchimpWorld,
  notionWorld,
  type UpstreamWorld,
} from '../support/upstream/upstream-world.ts';
import { walkAccount } from '../support/upstream/walk-account.ts';

/** The listings of a connector, as a client of the service reads them. */
function listings(served: ServedWorld, id: string): Pick<UpstreamAccount, 'list'> {
  return {
    async list({ entity, params }) {
      const { status, body } = await served.execute(id, { entity, action: 'list', params });
      if (status !== 200) throw new Error(`${entity}: ${status} ${JSON.stringify(body)}`);
      const metadata = body['connector_metadata'] ?? null;
      return {
        records: objects(body['result']),
        metadata: metadata === null ? null : object(metadata),
        serverTime: instant(0),
        bytes: 0,
        bodyBytes: 0,
      };
    },
  };
}

function valuesFor(key: ReadonlyMap<string, string>, record: JsonObject, params: Params): JsonObject {
  const whole = { ...params, ...record };
  return Object.fromEntries([...key].map(([param, field]) => [param, whole[field] ?? null]));
}

/** What the service shows may have more: fields that the definition fills from others or from parameters. */
function withoutMore(shown: JsonObject, truth: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(shown).filter(([name]) => Object.hasOwn(truth, name)));
}

describe.each<[string, () => Promise<UpstreamWorld>]>([
  ['mailing', mailchimpWorld],
  ['notes', notionWorld],
  ['help desk', deskWorld],
])('serve in front of a made-up %s service', (_name, openWorld) => {
  it('lists and gets every record of every entity as the service has it', async () => {
    const world = await opened(openWorld());
    const served = await serveWorlds([world]);
    const id = await served.connect(world);
    for (const entity of world.definition.entities.values()) {
      const truth = [...world.truth(entity.name)];
      const listed = await walkAccount(listings(served, id), entity, truth);
      const shown = listed.filter(({ record, params }) => isOwn(entity, record, params));
      const keyOf = ({ record, params }: { record: JsonObject; params: Params }): string =>
        JSON.stringify([entity.name, entity.key.map((field) => ({ ...params, ...record })[field] ?? null)]);
      const byKey = new Map(truth.map((one) => [keyOf(one), one.record]));
      expect(new Set(shown.map(keyOf))).toEqual(new Set(byKey.keys()));
      for (const one of shown) {
        const expected = byKey.get(keyOf(one)) ?? {};
        expect(withoutMore(one.record, expected)).toEqual(expected);
      }

      const get = entity.actions.get('get');
      if (get === undefined || get.isDirectOnly) continue;
      for (const { record, params } of truth.slice(0, 5)) {
        const asked = { entity: entity.name, action: 'get', params: valuesFor(get.key, record, params) };
        const { status, body } = await served.execute(id, asked);
        expect([entity.name, status]).toEqual([entity.name, 200]);
        expect(object(body['result'])).toMatchObject(record);
      }
    }
  });
});

/** A synced copy lists the blocks of its original, which the truth has once. */
function isOwn({ name }: Entity, record: JsonObject, params: Params): boolean {
  return (
    name !== 'blocks' || Object.values(object(record['parent'] ?? {})).includes(params['block_id'] ?? null)
  );
}

it('downloads files, and follows to them without the credentials', async () => {
  const world = await opened(deskWorld());
  const served = await serveWorlds([world]);
  const id = await served.connect(world);
  for (const { record } of world.truth('attachments')) {
    const params = { attachment_id: record['id'] ?? null };
    const asked = jsonRequest('POST', served.token, { entity: 'attachments', action: 'download', params });
    const response = await fetch(`${served.service.url}${connectorsPath}/${id}/execute`, asked);
    const bytes = Buffer.from(await response.arrayBuffer());
    expect(bytes.equals(Buffer.from(world.fake.fileOf(textOf(record['id'])) ?? 'none'))).toBe(true);
  }
  expect(world.fake.fileRequests().length).toBeGreaterThan(0);
  expect(world.fake.fileRequests().map(({ credential }) => credential)).not.toContain('right');
});

// Proves promise 17.2
it('fetches no file from another port or by another scheme of an allowed host, and says so', async () => {
  const world = await opened(deskWorld());
  const other = await opened(deskWorld());
  const served = await serveWorlds([world]);
  const id = await served.connect(world);
  const port = new URL(world.fake.origin).port;
  for (const address of [`${other.fake.origin}/hop/a1`, `gopher://127.0.0.1:${port}/a1`]) {
    world.fake.script({ effect: redirectTo(address), on: ({ path }) => path.endsWith('/content') });
    const [attachment] = world.truth('attachments');
    const params = { attachment_id: attachment?.record['id'] ?? null };
    const answer = await served.execute(id, { entity: 'attachments', action: 'download', params });
    expect(refusalOf(answer)).toMatchObject({
      status: 502,
      code: 'upstream_unusable',
      text: expect.stringContaining("the address of a file must be public, or the service's own"),
    });
  }
  expect([other.fake.requests, served.failures]).toEqual([[], []]);
});

describe.each<
  [string, () => Promise<UpstreamWorld & { readonly fake: { readonly account: SampleAccount } }>]
>([
  ['mailing', mailchimpWorld],
  ['notes', notionWorld],
])('a real account of a %s service', (_name, openWorld) => {
  it('fills an indexed store in which every record is found', async ({ folder }) => {
    const world = await opened(openWorld());
    const served = await serveWorlds([world], { data: folder, isIndexed: true, refreshEveryMs: 86_400_000 });
    const id = await served.connect(world);
    await searchable(served.service.stores, id);
    const { account } = world.fake;
    if (account === undefined) throw new Error('the world has no account');
    const differences: unknown[] = [];
    for (const entity of world.definition.entities.values()) {
      if (!entity.actions.has('context_store_search') || entity.name === 'comments') continue;
      const found: JsonObject[] = [];
      for (let cursor: string | null = null; ;) {
        const params: JsonObject = { query: {}, ...(cursor === null ? {} : { cursor }) };
        const { body } = await served.execute(id, { entity: entity.name, action: 'search', params });
        const result = object(body['result']);
        found.push(...objects(result['data']));
        const meta = object(result['meta']);
        if (meta['has_more'] !== true) break;
        cursor = text(meta['cursor']);
      }
      const expected = asTexts(expectedRecords(entity, account));
      if (JSON.stringify(asTexts(found)) !== JSON.stringify(expected)) {
        differences.push([entity.name, found.length, expected.length]);
      }
    }
    expect(differences).toEqual([]);
    const { body } = await served.client.get(`${connectorsPath}/${id}/inspect`);
    expect(body).toMatchObject({ context_store_readiness: { readiness: 'Ready' } });
  });

  // In `npm test` test/e2e/direct.test.ts shows it.
  it.runIf(isLong)(
    'is synced through serve to rows that equal the truth, and a second run writes none',
    async ({ folder }) => {
      const world = await opened(openWorld());
      const served = await serveWorlds([world]);
      const connectorId = await served.connect(world);
      const { definition } = world;
      const sink = sampleSinks.sqlite;
      const run = { baseUrl: served.service.url, definition, connectorId, sink: sink.options(folder) };
      expect(await syncOnce(run)).toMatchObject({ outcome: 'ok', failures: [] });
      for (const entity of definition.entities.values()) {
        const { rows, exploded } = expectedRows(entity, world.truth(entity.name));
        const tables = [
          [entity.table, rows],
          [entity.explodedTable, exploded],
        ] as const;
        for (const [table, all] of tables) {
          if (table === null) continue;
          const expected = entity.name === 'comments' ? ofPages(all) : all;
          const stored = sink.rows(folder, definition.name, table);
          expect([table.entity, [...stored.keys()].toSorted()]).toEqual([
            table.entity,
            [...expected.keys()].toSorted(),
          ]);
          for (const [key, row] of expected) expect(stored.get(key), `${table.entity} ${key}`).toEqual(row);
        }
      }
      const second = await syncOnce(run);
      expect(second.entities.map(({ counts }) => counts.inserted + counts.updated)).toEqual(
        second.entities.map(() => 0),
      );
    },
  );
});

it('serves of a real account the entities that its definition has requests for, and indexes these', async ({
  folder,
}) => {
  const world = await opened(mailchimpWorld());
  const { definition } = world;
  if (definition.upstream === null) throw new Error('the definition has no requests');
  const entities = new Map([...definition.upstream.entities].filter(([name]) => name !== 'campaigns'));
  const partial = { ...definition, upstream: { ...definition.upstream, entities } };
  const served = await serveWorlds([{ ...world, definition: partial }], { data: folder, isIndexed: true });
  const id = await served.connect(world);
  await searchable(served.service.stores, id);
  const { body } = await served.client.get(`${connectorsPath}/${id}/inspect`);
  expect(body).toMatchObject({ context_store_readiness: { readiness: 'Ready' } });
  for (const action of ['list', 'search']) {
    const answer = await served.execute(id, { entity: 'campaigns', action, params: {} });
    expect(refusalOf(answer)).toMatchObject({ status: 400, text: expect.stringContaining('campaigns') });
  }
  expect((await served.execute(id, { entity: 'lists', action: 'list' })).status).toBe(200);
});

/** Those below single blocks are not asked for by default. */
function ofPages(rows: ReadonlyMap<string, Row>): ReadonlyMap<string, Row> {
  return new Map([...rows].filter(([, { columns }]) => 'page_id' in object(columns['parent'] ?? {})));
}
