import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { it } from '../support/it.ts';
import { callCli, jsonLines, startCli, type CliResult } from '../support/run-cli.ts';

let folder: string;
it.beforeEach(({ folder: made }) => {
  folder = made;
});

const call = (...args: string[]): Promise<CliResult> => callCli(['applications', ...args], { cwd: folder });
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
    /^New client of organization acme & co; .*\n  client id      client-\w+\n  client secret  [\w-]{32}\n$/,
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
  expect(again.stderr).toMatch(/There is no client client-\w+ in \.\/data\/service/);
});

it('list creates nothing', async () => {
  expect(await listed('--data', 'nowhere')).toEqual([]);
  expect((await call('list', '--data', 'nowhere')).stdout).toBe('There are no clients in nowhere yet.\n');
  expect((await call('delete', 'c', '--data', 'nowhere')).code).toBe(2);
  expect(existsSync(join(folder, 'nowhere'))).toBe(false);
});

it('work while a service runs on the folder, which obeys them at once', async () => {
  const serve = startCli(['serve', '--port', '0', '--size', 'tiny', '--no-index', '--json'], {
    cwd: folder,
  });
  await serve.until('"revision"');
  const { url } = JSON.parse(serve.output().stdout) as { readonly url: string };
  const created = jsonLines(await call('create', '--json'))[0];
  expect(await listed()).toMatchObject([{ clientId: 'local' }, { clientId: created?.['clientId'] }]);
  const signIn = (): Promise<Response> =>
    fetch(`${url}/api/v1/account/applications/token`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        client_id: created?.['clientId'],
        client_secret: created?.['clientSecret'],
      }),
    });
  const answer = await signIn();
  const { access_token: token } = (await answer.json()) as { readonly access_token: string };
  const workspaces = (): Promise<Response> =>
    fetch(`${url}/api/v1/workspaces`, { headers: { authorization: `Bearer ${token}` } });
  expect([answer.status, (await workspaces()).status]).toEqual([200, 200]);

  expect((await call('delete', String(created?.['clientId']))).code).toBe(0);
  expect([(await signIn()).status, (await workspaces()).status]).toEqual([401, 401]);
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
