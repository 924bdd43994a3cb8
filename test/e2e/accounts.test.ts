import { appendFileSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import Database from 'better-sqlite3';
import { exitCodeOfReport } from '../../src/cli/output/exit-codes.ts';
import type { ConnectorName } from '../../src/core/names.ts';
import type { SampleAccount, SampleSize } from '../../src/sample/sample-account.ts';
import { createSampleAccount } from '../../src/sample/sample-service.ts';
import { openHistory } from '../../src/sinks/registry.ts';
import type { RunReport } from '../../src/sinks/run-report.ts';
import { openCliWorld } from '../support/cli-world.ts';
import {
  describedService,
  hostedAnswers,
  type DescribedOptions,
  type DescribedService,
} from '../support/described/described-service.ts';
import { openRevisionWorld } from '../support/revision-world.ts';
import { openPromise } from '../support/open-promise.ts';
import { builtInDefinition } from '../support/sample-service.ts';
import { sampleSinkOf, differencesFrom, noDifferences } from '../support/sample-sinks.ts';
import { signInWorld } from '../support/sign-in/sign-in-world.ts';
import { entityNamed, type SyncOnce, testCredentials as application } from '../support/sync-once.ts';
import type { ReceivedRequest } from '../support/third-party/start-third-party.ts';
import { triedSinks, repeats } from '../support/trials.ts';
import { openApp } from '../../src/app/open-app.ts';
import { systemClock } from '../../src/core/clock.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../src/core/json.ts';
import type { PageCounts } from '../../src/core/records.ts';
import { readSettings, withParts } from '../../src/settings/load-settings.ts';
import type { Row } from '../support/expected-rows.ts';
import { jsonLines } from '../support/run-cli.ts';
import { serveSamples } from '../support/serve-samples.ts';
import { jsonAnswer } from '../support/upstream/fake-server.ts';
import { openDirectWorld, worldRows, type DirectWorld } from '../support/upstream/direct-world.ts';
import { bentBody, edgePage, instead, onPath } from '../support/upstream/faults.ts';
import { notionError, type FakeNotion } from '../support/upstream/notion.ts';
import { opened, serveWorlds, throughApi } from '../support/upstream/served-world.ts';
import { deskWorld, mailchimpWorld, notionWorld } from '../support/upstream/upstream-world.ts';

const members = entityNamed(builtInDefinition('email-marketing'), 'list_members').table;
const size = { members: 400 };

const entities = ['lists', 'campaigns', 'reports', 'list_members', 'unsubscribes'];

/** Makes an account that becomes another one. */
function switching(size: SampleSize) {
  let isOther = false;
  const other = createSampleAccount({ definitionName: 'email-marketing', seed: 4_711, size });
  return {
    become: (account: 'own' | 'other') => {
      isOther = account === 'other';
    },
    wrap: (own: SampleAccount): SampleAccount => ({
      list: (entity, params) => (isOther ? other : own).list(entity, params),
      get: (entity, params) => (isOther ? other : own).get(entity, params),
    }),
  };
}

/** A service at one address under one id, whose account may become another one. */
async function openSwitched(sink: (typeof triedSinks)[number]) {
  const { become, wrap } = switching(size);
  const world = await openRevisionWorld({ definitionName: 'email-marketing', sink, size, entities, wrap });
  return {
    world,
    sync: async (account: 'own' | 'other', isFull = false, more: Partial<SyncOnce> = {}) => {
      become(account);
      return await world.sync({ isFull }, { doubtsAccount: true, ...more });
    },
    [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
  };
}

const inserted = ({ entities }: RunReport): number =>
  entities.reduce((sum, { counts }) => sum + counts.inserted, 0);

// Proves promise 4.1
it.each(triedSinks)(
  'stops at the first large listing of another account, in every run (%s)',
  async (sink) => {
    await using switched = await openSwitched(sink);
    const { world, sync } = switched;
    expect((await sync('own')).outcome).toBe('ok');
    const before = world.stored(members);
    expect(before.size).toBe(400);

    for (const isFull of [true, false]) {
      const stopped = await sync('other', isFull);
      expect(stopped).toMatchObject({
        outcome: 'failed',
        error: { code: 'IDENTITY_CHANGED', recovery: 'stop' },
      });
      expect(exitCodeOfReport(stopped)).toBe(2);
      const message = stopped.error?.message ?? '';
      expect(message).toContain('none of the stored keys');
      expect(
        [...before.keys()].some((key) => message.includes(key)),
        'a stored key',
      ).toBe(true);
      expect(message).toMatch(/Served: \["/);
      // Of listings with fewer rows, beside too few others to be sure: a tenth of the members has unsubscribed.
      expect(inserted(stopped)).toBeLessThan(80);
      expect(world.stored(members)).toEqual(before);
    }

    const right = await sync('own', true);
    expect(right.error).toBeNull();
    expect(world.stored(members)).toEqual(before);
  },
);

// Proves promise 4.4
it('names every run of the chain that stored rows of another account, for undo', async () => {
  await using switched = await openSwitched('sqlite');
  const { world, sync } = switched;
  await sync('own');
  const before = world.stored(members);
  const stopping = new AbortController();
  const broken = await sync('other', true, {
    signal: stopping.signal,
    onEvent: (event) => {
      if (event.kind === 'page-committed' && event.counts.inserted > 0) stopping.abort();
    },
  });
  expect(broken.outcome).toBe('interrupted');
  expect(inserted(broken)).toBeGreaterThan(0);
  const stopped = await sync('other', true);
  expect(stopped).toMatchObject({ continues: broken.run, error: { code: 'IDENTITY_CHANGED' } });
  const named = [...(stopped.error?.message ?? '').matchAll(/undo email-marketing --run (\S+)"/g)].map(
    ([, run]) => run,
  );
  expect(named.at(-1)).toBe(broken.run);
  await using history = await openHistory((await sampleSinkOf('sqlite')).options(world.folder));
  const doubts = await history.doubts(['email-marketing' as ConnectorName]);
  expect(doubts.map(({ run, isToUndo }) => [run, isToUndo])).toEqual([
    [stopped.run, inserted(stopped) > 0],
    [broken.run, true],
  ]);
  expect(world.stored(members)).toEqual(before);
}, 60_000);

// Proves promise 4.1
it('continues with the other account once it is adopted', async () => {
  const size = { members: 1_200 };
  const { become, wrap } = switching(size);
  const settings = '    include: [lists, list_members]\n';
  await using world = await openCliWorld({ size, wrap, settings });
  const code = async (...args: readonly string[]) => (await world.cli(...args)).code;
  expect(await code('sync', 'newsletter')).toBe(0);
  become('other');
  expect(await code('sync', 'newsletter')).toBe(2);
  const shown = await world.cli('adopt', 'newsletter');
  expect(shown.stdout).toContain('The API serves other records than those that are stored.');
  expect(await code('sync', 'newsletter')).toBe(2);
  expect(await code('adopt', 'newsletter', '--yes')).toBe(0);
  expect(await code('sync', 'newsletter')).toBe(6);
  expect(await code('sync', 'newsletter', '--allow-deletes')).toBe(0);
  expect(await code('adopt', 'newsletter')).toBe(0);
});

const list = (name: string): string =>
  `  ${name}: { fields: { id: string, name: string }, key: [id], actions: { list: {} }, pagination: { kind: single } }`;
const withoutGet = `
credentials: [{ title: Key, fields: { api_key: {} } }]
entities:
${list('things')}
${list('others')}
upstream:
  baseUrl: $ORIGIN
  auth: { Key: { kind: bearer, token: { field: api_key } } }
  check: { path: /me }
  limits: { concurrency: 1, requestsPerSecond: 1000, timeoutMs: 5000, maxBodyBytes: 1048576 }
  message: [error]
  entities: { things: { list: { path: /things, records: '' } }, others: { list: { path: /others, records: '' } } }
`;

/** Ten records of each entity, whose ids begin with the key. */
const respondByKey = ({ path: asked, headers }: ReceivedRequest) => {
  const key = String(headers.authorization).replace('Bearer ', '');
  if (asked === '/me') return { body: {} };
  return { body: Array.from({ length: 10 }, (_, index) => ({ id: `${key}-${index}`, name: key })) };
};

const live = (service: DescribedService): readonly string[] =>
  ['things', 'others'].flatMap((entity) => [...service.rows(entity).keys()]);

// Proves promise 4.1
it('stores no first page of another listing while get is being asked, and none after that', async () => {
  const listed = (name: string, more: string): string =>
    `  ${name}: { fields: { id: string, name: string }, key: [id], actions: { list: {}${more} }, pagination: { kind: single } }`;
  const get = ', get: { params: { id: { type: string, required: true } }, key: { id: id } }';
  const requests = ['things', 'others'].map(
    (name) => `${name}: { list: { path: /${name}, records: '' }, get: { path: '/${name}/{id}' } }`,
  );
  const [asked, read] = [openPromise(), openPromise()];
  const service = await describedService({
    definition: `
credentials: [{ title: Key, fields: { api_key: {} } }]
entities:
${listed('things', get)}
${listed('others', get)}
${listed('news', '')}
upstream:
  baseUrl: $ORIGIN
  auth: { Key: { kind: bearer, token: { field: api_key } } }
  check: { path: /me }
  limits: { concurrency: 4, requestsPerSecond: 1000, timeoutMs: 5000, maxBodyBytes: 1048576 }
  message: [error]
  entities: { ${requests.join(', ')}, news: { list: { path: /news, records: '' } } }
`,
    credentials: { api_key: 'right' },
    respond: async (request) => {
      const isOther = request.headers.authorization === 'Bearer wrong';
      if (/^\/\w+\/./.test(request.path)) {
        asked.resolve();
        await read.promise;
        return { status: 404, body: {} };
      }
      if (request.path !== '/news') return respondByKey(request);
      if (!isOther) return { body: [] };
      // Of an entity without rows, whose page is no reason to ask.
      await asked.promise;
      setTimeout(() => read.resolve(), 500);
      return respondByKey(request);
    },
  });
  await service.sync();
  const before = live(service);
  expect(before).toHaveLength(20);
  service.signIn({ api_key: 'wrong' });
  const stopped = await service.cli('sync', '--full');
  expect(stopped.stdout + stopped.stderr).toContain('seems to read another account');
  expect(stopped.code).toBe(2);
  expect(live(service)).toEqual(before);
  expect([...service.rows('news').keys()]).toEqual([]);
});

// Proves promise 4.4
it('publishes nothing of a connector that has stored rows of another account, until they are undone and the right one is read', async () => {
  const service = await describedService({
    definition: withoutGet,
    credentials: { api_key: 'right' },
    respond: respondByKey,
  });
  const signIn = (key: string): void => {
    service.signIn({ api_key: key });
    const target = 'publish: { lake: { type: files, directory: ./lake, format: jsonl, when: after-sync } }\n';
    appendFileSync(path.join(service.folder, 'sync.yaml'), target);
  };
  const published = (): number => readdirSync(path.join(service.folder, 'lake'), { recursive: true }).length;
  signIn('right');
  await service.sync();
  const before = { rows: live(service), published: published() };
  expect(before.rows).toHaveLength(20);

  const doubt = async (): Promise<string> => {
    signIn('wrong');
    const doubted = await service.cli('sync', '--full');
    expect(doubted.code).toBe(2);
    expect(live(service)).toHaveLength(40);
    const held = await service.cli('publish');
    const [, run = ''] = /connector-sync undo mine --run (\S+)"/.exec(doubted.stdout + doubted.stderr) ?? [];
    expect(held.stdout).toContain(`mine: held back, because run ${run} seems to have read another account`);
    signIn('right');
    return run;
  };
  const run = await doubt();
  const undone = await service.cli('undo', 'mine', '--run', run);
  expect(undone.stdout).toContain(`mine: 20 rows as before run ${run}`);
  expect(live(service)).toEqual(before.rows);
  expect((await service.cli('publish', 'status')).stdout).toContain('mine: held back');
  expect(published()).toBe(before.published);
  await service.sync();
  expect((await service.cli('publish', 'status')).stdout).toContain('up to date');
  expect((await service.cli('undo', 'mine', '--run', run)).stdout).toContain('nothing that run');

  const again = await doubt();
  await service.sync();
  expect((await service.cli('publish')).stdout, 'not undone').toContain('mine: held back');
  expect((await service.cli('undo', 'mine', '--run', again)).code).toBe(0);
  await service.sync();
  expect((await service.cli('publish', 'status')).stdout).toContain('up to date');
});

describe('a service at another address', () => {
  const limits =
    'limits: { concurrency: 4, requestsPerSecond: 1000, timeoutMs: 5000, maxBodyBytes: 1048576 }';
  const entities = `
entities:
  things:
    fields: { id: string }
    key: [id]
    actions: { list: {}, get: { params: { id: { type: string, required: true } }, key: { id: id } }, download: { params: { id: { type: string, required: true } }, key: { id: id }, file: { version: [id] } } }
    pagination: { kind: single }
`;
  const requests = `
  ${limits}
  message: [error]
  check: { path: /me, identity: id }
  entities: { things: { list: { path: /things, records: '' }, get: { path: '/things/{id}' }, download: { path: '/files/{id}' } } }
`;
  const keyed = `credentials: [{ title: Key, fields: { api_key: {} } }]
${entities}
upstream:
  baseUrl: $ORIGIN
  auth: { Key: { kind: bearer, token: { field: api_key } } }
${requests}`;
  const issued = `credentials: [{ title: App, fields: { id: {}, secret: {} } }]
${entities}
upstream:
  baseUrl: $ORIGIN
  auth:
    App: { kind: clientCredentials, scheme: Bearer, clientId: { field: id }, clientSecret: { field: secret }, tokenUrl: $ORIGIN/token, style: body, format: form }
${requests}`;

  const respond = ({ path: asked }: ReceivedRequest) => {
    if (asked === '/me') return { body: { id: 'acct-1' } };
    if (asked === '/token') return { body: { access_token: 't', expires_in: 3600 } };
    return asked === '/things' ? { body: [{ id: '1' }, { id: '2' }] } : { body: { id: '1' } };
  };

  /** Requests that came by another name of the same machine. */
  const atNewHost = (service: Pick<DescribedService, 'requests'>): readonly string[] =>
    service.requests
      .filter(({ headers }) => headers.host?.startsWith('localhost') === true)
      .map((one) => one.path);

  /** The host of one address of the definition, or of the API, is another name of this machine from now on. */
  function move(folder: string, file: string, key: 'baseUrl' | 'tokenUrl'): void {
    const place = path.join(folder, file);
    const moved = readFileSync(place, 'utf8').replace(
      new RegExp(`${key}: http://127\\.0\\.0\\.1`),
      `${key}: http://localhost`,
    );
    writeFileSync(place, moved, { mode: 0o600 });
  }

  const definitionFile = path.join('definitions', 'described.yaml');
  const commands: readonly (readonly string[])[] = [
    ['check'],
    ['sync'],
    ['audit', 'mine/things'],
    ['refetch', 'mine/things', '--key', 'id=1'],
    ['list', 'mine/things'],
    ['get', 'mine/things', '--param', 'id=1'],
    ['download', 'mine/things', '--param', 'id=1', '--output', 'file'],
    ['adopt', 'mine'],
  ];
  const direct = [...commands, ['definitions', 'try', definitionFile, 'things', '--connector', 'mine']];

  // Proves promise 4.3
  it.each<
    [
      string,
      string,
      'baseUrl' | 'tokenUrl',
      readonly (readonly string[])[],
      Omit<DescribedOptions, 'respond'>,
    ]
  >([
    [
      'of the service',
      definitionFile,
      'baseUrl',
      direct,
      { definition: keyed, credentials: { api_key: 'k' } },
    ],
    [
      'that issues tokens',
      definitionFile,
      'tokenUrl',
      direct,
      { definition: issued, credentials: { id: 'i', secret: 's' } },
    ],
    ['of an API', 'sync.yaml', 'baseUrl', commands, { definition: entities }],
  ])(
    'no command sends credentials to another address %s before a person adopts it',
    async (_of, file, key, all, given) => {
      const served = hostedAnswers(({ action }) => ({
        result: action === 'list' ? [{ id: '1' }, { id: '2' }] : { id: '1' },
      }));
      const service = await describedService({
        ...given,
        respond: given.credentials === undefined ? served : respond,
      });
      await service.sync();
      move(service.folder, file, key);
      for (const command of all) {
        const { code, stdout, stderr } = await service.cli(...command);
        expect({ command, at: atNewHost(service), code }).toEqual({
          command,
          at: [],
          code: command[0] === 'adopt' ? 0 : 2,
        });
        expect(stdout + stderr).toMatch(/base URL.* http:\/\/127\.0\.0\.1:\d+.* http:\/\/localhost:\d+/);
      }
      const adopted = await service.cli('adopt', 'mine', '--yes');
      expect(adopted).toMatchObject({ code: 0, stdout: expect.stringContaining('mine: adopted') as string });
      await service.sync('--full');
      expect(atNewHost(service)).not.toEqual([]);
      const { stdout } = await service.cli('actions', '--json');
      expect(JSON.parse(stdout)).toMatchObject({
        actions: expect.arrayContaining([
          expect.objectContaining({
            action: 'adopt',
            detail: {
              baseUrl: expect.stringContaining('localhost') as string,
              connectorId: expect.any(String) as string,
              from: {
                baseUrl: expect.stringContaining('127.0.0.1') as string,
                connectorId: expect.any(String) as string,
              },
            },
          }),
        ]) as unknown,
      });
    },
  );

  it('sends a person and the tokens of a sign-in to another address only once it is adopted', async () => {
    const world = await signInWorld();
    expect((await world.signIn()).code).toBe(0);
    expect((await world.cli('sync')).code).toBe(0);
    const config = path.join(world.folder, 'sync.yaml');
    writeFileSync(
      config,
      readFileSync(config, 'utf8').replace("['127.", `['localhost:${world.provider.port}', '127.`),
      { mode: 0o600 },
    );
    move(world.folder, definitionFile, 'tokenUrl');
    for (const command of [['sync'], ['login', 'crm', '--device']]) {
      const refused = await world.cli(...command);
      expect(refused.code).toBe(2);
      expect(refused.stderr).toContain('connector-sync adopt crm');
    }
    const adopted = await world.cli('adopt', 'crm', '--yes');
    expect(adopted).toMatchObject({ code: 0, stdout: expect.stringContaining('login crm') as string });
    expect(atNewHost(world.provider)).toEqual([]);
    expect((await world.signIn()).code).toBe(0);
    expect((await world.cli('sync', '--full')).code).toBe(0);
    expect(atNewHost(world.provider)).toContain('/token');
  });

  it('keeps the tokens from another address when a person signs out', async () => {
    const world = await signInWorld();
    expect((await world.signIn()).code).toBe(0);
    expect((await world.cli('sync')).code).toBe(0);
    move(world.folder, definitionFile, 'tokenUrl');
    const before = world.provider.requests.length;
    expect(await world.cli('logout', 'crm')).toMatchObject({
      code: 0,
      stderr: expect.stringContaining('origin') as string,
    });
    expect(world.provider.requests).toHaveLength(before);
  });
});

const withBlocks = '    entities: { comments: { parents: [pages, blocks] } }\n';

const services = [
  ['Mailchimp', () => mailchimpWorld({ as: 'my-mail', size: 'tiny' }), ''],
  ['Notion', () => notionWorld({ as: 'my-notes', size: 'tiny' }), withBlocks],
  ['a help desk', () => deskWorld({ as: 'my-desk' }), '    exclude: [exports]\n'],
] as const;

describe('a connector with its own credentials, and no API', () => {
  it.each(services)(
    'stores every record of %s as the service has it, and writes nothing the second time',
    async (_name, openWorld, settings) => {
      await using world = await openWorld();
      await using direct = openDirectWorld(world, { settings });
      const result = await direct.cli('sync');
      expect({ code: result.code, stderr: result.stderr }).toMatchObject({ code: 0 });
      const differences = differencesFrom(worldRows(world), world.definition, (table) =>
        direct.stored(table),
      );
      expect(differences).toEqual(noDifferences);
      const [report] = (await direct.json('sync')).filter(({ kind }) => kind === 'report');
      expect(written(report)).toEqual({ inserted: 0, updated: 0, deleted: 0 });
      noSecretIn(direct, [result.stdout, result.stderr]);
    },
  );
});

function written(report: Record<string, unknown> | undefined): object {
  const { entities = [] } = (report ?? {}) as {
    entities?: readonly { counts: Record<'inserted' | 'updated' | 'deleted', number> }[];
  };
  const sum = (name: 'inserted' | 'updated' | 'deleted'): number =>
    entities.reduce((all, { counts }) => all + counts[name], 0);
  return { inserted: sum('inserted'), updated: sum('updated'), deleted: sum('deleted') };
}

/** Neither in the output of the program, nor in a file that it wrote. */
function noSecretIn({ folder, config, env }: DirectWorld, texts: readonly string[]): void {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath, entry.name))
    .filter((file) => file !== config);
  expect(files.length).toBeGreaterThan(0);
  const written = [...texts, ...files.map((file) => readFileSync(file, 'latin1'))];
  for (const secret of Object.values(env)) {
    expect(written.some((text) => text.includes(secret))).toBe(false);
  }
}

const revisions = repeats('RUNS', { share: 2, full: 10 });
const hourMs = 60 * 60 * 1000;

it(`equals the account after each of ${revisions} full reads of one that changes`, async () => {
  await using world = await mailchimpWorld({ as: 'my-mail' });
  await using direct = openDirectWorld(world, { more: 'guards: { maxDeleteShare: 1 }\n' });
  const settings = withParts(readSettings({ file: direct.config, env: direct.env }), 'access');
  const [mine] = settings.connectors.values();
  if (mine === undefined) throw new Error('expected a connector');
  let laterMs = 0;
  const clock = { ...systemClock, now: () => Date.now() + laterMs };
  await using app = await openApp({ settings, clock, command: 'a test' });
  const asked = { globs: { select: [], exclude: [] }, onEvent: () => undefined, run: { isFull: true } };
  const kept = new Map<string, ReadonlyMap<string, Row>>();
  for (let revision = 0; revision <= revisions; revision += 1) {
    world.moveTo(revision);
    const report = await app.sync(mine, { ...asked, signal: new AbortController().signal });
    expect({ revision, outcome: report.outcome, failures: report.failures }).toEqual({
      revision,
      outcome: 'ok',
      failures: [],
    });
    const truth = truthUntilNow(world, kept);
    const found = differencesFrom(truth, world.definition, (table) => direct.stored(table));
    expect({ revision, ...found }).toEqual({ revision, ...noDifferences });
    // Fields that change all the time are stored again after a day.
    laterMs += 25 * hourMs;
  }
});

/** What happened once stays in the sink, also where the service no longer lists it. */
function truthUntilNow(world: Parameters<typeof worldRows>[0], kept: Map<string, ReadonlyMap<string, Row>>) {
  const truth = new Map(worldRows(world));
  for (const { deletes, table, explodedTable } of world.definition.entities.values()) {
    if (deletes !== 'never') continue;
    for (const { entity } of explodedTable === null ? [table] : [table, explodedTable]) {
      kept.set(entity, new Map([...(kept.get(entity) ?? []), ...(truth.get(entity) ?? [])]));
    }
  }
  return new Map([...truth, ...kept]);
}

const membersCalls = onPath('/lists/{list_id}/members');

describe('a direct sync of a service in trouble', () => {
  it('waits where it is asked to, repeats what failed, and stores everything', async () => {
    await using world = await mailchimpWorld({ as: 'my-mail' });
    await using direct = openDirectWorld(world);
    world.fake.script({
      on: membersCalls,
      effect: instead(jsonAnswer(429, { status: 429, title: 'Too Many Requests' }, { 'retry-after': '1' })),
    });
    world.fake.script({
      on: onPath('/campaigns'),
      effect: instead(jsonAnswer(500, { status: 500, title: 'Internal Server Error' })),
    });
    world.fake.script({
      on: onPath('/reports'),
      effect: instead({ status: 200, headers: { 'content-type': 'text/html' }, body: '<html>' }),
    });
    const result = await direct.cli('sync');
    expect({ code: result.code, stderr: result.stderr }).toMatchObject({ code: 0 });
    expect(result.stdout).toMatch(/ 3 retries/);
    const found = differencesFrom(worldRows(world), world.definition, (table) => direct.stored(table));
    expect(found).toEqual(noDifferences);
  });

  // Proves promise 10
  it('stops when the key is revoked on the way, keeps what was stored, and resumes with it', async () => {
    await using world = await mailchimpWorld({ as: 'my-mail' });
    await using direct = openDirectWorld(world);
    const revoked = jsonAnswer(401, {
      status: 401,
      title: 'API Key Invalid',
      detail: `Not a key: ${direct.env['MY_API_KEY'] ?? ''}`,
    });
    world.fake.script({ on: membersCalls, times: 100, effect: instead(revoked) });
    const stopped = await direct.cli('sync');
    expect(stopped.code).toBe(4);
    const text = stopped.stdout + stopped.stderr;
    expect(text).toContain("check the connector's credentials in the config");
    for (const secret of Object.values(direct.env)) expect(text).not.toContain(secret);
    const lists = [...world.definition.entities.values()].find(({ name }) => name === 'lists');
    if (lists === undefined) throw new Error('expected lists');
    expect(direct.stored(lists.table).size).toBeGreaterThan(0);
    world.fake.heal();
    expect((await direct.cli('sync')).code).toBe(0);
    const found = differencesFrom(worldRows(world), world.definition, (table) => direct.stored(table));
    expect(found).toEqual(noDifferences);
  });

  it('says what came where a network in front of the service refuses calls, and that the service did not ask for the pause', async () => {
    await using world = await mailchimpWorld({ as: 'my-mail' });
    await using direct = openDirectWorld(world);
    world.fake.script({ on: onPath('/automations'), times: 100, effect: edgePage(403) });
    const result = await direct.cli('sync');
    expect(result.code).toBe(3);
    expect(result.stdout).toMatch(
      /! refused by the network in front of \S+ \(HTTP 403\), so no more calls are made until \S+Z; run it again then/,
    );
    expect(result.stdout + result.stderr).not.toMatch(/asked to wait|asked for quiet/);
    world.fake.heal();
    expect((await direct.cli('sync')).code).toBe(0);
  });
});

it('takes an account over from direct to served and back, and from and to an API that names no account, without a row rewritten', async () => {
  await using world = await mailchimpWorld({ as: 'my-mail' });
  await using direct = openDirectWorld(world);
  const served = await serveWorlds([world]);
  const servedId = await served.connect(world);
  const hosted = await serveSamples({
    port: 0,
    ...application,
    definitions: new Map([[world.definition.name, world.definition]]),
    accounts: [
      {
        connectorId: 'c-hosted',
        definitionName: world.definition.name,
        workspace: 'default',
        seed: 1,
        size: 'tiny',
        account: world.fake.account,
      },
    ],
  });
  onTestFinished(() => hosted.close());
  const own = readFileSync(direct.config, 'utf8');
  expect((await direct.cli('sync')).code).toBe(0);
  const first = allRows(direct);
  for (const config of [
    throughApi(own, served.service.url, servedId),
    throughApi(own, hosted.url, 'c-hosted'),
    own,
  ]) {
    writeFileSync(direct.config, config);
    expect((await direct.cli('check')).code).toBe(2);
    const refused = await direct.cli('sync');
    expect(refused.code).toBe(2);
    expect(refused.stderr).toContain('connector-sync adopt mine');
    expect((await direct.cli('adopt', 'mine', '--yes')).code).toBe(0);
    expect((await direct.cli('sync', '--full')).code).toBe(0);
    expect(allRows(direct)).toEqual(first);
  }
});

/** Every row of every table, with the number of its last change. */
function allRows({ database }: DirectWorld): readonly unknown[] {
  const db = new Database(database, { readonly: true });
  try {
    const tables = db
      .prepare(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'mine\\_\\_%' ESCAPE '\\' ORDER BY 1",
      )
      .pluck()
      .all() as readonly string[];
    return tables.flatMap((name) =>
      db.prepare(`SELECT '${name}' AS t, _seq, _hash, _deleted_at FROM "${name}" ORDER BY _seq`).all(),
    );
  } finally {
    db.close();
  }
}

const always = { times: Number.POSITIVE_INFINITY };
const isListing = ({ path }: { readonly path: string }): boolean =>
  /\/(children|search|comments|users)$/.test(path);
const isSingle = ({ path }: { readonly path: string }): boolean =>
  /\/(pages|data_sources|blocks|comments|users)\/[^/]+$/.test(path) && !path.endsWith('/me');

/** Every third record of every listing comes with its kind and id alone. */
function showInPart(fake: FakeNotion): void {
  const shorten = (record: JsonValue, index: number): JsonValue =>
    isJsonObject(record) && index % 3 === 0
      ? { object: record['object'] ?? null, id: record['id'] ?? null }
      : record;
  const effect = bentBody((body: JsonObject) => {
    const { results } = body;
    return Array.isArray(results) ? { ...body, results: (results as JsonValue[]).map(shorten) } : body;
  });
  fake.script({ ...always, on: isListing, effect });
}

async function openNotes() {
  const world = await opened(notionWorld({ as: 'my-notes' }));
  const settings = '    entities: { comments: { parents: [pages, blocks] } }\n';
  const direct = await opened(Promise.resolve(openDirectWorld(world, { settings })));
  return { world, direct };
}

interface Report {
  readonly entities: readonly {
    readonly entity: string;
    readonly counts: PageCounts;
    readonly partial: number;
    readonly deleted: number;
  }[];
}

/** What a sync of everything changed in the rows, and what came in part. */
async function fullSync(direct: DirectWorld) {
  const result = await direct.cli('sync', '--full', '--json');
  const { report } = jsonLines(result).at(-1) as { readonly report?: Report };
  const { entities } = report ?? { entities: [] };
  const sumOf = (numbers: readonly number[]): number => numbers.reduce((sum, one) => sum + one, 0);
  return {
    code: result.code,
    inserted: sumOf(entities.map(({ counts }) => counts.inserted)),
    changed: sumOf(entities.map(({ counts, deleted }) => counts.updated + deleted)),
    partial: entities.filter(({ partial }) => partial > 0).map(({ entity }) => entity),
  };
}

const unchanged = { code: 0, inserted: 0, changed: 0, partial: [] };

// Proves promise 7.1
it('reads records whole that listings show in part, directly and through serve', async () => {
  const { world, direct } = await openNotes();
  showInPart(world.fake);
  const rows = [...worldRows(world).values()].reduce((sum, { size }) => sum + size, 0);
  expect(await fullSync(direct)).toEqual({ ...unchanged, inserted: rows });

  const served = await serveWorlds([world]);
  const own = readFileSync(direct.config, 'utf8');
  writeFileSync(direct.config, throughApi(own, served.service.url, await served.connect(world)));
  expect((await direct.cli('adopt', 'mine', '--yes')).code).toBe(0);
  // The API has no get for comments: their rows stay as they are.
  expect(await fullSync(direct)).toEqual({ ...unchanged, code: 3, partial: ['comments'] });
  world.fake.heal();
  expect(await fullSync(direct)).toEqual(unchanged);
});

// Proves promise 7.1
it('keeps the rows of records that come in part and all that lies below them, where get does not help either', async () => {
  const { world, direct } = await openNotes();
  expect((await direct.cli('sync')).code).toBe(0);
  showInPart(world.fake);
  const refusal = notionError(403, 'restricted_resource', 'Insufficient permissions for this endpoint.');
  world.fake.script({ ...always, on: isSingle, effect: instead(refusal) });
  const partial = ['users', 'pages', 'data_sources', 'blocks', 'comments'];
  expect(await fullSync(direct)).toEqual({ ...unchanged, code: 3, partial });
  const found = differencesFrom(worldRows(world), world.definition, (table) => direct.stored(table));
  expect(found).toEqual(noDifferences);
});
