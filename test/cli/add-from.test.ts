import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { describe, expect } from 'vitest';
import Database from 'better-sqlite3';
import { manifestText } from '../support/import/manifest.ts';
import { cliSecret, startCliService } from '../support/cli-world.ts';
import { it } from '../support/it.ts';
import { openPromise } from '../support/open-promise.ts';
import { callCli, jsonLines, main, runCli, startCli } from '../support/run-cli.ts';
import {
  certificate,
  type ReceivedRequest,
  type Reply,
  startThirdParty,
} from '../support/third-party/start-third-party.ts';

const secret = 'planted-key-31415926';
const env = { DESK_KEY: secret, NODE_EXTRA_CA_CERTS: certificate };

/** Ten users in pages of five; the first three have seven orders each. */
function respond({ path, query, headers }: ReceivedRequest): Reply {
  if (headers.authorization !== `Bearer ${secret}`) return { status: 401, body: { message: 'who are you?' } };
  const [, , user] = path.split('/');
  const count = user === undefined ? 10 : user < 'u3' ? 7 : 0;
  const prefix = user === undefined ? 'u' : `${user}-o`;
  const all = Array.from({ length: count }, (_, index) => ({ id: `${prefix}${index}`, title: `${index}` }));
  const at = Number(query.get('cursor') ?? 0);
  const next = at + 5 < all.length ? { meta: { next_cursor: String(at + 5) } } : {};
  return { body: { data: all.slice(at, at + 5), ...next } };
}

/** The OpenAPI file of the service. */
function openApi(origin: string, more: object = {}): string {
  const string = { type: 'string' };
  const record = { type: 'object', required: ['id'], properties: { id: string, title: string } };
  const meta = { type: 'object', properties: { next_cursor: string } };
  const schema = { type: 'object', properties: { data: { type: 'array', items: record }, meta } };
  const responses = { 200: { description: 'A page', content: { 'application/json': { schema } } } };
  const cursor = { name: 'cursor', in: 'query', schema: string };
  const user = { name: 'user_id', in: 'path', required: true, schema: string };
  return JSON.stringify({
    openapi: '3.0.3',
    info: { title: 'Desk', version: '2' },
    servers: [{ url: origin }],
    components: { securitySchemes: { token: { type: 'http', scheme: 'bearer' } } },
    paths: {
      '/users': { get: { parameters: [cursor], responses } },
      '/users/{user_id}/orders': { get: { parameters: [user, cursor], responses } },
    },
    ...more,
  });
}

const comment = '# Ours, and it stays.';

/** A service, its OpenAPI file and a config that allows its host. */
async function openDesk(folder: string, answer: Parameters<typeof startThirdParty>[0] = respond) {
  const { origin, port, requests } = await startThirdParty(answer, 'https');
  writeFileSync(join(folder, 'openapi.json'), openApi(origin));
  mkdirSync(join(folder, 'config'));
  const config = join(folder, 'config', 'connector-sync.yaml');
  const text = `${comment}
allowUpstreamHosts: ['127.0.0.1:${port}']

sinks:
  main: { type: sqlite, path: ../main.db }
`;
  writeFileSync(config, text);
  return { origin, requests, config, text, read: () => readFileSync(config, 'utf8') };
}

function rowsIn(folder: string, table: string): number {
  using database = {
    open: new Database(join(folder, 'main.db'), { readonly: true }),
    [Symbol.dispose]: () => database.open.close(),
  };
  return Number(database.open.prepare(`SELECT count(*) FROM ${table}`).pluck().get());
}

function filesIn(folder: string): readonly string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' }).toSorted();
}

const add = ['connectors', 'add', '--from', 'openapi.json'];
const key = ['--credentials-env', 'token=DESK_KEY'];

