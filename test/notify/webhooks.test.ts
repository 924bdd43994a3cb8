import { mkdirSync, readFileSync, rmdirSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { instant } from '../../src/core/clock.ts';
import { SyncError } from '../../src/core/errors.ts';
import { failedStart } from '../../src/engine/sync-connector.ts';
import { openNotifier } from '../../src/notify/open-notifier.ts';
import { openHistory, openSink } from '../../src/sinks/registry.ts';
import { instantClock } from '../support/instant-clock.ts';
import { notifySettings } from '../support/notify/notify-settings.ts';
import { openNotifyWorld } from '../support/notify/notify-world.ts';
import { startReceiver, type Received, type Receiver } from '../support/notify/receiver.ts';

const secret = 'a-secret-of-the-receiver';
const boom = new SyncError('the bucket is not there', { code: 'TARGET_FAILED', recovery: 'stop' });

async function receiver(): Promise<Receiver> {
  const started = await startReceiver();
  onTestFinished(async () => await started[Symbol.asyncDispose]());
  return started;
}

/** A notifier whose pauses are over at once, with these lines below `notify`. */
async function notifier(to: Receiver, ...notify: readonly string[]) {
  const world = notifySettings(
    notify.map((line) => line.replaceAll('URL', to.url)),
    { allow: [to.host] },
  );
  const notes: string[] = [];
  const clock = instantClock(Date.now());
  const opened = await openNotifier({ settings: world.settings, clock, note: (line) => notes.push(line) });
  onTestFinished(async () => await opened[Symbol.asyncDispose]());
  return { ...world, ...opened, clock, notes };
}

// Proves promise 12.3
it('tells once that a sync is incomplete, and once that it works again', async () => {
  await using notify = await openNotifyWorld('  ops: { type: webhook, url: "URL/ops" }');
  const { receiver: to, refuse, sync } = notify;
  await sync();
  expect(to.received).toEqual([]);
  refuse('campaigns');
  expect([(await sync()).code, (await sync()).code]).toEqual([3, 3]);
  refuse();
  await sync();
  expect(
    to.bodies().map(({ kind, connector, sink, title, text }) => ({ kind, connector, sink, title, text })),
  ).toEqual([
    {
      kind: 'incomplete',
      connector: 'newsletter',
      sink: 'main',
      title: 'newsletter: the sync is incomplete',
      text: 'Some listings failed (FORBIDDEN).',
    },
    {
      kind: 'recovered',
      connector: 'newsletter',
      sink: 'main',
      title: 'newsletter: works again',
      text: `The sync had been incomplete since ${String(to.bodies()[0]?.['since'])}.`,
    },
  ]);
});

it('is signed as the guide checks it', async () => {
  const guide = readFileSync('docs/guides/notifications.md', 'utf8');
  const [, lines = ''] = /```js\n([^]*?)```/.exec(guide) ?? [];
  const { isGenuine } = (await import(`data:text/javascript,${encodeURIComponent(lines)}`)) as {
    isGenuine: (headers: Received['headers'], body: string, secret: string) => boolean;
  };
  const to = await receiver();
  const { publicationEnded, lake } = await notifier(
    to,
    `ops: { type: webhook, url: URL, secret: ${secret} }`,
  );
  await publicationEnded(lake, boom);
  await to.arrived(1);
  const { headers, body } = to.received[0] as Received;
  expect(isGenuine(headers, body, secret)).toBe(true);
  expect(isGenuine(headers, `${body} `, secret)).toBe(false);
  expect(isGenuine(headers, body, `${secret}!`)).toBe(false);
  const old = String(Number(headers['webhook-timestamp']) - 600);
  expect(isGenuine({ ...headers, 'webhook-timestamp': old }, body, secret)).toBe(false);
});

it('sends what was not taken again, with growing pauses, in order and under the same id', async () => {
  const to = await receiver();
  const { publicationEnded, lake, clock, notes } = await notifier(to, 'ops: { type: webhook, url: URL }');
  to.answer((_, index) => (['cut', 503, 429, 500][index] as number | undefined) ?? 204);
  await publicationEnded(lake, boom);
  await publicationEnded(lake, boom);
  await publicationEnded(lake, null);
  await to.arrived(6);
  const bodies = to.bodies();
  expect(bodies.map(({ kind }) => kind)).toEqual([...Array(5).fill('publication-failed'), 'recovered']);
  expect(new Set(bodies.map(({ id }) => id)).size).toBe(2);
  expect(to.received.map(({ headers }) => headers['webhook-id'])).toEqual(bodies.map(({ id }) => id));
  expect(clock.sleeps.filter((ms) => ms >= 900).map((ms) => Math.round(ms / 1_000))).toEqual([1, 5, 30, 120]);
  expect(notes).toHaveLength(1);
  expect(notes[0]).toContain('It is sent again later');
});

it('gives up at once what the receiver refuses, and continues with the next', async () => {
  const to = await receiver();
  const { publicationEnded, lake, news, notes } = await notifier(to, 'ops: { type: webhook, url: URL }');
  to.answer((_, index) => (index === 0 ? 400 : 204));
  await publicationEnded(lake, boom);
  await publicationEnded(lake, null);
  await to.arrived(2);
  expect(to.bodies().map(({ kind }) => kind)).toEqual(['publication-failed', 'recovered']);
  expect(notes.join()).toContain('the receiver answered with HTTP status 400. It is given up.');
  await using history = await openHistory(news.sink);
  const [given] = await history.outbox(10);
  expect(given).toMatchObject({
    kind: 'publication-failed',
    attempts: 1,
    lastError: 'the receiver answered with HTTP status 400',
  });
});

it('writes for Slack nothing but text', async () => {
  const to = await receiver();
  const { publicationEnded, lake } = await notifier(to, 'ops: { type: webhook, format: slack, url: URL }');
  const odd = new SyncError('<!channel> & <https://evil.example|here>', {
    code: 'TARGET_FAILED',
    recovery: 'stop',
  });
  await publicationEnded(lake, odd);
  await to.arrived(1);
  expect(to.bodies()).toEqual([
    {
      text: [
        '*lake: the publication failed*',
        '&lt;!channel&gt; &amp; &lt;https://evil.example|here&gt; (TARGET_FAILED)',
        '_Repair it, then run: connector-sync publish lake_',
      ].join('\n'),
    },
  ]);
});

it('tells each channel what it asks for', async () => {
  const to = await receiver();
  const { publicationEnded, runEnded, clock, lake, news } = await notifier(
    to,
    'all: { type: webhook, url: URL/all }',
    'wiki: { type: webhook, url: URL/wiki, connectors: [wiki] }',
    'failed: { type: webhook, url: URL/failed, kinds: [failed, recovered] }',
    'news: { type: webhook, url: URL/news, connectors: ["ne*"], kinds: [publication-failed] }',
  );
  const error = new SyncError('401', { code: 'AUTH_FAILED', recovery: 'stop' });
  await using sink = await openSink(news.sink, { clock });
  const at = instant(clock.now());
  const failed = { connector: news.name, kind: 'sync', startedAt: at, finishedAt: at } as const;
  await sink.enterFailedStart(failedStart(failed, error));
  await runEnded({ connector: news, kind: 'sync', error, isGood: false });
  await publicationEnded(lake, boom);
  // Not "works again" for who did not hear that it failed.
  await publicationEnded(lake, null);
  await to.arrived(5);
  const kinds = (path: string): readonly unknown[] => to.bodies(path).map(({ kind }) => kind);
  expect(kinds('/all')).toEqual(['failed', 'publication-failed', 'recovered']);
  expect(kinds('/wiki')).toEqual([]);
  expect(kinds('/failed')).toEqual(['failed']);
  expect(kinds('/news')).toEqual(['publication-failed']);
  expect(to.bodies('/all')[0]).toMatchObject({
    text: '401 (AUTH_FAILED)',
    todo: 'Repair it, then run: connector-sync sync news. "connector-sync check news" says more.',
  });
});

// Proves promise 10.4
it('leads to no private address that is not allowed by name', async () => {
  const inside = createServer((_request, response) => void response.end());
  inside.listen(0, '127.0.0.1');
  onTestFinished(() => void inside.close());
  let calls = 0;
  inside.on('request', () => (calls += 1));
  expect(() => notifySettings(['ops: { type: webhook, url: "http://example.com/" }'])).toThrow(
    'notify.ops.url: expected https; http needs the host in allowNotifyHosts',
  );
  const { settings, lake } = notifySettings([
    'name: { type: webhook, url: "https://localhost/" }',
    'port: { type: webhook, url: "https://localhost:8443/" }',
    'address: { type: webhook, url: "https://10.0.0.1/" }',
  ]);
  const notes: string[] = [];
  const clock = instantClock(Date.now());
  const opened = await openNotifier({ settings, clock, note: (line) => notes.push(line) });
  await opened.publicationEnded(lake, boom);
  await expect.poll(() => notes.length).toBe(3);
  await opened[Symbol.asyncDispose]();
  expect(notes.every((line) => line.includes('ERR_ADDRESS_REFUSED'))).toBe(true);
  expect(calls).toBe(0);
});

// Proves promise 10.4
it('has no secret in messages, notes or the ledger', async () => {
  const to = await receiver();
  const { publicationEnded, lake, news, notes } = await notifier(
    to,
    `ops: { type: webhook, url: URL/T0KEN-of-the-path, secret: ${secret} }`,
  );
  const telling = new SyncError(`the-secret-of-the-api at ${to.url}/T0KEN-of-the-path with ${secret}`, {
    code: 'TARGET_FAILED',
    recovery: 'stop',
  });
  to.answer((_, index) => (index === 0 ? 503 : 204));
  await publicationEnded(lake, telling);
  await to.arrived(2);
  const ledger = readFileSync((news.sink as { path: string }).path, 'latin1');
  const told = [...to.received.map(({ body }) => body), ...notes, ledger].join('\n');
  expect(to.bodies()[0]?.['text']).toBe('[secret] at [secret] with [secret] (TARGET_FAILED)');
  for (const one of ['the-secret-of-the-api', 'T0KEN-of-the-path', secret]) expect(told).not.toContain(one);
});

it('notes what waits where the ledger cannot be written to, and sends it when that is back', async () => {
  const to = await receiver();
  const { publicationEnded, lake, notes, folder } = await notifier(to, 'ops: { type: webhook, url: URL }');
  // A folder where the file of the sink would be.
  mkdirSync(join(folder, 'main.db'));
  const failed = new SyncError('no such bucket', { code: 'TARGET_FAILED', recovery: 'stop' });
  await publicationEnded(lake, failed);
  await publicationEnded(lake, failed);
  expect(to.received).toEqual([]);
  expect(notes).toEqual([expect.stringMatching(/^Notifications about lake wait: /)]);
  rmdirSync(join(folder, 'main.db'));
  await publicationEnded(lake, failed);
  await to.arrived(1);
  expect(to.bodies().map(({ kind }) => kind)).toEqual(['publication-failed']);
});

// Proves promise 12.3
it('tells once that a config was refused, and once that a later one is in force', async () => {
  const to = await receiver();
  const { configRead, publicationEnded, lake, file } = await notifier(
    to,
    'ops: { type: webhook, url: URL }',
    'wiki: { type: webhook, url: URL/wiki, connectors: [wiki], kinds: [failed] }',
  );
  const refused = { file, refusal: 'line 4: no such sink: "mian"' };
  await configRead({ file, refusal: null, isStart: true });
  await configRead(refused);
  await configRead(refused);
  // It is none of a publication's business.
  await publicationEnded(lake, null);
  await to.arrived(1);
  await configRead({ file, refusal: null });
  await to.arrived(2);
  expect(
    to.bodies('/').map(({ kind, title, connector, target }) => ({ kind, title, connector, target })),
  ).toEqual([
    { kind: 'config-refused', title: 'The config was refused', connector: null, target: null },
    { kind: 'recovered', title: 'The config: works again', connector: null, target: null },
  ]);
  expect(to.bodies('/')[0]?.['text']).toContain('keeps the config before: line 4: no such sink: "mian"');
  expect(to.bodies('/wiki')).toEqual([]);
});

it('calls a heartbeat after each sync that went well', async () => {
  const to = await receiver();
  const { runEnded, news, notes } = await notifier(
    to,
    'alive: { type: heartbeat, url: URL/alive }',
    'wiki: { type: heartbeat, url: URL/wiki, connectors: [wiki] }',
  );
  const ended = { connector: news, kind: 'sync', error: null } as const;
  await runEnded({ ...ended, isGood: false });
  await runEnded({ ...ended, kind: 'backfill', isGood: true });
  expect(to.received).toEqual([]);
  await runEnded({ ...ended, isGood: true });
  await to.arrived(1);
  to.answer(() => 500);
  await runEnded({ ...ended, isGood: true });
  await expect
    .poll(() => notes)
    .toEqual([expect.stringContaining('alive: the receiver answered with HTTP status 500')]);
  expect(to.received.map(({ method, path }) => `${method} ${path}`)).toEqual(['GET /alive', 'GET /alive']);
});
