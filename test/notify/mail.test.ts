import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished } from 'vitest';
import { SyncError } from '../../src/core/errors.ts';
import { openNotifier } from '../../src/notify/open-notifier.ts';
import { instantClock } from '../support/instant-clock.ts';
import { it } from '../support/it.ts';
import { notifySettings } from '../support/notify/notify-settings.ts';
import { makeOld, openNotifyWorld } from '../support/notify/notify-world.ts';
import { certificate, startSmtpServer } from '../support/notify/smtp-server.ts';
import { startRedis } from '../support/redis.ts';
import { runCli, startCli } from '../support/run-cli.ts';

const boom = new SyncError('the bucket is not there\r\nBcc: all@example.com', {
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
  return { server, notifier, lake, news, notes };
}

it.runIf(isInstalled)('sends mail, the same one again where its answer was lost', async () => {
  const { server, notifier, lake, news, notes } = await mailing(true, `, user: ops, password: ${password}`);
  server.answer((index) => ['cut', '451 4.3.0 later'][index] ?? '250 2.0.0 taken');
  await notifier.publicationEnded(lake, boom);
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
  expect(data).toMatch(/What to do: Repair it, then run: connector-sync publish lake/);
  // What came from outside is one line of text, and no header.
  expect(data).not.toMatch(/^Bcc:/m);
  const ledger = readFileSync((news.sink as { path: string }).path, 'latin1');
  expect([data, notes.join('\n'), ledger].join('\n')).not.toContain(password);
});

it.runIf(isInstalled)('gives up a message that the mail server refuses for good', async () => {
  const { server, notifier, lake, notes } = await mailing(true);
  server.answer((index) => (index === 0 ? '554 5.7.1 no' : '250 2.0.0 taken'));
  await notifier.publicationEnded(lake, boom);
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
  const refused = await runCli(args, { cwd: folder });
  expect(refused).toMatchObject({ code: 1 });
  expect(refused.stdout + refused.stderr).toContain('has a TLS certificate that is not trusted');
  expect(server.mails).toMatchObject([{ user: 'ops', to: ['ops@example.com'], isEncrypted: true }]);
});

// Proves promise 10.4
it.runIf(isInstalled)('connects to no private address that is not allowed by name', async () => {
  const { server, notifier, lake, notes } = await mailing(false);
  await notifier.publicationEnded(lake, boom);
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
