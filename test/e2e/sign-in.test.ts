import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { readConnector } from '../../src/app/connector-history.ts';
import { listConnectors } from '../../src/app/listed-connectors.ts';
import { watchSinks } from '../../src/app/watch-sinks.ts';
import { systemClock } from '../../src/core/clock.ts';
import { connectorPage } from '../../src/page/connector-page.ts';
import { overviewPage } from '../../src/page/overview-page.ts';
import { readSettings } from '../../src/settings/load-settings.ts';
import {
  startSignInProvider,
  agree,
  redirectOf,
  shownAddress,
  signInWorld,
} from '../support/sign-in/sign-in-world.ts';
import { importText, servedAt, serviceText } from '../support/import/miniature.ts';
import { pageWorld } from '../support/page/page-world.ts';
import { askPostgres, sharedPostgres } from '../support/postgres.ts';

describe('a connector that a person signs in', () => {
  it('names the command to sign in, and asks nothing before that', async () => {
    const { provider, cli } = await signInWorld();
    for (const args of [['sync'], ['check'], ['list', 'crm/things']]) {
      const { code, stdout, stderr } = await cli(...args);
      expect(code).toBe(4);
      expect(stdout + stderr).toContain('crm is not signed in: run "connector-sync login crm"');
    }
    expect(provider.requests).toHaveLength(0);
  });

  it('reads after the browser came back, and keeps its tokens where only the owner reads them', async () => {
    const { provider, cli, signIn, files } = await signInWorld();
    const result = await signIn();
    expect(result).toMatchObject({ code: 0, stdout: 'crm is signed in (account acct-7).\n' });
    const [asked] = provider.requests;
    expect(Object.fromEntries(asked?.query ?? [])).toMatchObject({
      response_type: 'code',
      client_id: 'app-1',
      scope: 'read:things offline',
      access_type: 'offline',
      code_challenge_method: 'S256',
    });
    expect((await cli('sync')).code).toBe(0);
    const stored = [...files()].filter(([name]) => name.includes('sign-ins'));
    expect(stored.map(([, { mode }]) => mode)).toEqual(stored.map(() => 0o600));
    expect(stored.map(([name]) => name)).toContain('data/main.db.sign-ins/crm.db');
    const others = [...files()].filter(([name]) => !name.includes('sign-ins'));
    for (const text of [result.stdout, result.stderr, ...others.map(([, file]) => file.text)]) {
      expect(text).not.toMatch(/16180339|27182818/);
    }
  });

  it('renews tokens that have ended, and stores the new ones before they are used', async () => {
    const { provider, cli, signIn } = await signInWorld();
    await signIn();
    for (let round = 1; round <= 3; round += 1) {
      provider.endAccess();
      expect((await cli('sync')).code).toBe(0);
      expect(provider.renewals()).toHaveLength(round);
    }
    expect(provider.reused).toEqual([]);
  });

  it('remembers that the service refused, and calls nothing until the person signs in again', async () => {
    const { provider, cli, signIn } = await signInWorld();
    await signIn();
    provider.revokeAll();
    const refused = await cli('sync');
    expect(refused.code).toBe(4);
    expect(refused.stdout + refused.stderr).toMatch(
      /does not renew the sign-in \(invalid_grant: unknown or revoked\): run "connector-sync login crm"/,
    );
    const calls = provider.requests.length;
    expect((await cli('sync')).code).toBe(4);
    expect(provider.requests).toHaveLength(calls);
    expect((await signIn()).code).toBe(0);
    expect((await cli('sync')).code).toBe(0);
  });

  it('shows in status and on its page who is signed in and until when, and what a person has to do', async () => {
    const day = 86_400;
    const provider = await startSignInProvider({ refreshEnds: 30 * day });
    const world = await signInWorld({ provider });
    // Without the credentials: what is known is stored.
    const status = async (...flags: readonly string[]) => await world.cliWithoutSecret('status', ...flags);
    const signedOut = /not signed in: run ".*connector-sync login crm"\n/;
    expect((await status()).stdout).toMatch(signedOut);
    await world.signIn();
    const signedIn = await status('--json');
    const [{ signIn }] = JSON.parse(signedIn.stdout).connectors;
    expect(signIn).toMatchObject({ state: 'signed-in', account: 'acct-7', why: null, needsPerson: false });
    const span = Date.parse(signIn.endsAt) - Date.parse(signIn.since);
    expect(span).toBe(30 * day * 1_000);
    expect((await status()).stdout).toMatch(/signed in since 20\S+ as acct-7, good until 20/);
    provider.revokeAll();
    await world.cli('sync');
    const refused = (await status()).stdout;
    expect(refused).toMatch(
      /! the sign-in as acct-7 has ended \(127\.0\.0\.1:\d+ does not renew the sign-in \(invalid_grant: unknown or revoked\)\): run ".*connector-sync login crm"/,
    );
    expect(JSON.parse((await status('--json')).stdout).connectors[0].signIn.needsPerson).toBe(true);
    const shown = await shownPages(world.folder);
    expect(shown.connector).toMatch(/class="callout[^]+The sign-in as acct-7 has ended[^]+login crm/);
    expect(shown.overview).toMatch(/Needs you[^]+crm[^]+The sign-in as acct-7 has ended/);
  });

  it('reads with a definition that was imported, whose sign-in is as the file has it', async () => {
    const { provider, folder, cli, signIn } = await signInWorld();
    const token = `${provider.origin}/token`;
    const flow = {
      authorizationUrl: `${provider.origin}/authorize`,
      tokenUrl: token,
      scopes: { 'read:things': '' },
    };
    const scheme = {
      type: 'oauth2',
      flows: { authorizationCode: flow },
      'x-airbyte-token-refresh': { auth_style: 'body', body_format: 'form' },
      'x-airbyte-auth-config': {
        title: 'App',
        required: ['access_token'],
        properties: { access_token: {}, client_id: {}, client_secret: {} },
        auth_mapping: {
          client_id: '${client_id}',
          client_secret: '${client_secret}',
          access_token: '${access_token}',
        },
      },
    };
    const text = serviceText({
      listings: { things: { extractor: '$', more: { 'x-airbyte-no-pagination': 'One answer has all.' } } },
      schemes: { app: scheme },
      servers: [{ url: provider.origin }],
      info: { 'x-airbyte-connector-name': 'described' },
    });
    const { definition } = importText(folder, text, 'direct');
    const served = servedAt(provider.origin, definition?.text ?? '');
    const written = served.replace('name: described-direct', 'name: described');
    writeFileSync(path.join(folder, 'definitions', 'described.yaml'), written);
    expect((await signIn()).stdout).toBe('crm is signed in.\n');
    expect(Object.fromEntries(provider.requests[0]?.query ?? [])).toMatchObject({ scope: 'read:things' });
    provider.endAccess();
    expect(await cli('sync')).toMatchObject({ code: 0 });
    expect(provider.renewals()).toHaveLength(1);
  });

  it('takes the address that a person pastes, where there is no browser', async () => {
    const { start, cli } = await signInWorld({ signIns: '{ redirect: "https://example.com/back" }' });
    const running = start('login', 'crm', '--no-browser');
    const redirect = await redirectOf(await shownAddress(running));
    expect(redirect).toMatch(/^https:\/\/example\.com\/back\?code=/);
    running.input.end(`${redirect}\n`);
    expect(await running.result).toMatchObject({ code: 0 });
    expect((await cli('sync')).code).toBe(0);
  });

  it('refuses a pasted address of another attempt, and repeats nothing of it', async () => {
    const { start } = await signInWorld();
    const running = start('login', 'crm', '--no-browser');
    const redirect = new URL(await redirectOf(await shownAddress(running)));
    redirect.searchParams.set('state', 'planted-state-31415926');
    running.input.end(`${redirect.href}\n`);
    const { code, stderr } = await running.result;
    expect(code).toBe(2);
    expect(stderr).toContain('Expected the whole address');
    expect(stderr).not.toMatch(/16180339|31415926/);
  });

  it('signs in on another device', async () => {
    const { provider, start, cli } = await signInWorld();
    const running = start('login', 'crm', '--device');
    await running.until('enter WDJB-MJHT');
    await provider.arrived(3);
    provider.decide('agreed');
    expect(await running.result).toMatchObject({ code: 0 });
    expect((await cli('sync')).code).toBe(0);
  });

  it('signs out: forgets the tokens and gives them back', async () => {
    const { provider, cli, signIn, files } = await signInWorld();
    const { stdout } = await signIn().then(() => cli('logout', 'crm'));
    expect(stdout).toBe('crm is signed out: its tokens are revoked.\n');
    expect(provider.isAnyRevoked()).toBe(true);
    for (const { text } of files().values()) expect(text).not.toContain('16180339');
    expect((await cli('sync')).stderr).toContain('run "connector-sync login crm"');
    expect((await cli('logout', 'crm')).stdout).toBe('crm was not signed in.\n');
  });

  it('asks for another sign-in where the config names another app', async () => {
    const { cli, signIn, provider, useApp } = await signInWorld();
    await signIn();
    useApp('app-2');
    const calls = provider.requests.length;
    expect((await cli('sync')).stderr).toContain('crm was signed in with another client id');
    expect(provider.requests).toHaveLength(calls);
    useApp('app-1');
    expect((await cli('sync')).code).toBe(0);
  });
});

describe('a sign-in beside another sink', () => {
  it('is in the folder of a JSONL sink, and sealed where there is a key', async () => {
    const signIns = `{ key: ${randomBytes(32).toString('base64')} }`;
    const { cli, signIn, files } = await signInWorld({ sink: '{ type: jsonl, directory: ./lake }', signIns });
    await signIn();
    expect((await cli('sync')).code).toBe(0);
    expect((await cli('check')).code).toBe(0);
    const names = [...files().keys()];
    expect(names).toContain('lake/_sign-ins/crm.db');
    for (const { text } of files().values()) expect(text).not.toContain('16180339');
  });

  it('is sealed in a schema of PostgreSQL, and asks for a key', async () => {
    const { url } = await sharedPostgres();
    const schema = `sign_in_${randomBytes(4).toString('hex')}`;
    const sink = `{ type: postgres, url: '${url}', schema: ${schema} }`;
    const { cli } = await signInWorld({ sink });
    const refused = await cli('login', 'crm');
    expect(refused.code).toBe(2);
    expect(refused.stderr).toContain('expected signIns.key in the config');
    const [key, other] = [randomBytes(32), randomBytes(32)].map(
      (bytes) => `{ key: ${bytes.toString('hex')} }`,
    );
    const world = await signInWorld({ sink, signIns: key ?? '' });
    expect((await world.signIn()).code).toBe(0);
    expect((await world.cli('sync')).code).toBe(0);
    const stored = await tableText(url, `${schema}._sync_sign_ins`);
    expect(stored).toContain('crm');
    expect(stored).not.toContain('16180339');
    const elsewhere = await signInWorld({ sink, signIns: other ?? '', provider: world.provider });
    expect((await elsewhere.cli('sync')).stderr).toContain('was sealed with another key than signIns.key');
    // The sink is what it was: other tables, and no others than those of sinks.
    expect((await world.cli('status')).code).toBe(0);
  });
});

describe('the address that a browser comes back to', () => {
  it('answers the right request alone, and with nothing of it', async () => {
    const { start } = await signInWorld();
    const running = start('login', 'crm');
    const address = await shownAddress(running);
    const right = new URL(await redirectOf(address));
    const wrong = (change: (url: URL) => void): string => {
      const url = new URL(right);
      change(url);
      return url.href;
    };
    const forged = wrong((url) => url.searchParams.set('state', '<script>'));
    const answers = [
      await fetch(forged),
      await fetch(wrong((url) => url.searchParams.delete('state'))),
      await fetch(wrong((url) => (url.pathname = '/other'))),
      await fetch(right, { method: 'POST' }),
      await fetch(wrong((url) => (url.hostname = 'localhost'))).catch(() => null),
    ];
    expect(answers.map((answer) => answer?.status ?? 404)).toEqual([400, 400, 404, 405, 404]);
    expect(await answers[0]?.text()).not.toContain('script');
    expect(answers[0]?.headers.get('content-security-policy')).toBe("default-src 'none'");
    expect((await agree(address)).status).toBe(200);
    expect((await running.result).code).toBe(0);
    await expect(fetch(right)).rejects.toThrow();
  });

  it('reports what the service says instead of a code, without secrets', async () => {
    const { start } = await signInWorld();
    const running = start('login', 'crm');
    const back = new URL(await redirectOf(await shownAddress(running)));
    back.searchParams.delete('code');
    back.searchParams.set('error', 'access_denied');
    back.searchParams.set('error_description', 'no planted-secret-27182818 for you\u001b[2J');
    await fetch(back);
    const { code, stderr } = await running.result;
    expect(code).toBe(4);
    expect(stderr).toContain('does not let the app in (access_denied: no [secret] for you');
    expect(stderr).not.toContain('\u001b[2J');
  });
});

/** The page of `crm`, and the one of all connectors, in an environment without secrets. */
async function shownPages(folder: string) {
  const settings = readSettings({ file: path.join(folder, 'sync.yaml'), env: {} });
  const [connector] = settings.connectors.values();
  if (connector === undefined) throw new Error('the config has no connector');
  await using watched = watchSinks([connector], systemClock);
  const nowMs = systemClock.now();
  const data = await readConnector(settings, connector, watched, { nowMs, maySee: true, shown: 50 });
  if (data.kind !== 'read') throw new Error(data.problem);
  const world = { ...pageWorld, nowMs, config: null };
  const query = { q: '', state: null, sort: 'health', page: 1 } as const;
  return {
    connector: connectorPage(data, { show: null, shown: 50 }, world),
    overview: overviewPage(await listConnectors([connector], watched, query, nowMs), [], world),
  };
}

async function tableText(url: string, table: string): Promise<string> {
  return JSON.stringify(await askPostgres(url, `SELECT t::text AS row FROM ${table} AS t`));
}
