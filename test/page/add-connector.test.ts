import { createServer } from 'node:http';
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import { followConfig } from '../../src/app/start-scheduled-runs.ts';
import { tokensOf } from '../../src/monitor/page-access.ts';
import { startMonitor } from '../../src/monitor/start-monitor.ts';
import { openFollowedActs, servedPages } from '../../src/page/page-routes.ts';
import { readSettings, withParts } from '../../src/settings/load-settings.ts';
import type { LocalSettings } from '../../src/settings/settings.ts';
import { openHistory } from '../../src/sinks/registry.ts';
import { openLog } from '../../src/telemetry/log.ts';
import { eventually } from '../support/jobs/worker-bench.ts';
import { listen } from '../support/listen.ts';
import { sendRaw, type RawRequest } from '../support/monitor/served-monitor.ts';
import { type Actor, openActor } from '../support/page/actor.ts';
import { noRedis } from '../support/page/status-world.ts';
import { newFolder } from '../support/program.ts';
import { startRedis } from '../support/redis.ts';

const right = 'tracker-token-1';
const env = { TRACKER_TOKEN: right, WRONG_TOKEN: 'someone-elses-1', PAGE_SECRET: 'token-of-anna-0123' };

let service: Awaited<ReturnType<typeof listen>>;
const authorizations: (string | undefined)[] = [];
/** The name of the last project. */
let lastName: unknown = 'Project 3';

beforeAll(async () => {
  service = await listen(
    createServer(({ url = '', headers }, response) => {
      authorizations.push(headers.authorization);
      const isKnown = headers.authorization === `Bearer ${right}`;
      const projects = [1, 2, 3].map((id) => ({ id: `p${id}`, name: id === 3 ? lastName : `Project ${id}` }));
      const body = url.startsWith('/me') ? { account: { id: 'a-1', name: 'Acme' } } : { items: projects };
      response.writeHead(isKnown ? 200 : 401, { 'content-type': 'application/json' });
      response.end(JSON.stringify(isKnown ? body : { message: `unknown token ${headers.authorization}` }));
    }),
  );
});
afterAll(async () => await service.close());

const definition = (origin: string): string => `name: tracker
title: Issue tracker
id: 5b0c9a52-7d1e-4f7c-8a43-2f6f0f4c9d11
rateLimit: { requestsPerSecond: 100, concurrency: 2 }
credentials: [{ title: API token, fields: { token: {} } }]
entities:
  projects: { fields: { id: string, name: string }, key: [id], actions: { list: {} }, pagination: { kind: single } }
  teams: { fields: { id: string }, key: [id], actions: { list: {} }, pagination: { kind: single } }
upstream:
  baseUrl: ${origin}
  auth: { API token: { kind: bearer, token: { field: token } } }
  check: { path: /me, identity: account.id, name: account.name }
  limits: { concurrency: 2, requestsPerSecond: 100, timeoutMs: 5000, maxBodyBytes: 1048576 }
  message: [message]
  entities:
    projects: { list: { path: /projects, records: items } }
    teams: { list: { path: /teams, records: items } }
`;

const configText = (redis: string, connectors: string): string => `# Ours.
definitions: [./definitions]
allowUpstreamHosts: ['${service.host}']
redis: { url: "${redis}" }
http:
  secretsFolder: ./secrets
  tokens:
    anna: { token: "\${PAGE_SECRET}", may: act }
    bob: { token: token-of-bob-012345, may: read }
sinks: { main: { type: sqlite, path: ./main.db, durability: normal } } # one
connectors:${connectors}
`;

const first = `
  # The first.
  old-tracker: # stays
    definition: tracker
    credentials: { token: "\${TRACKER_TOKEN}" }
    sink: main
    schedule: { every: 1h } # hourly
# End.`;

interface WorldOptions {
  readonly redis?: string;
  readonly connectors?: string;
  /** Content of `secrets/key`. */
  readonly secret?: string;
}

