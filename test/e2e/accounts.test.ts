import { appendFileSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { exitCodeOfReport } from '../../src/cli/output/exit-codes.ts';
import type { ConnectorName } from '../../src/core/names.ts';
import type { SampleAccount } from '../../src/sample/sample-account.ts';
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
import { builtInDefinition } from '../support/sample-service.ts';
import { sampleSinkOf } from '../support/sample-sinks.ts';
import { signInWorld } from '../support/sign-in/sign-in-world.ts';
import { entityNamed, type SyncOnce } from '../support/sync-once.ts';
import type { ReceivedRequest } from '../support/third-party/start-third-party.ts';
import { triedSinks } from '../support/trials.ts';

const members = entityNamed(builtInDefinition('email-marketing'), 'list_members').table;
const size = { members: 1_200 };

const entities = ['lists', 'campaigns', 'reports', 'list_members', 'unsubscribes'];

/** A service at one address under one id, whose account may become another one. */
async function openSwitched(sink: (typeof triedSinks)[number]) {
  let isOther = false;
  const other = createSampleAccount({ definitionName: 'email-marketing', seed: 4_711, size });
  const wrap = (own: SampleAccount): SampleAccount => ({
    list: (entity, params) => (isOther ? other : own).list(entity, params),
    get: (entity, params) => (isOther ? other : own).get(entity, params),
  });
  const world = await openRevisionWorld({ definitionName: 'email-marketing', sink, size, entities, wrap });
  return {
    world,
    sync: async (account: 'own' | 'other', isFull = false, more: Partial<SyncOnce> = {}) => {
      isOther = account === 'other';
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
    expect(before.size).toBe(1_200);

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
      expect(inserted(stopped)).toBeLessThan(200);
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
  let isOther = false;
  const other = createSampleAccount({ definitionName: 'email-marketing', seed: 4_711, size });
  const wrap = (own: SampleAccount): SampleAccount => ({
    list: (entity, params) => (isOther ? other : own).list(entity, params),
    get: (entity, params) => (isOther ? other : own).get(entity, params),
  });
  const settings = '    include: [lists, list_members]\n';
  await using world = await openCliWorld({ size, wrap, settings });
  const code = async (...args: readonly string[]) => (await world.cli(...args)).code;
  expect(await code('sync', 'newsletter')).toBe(0);
  isOther = true;
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
