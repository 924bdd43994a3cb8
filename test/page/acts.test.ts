import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { commonTexts } from '../../src/app/acts.ts';
import type { EntityName } from '../../src/core/names.ts';
import { openHistory } from '../../src/sinks/registry.ts';
import { instantClock } from '../support/instant-clock.ts';
import { noRedis, openStatusWorld, script, type StatusWorld } from '../support/page/status-world.ts';
import { openActor, type Actor } from '../support/page/actor.ts';
import { eventually } from '../support/jobs/worker-bench.ts';
import { serveWorkerPages, serveUi } from '../support/page/served-ui.ts';
import { startRedis, type PrivateRedis } from '../support/redis.ts';
import { callCli } from '../support/run-cli.ts';

const http = `{ tokens: {
  anna: { token: token-of-anna-0123, may: act },
  bob: { token: token-of-bob-012345 },
  carl: { token: token-of-carl-0123, may: [pages, data, act] } } }`;

let world: StatusWorld;
let config: string;
let ui: Awaited<ReturnType<typeof serveUi>>;
let anna: Actor;
let redis: PrivateRedis;

beforeAll(async () => {
  world = await openStatusWorld();
  config = path.join(world.folder, 'with-tokens.yaml');
  redis = await startRedis();
  const slow = (await world.configText())
    .replace(noRedis, redis.url)
    .replace(/(leads: .*requestsPerSecond: )1000/, '$110');
  await writeFile(config, `http: ${http}\n${slow}`);
  ui = await serveUi({ config });
  anna = await openActor(ui, 'token-of-anna-0123');
});
afterAll(async () => {
  await ui[Symbol.asyncDispose]();
  await redis.stop();
  await world[Symbol.asyncDispose]();
});

async function noted(limit = 1) {
  await using history = await openHistory({ type: 'sqlite', path: path.join(world.folder, 'main.db') });
  return (await history.actions({ limit })).map(({ who, action, connector, detail }) => ({
    who,
    action,
    connector,
    detail,
  }));
}