/** A config, and its pages, which may edit it; also those of a worker. */
async function openWorld(
  { redis = noRedis, connectors = first, secret }: WorldOptions = {},
  isWorker = false,
) {
  const folder = newFolder();
  mkdirSync(path.join(folder, 'definitions'));
  mkdirSync(path.join(folder, 'secrets'));
  if (secret !== undefined) writeFileSync(path.join(folder, 'secrets', 'key'), secret, { mode: 0o600 });
  writeFileSync(path.join(folder, 'definitions', 'tracker.yaml'), definition(service.origin));
  const config = path.join(folder, 'sync.yaml');
  writeFileSync(config, configText(redis, connectors), { mode: 0o640 });
  const lines: string[] = [];
  const log = await openLog({ level: 'debug', write: (line) => void lines.push(line) });
  const deeds = openFollowedActs();
  const read = () => {
    const settings = withParts(readSettings({ file: config, env }), 'http', 'redis', 'access');
    return {
      settings,
      pages: servedPages({ settings, program: 'connector-sync', clock: systemClock, deeds, editing }),
    };
  };
  let reload = async (): Promise<unknown> => Promise.resolve();
  let reloads = 0;
  const hidden: LocalSettings[] = [];
  const editing = {
    env,
    hide: (settings: LocalSettings) => void hidden.push(settings),
    reload: async () => {
      reloads += 1;
      return await reload();
    },
    isWorker,
  };
  const address = { host: '127.0.0.1', port: 0 };
  const started = isWorker ? await startWorker() : await startPages();
  const served = {
    get: async (at: string, request?: RawRequest) => await sendRaw(started.url, at, request),
  };
  const text = (): string => readFileSync(config, 'utf8');
  return {
    folder,
    config,
    log: lines,
    reloads: () => reloads,
    served,
    anna: await openActor(served, env.PAGE_SECRET),
    text,
    actions: async () => {
      await using history = await openHistory({ type: 'sqlite', path: path.join(folder, 'main.db') });
      return (await history.actions({ limit: 10 })).map(({ who, action, connector }) => [
        who,
        action,
        connector,
      ]);
    },
    [Symbol.asyncDispose]: async () => await started.stop(),
  };

  async function startPages() {
    const content = () => {
      const { settings, pages } = read();
      return { pages, tokens: tokensOf(settings.http) };
    };
    const monitor = await startMonitor({ ...content(), clock: systemClock, listen: address, log });
    reload = async () => await monitor.show(content());
    return { url: monitor.url, stop: async () => await monitor[Symbol.asyncDispose]() };
  }

  async function startWorker() {
    const stopping = new AbortController();
    const followed = await followConfig({
      ...read(),
      read: async () => Promise.resolve(read()),
      signal: stopping.signal,
      log,
      clock: systemClock,
      command: 'a test',
      concurrency: 1,
      listen: address,
    });
    reload = followed.reload;
    const stop = async (): Promise<void> => {
      stopping.abort();
      await followed.stop();
    };
    return { url: followed.url ?? '', stop };
  }
}

const fields = {
  name: 'new-tracker',
  'env.token': 'TRACKER_TOKEN',
  'entity.projects': 'on',
  every: '1h',
};

const check = async (anna: Actor, more: Readonly<Record<string, string>> = {}) =>
  await anna.confirm(await anna.ask('/add/tracker'), { ...fields, do: 'check', ...more });

