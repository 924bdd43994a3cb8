import { createRequire } from 'node:module';
import { Client, collectPaginatedAPI, LogLevel } from '@notionhq/client';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import type { JsonObject } from '../../src/core/json.ts';
import type { Params } from '../../src/core/records.ts';
import type { Entity } from '../../src/definitions/definition.ts';
import { createSampleAccount } from '../../src/sample/sample-service.ts';
import { textOf } from '../../src/sample/sample-values.ts';
import { openCallGate } from '../../src/upstream/call-gate.ts';
import { openUpstream, type UpstreamAccount } from '../../src/upstream/open-upstream.ts';
import { openUpstreamTransport } from '../../src/upstream/upstream-transport.ts';
import { sampleSeed } from '../support/sample-service.ts';
import { sampleTruth, type TruthRecord } from '../support/sample-truth.ts';
import { entityName } from '../support/source/test-definition.ts';
import { deskEntities, deskRows } from '../support/upstream/desk.ts';
import { bentBody, onPath } from '../support/upstream/faults.ts';
import { type FakeMailchimp, mailchimpRoutes, startFakeMailchimp } from '../support/upstream/mailchimp.ts';
import { type FakeNotion, notionVersion, startFakeNotion } from '../support/upstream/notion.ts';
import {
  deskWorld,
  mailchimpWorld,
  notionWorld,
  type UpstreamWorld,
} from '../support/upstream/upstream-world.ts';
import { never, walkAccount } from '../support/upstream/walk-account.ts';

/** The records of each listing of the truth. */
function listingsOf(truth: Iterable<TruthRecord>, names: readonly string[]) {
  const listings = new Map<string, { readonly params: Params; readonly records: JsonObject[] }>();
  for (const { record, params } of truth) {
    const own = Object.fromEntries(Object.entries(params).filter(([name]) => names.includes(name)));
    const listing = listings.get(JSON.stringify(own)) ?? { params: own, records: [] };
    listings.set(JSON.stringify(own), listing);
    listing.records.push(record);
  }
  expect(listings.size).toBeGreaterThan(0);
  return [...listings.values()];
}

const sampleOf = (definitionName: string) =>
  createSampleAccount({ definitionName, seed: sampleSeed, size: 'tiny' });

type Calls = Readonly<Record<string, (...args: readonly (string | JsonObject)[]) => Promise<JsonObject>>>;
/** Mailchimp's own client, of which there are no types. */
type Mailchimp = Readonly<Record<'ping' | 'root' | 'lists' | 'campaigns' | 'automations' | 'reports', Calls>>;

/** Calls of the client that list an entity, and get one record of it. */
const calls: Readonly<Record<string, readonly [keyof Mailchimp, string, string?]>> = {
  lists: ['lists', 'getAllLists', 'getList'],
  campaigns: ['campaigns', 'list', 'get'],
  automations: ['automations', 'list', 'get'],
  reports: ['reports', 'getAllCampaignReports', 'getCampaignReport'],
  list_members: ['lists', 'getListMembersInfo', 'getListMember'],
  tags: ['lists', 'tagSearch'],
  interest_categories: ['lists', 'getListInterestCategories', 'getInterestCategory'],
  interests: ['lists', 'listInterestCategoryInterests', 'getInterestCategoryInterest'],
  segments: ['lists', 'listSegments', 'getSegment'],
  segment_members: ['lists', 'getSegmentMembersList'],
  email_activity: ['reports', 'getEmailActivityForCampaign'],
  unsubscribes: ['reports', 'getUnsubscribedListForCampaign'],
};

