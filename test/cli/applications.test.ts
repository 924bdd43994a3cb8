import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { makeCliFolder, type CliFolder } from '../support/cli-config.ts';
import { callCli, jsonLines, startCli, type CliResult } from '../support/run-cli.ts';

let folder: CliFolder;
beforeEach(async () => {
  folder = await makeCliFolder();
});
afterEach(async () => {
  await folder[Symbol.asyncDispose]();
});

const call = (...args: string[]): Promise<CliResult> =>
  callCli(['applications', ...args], { cwd: folder.path });
const listed = async (...args: string[]): Promise<unknown> =>
  jsonLines(await call('list', '--json', ...args))[0]?.['applications'];

it('create makes an application and shows its secret, list shows it without, delete takes it away', async () => {
  const created = jsonLines(await call('create', '--json'))[0];
  expect(created).toEqual({
    organization: 'default',
    clientId: expect.stringMatching(/^client-[0-9a-f]{12}$/) as string,
    clientSecret: expect.stringMatching(/^[\w-]{32}$/) as string,
  });
  const second = await call('create', '--organization', 'acme & co');
  expect(second.stdout).toMatch(
    /^An application of organization acme & co; .*\n  client id      client-\w+\n  client secret  [\w-]{32}\n$/,
  );
  const list = await call('list');
  expect(list.stdout.split('\n').map((line) => line.split(/ {2,}/)[1])).toEqual([
    'organization',
    'default',
    'acme & co',
    undefined,
  ]);
  expect(list.stdout).not.toContain(String(created?.['clientSecret']));
  expect(await listed('--organization', 'acme & co')).toHaveLength(1);

  expect(await call('delete', String(created?.['clientId']))).toMatchObject({ code: 0 });
  expect(await listed()).toMatchObject([{ organization: 'acme & co' }]);
  const again = await call('delete', String(created?.['clientId']));
  expect(again.code).toBe(2);
  expect(again.stderr).toMatch(/There is no application client-\w+ in \.\/data\/service/);
});

it('looking makes nothing', async () => {
  expect(await listed('--data', 'nowhere')).toEqual([]);
  expect((await call('list', '--data', 'nowhere')).stdout).toBe(
    'There are no applications in nowhere yet.\n',
  );
  expect((await call('delete', 'c', '--data', 'nowhere')).code).toBe(2);
  expect(existsSync(join(folder.path, 'nowhere'))).toBe(false);
});

it('say that a service runs on the folder while one does, and work when it has ended', async () => {
  const serve = startCli(['serve', '--port', '0', '--size', 'tiny', '--no-index', '--json'], {
    cwd: folder.path,
  });
  await serve.until('"url"');
  for (const args of [['list'], ['create'], ['delete', 'local']]) {
    const refused = await call(...args);
    expect(refused.code).toBe(2);
    expect(refused.stderr).toMatch(/Another process serves the data in .*\. End that process first/);
    expect(refused.stdout).toBe('');
  }
  // The lock is the kernel's: it does not matter how the process ends.
  serve.child.kill('SIGKILL');
  await serve.result.catch(() => undefined);
  expect(await listed()).toMatchObject([{ clientId: 'local', organization: 'default' }]);
});

it.each(['', 'a\nb', '\u202eevil', 'x'.repeat(256)])('create refuses the organization %j', async (name) => {
  const refused = await call('create', '--organization', name);
  expect(refused.code).toBe(2);
  expect(refused.stderr).toContain('Expected as the name of an organization');
  expect(refused.stdout).toBe('');
});

it('explains itself without a subcommand', async () => {
  const { stdout, stderr } = await call();
  expect(stdout + stderr).toMatch(/applications create[\s\S]*see nothing of each other/);
});