describe('a connector added from the pages', () => {
  let world: Awaited<ReturnType<typeof openWorld>>;
  beforeAll(async () => (world = await openWorld()));
  afterAll(async () => await world[Symbol.asyncDispose]());

  it('begins with its type, which is found by its name', async () => {
    const { anna } = world;
    expect((await anna.ask('/add')).text).toContain('Issue tracker 2 entities · needs: API token');
    const found = await anna.ask('/add?q=TRACK');
    expect(found.text).toContain('Issue tracker');
    expect(found.text).not.toContain('Mailchimp');
    expect(await anna.read('/add?q=<script>x')).not.toContain('<script>x');
  });

  it('is checked as it would be written, and nothing is written', async () => {
    const before = world.text();
    const checked = await check(world.anna);
    expect(checked).toMatchObject({ status: 200 });
    expect(checked.text).toContain('new-tracker can be read');
    expect(checked.text).toContain('Passed connector new-tracker: account a-1 answers (tracker, 1 entity)');
    expect(checked.text).toMatch(
      /Passed sink main: .* \d checks? of what all connectors share .* disk of main/,
    );
    expect(checked.text).toContain(`Its address is ${service.origin}`);
    expect(checked.text).toContain('It is there, with 15 characters.');
    expect(checked.text).toContain(
      'new-tracker: definition: tracker credentials: token: ${TRACKER_TOKEN} sink: main',
    );
    expect(checked.text).not.toContain(right);
    expect(world.text()).toBe(before);
  });

  it('shows why it cannot be read, without its secrets', async () => {
    const checked = await check(world.anna, { 'env.token': 'WRONG_TOKEN' });
    expect(checked.text).toContain('new-tracker cannot be read yet');
    expect(checked.text).toContain('Failed connector new-tracker: ');
    expect(checked.text).toContain('Add it all the same');
    expect(checked.text).not.toContain(env.WRONG_TOKEN);
    const nowhere = await check(world.anna, { 'env.token': 'NO_SUCH' });
    expect(nowhere.text).toContain('token: no such variable is set where this server runs.');
  });

  it.each([
    [{ name: '__proto__' }, 'Name: expected lower-case words'],
    [{ name: '../../etc' }, 'Name: expected lower-case words'],
    [{ name: 'old_tracker' }, 'the same names as those of old-tracker'],
    [{ name: 'old-tracker' }, 'The config has a connector old-tracker already'],
    [{ 'file.token': '../sync.yaml' }, 'no such file is there'],
    [{ 'file.token': '.' }, 'no such file is there'],
    [{ 'env.token': 'constructor' }, 'no such variable is set'],
    [{ 'env.token': 'PAGE_SECRET' }, 'the secret of another part of the config'],
    [{ 'env.token': '${file:sync.yaml}' }, 'no such variable is set'],
    [{ 'env.token': '', 'text.token': '${file:sync.yaml}' }, 'no such file is there'],
    [{ 'env.token': '' }, 'token: type it, or choose where it is.'],
    [{ name: 'x'.repeat(50_000) }, 'Name: expected lower-case words'],
  ])('is refused where a field is wrong (%o)', async (more, why) => {
    const sent = authorizations.length;
    const refused = await check(world.anna, { ...more, do: 'add' });
    expect(refused.text).toContain(why);
    expect(authorizations.length).toBe(sent);
    expect(world.text()).toBe(configText(noRedis, first));
  });

  it('needs the right to act, a form of this server and a form of bounded size', async () => {
    const bob = await openActor(world.served, 'token-of-bob-012345');
    expect(await bob.ask('/add')).toMatchObject({ status: 403 });
    expect(await bob.ask('/add/tracker')).toMatchObject({ status: 403 });
    const { headers } = await world.anna.ask('/add/tracker');
    const post = async (body: string, more: Readonly<Record<string, string>> = {}) =>
      await world.served.get('/add/tracker', { method: 'POST', headers: { ...headers, ...more }, body });
    expect(await post('name=x&do=add')).toMatchObject({ status: 403 });
    expect(await post('name=%E0%A4&token=%ff&do=%00')).toMatchObject({ status: 403 });
    expect(await post('x'.repeat(1_000_000))).toMatchObject({ status: 413 });
    const asked = await world.anna.ask('/add/tracker');
    const foreign = await post(asked.body({ ...fields, do: 'add' }), { 'sec-fetch-site': 'cross-site' });
    expect(foreign).toMatchObject({ status: 403 });
    for (const name of ['__proto__', 'constructor', '%2e%2e', 'no-such']) {
      expect(await world.anna.ask(`/add/${name}`)).toMatchObject({ status: 404 });
    }
    expect(world.text()).toBe(configText(noRedis, first));
  });

  it('is not written where the config has changed since it was shown', async () => {
    const checked = await check(world.anna);
    writeFileSync(world.config, `${world.text()}# Meanwhile.\n`);
    const refused = await world.anna.confirm(checked, { ...fields, do: 'add' });
    expect(refused.text).toContain('Nothing was added, because the config has changed');
    expect(world.text()).not.toContain('new-tracker');
    writeFileSync(world.config, configText(noRedis, first));
  });

  it('may have a secret that is typed once, and goes to a file for the server alone', async () => {
    const asked = await world.anna.ask('/add/tracker');
    const typed = { ...fields, name: 'typed', 'env.token': '', 'typed.token': right, do: 'check' };
    const secrets = path.join(world.folder, 'secrets');
    const open = await world.served.get('/add/tracker', {
      method: 'POST',
      headers: { ...asked.headers, 'x-forwarded-for': '203.0.113.9' },
      body: asked.body(typed),
    });
    const form = `/add/${[open.headers['location']].flat()[0] ?? ''}`;
    expect((await world.anna.ask(form)).text).toContain('only over https or on this machine');
    expect(readdirSync(secrets)).toEqual([]);
    expect(asked.text).toMatch(
      new RegExp(`Type token , once .*${secrets} .* Or choose where it is File in ${secrets}`),
    );
    const wrong = await world.anna.confirm(asked, { ...typed, 'typed.token': 'wrong' });
    expect(wrong.text).toContain('What you typed was not kept.');
    expect(wrong.text).toContain('Failed connector typed: ');
    expect(wrong.text).not.toContain('✓ Credentials');
    expect(wrong.text).not.toContain('Add it all the same');
    expect(readdirSync(secrets)).toEqual([]);
    const checked = await world.anna.confirm(asked, typed);
    expect(checked.text).toContain('typed can be read');
    // Nothing is written before it is added, and a reload shows the same again.
    expect(readdirSync(secrets)).toEqual([]);
    const [, file = ''] =
      /token: \$\{file:\.\/secrets\/(typed\.token-[0-9a-f]{6})\}/.exec(checked.text) ?? [];
    expect(file).not.toBe('');
    const reloaded = await world.anna.ask(checked.address);
    expect(reloaded.text).toBe(checked.text);
    expect(await world.anna.read(checked.address)).toContain('value="typed"');
    const other = await openActor(world.served, env.PAGE_SECRET);
    expect(await other.read(checked.address)).not.toContain('value="typed"');
    expect(checked.text).toContain('✓ Credentials');
    expect(checked.text).not.toContain(right);
    expect(checked.address).not.toContain(right);
    const { 'typed.token': _, ...rest } = typed;
    const added = await world.anna.confirm(reloaded, { ...rest, do: 'add' });
    expect(added.address).toMatch(/^\/connectors\/typed\?did=/);
    expect(readdirSync(secrets)).toEqual([file]);
    // Names of secrets of other parts of the config are no choice.
    writeFileSync(path.join(secrets, 'of-anna'), env.PAGE_SECRET, { mode: 0o600 });
    const again = await world.anna.read('/add/tracker');
    expect(again).toContain(`<option value="${file}"`);
    expect(again).not.toContain('of-anna');
    rmSync(path.join(secrets, 'of-anna'));
    expect(readFileSync(path.join(secrets, file), 'utf8')).toBe(right);
    expect(statSync(path.join(secrets, file)).mode & 0o777).toBe(0o600);
    await world.anna.confirm(await world.anna.ask('/act/remove?connector=typed'));
    writeFileSync(world.config, configText(noRedis, first), { mode: 0o640 });
    expect(world.log.join('')).not.toContain(right);
  });

  it('is written once it is confirmed, with comments kept, and is served at once', async () => {
    const checked = await check(world.anna);
    const added = await world.anna.confirm(checked, { ...fields, do: 'add' });
    expect(added).toMatchObject({ status: 200 });
    expect(added.address).toMatch(/^\/connectors\/new-tracker\?did=/);
    expect(added.text).toContain('new-tracker is added to sync.yaml.');
    expect(added.text).toContain('connector-sync sync new-tracker');
    expect(world.text()).toBe(
      configText(
        noRedis,
        first.replace(
          '# End.',
          '  new-tracker:\n    definition: tracker\n    credentials:\n      token: ${TRACKER_TOKEN}\n    sink: main\n    schedule:\n      every: 1h\n    exclude:\n      - teams\n# End.',
        ),
      ),
    );
    expect(statSync(world.config).mode & 0o777).toBe(0o640);
    expect((await world.actions())[0]).toEqual(['anna', 'add', 'new-tracker']);
  });

  it('gets another schedule, or none, with the other lines as they were', async () => {
    const { anna } = world;
    const before = world.text();
    expect((await anna.ask('/act/schedule?connector=old-tracker')).text).toMatch(
      /old-tracker runs every hour now\. How often\? .* By hand only/,
    );
    const asked = await anna.ask('/act/schedule?connector=old-tracker&every=1d');
    expect(asked.text).toContain('- schedule: { every: 1h } # hourly + schedule: { every: 1d } # hourly');
    expect(world.text()).toBe(before);
    const changed = await anna.confirm(asked);
    expect(changed.text).toContain('old-tracker now runs every day.');
    expect(world.text()).toBe(before.replace('{ every: 1h } # hourly', '{ every: 1d } # hourly'));
    await anna.confirm(await anna.ask('/act/schedule?connector=old-tracker&every=none'));
    expect(world.text()).toBe(before.replace('    schedule: { every: 1h } # hourly\n', ''));
    expect((await world.actions()).slice(0, 2)).toEqual([
      ['anna', 'schedule', 'old-tracker'],
      ['anna', 'schedule', 'old-tracker'],
    ]);
    expect((await anna.ask('/act/schedule?connector=old-tracker&every=none')).text).toContain(
      'has this schedule already',
    );
    expect((await anna.ask('/act/schedule?connector=old-tracker&every=<b>')).text).toContain('How often?');
    expect((await anna.ask('/actions')).text).toMatch(
      /schedule of old-tracker from every day to by hand only .* schedule of old-tracker from every hour to every day/,
    );
  });

  it('leaves the config, and what is stored stays', async () => {
    const { anna } = world;
    const asked = await anna.ask('/act/remove?connector=new-tracker');
    expect(asked.text).toContain('0 rows of it stay in sink main');
    expect(asked.text).toContain('- new-tracker:');
    const removed = await anna.confirm(asked);
    expect(removed.address).toMatch(/^\/\?did=/);
    expect(removed.text).toContain('new-tracker is removed from the config');
    expect(world.text()).not.toContain('new-tracker');
    expect(world.text()).toContain('# End.');
    expect(await anna.ask('/connectors/new-tracker')).toMatchObject({ status: 404 });
    expect((await world.actions())[0]).toEqual(['anna', 'remove', 'new-tracker']);
  });
});