describe('the official client of Mailchimp', () => {
  let fake: FakeMailchimp;
  const clientWith = (apiKey: string): Mailchimp => {
    const load = createRequire(import.meta.url);
    const Api = load('@mailchimp/mailchimp_marketing/src/ApiClient') as new () => Mailchimp & {
      setConfig(config: object): void;
    };
    const client = new Api();
    // Without a `server`: it would be put into the address.
    client.setConfig({ apiKey });
    return Object.assign(client, { basePath: fake.baseUrl });
  };
  beforeAll(async () => {
    fake = await startFakeMailchimp(sampleOf('email-marketing'));
  });
  afterAll(() => fake[Symbol.asyncDispose]());

  it.each(mailchimpRoutes)('reads the $entity in pages of 4, and gets each by its id', async (route) => {
    const [group, list, get] = calls[route.entity] ?? ['lists', ''];
    const client = clientWith(fake.apiKey)[group];
    const names = ['list_id', 'campaign_id', 'segment_id', 'interest_category_id'];
    for (const { params, records } of listingsOf(sampleTruth(fake.account, route.entity), names)) {
      const ids = Object.values(params).map(textOf);
      const read: JsonObject[] = [];
      for (let total = 1; read.length < total;) {
        const page = route.entity === 'tags' ? {} : { count: 4, offset: read.length };
        const answer = (await client[list]?.(...ids, page)) ?? {};
        const found = answer[route.array] as readonly JsonObject[];
        expect(found.length).toBeGreaterThan(0);
        read.push(...found);
        total = Number(answer['total_items']);
      }
      expect(read).toEqual(records);
      for (const record of get === undefined ? [] : records) {
        expect(await client[get ?? '']?.(...ids, textOf(record['id']))).toEqual(record);
      }
    }
  });

  it('finds its account, and gets status 401 for a wrong key and 404 for a list that does not exist', async () => {
    const client = clientWith(fake.apiKey);
    expect(await client.root['getRoot']?.()).toMatchObject({ account_id: fake.accountId });
    await expect(client.lists['getList']?.('none')).rejects.toMatchObject({ status: 404 });
    await expect(clientWith('wrong-us1').ping['get']?.()).rejects.toMatchObject({ status: 401 });
  });
});

describe('the official client of Notion', () => {
  let fake: FakeNotion;
  const clientWith = (auth: string): Client =>
    // Every refusal would be a line on the screen.
    new Client({
      auth,
      baseUrl: fake.origin,
      notionVersion,
      retry: false,
      logLevel: LogLevel.ERROR,
    });
  beforeAll(async () => {
    fake = await startFakeNotion(sampleOf('workspace-notes'));
  });
  afterAll(() => fake[Symbol.asyncDispose]());

  it.each(['users', 'pages', 'data_sources', 'blocks', 'comments'])(
    'reads the %s of the workspace in pages of 7, and gets each by its id',
    async (entity) => {
      const client = clientWith(fake.token);
      const search = (value: 'page' | 'data_source') =>
        collectPaginatedAPI(client.search, { filter: { property: 'object', value }, page_size: 7 });
      for (const { params, records } of listingsOf(sampleTruth(fake.account, entity), ['block_id'])) {
        const below = { block_id: textOf(params['block_id']), page_size: 7 };
        const ways: Readonly<Record<string, () => Promise<readonly object[]>>> = {
          users: () => collectPaginatedAPI(client.users.list, { page_size: 7 }),
          pages: () => search('page'),
          data_sources: () => search('data_source'),
          blocks: () => collectPaginatedAPI(client.blocks.children.list, below),
          comments: () => collectPaginatedAPI(client.comments.list, below),
        };
        const read = ((await ways[entity]?.()) ?? []) as readonly JsonObject[];
        // A synced copy shows the blocks of its original: they belong to that.
        const isOwn = ({ parent }: JsonObject): boolean =>
          entity !== 'blocks' || Object.values(parent ?? {}).includes(below.block_id);
        expect(read.filter(isOwn)).toEqual(records);
      }
      for (const { record } of sampleTruth(fake.account, entity)) {
        const id = textOf(record['id']);
        const { request_id: _ofRequest, ...got } = (await one(client, entity, id)) as JsonObject;
        expect(got).toEqual(record);
      }
    },
  );

  it('finds its workspace, and gets an error that names what is wrong with its token, cursor and id', async () => {
    const client = clientWith(fake.token);
    expect(await client.users.me({})).toMatchObject({ bot: { workspace_id: fake.workspaceId } });
    await expect(clientWith('ntn_wrong').users.me({})).rejects.toMatchObject({ code: 'unauthorized' });
    const id = '00000000-0000-4000-8000-000000000000';
    await expect(client.search({ start_cursor: id })).rejects.toMatchObject({ code: 'validation_error' });
    await expect(client.pages.retrieve({ page_id: id })).rejects.toMatchObject({ code: 'object_not_found' });
  });
});

