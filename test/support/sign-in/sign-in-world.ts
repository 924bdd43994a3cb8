import { readdirSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { onTestFinished } from 'vitest';
import { PassThrough } from 'node:stream';
import { runCommandLine } from '../../../src/cli/run-command-line.ts';
import type { Output } from '../../../src/cli/output/terminal.ts';
import { describedFolder } from '../described/described-service.ts';
import { openProgram } from '../program.ts';
import { callCli } from '../run-cli.ts';
import { hash } from 'node:crypto';
import { setTimeout } from 'node:timers/promises';
import { startThirdParty, type ReceivedRequest, type Reply } from '../third-party/start-third-party.ts';

interface WorldOptions {
  readonly sink?: string;
  readonly signIns?: string;
  readonly definition?: (text: string) => string;
  readonly provider?: SignInProvider;
}

/** A made-up service, and a connector `crm` that reads it once a person has signed in. */
export async function signInWorld(options: WorldOptions = {}) {
  const provider = options.provider ?? (await startSignInProvider());
  const text = options.definition?.(signInDefinition) ?? signInDefinition;
  const folder = describedFolder(text, provider.origin);
  const env = { SECRET: app.client_secret };
  /** Writes the config, with this client id. */
  const useApp = (id: string) =>
    openProgram(
      `definitions: [./definitions]
allowUpstreamHosts: ['127.0.0.1:${provider.port}']
${options.signIns === undefined ? '' : `signIns: ${options.signIns}`}
sinks: { main: ${options.sink ?? '{ type: sqlite, path: ./data/main.db, durability: normal }'} }
connectors:
  crm: { definition: described, credentials: { client_id: ${id}, client_secret: "\${SECRET}" }, sink: main }
`,
      { env, folder },
    );
  const { cli, config, [Symbol.asyncDispose]: remove } = useApp(app.client_id);
  onTestFinished(remove);
  const start = (...args: readonly string[]) => startWaiting([...args, '--config', config], folder, env);
  return {
    provider,
    folder,
    cli,
    /** In an environment without the app's secret. */
    cliWithoutSecret: (...args: readonly string[]) =>
      callCli([...args, '--config', config], { cwd: folder, env: {} }),
    start,
    useApp: (id: string): void => void useApp(id),
    /** Signs in as a person does, with a browser that agrees. */
    signIn: async () => {
      const running = start('login', 'crm');
      await agree(await shownAddress(running));
      return await running.result;
    },
    /** What the program has written, by file, and the mode of each. */
    files: () =>
      new Map(
        readdirSync(folder, { recursive: true, withFileTypes: true })
          .filter((entry) => entry.isFile())
          .map((entry) => {
            const file = path.join(entry.parentPath, entry.name);
            const text = readFileSync(file, 'latin1');
            return [path.relative(folder, file), { text, mode: statSync(file).mode & 0o777 }] as const;
          }),
      ),
  };
}

type WaitingCli = ReturnType<typeof startWaiting>;

/** A command inside this process that waits for a person. */
function startWaiting(args: readonly string[], cwd: string, env: Readonly<Record<string, string>>) {
  const output = { stdout: '', stderr: '' };
  const watchers = new Set<() => void>();
  const capture = (name: 'stdout' | 'stderr'): Output => ({
    write: (text) => {
      output[name] += String(text);
      for (const watch of watchers) watch();
    },
    on: () => undefined,
  });
  const input = new PassThrough();
  const [stdout, stderr] = [capture('stdout'), capture('stderr')];
  const result = runCommandLine({ args, env, cwd, stdin: () => input, stdout, stderr }).then((code) => ({
    code,
    ...output,
  }));
  /** What standard error holds up to this text, once it has appeared; rejects when the command ends without it. */
  const until = (text: string): Promise<string> =>
    new Promise((resolve, reject) => {
      const watch = (): void => {
        if (!output.stderr.includes(text)) return;
        watchers.delete(watch);
        resolve(output.stderr);
      };
      watchers.add(watch);
      watch();
      void result.then(() => reject(new Error(`ended without "${text}": ${output.stdout}${output.stderr}`)));
    });
  return { input, until, result };
}

/** The address that the program asks a person to open. */
export async function shownAddress(running: WaitingCli): Promise<string> {
  const shown = await running.until('/authorize?');
  const [address = ''] = /http\S+\/authorize\?\S+/.exec(shown) ?? [];
  return address;
}

/** Where the service sends the browser of a person who agrees. */
export async function redirectOf(address: string): Promise<string> {
  const { headers } = await fetch(address, { redirect: 'manual' });
  return headers.get('location') ?? '';
}

export async function agree(address: string): Promise<Response> {
  return await fetch(await redirectOf(address));
}

/** What a person has agreed to once, and the tokens that came of it. */
interface Grant {
  isRevoked: boolean;
  refresh: string;
  access: string;
}

export const app = { client_id: 'app-1', client_secret: 'planted-secret-27182818' };

/**
 * A made-up service with an authorization server: refresh tokens serve once, and one that is used twice ends all that
 * came of the same sign-in. Access tokens serve until the next renewal.
 */
export async function startSignInProvider(
  options: { readonly rotates?: boolean; readonly refreshEnds?: number | null } = {},
) {
  const { rotates = true, refreshEnds = null } = options;
  const grants: Grant[] = [];
  const codes = new Map<
    string,
    { readonly challenge: string; readonly redirect: string; readonly scope: string }
  >();
  const spent = new Map<string, Grant>();
  const devices = new Map<string, { state: 'pending' | 'agreed' | 'refused'; asked: number }>();
  const reused: string[] = [];
  let count = 0;
  let lateMs = 0;
  let isRenewed = false;
  let renewed: () => void = () => undefined;
  const made = (what: string): string => `planted-${what}-${(count += 1)}-16180339`;

  const issue = (grant: Grant): Reply => {
    grant.access = made('access');
    if (rotates) grant.refresh = made('refresh');
    return {
      body: {
        access_token: grant.access,
        refresh_token: grant.refresh,
        token_type: 'Bearer',
        expires_in: '3600',
        ...(refreshEnds === null ? {} : { refresh_token_expires_in: refreshEnds }),
      },
    };
  };
  const begin = (): Reply => {
    const grant: Grant = { isRevoked: false, refresh: made('refresh'), access: '' };
    grants.push(grant);
    return issue(grant);
  };
  const refuse = (error: string, error_description = ''): Reply => ({
    status: 400,
    body: { error, error_description },
  });

  const renew = async (token: string): Promise<Reply> => {
    const again = spent.get(token);
    if (again !== undefined) {
      reused.push(token);
      again.isRevoked = true;
      return refuse('invalid_grant', `the token ${token} was used before`);
    }
    const grant = grants.find(({ refresh, isRevoked }) => refresh === token && !isRevoked);
    if (grant === undefined) return refuse('invalid_grant', 'unknown or revoked');
    if (rotates) spent.set(token, grant);
    const answer = issue(grant);
    isRenewed = true;
    renewed();
    await setTimeout(lateMs);
    return answer;
  };

  const byCode = (form: URLSearchParams): Reply => {
    const code = codes.get(form.get('code') ?? '');
    codes.delete(form.get('code') ?? '');
    const verifier = form.get('code_verifier') ?? '';
    const isRight = code?.redirect === form.get('redirect_uri');
    return isRight && hash('sha256', verifier, 'base64url') === code?.challenge
      ? begin()
      : refuse('invalid_grant', 'no such code');
  };

  const byDevice = (form: URLSearchParams): Reply => {
    const device = devices.get(form.get('device_code') ?? '');
    if (device === undefined) return refuse('expired_token');
    device.asked += 1;
    if (device.state === 'agreed') return begin();
    return refuse(device.state === 'refused' ? 'access_denied' : 'authorization_pending');
  };

  const authorize = ({ query }: ReceivedRequest): Reply => {
    const redirect = new URL(query.get('redirect_uri') ?? '');
    const isRight = query.get('response_type') === 'code' && query.get('code_challenge_method') === 'S256';
    if (!isRight || query.get('client_id') !== app.client_id) return { status: 400, body: {} };
    const code = made('code');
    codes.set(code, {
      challenge: query.get('code_challenge') ?? '',
      redirect: redirect.href,
      scope: query.get('scope') ?? '',
    });
    redirect.searchParams.set('code', code);
    redirect.searchParams.set('state', query.get('state') ?? '');
    return { status: 302, headers: { location: redirect.href } };
  };

  const server = await startThirdParty(async (request) => {
    const form = new URLSearchParams(request.body);
    switch (request.path) {
      case '/authorize':
        return authorize(request);
      case '/token': {
        if (form.get('client_secret') !== app.client_secret) return refuse('invalid_client');
        const kind = form.get('grant_type');
        if (kind === 'authorization_code') return byCode(form);
        if (kind === 'refresh_token') return await renew(form.get('refresh_token') ?? '');
        return byDevice(form);
      }
      case '/device': {
        const code = made('device');
        devices.set(code, { state: 'pending', asked: 0 });
        const body = {
          device_code: code,
          user_code: 'WDJB-MJHT',
          verification_uri: `${server.origin}/enter`,
          interval: 0.05,
          expires_in: 60,
        };
        return { body };
      }
      case '/renewed':
        if (!isRenewed) await new Promise<void>((resolve) => (renewed = resolve));
        return { body: {} };
      case '/revoke': {
        const grant = grants.find(({ refresh }) => refresh === form.get('token'));
        if (grant !== undefined) grant.isRevoked = true;
        return { body: {} };
      }
    }
    const token = request.headers.authorization?.replace(/^Bearer /, '');
    const grant = grants.find(({ access, isRevoked }) => access === token && !isRevoked);
    if (grant === undefined) return { status: 401, body: { error: 'the access token has ended' } };
    return { body: request.path === '/me' ? { id: 'acct-7' } : [{ id: '1' }, { id: '2' }] };
  });

  return {
    ...server,
    /** Refresh tokens that were used a second time. */
    reused,
    /** Ends the access tokens of every sign-in. */
    endAccess: (): void => {
      isRenewed = false;
      for (const grant of grants) grant.access = made('ended');
    },
    revokeAll: (): void => {
      for (const grant of grants) grant.isRevoked = true;
    },
    decide: (state: 'agreed' | 'refused'): void => {
      for (const device of devices.values()) device.state = state;
    },
    isAnyRevoked: (): boolean => grants.some(({ isRevoked }) => isRevoked),
    /** How long the answer to a renewal is held back; `/renewed` answers when the next one was made. */
    answerLate: (ms: number): void => {
      lateMs = ms;
    },
    renewals: (): readonly ReceivedRequest[] =>
      server.requests.filter(
        ({ path, body }) => path === '/token' && body.includes('grant_type=refresh_token'),
      ),
  };
}

export type SignInProvider = Awaited<ReturnType<typeof startSignInProvider>>;

/** `credentials`, `entities` and `upstream` of a definition of that service. */
export const signInDefinition = `
credentials: [{ title: App, fields: { client_id: { secret: false }, client_secret: {} } }]
entities:
  things: { fields: { id: string }, key: [id], actions: { list: {} }, pagination: { kind: single } }
upstream:
  baseUrl: $ORIGIN
  auth:
    App:
      kind: authorizationCode
      clientId: { field: client_id }
      clientSecret: { field: client_secret }
      authorizeUrl: $ORIGIN/authorize
      tokenUrl: $ORIGIN/token
      deviceUrl: $ORIGIN/device
      revokeUrl: $ORIGIN/revoke
      style: body
      format: form
      scope: read:things offline
      params: { access_type: offline }
  check: { path: /me, identity: id }
  limits: { concurrency: 2, requestsPerSecond: 1000, timeoutMs: 5000, maxBodyBytes: 1048576 }
  message: [error]
  entities: { things: { list: { path: /things, records: '' } } }
`;
