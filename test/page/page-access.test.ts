import { writeFileSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import { Secret } from '../../src/core/secret.ts';
import { servedPages } from '../../src/page/page-routes.ts';
import { loadSettings } from '../../src/settings/load-settings.ts';
import { cliSecret, writeCliConfig } from '../support/cli-world.ts';
import { instantClock } from '../support/instant-clock.ts';
import { it } from '../support/it.ts';
import { serveMonitor } from '../support/monitor/served-monitor.ts';
import { openActor } from '../support/page/actor.ts';
import { serveUi } from '../support/page/served-ui.ts';
import { startCli } from '../support/run-cli.ts';

const token = 'a-token-of-16-or-more';
const here = { 'content-type': 'application/x-www-form-urlencoded', 'sec-fetch-site': 'same-origin' };
const withToken = (text: string) => ({
  method: 'POST',
  headers: here,
  body: new URLSearchParams({ token: text }).toString(),
});

async function configIn(folder: string, http: string | null): Promise<string> {
  const config = await writeCliConfig(folder, 'http://127.0.0.1:1');
  // oxlint-disable-next-line no-template-curly-in-string -- the config's own way to name the secret.
  const text = (await readFile(config, 'utf8')).replace('${SECRET}', cliSecret);
  await writeFile(config, http === null ? text : `http: ${http}\n${text}`);
  return config;
}

it('are open on this machine where there is no token, and read only', async ({ folder }) => {
  await using ui = await serveUi({ config: await configIn(folder, null) });
  expect((await ui.get('/')).status).toBe(200);
  for (const path of ['/', '/connectors/newsletter', '/live', '/runs/x']) {
    expect([path, (await ui.get(path, { method: 'POST', headers: here })).status]).toEqual([path, 405]);
  }
});

// Proves promise 10.3
it('stay closed where others can reach them and there is no token', async ({ folder }) => {
  const config = await configIn(folder, null);
  await using ui = await serveUi({ config, host: null });
  for (const path of ['/', '/connectors/newsletter', '/data/newsletter/lists', '/live']) {
    const { status, body } = await ui.get(path);
    expect([path, status]).toEqual([path, 403]);
    expect(body).toContain('http.token');
    expect(body).not.toContain(config);
  }
  expect((await ui.get('/login', withToken(token))).status).toBe(403);
});

describe('with a token', () => {
  it('ask for it on every page, and show nothing of the config before', async ({ folder }) => {
    const config = await configIn(folder, `{ token: ${token} }`);
    await using ui = await serveUi({ config });
    for (const path of [
      '/',
      '/connectors/newsletter',
      '/runs/x',
      '/data/newsletter/lists',
      '/actions',
      '/live',
      '/targets/x',
      '//',
      '/%2e/',
    ]) {
      const { status, body } = await ui.get(path);
      expect([path, status === 401 || status === 404]).toEqual([path, true]);
      expect(body).not.toContain('newsletter');
      expect(body).not.toContain(config);
    }
    const login = (await ui.get('/connectors/newsletter')).body;
    expect(login).toContain('action="../login"');
    expect((await ui.get('/', { headers: { authorization: `Bearer ${token}` } })).status).toBe(200);
  });

  it('give a cookie that only this server reads, and that ends', async ({ folder }) => {
    const clock = instantClock();
    await using ui = await serveUi({ config: await configIn(folder, `{ token: ${token} }`), clock });
    const wrong = await ui.get('/login', withToken('not-the-token-at-all'));
    expect([wrong.status, wrong.headers['set-cookie']]).toEqual([401, undefined]);
    const right = await ui.get('/login', withToken(token));
    expect([right.status, right.headers.location]).toEqual([303, './']);
    const [cookie = ''] = right.headers['set-cookie'] ?? [];
    expect(cookie).toMatch(
      /^connector-sync-\d+=[\w-]{32}; Path=\/; Max-Age=43200; HttpOnly; SameSite=Strict$/,
    );
    expect(cookie).not.toContain(token);
    const [pair = ''] = cookie.split(';');
    const shown = async (sent: string): Promise<number> =>
      (await ui.get('/', { headers: { cookie: sent } })).status;
    expect(await shown(`other=1; ${pair}`)).toBe(200);
    const [name = ''] = pair.split('=');
    for (const forged of [`${name}=${'A'.repeat(32)}`, `${name}=`, `${name}=${token}`]) {
      expect([forged, await shown(forged)]).toEqual([forged, 401]);
    }
    const out = await ui.get('/logout', { method: 'POST', headers: { ...here, cookie: pair } });
    expect(out.headers['set-cookie']?.[0]).toContain('Max-Age=0');
    expect(await shown(pair)).toBe(401);
    const [again = ''] = (await ui.get('/login', withToken(token))).headers['set-cookie'] ?? [];
    expect(await shown(again)).toBe(200);
    clock.advance(12 * 3_600_000);
    expect(await shown(again)).toBe(401);
  });

  it('take no form of another page', async ({ folder }) => {
    await using ui = await serveUi({ config: await configIn(folder, `{ token: ${token} }`) });
    const { 'sec-fetch-site': _site, ...plain } = here;
    for (const headers of [
      { ...here, 'sec-fetch-site': 'cross-site' },
      { ...here, 'sec-fetch-site': 'same-site' },
      { ...plain, origin: 'https://evil.example' },
      { ...plain, origin: 'null' },
    ]) {
      for (const path of ['/login', '/logout']) {
        const answer = await ui.get(path, { ...withToken(token), headers });
        expect([path, answer.status, answer.headers['set-cookie']]).toEqual([path, 403, undefined]);
      }
    }
  });

  it('tell wrong tokens to wait after ten, and take the right one all the same', async ({ folder }) => {
    const clock = instantClock();
    await using ui = await serveUi({ config: await configIn(folder, `{ token: ${token} }`), clock });
    for (let tries = 0; tries < 10; tries += 1) {
      expect((await ui.get('/login', withToken('wrong-token-of-16'))).status).toBe(401);
    }
    const answer = await ui.get('/login', withToken('wrong-token-of-16'));
    expect([answer.status, answer.headers['retry-after']]).toEqual([429, '10']);
    expect((await ui.get('/login', withToken(token))).status).toBe(303);
    expect(ui.logged.filter(({ level }) => level === 'warn').length).toBe(10);
  });
});

it('end the sessions of a token that the config has changed, and keep the others', async ({ folder }) => {
  const settings = loadSettings({ file: await configIn(folder, null), env: {} });
  const pages = servedPages({ settings, program: 'connector-sync', clock: systemClock });
  const [anna, bob] = ['token-of-anna-0123', 'token-of-bob-012345'] as const;
  const content = (ofBob: string) => ({
    pages,
    tokens: [
      { name: 'anna', may: ['pages', 'act'], token: new Secret(anna) },
      { name: 'bob', may: ['pages'], token: new Secret(ofBob) },
    ] as const,
  });
  await using served = await serveMonitor(content(bob));
  const [ofAnna, ofBob] = [await openActor(served, anna), await openActor(served, bob)];
  await served.monitor.show(content('another-token-of-bob'));
  expect(await ofAnna.read('/')).toContain('<summary>anna</summary>');
  expect((await ofBob.ask('/')).status).toBe(401);
});

it('answer only for names that lead here, and for those of the config', async ({ folder }) => {
  await using plain = await serveUi({ config: await configIn(folder, null) });
  expect((await plain.get('/', { headers: { host: 'evil.example:80' } })).status).toBe(421);
  await using named = await serveUi({ config: await configIn(folder, '{ hosts: [status.example.com] }') });
  const statusFor = async (host: string): Promise<number> =>
    (await named.get('/', { headers: { host } })).status;
  expect(await statusFor('status.example.com')).toBe(200);
  expect(await statusFor('Status.Example.com:443')).toBe(200);
  expect(await statusFor('localhost:9401')).toBe(200);
  expect(await statusFor('evil.example')).toBe(421);
  expect(await statusFor('status.example.com.evil.example')).toBe(421);
});

it('say why the config cannot be used where it cannot', async ({ folder }) => {
  const config = await configIn(folder, '{ hosts: ["https://status.example.com/"] }');
  await expect(serveUi({ config })).rejects.toThrow(/http\.hosts/);
});

const config = (name: string, watch: boolean): string => `watch: ${watch}
sinks: { main: { type: sqlite, path: ./main.db } }
connectors:
  ${name}: { definition: workspace-notes, credentials: { token: ntn_1 }, sink: main }
`;

it('shows a changed config without a restart, and says on every page that one was refused', async ({
  folder,
}) => {
  const file = join(folder, 'c.yaml');
  writeFileSync(file, config('wiki', false));
  const ui = startCli(['ui', '--http', '0', '--config', 'c.yaml'], { cwd: folder });
  await ui.until('Ctrl-C stops.');
  const url = /http:\S+/.exec(ui.output().stdout)?.[0] ?? '';
  const page = async (): Promise<string> => await (await fetch(url)).text();
  expect(await page()).toContain('wiki');
  writeFileSync(file, config('notes', true));
  ui.child.kill('SIGHUP');
  await expect.poll(page, { timeout: 10_000 }).toContain('notes');
  expect(await page()).not.toContain('wiki');
  // From here on it looks by itself.
  writeFileSync(file, config('notes', true).replace('sink: main', 'sink: mian'));
  await expect.poll(page, { timeout: 20_000 }).toContain('cannot be used');
  const refused = await page();
  expect(refused).toContain('stays in force');
  expect(refused).toContain('mian');
  expect(refused).toContain('notes');
  writeFileSync(file, config('journal', true));
  await expect.poll(page, { timeout: 20_000 }).toContain('journal');
  expect(await page()).not.toContain('cannot be used');
  ui.child.kill('SIGTERM');
  await ui.result;
}, 60_000);