function one(client: Client, entity: string, id: string): Promise<object> | undefined {
  const ways: Readonly<Record<string, () => Promise<object>>> = {
    users: () => client.users.retrieve({ user_id: id }),
    pages: () => client.pages.retrieve({ page_id: id }),
    data_sources: () => client.dataSources.retrieve({ data_source_id: id }),
    blocks: () => client.blocks.retrieve({ block_id: id }),
    comments: () => client.comments.retrieve({ comment_id: id }),
  };
  return ways[entity]?.();
}

/** Opens accounts with the credentials of a title, which are stored where they change. */
async function openWorld<World extends UpstreamWorld>(opening: Promise<World>) {
  const world = await opening;
  const gate = openCallGate();
  const transport = openUpstreamTransport({ allowHosts: world.allowHosts });
  onTestFinished(async () => {
    await transport[Symbol.asyncDispose]();
    await world[Symbol.asyncDispose]();
  });
  const open = (title: string): UpstreamAccount => {
    let stored: JsonObject = world.credentials.get(title) ?? {};
    return openUpstream({
      definition: world.definition,
      credentials: () => Promise.resolve(stored),
      saveCredentials: (changed) => {
        stored = changed;
        return Promise.resolve();
      },
      connector: title,
      gate,
      transport,
    });
  };
  return { world, open };
}

const keyOf = ({ key }: Entity, record: JsonObject): string =>
  JSON.stringify(key.map((field) => record[field] ?? null));

/** Records of the truth that a walk has not met, and the other way round. */
async function differences(opening: Promise<UpstreamWorld>, title: string): Promise<readonly string[]> {
  const { world, open } = await openWorld(opening);
  const account = open(title);
  expect((await account.check(never)).identity).toBe(world.identity);
  const found: string[] = [];
  for (const entity of world.definition.entities.values()) {
    const keysOf = (records: Iterable<TruthRecord>): Set<string> =>
      new Set(Array.from(records, ({ record }) => keyOf(entity, record)));
    const truth = [...world.truth(entity.name)];
    const [wanted, met] = [keysOf(truth), keysOf(await walkAccount(account, entity, truth))];
    // Exports are files alone.
    expect(wanted.size > 0).toBe(entity.name !== 'exports');
    found.push(
      ...[...wanted, ...met]
        .filter((key) => !wanted.has(key) || !met.has(key))
        .map((key) => `${entity.name}: ${key}`),
    );
  }
  return found;
}

it.each<[string, string, () => Promise<UpstreamWorld>]>([
  ['a mailing account', 'API key', mailchimpWorld],
  ['a workspace', 'Internal integration token', notionWorld],
  ['a workspace', 'OAuth', notionWorld],
  ['a help desk', 'Key in a header', deskWorld],
  ['a help desk', 'Key in the query', deskWorld],
  ['a help desk', 'Agent', deskWorld],
  ['a help desk', 'Token', deskWorld],
  ['a help desk', 'App', deskWorld],
])('all listings of %s show its records with: %s', async (_what, title, openWorldOf) => {
  expect(await differences(openWorldOf(), title)).toEqual([]);
});

it.each([0, 1, 7, 8, 14])('each kind of paging brings all of %i rows', async (count) => {
  const { world, open } = await openWorld(deskWorld({ rows: (entity) => deskRows(entity, count) }));
  const account = open('Key in a header');
  for (const name of deskEntities) {
    const entity = world.definition.entities.get(entityName(name));
    const found = entity && (await walkAccount(account, entity, [{ record: {}, params: {} }]));
    // Numbered pages overlap.
    expect(new Set(found?.map(({ record }) => record['id']))).toEqual(
      new Set(deskRows(name, count).map(({ id }) => id)),
    );
  }
});

it('identifies the account by the integration where the answer names no workspace', async () => {
  const { world, open } = await openWorld(notionWorld({ as: 'my-notes' }));
  const account = open('Internal integration token');
  const ids: string[] = [];
  world.fake.script({
    on: onPath('/users/me'),
    times: 2,
    effect: bentBody((body) => {
      ids.push(textOf(body['id'] ?? null));
      return { ...body, bot: {} };
    }),
  });
  const found = [await account.check(never), await account.check(never), await account.check(never)];
  expect(found.map(({ identity }) => identity)).toEqual([...ids, world.identity]);
  expect(new Set(ids).size).toBe(1);
});