describe('connectors add --from', () => {
  it('goes from an OpenAPI file to rows, with proven guesses and the comments of the config', async ({
    folder,
  }) => {
    const desk = await openDesk(folder);
    const args = [...add, '--path', '/users/{user_id}/orders', ...key];
    const done = await runCli(args, { cwd: folder, env });
    expect(done).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('✓ parent: 3 parents answer') as string,
    });
    expect([rowsIn(folder, 'desk__users'), rowsIn(folder, 'desk__user_orders')]).toEqual([10, 21]);
    const written = desk.read();
    expect(written).toBe(`${comment}
${desk.text.split('\n')[1]}

definitions: ["./definitions"]

sinks:
  main: { type: sqlite, path: ../main.db }

connectors:
  desk:
    definition: desk
    credentials:
      token: \${DESK_KEY}
    sink: main
`);
    const definition = readFileSync(join(folder, 'config', 'definitions', 'desk.yaml'), 'utf8');
    expect(definition.match(/^ {4}proven: /gm)).toHaveLength(2);
    expect(done.stdout + done.stderr + written + definition).not.toContain(secret);
    const checked = await runCli(['check'], { cwd: folder, env });
    expect(checked).toMatchObject({ code: 0, stdout: expect.not.stringContaining('✗') as string });
    const again = await runCli(args, { cwd: folder, env });
    expect(again.stderr).toContain('--from config/definitions/desk.yaml');
    const second = await runCli(['connectors', 'add', '--from', 'config/definitions/desk.yaml', ...key], {
      cwd: folder,
      env,
    });
    expect(second.code).toBe(0);
    expect(rowsIn(folder, 'desk_2__users')).toBe(10);
  });

  it('goes from a low-code manifest to rows, and says what nothing has proven and what to do', async ({
    folder,
  }) => {
    const desk = await openDesk(folder, (request) =>
      request.path === '/gone'
        ? { status: 404, body: { message: 'no such list' } }
        : request.path === '/lists'
          ? { body: { data: [{ id: 'l1' }, { id: 'l2' }] } }
          : { body: { data: Array.from({ length: 12 }, (_, index) => ({ id: `u${index}` })) } },
    );
    mkdirSync(join(folder, 'source-desk'));
    const file = join('source-desk', 'manifest.yaml');
    const streams = { users: {}, lists: {}, gone: {}, jobs: { retriever: 'type: AsyncRetriever' } };
    writeFileSync(join(folder, file), manifestText(streams, { url: desk.origin }));
    const args = [
      'connectors',
      'add',
      'mine',
      '--from',
      file,
      '--credentials-env',
      'api_key=DESK_KEY',
      '--json',
    ];
    const done = await runCli(args, { cwd: folder, env });
    expect(done.code).toBe(3);
    const [added] = jsonLines(done);
    expect(added).toMatchObject({
      connector: 'mine',
      left: { gone: expect.stringContaining('no such list') as string },
      findings: [
        { entity: 'users', verdict: 'proven' },
        { entity: 'lists', guess: 'key', verdict: 'open' },
      ],
    });
    expect([rowsIn(folder, 'mine__users'), /exclude:[^]*/.exec(desk.read())?.[0]]).toEqual([
      12,
      'exclude:\n      - gone\n',
    ]);
    const again = await runCli(['definitions', 'check', 'config/definitions'], { cwd: folder });
    expect(again.stdout).toContain('lists: not proven: key');
  });

  it('leaves out an entity whose guess is wrong, and says where to correct it', async ({ folder }) => {
    const desk = await openDesk(folder, (request) =>
      request.path === '/users' ? respond(request) : respond({ ...request, query: new URLSearchParams() }),
    );
    const done = await runCli([...add, '--path', '/users/{user_id}/orders', ...key], { cwd: folder, env });
    expect(done.code).toBe(3);
    expect(done.stdout).toMatch(/! user_orders: left out \(exclude in the config\): paging: /);
    expect(desk.read()).toContain('    exclude:\n      - user_orders\n');
    expect(rowsIn(folder, 'desk__users')).toBe(10);
  });

  it('names every missing flag in one error, off a terminal', async ({ folder }) => {
    const desk = await openDesk(folder);
    const before = filesIn(folder);
    expect(await callCli(add, { cwd: folder })).toMatchObject({
      code: 2,
      stderr: `Error: Give these too:
  --path <path> (2 listings: /users, /users/{user_id}/orders)
  --credentials-env token=<VARIABLE>, or --credentials-file token=<file>
`,
    });
    const typed = await callCli([...add, '--path', '/users', '--setting', `token=${secret}`], {
      cwd: folder,
    });
    expect(typed).toMatchObject({ code: 2, stderr: expect.stringContaining('token is secret') as string });
    expect(typed.stderr).not.toContain(secret);
    expect([filesIn(folder), desk.requests]).toEqual([before, []]);
  });

  const refusing: readonly (readonly [string, number, typeof respond])[] = [
    ['refuses the credentials', 4, () => ({ status: 401, body: { message: `not with ${secret}` } })],
    [
      'refuses them while guesses are tested',
      4,
      (request) => (request.query.has('cursor') ? { status: 401, body: {} } : respond(request)),
    ],
    [
      'shows the first page for each page',
      2,
      (request) => respond({ ...request, query: new URLSearchParams() }),
    ],
  ];
  it.for(refusing)('writes nothing where the service %s', async ([, code, answer], { folder }) => {
    const desk = await openDesk(folder, answer);
    const before = filesIn(folder);
    const done = await runCli([...add, '--path', '/users', ...key], { cwd: folder, env });
    expect(done).toMatchObject({ code });
    expect(done.stdout + done.stderr).not.toContain(secret);
    expect([filesIn(folder), desk.read()]).toEqual([before, desk.text]);
  });

  it('writes nothing where a person interrupts the proofs', async ({ folder }) => {
    const reached = openPromise();
    const desk = await openDesk(folder, async (request) => {
      if (!request.query.has('cursor')) return respond(request);
      reached.resolve();
      return await new Promise<Reply>(() => undefined);
    });
    const before = filesIn(folder);
    const { child, result } = startCli([...add, '--path', '/users', ...key], { cwd: folder, env });
    await reached.promise;
    child.kill('SIGINT');
    expect(await result).toMatchObject({ code: 130 });
    expect([filesIn(folder), desk.read()]).toEqual([before, desk.text]);
  });

  it('writes all of its files or none', async ({ folder }) => {
    const { definition, config } = await openOwn(folder);
    const file = join(folder, 'config', 'connector-sync.yaml');
    // The folder of definitions has one that cannot be read, which shows when the config names the folder.
    mkdirSync(join(folder, 'config', 'definitions'));
    writeFileSync(join(folder, 'config', 'definitions', 'other.yaml'), 'name: 5');
    const before = filesIn(folder);
    const done = await callCli(['connectors', 'add', '--from', definition, ...ownKey], { cwd: folder, env });
    expect(done).toMatchObject({ code: 2, stderr: expect.stringContaining('other.yaml') as string });
    expect([filesIn(folder), readFileSync(file, 'utf8')]).toEqual([before, config]);
  });

  it('calls no private host that is not allowed, and writes nothing outside of its folder', async ({
    folder,
  }) => {
    const cwd = join(folder, 'deep', 'inside');
    const { definition, requests, config } = await openOwn(cwd);
    const file = join(cwd, 'config', 'connector-sync.yaml');
    const text = readFileSync(join(cwd, definition), 'utf8');
    writeFileSync(file, config.replace(/^allow.*$/m, ''));
    writeFileSync(join(cwd, 'up.yaml'), text.replace('name: desk', 'name: ../../up'));
    const info = { title: '../../up', version: '1' };
    writeFileSync(join(cwd, 'up.json'), openApi('https://169.254.169.254', { info }));
    const before = filesIn(folder);
    const hostile = [
      [definition, ownKey, 'may not be called'],
      ['up.yaml', ownKey, 'name: expected'],
      ['up.json', ['--path', '/users', ...key], '169.254.169.254'],
    ] as const;
    for (const [from, flags, why] of hostile) {
      const done = await callCli(['connectors', 'add', '--from', from, ...flags], { cwd, env });
      expect(done.stderr).toContain(why);
    }
    expect([filesIn(folder), requests]).toEqual([before, []]);
  });
});