it('checks a connector with its secret as it is now, which is in force from then on', async () => {
  const inFile = `
  old-tracker: { definition: tracker, credentials: { token: '\${file:./secrets/key}' }, sink: main }`;
  await using world = await openWorld({ connectors: inFile, secret: 'wrong' });
  const { anna } = world;
  const address = '/act/check?connector=old-tracker';
  expect((await anna.press(address, '/connectors/old-tracker')).text).toContain(
    'Check old-tracker : 1 problem',
  );
  const before = world.reloads();
  writeFileSync(path.join(world.folder, 'secrets', 'key'), right);
  const pressed = await anna.press(address, '/connectors/old-tracker');
  await eventually(async () => (await anna.ask(pressed.address)).text.includes('account a-1 answers'));
  expect(world.reloads()).toBe(before + 1);
  await anna.press(address, '/connectors/old-tracker');
  expect(world.reloads()).toBe(before + 1);
});

describe('a connector whose key is refused', () => {
  const inVariable = `
  old-tracker: { definition: tracker, credentials: { token: '\${WRONG_TOKEN}' }, sink: main }`;
  const address = '/act/new-key?connector=old-tracker';

  it('takes a new key that is typed once, if the service takes it', async () => {
    await using world = await openWorld({ connectors: inVariable });
    const { anna } = world;
    const secrets = path.join(world.folder, 'secrets');
    const asked = await anna.ask(address);
    expect(asked.text).toContain('Give old-tracker a new key?');
    const wrong = await anna.confirm(asked, { 'typed.token': 'wrong-key-0123456' });
    await eventually(async () => (await anna.ask(wrong.address)).text.includes('It was not kept.'));
    expect([readdirSync(secrets), world.text()]).toEqual([[], configText(noRedis, inVariable)]);
    const nothing = await anna.confirm(await anna.ask(address), { 'typed.token': ' ' });
    expect(nothing.text).toContain('Nothing was typed.');
    const done = await anna.confirm(await anna.ask(address), { 'typed.token': right });
    await eventually(async () => (await anna.ask(done.address)).text.includes('old-tracker has a new key.'));
    const [file = ''] = readdirSync(secrets);
    expect(file).toMatch(/^old-tracker\.token-[0-9a-f]{6}$/);
    expect(readFileSync(path.join(secrets, file), 'utf8')).toBe(right);
    expect(world.text()).toContain(`\${file:./secrets/${file}}`);
    expect((await world.actions())[0]).toEqual(['anna', 'new-key', 'old-tracker']);
    expect((await anna.ask('/actions')).text).toContain('Gave a new key to old-tracker');
    expect(world.log.join('')).not.toContain(right);
  });

  it('takes none over a connection that others read', async () => {
    await using world = await openWorld({ connectors: inVariable });
    const asked = await world.anna.ask(address);
    const headers = { ...asked.headers, 'x-forwarded-for': '203.0.113.9' };
    const body = asked.body({ 'typed.token': right });
    const sent = await world.served.get(address, { method: 'POST', headers, body });
    const shown = await world.anna.ask((sent.headers['location'] ?? '').replace('..', ''));
    expect(shown.text).toContain('A secret may be typed only over https or on this machine');
    expect(readdirSync(path.join(world.folder, 'secrets'))).toEqual([]);
    const other = await openWorld({ connectors: inVariable });
    const bob = await openActor(other.served, 'token-of-bob-012345');
    expect(await bob.ask(address)).toMatchObject({ status: 403 });
    await other[Symbol.asyncDispose]();
  });
});

