import {
  mkdirSync,
  readFileSync,
  rmdirSync,
  appendFileSync,
  existsSync,
  renameSync,
  rmSync,
  writeFileSync,
  mkdtempSync,
} from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { expect, onTestFinished } from 'vitest';
import Database from 'better-sqlite3';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { instant } from '../../src/core/clock.ts';
import { SyncError } from '../../src/core/errors.ts';
import { failedStart } from '../../src/engine/sync-connector.ts';
import { conditionsOf, noticeChanges } from '../../src/notify/notice.ts';
import { openNotifier } from '../../src/notify/open-notifier.ts';
import type { ConnectorOverview } from '../../src/sinks/sink-access.ts';
import type { Condition } from '../../src/sinks/notices.ts';
import { openHistory, openSink } from '../../src/sinks/registry.ts';
import { instantClock } from '../support/instant-clock.ts';
import { startReceiver, type Received, type Receiver } from '../support/notify/receiver.ts';
import { it } from '../support/it.ts';
import { startRedis } from '../support/redis.ts';
import { callCli, runCli, startCli, jsonLines } from '../support/run-cli.ts';
import { testProgram } from '../support/ensure-built.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { isLong, repeats, startSeed } from '../support/trials.ts';
import { tmpdir } from 'node:os';
import type { ConnectorName } from '../../src/core/names.ts';
import { loadSettings } from '../../src/settings/load-settings.ts';
import { ApiError } from '../../src/service/api-error.ts';
import { openCliWorld, type CliWorld, type CliWorldOptions } from '../support/cli-world.ts';
import { createServer as createTcpServer, type Socket } from 'node:net';
import { createSecureContext, TLSSocket } from 'node:tls';
import { countArrivals, listen } from '../support/listen.ts';

interface Mail {
  readonly from: string;
  readonly to: readonly string[];
  readonly user: string | null;
  /** Whether all of it came over TLS, the password too. */
  readonly isEncrypted: boolean;
  /** Headers and text, as they came. */
  readonly data: string;
}

/** The certificate of servers with TLS: self-made, so that a client has to be given it. */
const certificate = 'test/fixtures/tls/cert.pem';