const ownKey = ['--credentials-env', 'api_key=DESK_KEY', '--setting', 'team=blue'];

/** A service without TLS, a definition of it and a config that allows its host. */
async function openOwn(folder: string) {
  mkdirSync(join(folder, 'config'), { recursive: true });
  const { origin, port, requests } = await startThirdParty(({ headers }) => {
    if (headers.authorization !== `Bearer ${secret}`) return { status: 401 };
    return { body: { data: Array.from({ length: 10 }, (_, index) => ({ id: `u${index}` })) } };
  });
  const limits = '{ concurrency: 4, requestsPerSecond: 1000, timeoutMs: 5000, maxBodyBytes: 1048576 }';
  writeFileSync(
    join(folder, 'desk.yaml'),
    `name: desk
title: Desk
id: 7c0a3f6e-1111-4d0c-8a2b-00000000000b
rateLimit: { requestsPerSecond: 1000, concurrency: 4 }
credentials: [{ title: Key, fields: { api_key: {}, team: { secret: false } } }]
entities:
  users:
    fields: { id: string, title: string }
    key: [id]
    actions: { list: {} }
    pagination: { kind: single }
    unproven: [key]
upstream:
  baseUrl: ${origin}
  auth: { Key: { kind: bearer, token: { field: api_key } } }
  check: { path: /users }
  limits: ${limits}
  message: [message]
  entities:
    users: { list: { path: /users, records: data } }
`,
  );
  const config = `allowUpstreamHosts: ['127.0.0.1:${port}']\n\nsinks:\n  main: { type: sqlite, path: ../main.db }\n`;
  writeFileSync(join(folder, 'config', 'connector-sync.yaml'), config);
  return { definition: 'desk.yaml', config, origin, port, requests };
}

