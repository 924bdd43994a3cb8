import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { Client, collectPaginatedAPI, LogLevel } from '@notionhq/client';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { isJsonObject, type JsonObject, type JsonValue } from '../../src/core/json.ts';
import type { EntityName } from '../../src/core/names.ts';
import type { Params } from '../../src/core/records.ts';
import type { Entity } from '../../src/definitions/definition.ts';
import { createSampleAccount } from '../../src/sample/sample-service.ts';
import { textOf } from '../../src/sample/sample-values.ts';
import { openCallGate } from '../../src/upstream/call-gate.ts';
import { openUpstream, type UpstreamAccount } from '../../src/upstream/open-upstream.ts';
import { openUpstreamTransport } from '../../src/upstream/upstream-transport.ts';
import { recorded } from '../support/recorded-records.ts';
import { builtInDefinition, sampleSeed } from '../support/sample-service.ts';
import { sampleTruth, type TruthRecord } from '../support/sample-truth.ts';
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
import { addKinds, type Kinds } from '../support/value-kinds.ts';

describe('golden shapes', () => {
  type Shape = Readonly<Record<string, string>>;
  interface Answers {
    readonly mailchimp: {
      readonly lists: Readonly<Record<string, Shape>>;
      readonly root: Shape;
      readonly ping: Shape;
      readonly error: Shape;
      readonly errorHeaders: Shape;
      readonly notOnTheWire: Readonly<Record<string, readonly string[]>>;
    };
    readonly notion: {
      readonly types: Shape;
      readonly errors: Readonly<Record<string, JsonObject>>;
      readonly notOnTheWire: Readonly<Record<string, readonly string[]>>;
    } & Readonly<Record<'list' | 'me' | 'bot' | 'comment' | 'data_source' | 'page' | 'error', Shape>>;
  }

  /** What lies around the records in real answers: names and kinds of value. */
  const answers = JSON.parse(
    readFileSync(new URL('../fixtures/upstream/answers.json', import.meta.url), 'utf8'),
  ) as Answers;

  const open: AsyncDisposable[] = [];
  let mailchimp: FakeMailchimp;
  let notion: FakeNotion;

  beforeAll(async () => {
    const sample = (definitionName: string) =>
      createSampleAccount({ definitionName, seed: sampleSeed, size: 'small' });
    mailchimp = await startFakeMailchimp(sample('email-marketing'));
    notion = await startFakeNotion(sample('workspace-notes'));
    open.push(mailchimp, notion);
  });
  afterAll(async () => {
    for (const server of open) await server[Symbol.asyncDispose]();
  });

  async function ask(url: string, options: RequestInit = {}) {
    const answer = await fetch(url, options);
    return { status: answer.status, headers: answer.headers, body: (await answer.json()) as JsonObject };
  }
  const askMailchimp = (path: string, apiKey = mailchimp.apiKey) =>
    ask(`${mailchimp.baseUrl}${path}`, {
      headers: { authorization: `Basic ${Buffer.from(`any:${apiKey}`).toString('base64')}` },
    });
  const askNotion = (path: string, body: JsonObject | null = null, token = notion.token) =>
    ask(`${notion.baseUrl}${path}`, {
      headers: {
        authorization: `Bearer ${token}`,
        'notion-version': notionVersion,
        'content-type': 'application/json',
      },
      ...(body === null ? {} : { method: 'POST', body: JSON.stringify(body) }),
    });

  /** Name -> kind of value, or `=` and the value where the expected shape names it. */
  function shapeOf(body: JsonObject, expected: Shape): Shape {
    const kindOf = (value: JsonValue): string =>
      value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value;
    return Object.fromEntries(
      Object.entries(body).map(([name, value]) => {
        const isNamed = expected[name] === `=${textOf(value)}`;
        return [name, isNamed ? `=${textOf(value)}` : kindOf(value)];
      }),
    );
  }
  function expectShape(body: JsonObject, expected: Shape): void {
    expect(shapeOf(body, expected)).toEqual(expected);
  }

  /** The first values of a path's names that lead to a list with records. */
  function parentsOf(definition: 'email-marketing' | 'workspace-notes', entity: string): JsonObject {
    const account = definition === 'email-marketing' ? mailchimp.account : notion.account;
    for (const { params } of sampleTruth(account, entity)) return params;
    throw new Error(`nothing under ${entity}`);
  }
  function pathOf(template: string, values: JsonObject): string {
    return template.replace(/\{(\w+)\}/g, (_, name: string) => textOf(values[name]));
  }

  describe('the made-up Mailchimp', () => {
    it.each(mailchimpRoutes)('lists $entity with what lies around them in the real answer', async (route) => {
      const { body } = await askMailchimp(pathOf(route.list, parentsOf('email-marketing', route.entity)));
      expectShape(body, answers.mailchimp.lists[route.entity] ?? {});
    });

    it('answers the check calls as the real one', async () => {
      expectShape((await askMailchimp('/')).body, answers.mailchimp.root);
      expectShape((await askMailchimp('/ping')).body, answers.mailchimp.ping);
    });

    it('refuses with a problem document', async () => {
      const refusals = [await askMailchimp('/lists/none'), await askMailchimp('/lists', 'wrong-us1')];
      expect(refusals.map(({ status }) => status)).toEqual([404, 401]);
      for (const { body, headers } of refusals) {
        expectShape(body, answers.mailchimp.error);
        expect(headers.get('content-type')).toBe(answers.mailchimp.errorHeaders['content-type']);
        expect(headers.get('x-request-id')).toBe(body['instance']);
      }
    });
  });

  describe('the made-up Notion', () => {
    it.each(Object.entries(answers.notion.types))(
      'lists %s with what lies around them',
      async (entity, type) => {
        const { block_id: id } = parentsOf('workspace-notes', entity);
        const filter = { property: 'object', value: entity === 'pages' ? 'page' : 'data_source' };
        const { body } =
          type === 'page_or_data_source'
            ? await askNotion('/search', { filter })
            : await askNotion(
                {
                  users: '/users',
                  blocks: `/blocks/${textOf(id)}/children`,
                  comments: `/comments?block_id=${textOf(id)}`,
                }[entity] ?? '',
              );
        // A longer list has another page.
        expectShape(
          { ...body, next_cursor: null, type: body['type'] ?? null },
          { ...answers.notion.list, [type]: 'object' },
        );
        expect(body['type']).toBe(type);
      },
    );

    it('answers the check call as the real one', async () => {
      const { body, headers } = await askNotion('/users/me');
      expectShape({ ...body, avatar_url: null }, answers.notion.me);
      expectShape(body['bot'] as JsonObject, answers.notion.bot);
      expect(headers.get('x-notion-request-id')).toBe(body['request_id']);
    });

    it.each(['page', 'data_source', 'comment'] as const)('gets a %s as the real one', async (what) => {
      const entity = `${what}s`;
      const [first] = sampleTruth(notion.account, entity);
      const { body } = await askNotion(`/${entity}/${textOf(first?.record['id'])}`);
      const nullable = { cover: null, icon: null, public_url: null };
      const shared = Object.fromEntries(Object.entries(nullable).filter(([name]) => name in body));
      expectShape(
        { ...body, ...shared },
        { ...answers.notion[what], ...(what === 'data_source' ? { icon: 'null' } : {}) },
      );
    });

    it('refuses with its own error objects', async () => {
      const expected = answers.notion.errors;
      const refusals = [
        [await askNotion('/users', null, 'ntn_wrong'), expected['/users with a wrong token']],
        [await askNotion('/invalid'), expected['/invalid']],
      ] as const;
      for (const [{ body, status, headers }, wanted] of refusals) {
        expectShape(body, answers.notion.error);
        expect({ ...body, status }).toMatchObject(wanted ?? {});
        expect(headers.get('x-notion-request-id')).toBe(body['request_id']);
      }
    });

    it('wants its version named, and knows no data source before 2025-09-03', async () => {
      const asVersion = (path: string, version: Readonly<Record<string, string>>) =>
        ask(`${notion.baseUrl}${path}`, { headers: { authorization: `Bearer ${notion.token}`, ...version } });
      const missing = await asVersion('/users/me', {});
      expect([missing.status, missing.body['code']]).toEqual([400, 'missing_version']);
      const [first] = sampleTruth(notion.account, 'data_sources');
      const old = await asVersion(`/data_sources/${textOf(first?.record['id'])}`, {
        'notion-version': '2022-06-28',
      });
      expect([old.status, old.body['code']]).toEqual([400, 'invalid_request_url']);
    });
  });

  describe.each(recorded.map((line) => [line.entity, line] as const))('made-up %s', (entity, line) => {
    const isMailing = line.definition === 'email-marketing';
    /** Enough to meet every kind of record, and not all of thousands. */
    const records = (): readonly JsonObject[] => {
      const found: JsonObject[] = [];
      for (const { record } of sampleTruth(isMailing ? mailchimp.account : notion.account, entity)) {
        if (found.push(record) === 200) break;
      }
      return found;
    };

    it('have every field of the recorded one, with the same kinds of value', () => {
      const kinds: Kinds = new Map();
      for (const record of records()) addKinds(kinds, '', record);
      const { request_id: _ofGet, ...listed } = line.record;
      const expected: Kinds = new Map();
      addKinds(expected, '', listed);
      const missing = [...expected].flatMap(([path, met]) =>
        [...met].filter((kind) => kinds.get(path)?.has(kind) !== true).map((kind) => `${path}: ${kind}`),
      );
      expect(missing).toEqual([]);
    });

    it('have no field that only this program adds', () => {
      const never: Readonly<Record<string, readonly string[]>> = {
        ...answers.mailchimp.notOnTheWire,
        ...answers.notion.notOnTheWire,
      };
      const parents = builtInDefinition(line.definition).entities.get(entity as never)?.recursive;
      const placed = parents === null || parents === undefined ? [] : [parents.rootField, parents.depthField];
      const absent = [...(never[entity] ?? []), ...placed];
      expect(records().filter((record) => absent.some((name) => name in record))).toEqual([]);
      expect(records().some(isJsonObject)).toBe(true);
    });
  });
});

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
    await gate[Symbol.asyncDispose]();
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