/** As much of an SMTP server (RFC 5321) as a client needs, on a free port, with AUTH PLAIN. */
async function startSmtpServer(tls: 'none' | 'starttls' | 'implicit' = 'none') {
  const secureContext = createSecureContext({
    key: readFileSync('test/fixtures/tls/key.pem'),
    cert: readFileSync(certificate),
  });
  const encrypted = (socket: Socket): Socket => new TLSSocket(socket, { isServer: true, secureContext });
  const mails: Mail[] = [];
  let answerOf: (index: number) => string = () => '250 2.0.0 taken';
  const { check, arrived } = countArrivals(mails);
  const serve = (socket: Socket, isEncrypted: boolean): void => {
    let text = '';
    let data: string[] | null = null;
    let from = '';
    let to: string[] = [];
    let user: string | null = null;
    const reply = (line: string): void => void socket.write(`${line}\r\n`);
    const end = (lines: readonly string[]): void => {
      const answer = answerOf(mails.push({ from, to, user, isEncrypted, data: lines.join('\n') }) - 1);
      if (answer === 'cut') socket.destroy();
      else if (answer === 'slow') {
        const timer = setInterval(() => void socket.write('250-wait\r\n'), 3_000);
        socket.once('close', () => clearInterval(timer));
      } else reply(answer);
      check();
    };
    const take = (line: string): void => {
      if (data !== null) {
        if (line !== '.') {
          data.push(line);
          return;
        }
        end(data);
        data = null;
        return;
      }
      const [, address = ''] = /<([^>]*)>/.exec(line) ?? [];
      if (/^EHLO/i.test(line)) {
        const offers = tls === 'starttls' && !isEncrypted ? '250-STARTTLS\r\n' : '';
        socket.write(`250-mail.test\r\n${offers}250 AUTH PLAIN\r\n`);
      } else if (/^STARTTLS/i.test(line) && tls === 'starttls') {
        reply('220 2.0.0 go ahead');
        socket.removeAllListeners('data');
        serve(encrypted(socket), true);
      } else if (/^AUTH PLAIN /i.test(line)) {
        user = Buffer.from(line.slice('AUTH PLAIN '.length), 'base64').toString().split('\0')[1] ?? null;
        reply('235 2.7.0 hello');
      } else if (/^MAIL FROM/i.test(line)) {
        from = address;
        to = [];
        reply('250 2.1.0 ok');
      } else if (/^RCPT TO/i.test(line)) {
        to.push(address);
        reply('250 2.1.5 ok');
      } else if (/^DATA/i.test(line)) {
        data = [];
        reply('354 go ahead');
      } else if (/^QUIT/i.test(line)) socket.end('221 2.0.0 bye\r\n');
      else reply('502 5.5.1 not known');
    };
    socket.on('error', () => undefined);
    socket.on('data', (chunk) => {
      text += chunk.toString();
      const lines = text.split('\r\n');
      text = lines.pop() ?? '';
      lines.forEach(take);
    });
    if (tls !== 'starttls' || !isEncrypted) reply('220 mail.test ESMTP');
  };
  const server = createTcpServer((socket) => {
    if (tls === 'implicit') serve(encrypted(socket), true);
    else serve(socket, false);
  });
  const { host, close } = await listen(server);
  return {
    host,
    mails,
    /**
     * The reply to each message, by its index; `cut`: it is taken and the connection is closed; `slow`: it begins, and
     * never ends.
     */
    answer: (how: (index: number) => string) => {
      answerOf = how;
    },
    arrived,
    [Symbol.asyncDispose]: close,
  };
}

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
      text: expect.stringMatching(/^The credentials lack a right \(FORBIDDEN\)/) as string,
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

// Proves promise 12.3
it('tells when a failure is over, also where part of a listing is missing all the while', () => {
  const { settings, news } = notifySettings(['ops: { type: webhook, url: "https://example.com/" }']);
  const nowMs = Date.now();
  const at = instant(nowMs);
  const partMissing = [{ entity: 'lists', listings: 1 }] as unknown as ConnectorOverview['partMissing'];
  const error = { code: 'AUTH_FAILED', recovery: 'stop', message: '401' } as const;
  const told: string[] = [];
  let known: readonly Condition[] = [];
  for (const [state, more] of [
    ['ok', { partMissing }],
    ['failed', { partMissing, error }],
    ['ok', { partMissing }],
    ['ok', {}],
  ] as const) {
    const lastEnded = { state, startedAt: at, finishedAt: at };
    const lists = {
      missing: [],
      failures: [],
      partMissing: [],
      newFields: [],
      quarantined: [],
      freshness: [],
      purgeWork: [],
    };
    const overview = { ...lists, withheldByAge: [], paused: null, error: null, lastEnded, ...more };
    const found = conditionsOf(news, {
      overviews: new Map([[news.name, overview as unknown as ConnectorOverview]]),
      fields: new Map(),
      conditions: new Map([[news.name, known]]),
      nowMs,
    });
    const how = { settings, sink: 'main', nowMs, hide: (text: string) => text };
    const { stored, dropped, messages } = noticeChanges(found, how);
    const gone = new Set([...stored, ...dropped].map(({ kind }) => kind));
    known = [...known.filter(({ kind }) => !gone.has(kind)), ...stored];
    told.push(...messages.map(({ kind }) => kind));
  }
  expect(told).toEqual(['incomplete', 'failed', 'incomplete', 'recovered']);
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
        '&lt;!channel&gt; &amp; &lt;https://evil.example|here&gt; (TARGET_FAILED). Once it is put right, run: connector-sync publish lake',
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
    text: 'The service refused the credentials (AUTH_FAILED): 401. Renew them, then "connector-sync check news"',
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
  expect(notes.every((line) => /may not be called|no address of the public internet/.test(line))).toBe(true);
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
  expect(to.bodies()[0]?.['text']).toMatch(/^\[secret\] at \[secret\] with \[secret\] \(TARGET_FAILED\)/);
  for (const one of ['the-secret-of-the-api', 'T0KEN-of-the-path', secret]) expect(told).not.toContain(one);
});