describe('on a terminal', () => {
  const hasScript = existsSync('/usr/bin/script');

  it('asks for what is missing, and drops a secret that is typed', async ({ folder }) => {
    const { definition } = await openOwn(folder);
    const stdin = `api_key=${secret} team=blue\napi_key=DESK_KEY\n`;
    const done = await callCli(['connectors', 'add', '--from', definition], {
      cwd: folder,
      env,
      stdin,
      isTyped: true,
    });
    expect(done.code).toBe(0);
    expect(done.stderr).toContain('Desk needs:');
    expect(done.stderr.match(/^Desk needs:$/gm)).toHaveLength(2);
    const written = readFileSync(join(folder, 'config', 'connector-sync.yaml'), 'utf8');
    expect(written).toContain('      api_key: ${DESK_KEY}\n      team: blue\n');
    expect(done.stdout + done.stderr + written).not.toContain(secret);
    expect(rowsIn(folder, 'desk__users')).toBe(10);
  });

  it.runIf(hasScript)(
    'reads the answers of a person, with variables that .env has by then',
    async ({ folder }) => {
      const { definition } = await openOwn(folder);
      const line = `${process.execPath} ${main} connectors add --from ${definition}`;
      const child = spawn('script', ['-qec', line, '/dev/null'], { cwd: folder });
      let shown = '';
      const ended = new Promise((resolve) => child.on('close', resolve));
      child.stdout.setEncoding('utf8').on('data', (text: string) => (shown += text));
      await expect.poll(() => shown, { timeout: 20_000 }).toContain('$DESK_API_KEY, not set yet');
      writeFileSync(join(folder, '.env'), `DESK_API_KEY=${secret}\nDESK_TEAM=blue\n`, { mode: 0o600 });
      child.stdin.write('\n');
      expect(await ended).toBe(0);
      expect(shown).not.toContain(secret);
      expect(rowsIn(folder, 'desk__users')).toBe(10);
    },
  );

  it('init asks what to read, at most three questions, and ends with rows', async ({ folder }) => {
    const sample = await callCli(['init'], { cwd: folder, stdin: '\n', isTyped: true });
    expect(sample).toMatchObject({ code: 0, stdout: expect.stringContaining('demo.db') as string });
    const { definition } = await openOwn(folder);
    // Without a config no private host is allowed.
    const args = ['init', '--config', 'new.yaml'];
    const own = { DESK_API_KEY: secret, DESK_TEAM: 'blue' };
    const refused = await callCli(args, { cwd: folder, env: own, stdin: `${definition}\n\n`, isTyped: true });
    expect(refused.stderr.match(/^> /gm)).toHaveLength(2);
    expect(refused).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('allowUpstreamHosts') as string,
    });
    expect(filesIn(folder)).not.toContain('new.yaml');
  });

  it('init reads the connectors of a workspace behind an API', async ({ folder }) => {
    await using service = await startCliService();
    const api = { CONNECTOR_API_CLIENT_ID: 'local', CONNECTOR_API_CLIENT_SECRET: cliSecret };
    const stdin = `api\n${service.url}\n\n`;
    const done = await callCli(['init'], { cwd: folder, env: api, stdin, isTyped: true });
    expect(done.stderr.match(/^> /gm)).toHaveLength(3);
    expect(done).toMatchObject({ code: 0 });
    const checked = await callCli(['check'], { cwd: folder, env: api });
    expect(checked).toMatchObject({ code: 0, stdout: expect.not.stringContaining('✗') as string });
  });
});