describe('all listings of', () => {
  it('a mailing account show its records', async () => {
    expect(await differences(mailchimpWorld(), 'API key')).toEqual([]);
  });

  it.each(['Internal integration token', 'OAuth'])(
    'a workspace show its records, with its %s',
    async (title) => {
      expect(await differences(notionWorld(), title)).toEqual([]);
    },
  );

  it.each(['Key in a header', 'Key in the query', 'Agent', 'Token', 'App'])(
    'a help desk show its records, with its %s',
    async (title) => {
      expect(await differences(deskWorld(), title)).toEqual([]);
    },
  );
});

it('brings each record of a mailing account by itself', async () => {
  const { world, open } = await openWorld(mailchimpWorld());
  const account = open('API key');
  for (const name of ['lists', 'campaigns'] as EntityName[]) {
    const entity = world.definition.entities.get(name);
    const get = entity?.actions.get('get');
    if (entity === undefined || get === undefined) throw new Error(`${name} has no get`);
    for (const { record } of world.truth(name)) {
      const params = Object.fromEntries([...get.key].map(([param, field]) => [param, record[field] ?? null]));
      expect(keyOf(entity, (await account.get({ entity: name, params }, never)) ?? {})).toBe(
        keyOf(entity, record),
      );
    }
  }
});

it.each(['attachments', 'exports'] as EntityName[])(
  'brings the files of %s from where the service says, without credentials',
  async (entity) => {
    const { world, open } = await openWorld(deskWorld());
    const agent = open('Agent');
    for (const { record } of world.truth('attachments')) {
      const id = textOf(record['id']);
      const file = await agent.download({ entity, params: { attachment_id: id } }, never);
      const chunks: Uint8Array[] = [];
      for await (const chunk of file?.read(never) ?? []) chunks.push(chunk);
      expect(Buffer.concat(chunks)).toEqual(Buffer.from(world.fake.fileOf(id) ?? 'none'));
    }
    expect(new Set(world.fake.fileRequests().map(({ credential }) => credential))).toEqual(new Set(['none']));
  },
);

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