describe('a person with a token that may act', () => {
  it('is named on each page, and finds what can be done there', async () => {
    const body = await anna.read('/connectors/newsletter');
    expect(body).toContain('<summary>anna</summary>');
    expect(body).toContain('action="../act/run-now?connector=newsletter"');
    expect(body).toContain('href="../act/pause?connector=newsletter"');
    expect(body).not.toContain('act/allow-deletes');
    expect(await anna.read('/connectors/members')).toContain('href="../act/allow-deletes?connector=members"');
    expect(await anna.read('/?state=incomplete')).toContain('back=.%2F%3Fstate%3Dincomplete"');
    expect(await anna.read('/connectors/archive')).toContain('href="../act/resume?connector=archive"');
    expect(await anna.read('/?state=incomplete')).toContain('href="./act/pause?state=incomplete&amp;back=');
    expect(await anna.read('/targets/lake')).toContain('href="../act/publish-now?target=lake"');
  });

  it('pauses a connector once it is confirmed, with a reason, under the own name', async () => {
    const before = await noted();
    const asked = await anna.ask('/act/pause?connector=newsletter');
    expect(asked.text).toContain('Pause newsletter?');
    expect(asked.text).toContain('no scheduled run starts of newsletter');
    expect(await noted()).toEqual(before);
    const done = await anna.confirm(asked, { reason: `moving ${script}` });
    expect(done.address).toMatch(/^\/connectors\/newsletter\?did=[\w-]{16}$/);
    await expect.poll(async () => (await anna.ask(done.address)).text).toContain('newsletter: paused.');
    // A reload repeats nothing; the line on top is for her alone.
    expect((await anna.ask(done.address)).text).toContain('newsletter: paused.');
    const bob = await openActor(ui, 'token-of-bob-012345');
    expect((await bob.ask(done.address)).text).not.toContain('newsletter: paused.');
    expect(await noted()).toEqual([
      { who: 'anna', action: 'pause', connector: 'newsletter', detail: { reason: `moving ${script}` } },
    ]);
    const shown = await anna.read('/connectors/newsletter');
    expect(shown).toContain('moving &lt;script');
    expect(shown).not.toContain('moving <script');
    const again = await anna.ask('/act/pause?connector=newsletter');
    expect(again).toMatchObject({
      status: 409,
      text: expect.stringContaining('Nothing to pause: newsletter is paused already.') as string,
    });
  });

  it('resumes all that a filter leaves, and is asked again where that has changed meanwhile', async () => {
    const asked = await anna.ask('/act/resume?state=paused');
    expect(asked.text).toContain('Resume 2 connectors?');
    expect(asked.text).toMatch(/of (archive, newsletter|newsletter, archive)\./);
    await world.cli('schedule', 'pause', 'leads');
    const changed = await anna.confirm(asked);
    expect(changed).toMatchObject({
      status: 409,
      text: expect.stringContaining('Nothing was done, because something has changed') as string,
    });
    expect((await noted())[0]).toMatchObject({ action: 'pause', connector: 'leads' });
    const done = await anna.confirm(changed);
    expect([done.status, done.address]).toEqual([200, expect.stringMatching(/^\/\?state=paused&did=/)]);
    const names = (await noted(3)).map(({ who, action, connector }) => `${who} ${action} ${connector}`);
    expect(new Set(names)).toEqual(
      new Set(['anna resume archive', 'anna resume leads', 'anna resume newsletter']),
    );
    expect((await anna.ask('/act/resume?connector=leads')).text).toContain('leads is not paused.');
    expect((await anna.ask('/act/resume?q=nothing-like-it')).text).toContain('No connector matches.');
  });

  it('undoes a run', async () => {
    const { stdout } = await world.cli('sync', 'members', '--allow-deletes', '--full');
    expect(stdout).toMatch(/^ {2}list_members +0 /m);
    const [run = ''] = await world.runsOf('members');
    expect(await anna.read(`/runs/${run}`)).toContain(`href="../act/undo?run=${run}"`);
    const asked = await anna.ask(`/act/undo?run=${run}`);
    expect(asked.text).toContain('list_members (0 inserted, 0 updated, 23 deleted)');
    const undone = await anna.confirm(asked);
    expect(undone.address).toMatch(`/runs/${run}?did=`);
    expect(undone.text).toMatch(
      /members: 23 rows as before the run\. +list_members: 23 deletes taken back\./,
    );
    expect(await noted()).toEqual([{ who: 'anna', action: 'undo', connector: 'members', detail: { run } }]);
    const again = await anna.confirm(await anna.ask(`/act/undo?run=${run}`));
    expect(again.text).toContain('is left to undo');
  });

  it('cancels a run in progress', async () => {
    const run = callCli(['sync', 'leads', '--full', '--config', config], { cwd: world.folder });
    let link = '';
    await eventually(async () => {
      const body = await anna.read('/connectors/leads');
      link = /href="\.\.(\/act\/cancel\?run=[^"]+)"/.exec(body)?.[1] ?? '';
      return link !== '';
    });
    const asked = await anna.ask(link);
    expect(asked.text).toContain('of leads, which started at ');
    const stopping = await anna.confirm(asked);
    expect(stopping.text).toMatch(/Stopping : leads, at its next page|Stopped at/);
    expect((await run).stderr).toContain('leads: cancelled on request');
    expect((await anna.ask(stopping.address)).text).toMatch(/Stopped at \d\d:\d\d:\d\d : leads, after/);
    expect(await noted()).toMatchObject([{ who: 'anna', action: 'cancel', connector: 'leads' }]);
    expect((await anna.confirm(asked)).text).toContain('is not running: it ended interrupted');
  });

  it('reads what cannot be done, and why', async () => {
    const [run = ''] = await world.runsOf('newsletter');
    for (const [address, why] of [
      [`/act/cancel?run=${run}`, 'is not running: it ended ok'],
      [`/act/undo?run=${run}`, 'has changed nothing'],
      ['/act/cancel?run=nope', 'Expected the id of a run'],
      ['/act/pause?connector=nope', 'nope'],
      ['/act/allow-deletes?connector=newsletter', 'No deletes of newsletter are withheld'],
      // Many are never allowed at once, nor the first of them.
      ['/act/allow-deletes?q=members', 'Unknown connector'],
      ['/act/publish-now?target=nope', 'nope'],
    ] as const) {
      const { status, text } = await anna.ask(address);
      expect([address, status, text.includes(why), text.includes('Nothing was done')]).toEqual([
        address,
        409,
        true,
        true,
      ]);
    }
    // It may be in the sink that cannot be read.
    const lost = await anna.ask('/act/cancel?run=20200101T000000000Z-00000000');
    expect([lost.status, lost.text.includes('127.0.0.1:1')]).toEqual([503, true]);
    expect((await anna.ask('/act/toString')).status).toBe(404);
  });

  it('reads that Redis is missing where a worker has to act, and acts without it where none has to', async () => {
    const lost = path.join(world.folder, 'without-redis.yaml');
    await writeFile(lost, (await readFile(config, 'utf8')).replace(redis.url, noRedis));
    await using alone = await serveUi({ config: lost });
    const actor = await openActor(alone, 'token-of-anna-0123');
    const addresses = ['/act/run-now?connector=newsletter', '/act/publish-now?target=lake'];
    for (const { status, text } of await Promise.all(addresses.map(async (one) => await actor.ask(one)))) {
      expect([status, text.includes('Redis')]).toEqual([503, true]);
    }
    const done = await actor.confirm(await actor.ask('/act/pause?connector=new-shop'), { reason: 'x' });
    expect(done.text).toContain('new-shop: paused.');
    expect(done.text).toContain('A worker learns of it within a minute, because Redis could not be told');
  });
});