// Proves promise 10.4
it('leaves no part of a secret where it cuts a long reason', async () => {
  const to = await receiver();
  const { publicationEnded, lake } = await notifier(
    to,
    `ops: { type: webhook, url: URL, secret: ${secret} }`,
  );
  const why = `also ${secret} `.repeat(50);
  await publicationEnded(lake, new SyncError(why, { code: 'TARGET_FAILED', recovery: 'stop' }));
  await to.arrived(1);
  expect(to.bodies()[0]?.['text']).toMatch(
    /^also \[secret\] also .* \(TARGET_FAILED\)\. Once it is put right, run: /,
  );
  expect(JSON.stringify(to.bodies())).not.toContain(secret.slice(0, 8));
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
  const refused = { file, refusal: `line 4: no such sink: "mian"${' and more'.repeat(200)}.` };
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
  expect(to.bodies('/')[0]?.['text']).toMatch(
    /keeps the config before: line 4: no such sink: "mian" .*\. Correct it, then run: connector-sync reload$/,
  );
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

const hostileError = new SyncError('the bucket is not there\r\nBcc: all@example.com', {
  code: 'TARGET_FAILED',
  recovery: 'stop',
});
const password = 'the-password-of-the-mailbox';
/** An optional package: `npm install` of this repository brings it. */
const isInstalled = existsSync('node_modules/nodemailer/package.json');

async function mailing(allow: boolean, more = '') {
  const server = await startSmtpServer();
  onTestFinished(async () => await server[Symbol.asyncDispose]());
  const { settings, lake, news } = notifySettings(
    [
      `mail: { type: email, server: "smtp://${server.host}", from: sync@example.com, to: [ops@example.com, boss@example.com]${more} }`,
    ],
    { allow: allow ? [server.host] : [] },
  );
  const notes: string[] = [];
  const clock = instantClock(Date.now());
  const notifier = await openNotifier({ settings, clock, note: (line) => notes.push(line) });
  onTestFinished(async () => await notifier[Symbol.asyncDispose]());
  return { server, notifier, settings, lake, news, notes };
}

it.runIf(isInstalled)('sends mail, the same one again where its answer was lost', async () => {
  const { server, notifier, lake, news, notes } = await mailing(true, `, user: ops, password: ${password}`);
  server.answer((index) => ['cut', '451 4.3.0 later'][index] ?? '250 2.0.0 taken');
  await notifier.publicationEnded(lake, hostileError);
  await notifier.publicationEnded(lake, null);
  await server.arrived(4);
  const ids = server.mails.map(({ data }) => /^Message-ID: <(\S+)@connector-sync>$/m.exec(data)?.[1]);
  expect(new Set(ids.slice(0, 3)).size).toBe(1);
  expect(ids[3]).not.toBe(ids[0]);
  const [first] = server.mails;
  expect(first).toMatchObject({
    from: 'sync@example.com',
    to: ['ops@example.com', 'boss@example.com'],
    user: 'ops',
  });
  const data = (first?.data ?? '').replaceAll('=\n', '');
  expect(data).toMatch(/^Subject: \[connector-sync\] lake: the publication failed$/m);
  expect(data).toMatch(/Once it is put right, run: connector-sync publish lake/);
  // What came from outside is one line of text, and no header.
  expect(data).not.toMatch(/^Bcc:/m);
  const ledger = readFileSync((news.sink as { path: string }).path, 'latin1');
  expect([data, notes.join('\n'), ledger].join('\n')).not.toContain(password);
});

it.runIf(isInstalled && isLong)(
  'waits no longer for a mail server whose answer never ends',
  { timeout: 40_000 },
  async () => {
    const { server, notifier, settings } = await mailing(true);
    server.answer(() => 'slow');
    const [result] = await notifier.test([...settings.notify.values()]);
    expect(result?.error).toMatch(/^the mail server was not reached/);
  },
);

it('refuses a config with a user of a mailbox and no password', () => {
  const mail = 'type: email, server: "smtp://mail.test", from: a@b.test, to: [c@d.test], user: ops';
  expect(() => notifySettings([`mail: { ${mail} }`])).toThrow(
    /notify\.mail\.user: expected both user and password, or neither/,
  );
});

it.runIf(isInstalled)('gives up a message that the mail server refuses for good', async () => {
  const { server, notifier, lake, notes } = await mailing(true);
  server.answer((index) => (index === 0 ? '554 5.7.1 no' : '250 2.0.0 taken'));
  await notifier.publicationEnded(lake, hostileError);
  await notifier.publicationEnded(lake, null);
  await server.arrived(2);
  expect(notes).toEqual([
    expect.stringContaining('the mail server answered with 554 (EMESSAGE). It is given up.'),
  ]);
});

it.runIf(isInstalled).each([
  ['smtps:', 'implicit'],
  ['smtp:', 'starttls'],
] as const)('sends by %s over TLS, where the certificate is trusted', async (scheme, tls) => {
  const server = await startSmtpServer(tls);
  onTestFinished(async () => await server[Symbol.asyncDispose]());
  const { file, folder } = notifySettings(
    [
      `mail: { type: email, server: "${scheme}//${server.host}", from: sync@example.com, to: [ops@example.com], user: ops, password: ${password} }`,
    ],
    { allow: [server.host] },
  );
  const args = ['notify', 'test', '--config', file];
  // A process reads which certificates it trusts when it starts.
  const env = { NODE_EXTRA_CA_CERTS: join(process.cwd(), certificate) };
  expect(await runCli(args, { cwd: folder, env })).toMatchObject({ code: 0 });
  const refused = await callCli(args, { cwd: folder });
  expect(refused).toMatchObject({ code: 1 });
  expect(refused.stdout + refused.stderr).toContain('has a TLS certificate that is not trusted');
  expect(server.mails).toMatchObject([{ user: 'ops', to: ['ops@example.com'], isEncrypted: true }]);
});

// Proves promise 10.4
it.runIf(isInstalled)('connects to no private address that is not allowed by name', async () => {
  const { server, notifier, lake, notes } = await mailing(false);
  await notifier.publicationEnded(lake, hostileError);
  await expect
    .poll(() => notes.join())
    .toContain('leads to 127.0.0.1, which is no address of the public internet');
  expect(server.mails).toEqual([]);
});

/** No run ends here: what is found is found by looking. */
it('finds in a worker without a run that data is too old', async () => {
  await using redis = await startRedis();
  await using notify = await openNotifyWorld('  ops: { type: webhook, url: "URL" }', {
    settings: '    include: [lists]\n    freshWithin: 1d\n',
    redisUrl: redis.url,
  });
  const { world, receiver } = notify;
  await notify.sync();
  expect(receiver.received).toEqual([]);
  makeOld(world);
  const worker = startCli(['worker', '--config', world.config], { cwd: world.folder, env: world.env });
  await receiver.arrived(1);
  worker.child.kill('SIGTERM');
  expect((await worker.result).code).toBe(0);
  expect(receiver.bodies().map(({ kind, connector }) => [kind, connector])).toEqual([['late', 'newsletter']]);
});

it('calls no heartbeat where the sink is not there, and says that notifications wait', async () => {
  await using notify = await openNotifyWorld(
    '  ops: { type: webhook, url: "URL" }\n  alive: { type: heartbeat, url: "URL/alive" }',
    { sinkSettings: '{ type: sqlite, path: ./nowhere/main.db }' },
  );
  appendFileSync(`${notify.world.folder}/nowhere`, 'a file where a folder is needed');
  const { stderr, code } = await notify.sync();
  expect(code).toBe(2);
  expect(notify.receiver.received).toEqual([]);
  expect(stderr).toContain('Notifications about newsletter wait: ');
});

it('tests each channel, and says what is wrong', async () => {
  await using notify = await openNotifyWorld(
    '  ops: { type: webhook, url: "URL/ops" }\n  alive: { type: heartbeat, url: "URL/alive" }',
  );
  const { world, receiver } = notify;
  const good = await world.cli('notify', 'test');
  expect([good.code, good.stdout, good.stderr]).toEqual([0, 'ops: delivered\nalive: delivered\n', '']);
  expect(receiver.received.map(({ method, path }) => `${method} ${path}`).toSorted()).toEqual([
    'GET /alive',
    'POST /ops',
  ]);
  expect(receiver.bodies('/ops')[0]).toMatchObject({ kind: 'test', sink: null, connector: null });
  receiver.answer(() => 400);
  const bad = await world.cli('notify', 'test', 'ops', '--json');
  expect(bad.code).toBe(1);
  const error = 'the receiver answered with HTTP status 400';
  expect(jsonLines(bad)).toEqual([{ kind: 'notify-test', channel: 'ops', isDelivered: false, error }]);
  const status = await world.cli('notify', 'status');
  expect(status.stdout).toMatch(
    /^ops \(webhook, http:\/\/127\.0\.0\.1:\d+\/\[secret\]\): nothing waits\nalive \(heartbeat, .*\): called after each sync that went well\n$/,
  );
  const [ops] = jsonLines(await world.cli('notify', 'status', '--json'));
  expect(ops).toMatchObject({ channel: 'ops', waiting: [], givenUp: [] });
  expect((await world.cli('notify', 'test', 'opps')).stderr).toContain(
    'Unknown channel "opps"; the config has ops, alive.',
  );
});

it('says once that data is too old, and that it is fresh again', async () => {
  await using notify = await openNotifyWorld('  ops: { type: webhook, url: "URL" }', {
    settings: '    include: [lists]\n    freshWithin: 1d\n',
  });
  const { world, receiver, sync } = notify;
  await sync();
  expect(receiver.received).toEqual([]);
  makeOld(world);
  // A command that reads another connector looks at all of the sink.
  await world.cli('sync', 'wiki', '--select', 'users');
  await sync();
  expect(receiver.bodies().map(({ kind, title }) => [kind, title])).toEqual([
    ['late', 'newsletter: its data is too old'],
    ['recovered', 'newsletter: works again'],
  ]);
});

it('says once that a guard keeps what is too old, and when a check keeps nothing', async () => {
  await using notify = await openNotifyWorld('  ops: { type: webhook, url: "URL" }', {
    settings: '    include: [lists]\n    retention: { deletedRows: 90d }\n',
    more: 'guards: { maxDeleteShare: 0.01, minDeleteRows: 0 }\n',
  });
  const { world, receiver, sync } = notify;
  await sync();
  world.moveTo(3);
  await sync('--full', '--allow-deletes');
  const db = new Database(join(world.folder, 'main.db'));
  for (const update of ['UPDATE newsletter__lists SET _deleted_at', 'UPDATE _sync_retained SET checked_at']) {
    db.exec(`${update} = '2020-01-01T00:00:00.000Z' WHERE ${update.split(' ').at(-1)} IS NOT NULL`);
  }
  db.close();
  await sync();
  await sync();
  await world.cli('prune', 'newsletter', '--allow-deletes');
  await sync();
  expect(receiver.bodies()).toMatchObject([
    {
      kind: 'withheld-retention',
      text: expect.stringContaining('prune newsletter --allow-deletes') as string,
    },
    { kind: 'recovered', text: expect.stringContaining('What is too old had been kept since') as string },
  ]);
});

it('says once that a purge is not finished after an hour, and when it is', async () => {
  await using notify = await openNotifyWorld('  ops: { type: webhook, url: "URL" }', {
    settings: '    include: [lists]\n',
    more: 'publish: { lake: { type: files, directory: ./lake, format: jsonl, when: by-hand } }\n',
  });
  const { world, receiver, sync } = notify;
  await sync();
  await world.json('publish', 'lake');
  const lake = join(world.folder, 'lake');
  renameSync(lake, `${lake}.kept`);
  writeFileSync(lake, 'a file where a folder is needed');
  const where = '{"like": {"name": "%"}}';
  expect((await world.cli('purge', 'newsletter/lists', '--where', where)).code).toBe(3);
  await sync();
  expect(receiver.bodies()).toEqual([]);
  const db = new Database(join(world.folder, 'main.db'));
  db.exec("UPDATE _sync_purge_work SET since = '2026-01-01T00:00:00.000Z'");
  db.close();
  await sync();
  await sync();
  rmSync(lake);
  renameSync(`${lake}.kept`, lake);
  await world.cli('prune', 'newsletter');
  await sync();
  expect(receiver.bodies()).toMatchObject([
    {
      kind: 'purge-unfinished',
      since: '2026-01-01T00:00:00.000Z',
      text: 'A purge is not finished: the sink or a target may still hold what was purged. To finish it: "connector-sync prune newsletter"',
    },
    { kind: 'recovered' },
  ]);
});

it('keeps a sync from starting where a secret of a channel is missing here', async () => {
  await using notify = await openNotifyWorld('  ops: { type: webhook, url: "URL" }');
  appendFileSync(notify.world.config, '  more: { type: webhook, url: "${MISSING_URL}" }\n');
  const { code, stderr } = await notify.sync();
  expect(code).toBe(2);
  expect(stderr).toContain('notify.more.url: the environment variable MISSING_URL is not set');
  expect((await notify.world.cli('status')).code).toBe(0);
});

const kills = repeats('KILLS', { share: 3, full: 100 });
const mostMs = 60;

// Proves promise 12.3
it(
  `loses no message over ${kills} kills, and repeats one only where its answer was lost`,
  async () => {
    await using to = await startReceiver();
    const { file, folder } = notifySettings([`ops: { type: webhook, url: "${to.url}" }`], {
      allow: [to.host],
    });
    /** The first column of the first row, of a statement that has some. */
    const ask = (sql: string): unknown => {
      const db = new Database(join(folder, 'main.db'));
      try {
        const statement = db.prepare<[]>(sql);
        return statement.reader ? statement.pluck().get() : statement.run();
      } finally {
        db.close();
      }
    };
    const acknowledged = join(folder, 'acknowledged');
    const random = seededRandom(startSeed());
    const start = (mode: string) =>
      fork(testProgram('notify/telling-process.mjs'), [file, acknowledged, mode]);
    for (let kill = 0; kill < kills; kill += 1) {
      const child = start('');
      await once(child, 'message');
      const before = to.received.length;
      // Some in front of the first message, some while one is on its way.
      if (kill % 3 > 0) await to.arrived(before + 1 + Math.floor(random() * 3));
      await new Promise((resolve) => {
        setTimeout(resolve, random() * mostMs);
      });
      child.kill('SIGKILL');
      await once(child, 'exit');
      freeClaims(ask);
    }
    // Each sends for ten seconds at most.
    do {
      const [code] = (await once(start('drain'), 'exit')) as [number | null];
      expect(code).toBe(0);
    } while (Number(ask('SELECT count(*) FROM _sync_outbox')) > 0);
    const ids = to.bodies().map(({ id }) => String(id));
    const firsts = to.bodies().filter(({ id }, index) => ids.indexOf(String(id)) === index);
    // In order and without a gap: each failure is followed by its end, and the last one is the end.
    expect(firsts.map(({ kind }) => kind)).toEqual(
      firsts.map((_, index) => (index % 2 === 0 ? 'publication-failed' : 'recovered')),
    );
    expect(firsts.at(-1)?.['kind'] ?? 'recovered').toBe('recovered');
    // Where one was killed behind a failure, the next one's is no change.
    const ends = existsSync(acknowledged) ? readFileSync(acknowledged, 'utf8').trim().split('\n') : [];
    const stored = ends.filter((end, index) => end !== ends[index - 1]).length;
    expect(firsts.length).toBeGreaterThanOrEqual(stored);
    // One kill interrupts one message, which comes again at once: nothing else is in between.
    const repeated = ids.flatMap((id, index) => (ids.indexOf(id) === index ? [] : [index]));
    expect(repeated.length).toBeLessThanOrEqual(kills);
    for (const index of repeated) expect(ids[index - 1]).toBe(ids[index]);
  },
  120_000 + kills * 40_000,
);

/** What a killed sender had claimed would be free after thirty seconds. One may be killed before it makes the sink. */
function freeClaims(ask: (sql: string) => unknown): void {
  try {
    ask('UPDATE _sync_outbox SET claimed_until_ms = 0');
  } catch (error) {
    if (!/no such table/.test(String(error))) throw error;
  }
}

/** Settings of two connectors and a target, with these lines below `notify`. No service is behind them. */
function notifySettings(
  notify: readonly string[],
  { allow = [] }: { readonly allow?: readonly string[] } = {},
) {
  const folder = mkdtempSync(join(tmpdir(), 'notify-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, 'sync.yaml');
  writeFileSync(
    file,
    `api: { baseUrl: "http://127.0.0.1:9", clientId: local, clientSecret: the-secret-of-the-api }
sinks: { main: { type: sqlite, path: ./main.db, durability: normal } }
connectors:
  news: { definition: email-marketing, id: c-news, sink: main, freshWithin: 1h }
  wiki: { definition: workspace-notes, id: c-wiki, sink: main }
publish:
  lake: { type: files, directory: ./lake, connectors: [news] }
allowNotifyHosts: ${JSON.stringify(allow)}
notify:
${notify.map((line) => `  ${line}\n`).join('')}`,
  );
  const settings = loadSettings({ file, env: {} });
  const news = settings.connectors.get('news' as ConnectorName);
  const lake = settings.publish.get('lake');
  if (news === undefined || lake === undefined) throw new Error('the config lacks what it names');
  return { folder, file, settings, news, lake };
}

/** A service, a config whose `notify` leads to a receiver, and the program. `notify` has `URL` for the receiver's. */
async function openNotifyWorld(
  notify: string,
  { more = '', ...options }: CliWorldOptions & { readonly more?: string } = {},
) {
  const receiver = await startReceiver();
  let refused: readonly string[] = [];
  const world = await openCliWorld({
    settings: '    include: [lists, campaigns]\n',
    ...options,
    wrap: (account) => ({
      get: (entity, params) => account.get(entity, params),
      list: (entity, params) => {
        if (refused.includes(entity)) throw new ApiError(403, 'the key of this account may not read it');
        return account.list(entity, params);
      },
    }),
  });
  appendFileSync(
    world.config,
    `allowNotifyHosts: ["${receiver.host}"]\nnotify:\n${notify.replaceAll('URL', receiver.url)}\n${more}`,
  );
  return {
    world,
    receiver,
    /** From now on the service refuses to list these entities of the newsletter. */
    refuse: (...entities: readonly string[]) => {
      refused = entities;
    },
    /** One sync of the newsletter; gives its exit code and what it wrote. */
    sync: async (...flags: readonly string[]) => await world.cli('sync', 'newsletter', ...flags),
    [Symbol.asyncDispose]: async () => {
      await world[Symbol.asyncDispose]();
      await receiver[Symbol.asyncDispose]();
    },
  };
}

/** What is stored of the newsletter is as of years ago. */
function makeOld({ folder }: Pick<CliWorld, 'folder'>): void {
  const db = new Database(join(folder, 'main.db'));
  db.exec("UPDATE _sync_tables SET as_of = '2020-01-01T00:00:00.000Z' WHERE connector = 'newsletter'");
  db.close();
}
