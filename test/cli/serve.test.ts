import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { readFile, readdir, stat, writeFile } from 'node:fs/promises';
import { createServer, get, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { describe, expect } from 'vitest';
import { it } from '../support/it.ts';
import { callCli, jsonLines, startCli, type CliResult } from '../support/run-cli.ts';

describe('serve', () => {
  let folder: string;
  it.beforeEach(({ folder: made }) => {
    folder = made;
  });

  const tiny = ['serve', '--port', '0', '--size', 'tiny', '--no-index'];
  const data = (): string => join(folder, 'data', 'service');

  async function tokenStatus(url: unknown, clientId: unknown, clientSecret: unknown): Promise<number> {
    const response = await fetch(`${String(url)}/api/v1/account/applications/token`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ client_id: clientId, client_secret: clientSecret }),
    });
    await response.arrayBuffer();
    return response.status;
  }

  it('makes what it needs for its owner alone, shows the secret that it generated, and next time takes it without showing it', async () => {
    const before = process.umask(0);
    const first = startCli([...tiny, '--json'], { cwd: folder });
    process.umask(before);
    await first.until('"url"');
    const [said] = jsonLines({ ...first.output(), code: null });
    expect(said).toMatchObject({
      clientId: 'local',
      clientSecret: expect.stringMatching(/^[\w-]{32}$/) as string,
      data: data(),
    });
    const secret = String(said?.['clientSecret']);
    expect(await tokenStatus(said?.['url'], 'local', secret)).toBe(200);
    expect((await stat(data())).mode & 0o777).toBe(0o700);
    const names = await readdir(data());
    expect(names).toEqual(expect.arrayContaining(['service.db', 'service.db-wal', 'service.key']));
    for (const name of names) {
      expect([name, (await stat(join(data(), name))).mode & 0o077]).toEqual([name, 0]);
      expect((await readFile(join(data(), name))).includes(secret)).toBe(false);
    }
    const beside = await callCli(tiny, { cwd: folder });
    expect(beside).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('Another process serves the data in') as string,
    });
    // Not waited for: a process manager that restarts a service does not wait either.
    first.child.kill('SIGTERM');
    const second = startCli(tiny, { cwd: folder });
    expect((await first.result).code).toBe(0);
    await second.until('Ctrl-C stops it');
    const url = /http:\/\/127\.0\.0\.1:\d+/.exec(second.output().stdout)?.[0];
    expect(await tokenStatus(url, 'local', secret)).toBe(200);
    second.child.kill('SIGTERM');
    const { stdout, stderr } = await second.result;
    expect(stdout).toContain('credentials: client id local; its secret was shown once, when it was created.');
    expect(stdout).toMatch(
      /Lost it\? Make another one:\n +npx --no-install connector-sync applications create\n/,
    );
    expect(stdout).toContain(`OpenAPI:     ${url ?? ''}/openapi.json\n`);
    expect(stdout).toContain(`OpenAPI:     ${url ?? ''}/openapi.json\n`);
    expect(stdout).toContain('connectors:  sample-newsletter, sample-wiki, sample-library (revision 0)\n');
    const head = stdout.slice(0, stdout.indexOf('A config for it'));
    expect(head.split('\n').filter((line) => line.length > 80)).toEqual([]);
    expect(stdout + stderr).not.toContain(secret);
  });

  it('takes credentials and key from the environment, and then makes up neither', async () => {
    await callCli(['applications', 'create'], { cwd: folder });
    const env = {
      CONNECTOR_SYNC_CLIENT_ID: 'me',
      CONNECTOR_SYNC_CLIENT_SECRET: 'given-by-the-user-and-long-enough',
      CONNECTOR_SYNC_SERVICE_KEY: 'ab'.repeat(32),
    };
    const running = startCli([...tiny, '--json', '--allow-host', 'sample-api'], { cwd: folder, env });
    await running.until('"url"');
    const [said] = jsonLines({ ...running.output(), code: null });
    expect(await tokenStatus(said?.['url'], 'me', 'given-by-the-user-and-long-enough')).toBe(200);
    expect(await tokenStatus(said?.['url'], 'me', 'guess')).toBe(401);
    expect(await tokenStatus(said?.['url'], 'local', '')).toBe(401);
    expect(await statusFor(said?.['url'], 'sample-api')).toBe(200);
    expect(await statusFor(said?.['url'], 'other-api')).toBe(421);
    expect(existsSync(join(data(), 'service.key'))).toBe(false);
    running.child.kill('SIGTERM');
    const { stdout, stderr } = await running.result;
    expect(Object.keys(said ?? {})).not.toContain('clientSecret');
    expect(stdout + stderr).not.toMatch(/given-by-the-user-and-long-enough|abababab/);
  });

  it('refuses half of the credentials and a key that is none, without repeating it', async () => {
    const half = await callCli(tiny, { cwd: folder, env: { CONNECTOR_SYNC_CLIENT_ID: 'me' } });
    expect(half).toMatchObject({ code: 2, stderr: expect.stringContaining('one is not set') as string });
    const key = await callCli(tiny, { cwd: folder, env: { CONNECTOR_SYNC_SERVICE_KEY: 'tell-nobody' } });
    expect(key.code).toBe(2);
    expect(key.stderr).toContain('CONNECTOR_SYNC_SERVICE_KEY: expected a key of 32 bytes');
    expect(key.stdout + key.stderr).not.toContain('tell-nobody');
  });

  it('creates no application if its port is taken', async () => {
    const taken = createServer().listen(0, '127.0.0.1');
    await once(taken, 'listening');
    try {
      const port = String((taken.address() as AddressInfo).port);
      const args = ['serve', '--port', port, '--size', 'tiny', '--no-index'];
      expect(await callCli(args, { cwd: folder })).toMatchObject({
        code: 2,
        stderr: expect.stringContaining(`Port ${port} of 127.0.0.1 is in use`) as string,
      });
    } finally {
      taken.close();
    }
    const list = await callCli(['applications', 'list', '--json'], { cwd: folder });
    expect(jsonLines(list)).toEqual([{ applications: [] }]);
  });

  it.each([
    ['--token-lifetime', '14m', 'expected 15m to 7d'],
    ['--token-lifetime', 'soon', 'expected a duration such as'],
    ['--refresh', '0s', 'expected a duration such as'],
    ['--refresh', '100d', 'expected 1s to 24d'],
    ['--allow-host', 'api.example:80', 'expected a host name or an address without a port'],
    ['--allow-upstream-host', 'http://tickets.internal', 'expected host or host:port'],
    ['--allow-upstream-host', 'tickets.internal:70000', 'expected host or host:port'],
    ['--rate-limit', '0', 'expected a whole number from 1'],
    ['--rate-limit', '1e3', 'expected a whole number from 1 to 1000000'],
    ['--data', '', 'expected the path of a folder'],
  ])('refuses %s %j before anything is made', async (flag, value, message) => {
    const refused = await callCli(['serve', '--port', '0', `${flag}=${value}`], { cwd: folder });
    expect(refused.code).toBe(2);
    expect(refused.stderr).toContain(`${flag}: ${message}`);
    expect(await readdir(folder)).toEqual([]);
  });

  async function statusFor(url: unknown, host: string): Promise<number | undefined> {
    const asked = get(`${String(url)}/openapi.json`, { headers: { host } });
    const [answer] = (await once(asked, 'response')) as [IncomingMessage];
    answer.resume();
    return answer.statusCode;
  }

  // Proves promise 10.7
  it('masks what it answers as a file says, and shows its key nowhere', async () => {
    const key = Buffer.alloc(32, 5).toString('base64');
    const rules = 'list_members: { fields: { email_address: { hash: { as: email } }, full_name: drop } }';
    await writeFile(
      join(folder, 'masks.yaml'),
      `mask: { key: "\${MASK_KEY}" }\ntypes: { email-marketing: { mask: { ${rules} } } }\n`,
    );
    const env = {
      CONNECTOR_SYNC_CLIENT_ID: 'me',
      CONNECTOR_SYNC_CLIENT_SECRET: 'given-by-the-user-and-long-enough',
      MASK_KEY: key,
      LOG_LEVEL: 'info',
    };
    const running = startCli([...tiny, '--json', '--masks', 'masks.yaml'], { cwd: folder, env });
    await running.until('"url"');
    const [said] = jsonLines({ ...running.output(), code: null });
    const url = String(said?.['url']);
    const ask = async (path: string, body: object, token = ''): Promise<Record<string, unknown>> => {
      const headers = { 'content-type': 'application/json', authorization: `Bearer ${token}` };
      const answer = await fetch(`${url}/api/v1${path}`, {
        method: 'POST',
        headers,
        body: JSON.stringify(body),
      });
      return (await answer.json()) as Record<string, unknown>;
    };
    const client = { client_id: 'me', client_secret: 'given-by-the-user-and-long-enough' };
    const { access_token: token } = await ask('/account/applications/token', client);
    const list = async (entity: string, params: object): Promise<readonly Record<string, unknown>[]> => {
      const body = { entity, action: 'list', params };
      const path = '/integrations/connectors/sample-newsletter/execute';
      return (await ask(path, body, String(token)))['result'] as readonly Record<string, unknown>[];
    };
    const [first] = await list('lists', {});
    const members = await list('list_members', { list_id: first?.['id'] });
    expect(members.length).toBeGreaterThan(0);
    for (const member of members) {
      expect(member['email_address']).toMatch(/^hmac-[0-9a-f]{8}-[0-9a-f]{64}$/);
      expect(member).not.toHaveProperty('full_name');
    }
    running.child.kill('SIGTERM');
    const { stdout, stderr } = await running.result;
    expect(stdout + stderr).not.toContain(key);
  });

  it.each([
    [
      'types: { email-marketing: { mask: { list_members: { fields: { full_name: drop } } } } }',
      'mask.key: is missing',
    ],
    ['types: { email-markting: { mask: {} } }', 'no such connector type: "email-markting"; did you mean'],
    ['mask: { key: "${NO_SUCH}" }\ntypes: {}', 'NO_SUCH is not set'],
    ['mask: { key: "short-key" }\ntypes: {}', 'mask.key: expected a key of 32 bytes'],
    [
      `mask: { key: "${'a'.repeat(64)}" }\ntypes: { email-marketing: { mask: { lists: { fields: { id: hash } } } } }`,
      'expected id as it comes, got hash',
    ],
    ['maske: {}\ntypes: {}', 'unknown key; did you mean "mask"?'],
  ])('refuses the masks %j before anything is made', async (masks, message) => {
    await writeFile(join(folder, 'masks.yaml'), masks);
    const refused = await callCli([...tiny, '--masks', 'masks.yaml'], { cwd: folder });
    expect(refused.code).toBe(2);
    expect(refused.stderr.replaceAll(/\s+/g, ' ')).toContain(message);
    expect(refused.stdout + refused.stderr).not.toContain('short-key');
    expect(await readdir(folder)).toEqual(['masks.yaml']);
  });
});

describe('applications', () => {
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
});