describe('a person whose pages are those of a worker', () => {
  it('has it run, allow deletes once, and publish, under the own name', async () => {
    await world.cli('sync', 'members', '--full');
    const address = '/act/allow-deletes?connector=members';
    const asked = await anna.ask(address);
    expect(asked.text).toContain('Allow 23 deletes of members, once?');
    expect(asked.text).toContain('At the last run these were 23 of list_members');
    // Keys are values, and anna may not see these.
    expect(asked.text).toMatch(/from the page of the run\. No, go back/);
    expect(await anna.read(address)).not.toContain('<table');
    const carl = await openActor(ui, 'token-of-carl-0123');
    expect(await carl.read(address)).toContain('href="../data/members/list_members?rows=missing"');
    const seen = (await carl.ask(address)).text;
    expect(seen).toMatch(/Name Not found since Entity \w+ \/ \w+ \p{L}[^\d]* \d\d:\d\d list_members/u);
    // No worker serves yet; another person asks at the same time.
    const forms = [asked, await anna.ask(address)];
    const answers = await Promise.all(forms.map(async (one) => (await anna.confirm(one)).text));
    const taken = answers.filter((text) => text.includes('Waiting for a worker'));
    expect([taken.length, answers.filter((text) => text.includes('members is already waiting: '))]).toEqual([
      1,
      [expect.stringContaining('that run does what it was asked to. Ask again when it has ended.')],
    ]);
    await using worker = await serveWorkerPages(config, ['members', 'newsletter']);
    const actor = await openActor(worker, 'token-of-anna-0123');
    await eventually(async () => (await noted())[0]?.action === 'allow-deletes');
    await eventually(async () => (await actor.ask('/act/allow-deletes?connector=members')).status === 409);
    const [deleting = ''] = await world.runsOf('members');
    expect(await actor.read(`/runs/${deleting}`)).toContain(`act/undo?run=${deleting}`);

    const runs = await actor.confirm(await actor.ask('/act/run-now?q=newsletter'));
    expect(runs.text).toMatch(/Waiting for a worker|Running since|Done at/);
    await eventually(async () => (await actor.ask(runs.address)).text.includes('Done at'));
    expect((await actor.ask(runs.address)).text).toMatch(/\d+ records read, nothing has changed\./);
    const published = await actor.confirm(await actor.ask('/act/publish-now?target=lake'));
    expect(published.address).toMatch(/^\/targets\/lake\?did=/);
    await eventually(async () =>
      /Done \. (Readers see|Nothing has changed)/.test((await actor.ask(published.address)).text),
    );
    const about = { who: 'anna', detail: {} };
    expect(await noted(3)).toEqual([
      { ...about, action: 'publish-now', connector: null, detail: { target: 'lake' } },
      { ...about, action: 'run-now', connector: 'newsletter' },
      { ...about, action: 'allow-deletes', connector: 'members' },
    ]);
  });
});

it('knows the texts that all rows of an entity have in common', () => {
  const row = (entity: string, texts: Readonly<Record<string, string>>) => {
    return { entity: entity as EntityName, texts: new Map(Object.entries(texts)) };
  };
  const rows = [
    row('people', { region: 'DACH', name: 'Ada', plan: 'free' }),
    row('notes', { title: 'alone' }),
    row('people', { region: 'DACH', name: 'Kim' }),
  ];
  expect(commonTexts(rows)).toEqual([{ entity: 'people', rows: 2, same: [['region', 'DACH']] }]);
});