it('shows the lines to paste where the file cannot be edited', async () => {
  const connectors =
    ' { old: { definition: tracker, credentials: { token: "${TRACKER_TOKEN}" }, sink: main } }';
  await using world = await openWorld({ connectors });
  const checked = await check(world.anna, { do: 'add' });
  expect(checked.text).toContain('is written in a way that cannot be edited');
  expect(checked.text).toContain('Paste these lines into the config');
  expect(checked.text).toContain('connectors: new-tracker: definition: tracker');
  expect(checked.text).not.toContain('start the first sync');
  expect(world.text()).toBe(configText(noRedis, connectors));
  const refused = await world.anna.ask('/act/remove?connector=old');
  expect(refused).toMatchObject({ status: 409 });
});

it('has a worker read a new connector at once', async () => {
  const redis = await startRedis();
  const world = await openWorld({ redis: redis.url }, true);
  try {
    const added = await world.anna.confirm(await check(world.anna), { ...fields, do: 'add' });
    expect(added.address).toMatch(/^\/connectors\/new-tracker\?did=/);
    await eventually(async () => (await world.anna.read(added.address)).includes('3 new'));
    lastName = 7;
    await world.anna.confirm(await world.anna.ask('/act/read-all?connector=new-tracker'));
    await eventually(async () =>
      (await world.anna.ask('/act/mark-known?connector=new-tracker')).text.includes(
        'Accept that projects.name sometimes does not fit?',
      ),
    );
    const names = (await world.actions()).map(([who, action]) => `${who} ${action}`);
    expect(names).toContain('anna add');
  } finally {
    await world[Symbol.asyncDispose]();
    await redis.stop();
  }
});