describe('who may not act', () => {
  const address = '/act/pause?connector=leads';

  // Proves promise 10.3
  it('finds no actions, and can neither ask for one nor send a form', async () => {
    await using open = await serveUi({ config: world.config });
    const bob = await openActor(ui, 'token-of-bob-012345');
    expect(await bob.read('/')).toContain('may read');
    for (const page of ['/', '/connectors/leads', '/connectors/members']) {
      expect([page, (await bob.read(page)).includes('act/')]).toEqual([page, false]);
      expect([page, (await open.get(page)).body.includes('act/')]).toEqual([page, false]);
    }
    const form = await anna.ask(address);
    const before = await noted();
    expect((await bob.ask(address)).status).toBe(403);
    expect((await bob.confirm(form)).text).toContain('The token "bob" may not act.');
    expect((await open.get(address)).body).toContain('http.tokens');
    const sent = { method: 'POST', headers: form.headers, body: form.body({ reason: 'x' }) };
    expect((await open.get(address, sent)).status).toBe(403);
    const { cookie: _, ...anonymous } = form.headers;
    expect((await ui.get(address, { ...sent, headers: anonymous })).status).toBe(401);
    const wrong = { ...anonymous, authorization: 'Bearer not-the-token-at-all' };
    expect((await ui.get(address, { ...sent, headers: wrong })).status).toBe(401);
    expect(await noted()).toEqual(before);
  });

  // Proves promise 10.3
  it('sends no form from another site, from another session, or for something that has changed', async () => {
    const form = await anna.ask(address);
    const other = await openActor(ui, 'token-of-anna-0123');
    const before = await noted();
    const send = async (headers: Readonly<Record<string, string>>, body: string): Promise<number> =>
      (await ui.get(address, { method: 'POST', headers: { ...form.headers, ...headers }, body })).status;
    const body = form.body({ reason: 'x' });
    expect(await send({ 'sec-fetch-site': 'cross-site' }, body)).toBe(403);
    expect(await send({ 'sec-fetch-site': 'same-site' }, body)).toBe(403);
    const { 'sec-fetch-site': _, ...old } = form.headers;
    const asked = { method: 'POST', headers: { ...old, origin: 'https://evil.example' }, body };
    expect((await ui.get(address, asked)).status).toBe(403);
    expect(await send({ cookie: other.cookie }, body)).toBe(403);
    expect(await send({}, form.body({ reason: 'x', token: '' }))).toBe(403);
    expect(await send({}, form.body({ reason: 'x', token: 'é'.repeat(20) }))).toBe(403);
    expect(await send({}, form.body({ reason: 'x', seen: 'another' }))).toBe(409);
    expect(await send({ 'content-type': 'application/json' }, '{"token":1}')).toBe(403);
    expect(await send({ host: 'evil.example' }, body)).toBe(421);
    expect(await send({}, form.body({ reason: 'x'.repeat(5000) }))).toBe(413);
    expect(await noted()).toEqual(before);
    // A token in a header, which a browser may send along, is no form either.
    const headers = {
      authorization: 'Bearer token-of-anna-0123',
      'content-type': 'application/x-www-form-urlencoded',
    };
    expect((await ui.get(address, { method: 'POST', headers, body: 'reason=x' })).status).toBe(403);
    const { headers: shown } = await ui.get(address, { headers: form.headers });
    expect(shown['x-frame-options']).toBe('DENY');
    expect(shown['content-security-policy']).toContain("frame-ancestors 'none'");
    expect(shown['content-security-policy']).toContain("form-action 'self'");
    expect(await send({}, body)).toBe(303);
  });

  // Proves promise 10.3
  it.each([
    'run-now',
    'pause',
    'resume',
    'check',
    'read-all',
    'allow-deletes',
    'mark-known',
    'schedule',
    'new-key',
    'remove',
    'cancel',
    'undo',
    'publish-now',
  ])('sends no form of another site for %s, nor one without the token of the form', async (act) => {
    const [run = ''] = await world.runsOf('leads');
    const at = `/act/${act}?connector=leads&run=${run}&target=lake`;
    const form = await anna.ask(address);
    const before = await noted();
    const status = async (headers: Readonly<Record<string, string>>, body: string): Promise<number> =>
      (await ui.get(at, { method: 'POST', headers, body })).status;
    const { 'sec-fetch-site': _, ...plain } = form.headers;
    const own = form.body({});
    expect(await status({ ...form.headers, 'sec-fetch-site': 'cross-site' }, own)).toBe(403);
    expect(await status({ ...plain, origin: 'https://evil.example' }, own)).toBe(403);
    expect(await status({ ...plain, origin: 'null' }, own)).toBe(403);
    expect(await status(form.headers, form.body({ token: '' }))).toBe(403);
    expect(await status(form.headers, form.body({ token: 'a'.repeat(43) }))).toBe(403);
    expect(await noted()).toEqual(before);
  });

  it('is asked for the token again when the session has ended', async () => {
    const clock = instantClock();
    await using later = await serveUi({ config, clock });
    const actor = await openActor(later, 'token-of-anna-0123');
    const form = await actor.ask('/act/resume?connector=leads');
    clock.advance(12 * 3_600_000);
    const before = await noted();
    const ended = await actor.confirm(form);
    expect([ended.status, ended.text.includes('Log in')]).toEqual([401, true]);
    expect(await noted()).toEqual(before);
  });
});

it('takes each token for one person', async () => {
  const text = await readFile(config, 'utf8');
  const broken = path.join(world.folder, 'broken.yaml');
  await writeFile(
    broken,
    text.replace('token-of-bob-012345', 'token-of-anna-0123').replace('anna:', '"anna@host":'),
  );
  await expect(serveUi({ config: broken })).rejects.toThrow(
    /anna@host: expected a name[\s\S]*is the token of/,
  );
});
