import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { formatProblem, ProblemsError } from '../../src/core/problems.ts';
import { readSettings, secretsOf, withParts } from '../../src/settings/load-settings.ts';
import { parseDefinition } from '../../src/definitions/load-definitions.ts';
import {
  describedFolder,
  describedService,
  type DescribedOptions,
} from '../support/described/described-service.ts';
import { textIn } from '../support/service/served-api.ts';
import { connectorsPath, serveWorlds } from '../support/upstream/served-world.ts';
import type { UpstreamWorld } from '../support/upstream/upstream-world.ts';
import type { JsonObject } from '../../src/core/json.ts';
import { callCli } from '../support/run-cli.ts';
import {
  failureOf,
  never,
  openTestAccount,
  shapeOf,
  things,
} from '../support/third-party/open-test-account.ts';
import type { ReceivedRequest } from '../support/third-party/start-third-party.ts';

const entities = `
entities:
  things: { fields: { id: string }, key: [id], actions: { list: {} }, pagination: { kind: single } }
`;
const limits = `
  limits: { concurrency: 2, requestsPerSecond: 1000, timeoutMs: 5000, maxBodyBytes: 1048576 }
  message: [error]
`;
const answer = { body: [{ id: '1' }] };

const open = `
credentials: [{ title: No sign-in, fields: {} }]
${entities}
upstream:
  baseUrl: $ORIGIN
  auth: { No sign-in: { kind: none } }
  check: { path: /status }
  ${limits}
  entities: { things: { list: { path: /things, records: '' } } }
`;

describe('a service that is open to all', () => {
  it('is read by a connector without credentials, which signs nothing', async () => {
    const service = await describedService({ definition: open, credentials: null, respond: () => answer });
    await service.sync();
    expect((await service.cli('check')).code).toBe(0);
    expect(service.rows('things').size).toBe(1);
    expect(new Set(service.requests.map(({ path }) => path))).toEqual(new Set(['/status', '/things']));
    for (const { headers } of service.requests) {
      expect(Object.keys(headers).toSorted()).toEqual([
        'accept',
        'accept-encoding',
        'connection',
        'host',
        'user-agent',
      ]);
    }
  });

  it('takes no credentials, and is tried and set up without any', async () => {
    const service = await describedService({
      definition: open,
      credentials: { key: 'planted-7' },
      respond: () => answer,
    });
    const refused = await service.cli('sync');
    expect(refused.code).toBe(2);
    expect(refused.stderr).toContain('expected no other fields than those of No sign-in');
    expect(refused.stderr).not.toContain('planted-7');
    service.signIn(null);
    expect((await service.cli('definitions', 'try', 'described', 'things')).stdout).toContain('1 record');
  });
});

const head =
  'name: d\ntitle: D\nid: 3f2a6c8e-5b7d-4e1f-9a0c-2d4e6f8a1b3c\nrateLimit: { requestsPerSecond: 1, concurrency: 1 }\n';

const secret = 'planted-secret-2718281828';

const many = `
credentials: [{ title: Key, fields: { api_key: {} } }, { title: No sign-in, fields: {} }]
settings:
  team: { title: Team id }
  region: { title: Region, values: [EU, US], default: EU }
  since: { title: First day, required: false }
  room: { title: Room key, secret: true, required: false }
  hook: { title: Hook key, secret: true }
${entities}
upstream:
  baseUrl: $ORIGIN
  auth: { Key: { kind: bearer, token: { field: api_key } }, No sign-in: { kind: none } }
  headers: { X-Team: { field: team }, X-Region: { field: region } }
  check: { path: '/teams/{team}' }
  ${limits}
  entities:
    things:
      list:
        method: POST
        safe: true
        path: '/hooks/{hook}/teams/{team}/things'
        query: { fixed: '1', team: { field: team }, room: { field: room }, since: { field: since } }
        body: { filter: { all: true } }
        fill: { filter.team: { field: team }, filter.room: { field: room } }
        records: ''
`;

const given = (more = ''): string =>
  `    settings: { team: t 7, hook: "\${HOOK}", room: "\${ROOM}"${more} }\n`;

async function manyService(options: Partial<DescribedOptions> = {}) {
  return await describedService({
    definition: many,
    credentials: { api_key: 'k' },
    env: { HOOK: secret, ROOM: 'monday' },
    settings: given(),
    respond: () => answer,
    ...options,
  });
}

describe('a setting', () => {
  it('goes into path, query, header and body; one that is absent is left out', async () => {
    const service = await manyService();
    await service.sync();
    const [check, list] = service.requests;
    expect(check).toMatchObject({ path: '/teams/t%207', headers: { 'x-team': 't 7', 'x-region': 'EU' } });
    expect(list).toMatchObject({ path: `/hooks/${secret}/teams/t%207/things` });
    expect(list?.query.toString()).toBe('fixed=1&team=t+7&room=monday');
    expect(bodyOf(list)).toEqual({ filter: { all: true, team: 't 7', room: 'monday' } });
  });

  it('that is secret is in no output, error or file, even where the service repeats it', async () => {
    const service = await manyService({
      respond: ({ path, query }) =>
        path.startsWith('/teams')
          ? { body: {} }
          : { status: 400, body: { error: `bad: ${path}?${query.toString()} and {"room":"monday"}` } },
    });
    const results = [
      await service.cli('sync'),
      await service.cli('sync', '--json'),
      await service.cli('definitions', 'try', 'described', 'things', '--connector', 'mine'),
      await service.cli('definitions', 'try', 'described', 'things', '--connector', 'mine', '--json'),
      await service.cli('status'),
      await service.cli('config', 'show'),
    ];
    const shown = [...results.flatMap(({ stdout, stderr }) => [stdout, stderr]), ...service.files()];
    for (const text of shown) {
      expect(text).not.toContain(secret);
      expect(text).not.toContain('monday');
    }
    const tried = results[2]?.stdout ?? '';
    expect(tried).toContain('/hooks/[secret]/teams/t%207/things?fixed=1&team=t+7&room=[secret]');
    expect(results[5]?.stdout).toContain('"team": "t 7"');
  });

  it('of another value is another account; a secret one may be renewed', async () => {
    const service = await manyService();
    await service.sync();
    service.signIn({ api_key: 'k' }, given().replace('${HOOK}', '${ROOM}'));
    await service.sync();
    service.signIn({ api_key: 'k' }, given(', since: d1'));
    const asked = service.requests.length;
    const added = await service.cli('sync');
    expect(added.stderr).toContain('is now http');
    expect(added.stderr).toContain(', region=EU, since=d1, team=t%207. Nothing was read');
    service.signIn({ api_key: 'k' }, given().replace('t 7', 't8'));
    const other = await service.cli('sync');
    expect(other.code).not.toBe(0);
    expect(other.stderr + other.stdout).toContain(`${service.origin}, region=EU, team=t%207`);
    expect(service.requests).toHaveLength(asked);
  });

  it.each([
    ['is missing', '{ hook: "${HOOK}" }', 'settings.team: expected a text, got nothing (Team id)'],
    ['is not allowed', '{ team: a, hook: "${HOOK}", region: UK }', 'settings.region: expected one of EU, US'],
    [
      'is unknown',
      '{ team: a, hook: "${HOOK}", regoin: EU }',
      'no such setting of described; did you mean "region"?',
    ],
    [
      'is secret, and written out',
      '{ team: a, hook: planted-7 }',
      'settings.hook: is secret: expected ${VARIABLE}',
    ],
  ])('that %s is refused before anything is sent', async (_what, settings, expected) => {
    const service = await manyService({ settings: `    settings: ${settings}\n` });
    const { code, stderr } = await service.cli('check');
    expect(code).toBe(2);
    expect(stderr).toContain(expected);
    expect(stderr).not.toContain('planted-7');
    expect(service.requests).toHaveLength(0);
  });

  it.each(['..', 'a/../b', '/', '.', '%2e%2e', 'a\\nb'])('%j is no part of a path', async (team) => {
    const service = await manyService({ settings: given().replace('t 7', `"${team}"`) });
    const { code, stdout, stderr } = await service.cli('sync');
    expect(code).toBe(4);
    expect(stdout + stderr).toMatch(/team (must not|holds a control character)/);
    expect(service.requests).toHaveLength(0);
  });

  it('is asked for by name where a connector has none, and may be among the credentials no more', async () => {
    const service = await manyService({ credentials: null, settings: '' });
    const missing = await service.cli('check');
    expect(missing.stderr).toContain('settings.team: expected a text, got nothing (Team id)');
    service.signIn({ team: 't7' }, '    settings: { hook: "${HOOK}" }\n');
    expect((await service.cli('check')).stderr).toContain(
      'credentials.team: is a setting: expected it below settings',
    );
  });
});

describe('a text with parameters in it', () => {
  const made = `
credentials: [{ title: No sign-in, fields: {} }]
settings: { team: { title: Team id }, lang: { title: Language, required: false } }
entities:
  things:
    fields: { id: string }
    key: [id]
    actions: { list: { params: { offset: integer, from: string, kind: string } } }
    pagination: { kind: offset, offsetParam: offset, sizeParam: null, maxSize: 1 }
    fixedParams: { kind: a }
upstream:
  baseUrl: $ORIGIN
  auth: { No sign-in: { kind: none } }
  check: { path: /status }
  ${limits}
  entities:
    things:
      list:
        path: /things
        query:
          limit: { template: '{offset},1' }
          filter: { template: '[{"team": "{team}"}]' }
          absent: { template: '{from} to {offset}' }
          lang: { template: 'lang:{lang}' }
        fill: { page.after: { template: 'n{offset}' } }
        bodyAs: json
        params: { kind: { at: kind } }
        records: items
`;

  it('goes into the query and the body of a GET; without one of its values it is left out', async () => {
    const service = await describedService({
      definition: made,
      credentials: null,
      settings: '    settings: { team: t7 }\n',
      respond: ({ query }) => ({ body: { items: query.get('limit') === '0,1' ? [{ id: '1' }] : [] } }),
    });
    await service.sync();
    const lists = service.requests.filter(({ path }) => path === '/things');
    expect(lists[0]?.method).toBe('GET');
    expect(Object.fromEntries(lists[0]?.query ?? [])).toEqual({ limit: '0,1', filter: '[{"team": "t7"}]' });
    expect(bodyOf(lists[0])).toEqual({ kind: 'a', page: { after: 'n0' } });
    expect(lists[1]?.query.get('limit')).toBe('1,1');
    expect(service.rows('things').size).toBe(1);
  });

  it.each([
    ["'{offset},1'", "'{offzet},1'", 'limit.template.field: no such field of the credentials and settings'],
    ["'{offset},1'", "'1'", 'limit.template: expected a parameter or setting in it'],
    ['title: Team id }', 'title: Team id, secret: true }', 'filter.template: expected no secret'],
    ['bodyAs: json', 'safe: true', 'list.fill: expected method: POST beside it, or bodyAs'],
    ['kind: string', 'kind: string, limit: string', 'params.limit: goes where a text of the query goes'],
  ])('has the problem: %s → %s', (change, to, expected) => {
    const text = `${head}${made}`.replace(change, to).replaceAll('$ORIGIN', 'https://a.example');
    const { problems } = parseDefinition('d.yaml', text);
    expect(problems.map(formatProblem).join('\n')).toContain(expected);
  });
});

describe('the address of a next page', () => {
  const paged = `
credentials: [{ title: No sign-in, fields: {} }]
settings: { team: { title: Team id }, room: { title: Room key, secret: true } }
entities:
  things:
    fields: { id: string }
    key: [id]
    actions: { list: { params: { cursor: string } } }
    pagination: { kind: pageToken, tokenParam: cursor, tokenKeys: [next] }
upstream:
  baseUrl: $ORIGIN
  auth: { No sign-in: { kind: none } }
  check: { path: /status }
  ${limits}
  entities:
    things:
      list:
        path: /things
        query: { fixed: '1', team: { field: team }, room: { field: room } }
        records: items
        paging: { kind: nextUrl, path: next, keep: any }
`;

  it('changes no setting, and a secret one is in no page token', async () => {
    const service = await describedService({
      definition: paged,
      credentials: null,
      settings: '    settings: { team: t7, room: "${ROOM}" }\n',
      env: { ROOM: 'monday' },
      respond: ({ query, headers }) => {
        const next = `http://${headers.host}/things?fixed=1&team=evil&room=monday&at=place-4711`;
        const isFirst = query.get('at') === null;
        return { body: { items: [{ id: isFirst ? '1' : '2' }], next: isFirst ? next : null } };
      },
    });
    await service.sync();
    const pages = service.requests
      .filter(({ path }) => path === '/things')
      .map(({ query }) => query.toString());
    expect(pages).toEqual(['fixed=1&team=t7&room=monday', 'team=t7&fixed=1&at=place-4711&room=monday']);
    const tried = await service.cli(
      'definitions',
      'try',
      'described',
      'things',
      '--connector',
      'mine',
      '--json',
    );
    for (const text of [tried.stdout, ...service.files()]) expect(text).not.toContain('monday');
  });

  it('may keep no parameter that the connector sends', () => {
    const text = `${head}${paged.replace('keep: any', 'keep: [at, room]').replaceAll('$ORIGIN', 'https://a.example')}`;
    expect(parseDefinition('d.yaml', text).problems.map(formatProblem).join('\n')).toContain(
      'list.paging.keep.1: room is sent with every page: leave it out',
    );
  });
});

describe('settings in a config', () => {
  it('are merged with defaults as credentials are, and a reference may be missing where it is not needed', () => {
    const folder = describedFolder(many, 'https://api.example');
    const settings = readSettings({
      file: join(folder, 'sync.yaml'),
      text: `definitions: [./definitions]
sinks: { main: { type: sqlite, path: ./main.db } }
api: { baseUrl: "https://api.example.com", clientId: a, clientSecret: b }
defaults:
  definition: described
  sink: main
  credentials: { api_key: "\${KEY}" }
  settings: { team: t0, region: "\${REGION}", hook: "\${HOOK}" }
connectors:
  one: {}
  two: { settings: { team: t2, hook: "\${HOOK}" } }
  three: { credentials: {} }
  four: { id: c-4 }
`,
      env: {},
    });
    rmSync(folder, { recursive: true });
    const given = [...settings.connectors.values()].map(({ address }) =>
      address.kind === 'direct' ? [...address.credentials.keys()].join() : address.kind,
    );
    expect(given).toEqual(['api_key,team,region,hook', 'api_key,team,hook', 'team,region,hook', 'id']);
    expect(new Set(settings.missing.map(({ path }) => path))).toEqual(
      new Set([
        'defaults.credentials.api_key',
        'defaults.settings.region',
        'defaults.settings.hook',
        'connectors.two.settings.hook',
      ]),
    );
    expect(() => withParts(settings, 'access')).toThrow(ProblemsError);
    expect(secretsOf(settings).map((one) => one.reveal())).not.toContain('t0');
  });
});

describe('connectors that "serve" keeps', () => {
  const serve = async (definition: string) => {
    const service = await describedService({ definition, credentials: {}, respond: () => answer });
    const world = { definition: service.definition, allowHosts: ['127.0.0.1'] } as UpstreamWorld;
    const served = await serveWorlds([world]);
    const create = async (credentials?: JsonObject) =>
      await served.client.post(connectorsPath, {
        workspace_name: 'default',
        connector_type: 'described',
        ...(credentials && { credentials }),
      });
    const list = { entity: 'things', action: 'list' };
    return { ...served, create, requests: service.requests, read: (id: string) => served.execute(id, list) };
  };

  it('have their settings among the credentials', async () => {
    const { create, read, requests } = await serve(many);
    const lacking = await create({ api_key: 'k', hook: secret, region: 'UK' });
    expect(lacking.status).toBe(422);
    expect(lacking.body['errors']).toMatchObject([
      { field: 'body.credentials.team', error_code: 'missing' },
      { field: 'body.credentials.region', message: 'Expected one of EU, US.' },
    ]);
    const { status, body } = await create({ api_key: 'k', hook: secret, team: 't7' });
    expect(status).toBe(200);
    const read1 = await read(textIn(body, 'id'));
    expect(read1.status).toBe(200);
    expect(requests.map(({ path }) => path)).toEqual(['/teams/t7', `/hooks/${secret}/teams/t7/things`]);
    expect(JSON.stringify([body, read1.body])).not.toContain(secret);
  });

  it('of a service that is open to all need no credentials', async () => {
    const { create, read, requests } = await serve(open);
    const { status, body } = await create();
    expect(status).toBe(200);
    expect((await read(textIn(body, 'id'))).status).toBe(200);
    expect(requests.map(({ path }) => path)).toEqual(['/status', '/things']);
  });
});

/** The problems of the definition above with one change, and its hash where there are none. */
function changed(change: string, to: string) {
  const text = `${head}${many}`;
  if (!text.includes(change)) throw new Error(`nothing to change: ${change}`);
  const made = text.replace(change, to).replaceAll('$ORIGIN', 'https://api.example');
  const { definition, problems } = parseDefinition('d.yaml', made);
  return { definition, problems: problems.map(formatProblem).join('\n') };
}

describe('a definition with settings', () => {
  it.each([
    [
      '  team: {',
      '  taem: {',
      'settings.taem: nothing uses it: name it in upstream, such as { field: taem }',
    ],
    ['  team: {', '  taem: {', 'check.path: no such parameter or setting: "team"'],
    ['  team: {', '  taem: {', 'query.team.field: no such field of the credentials and settings: "team"'],
    ['  team: {', '  api_key: {', 'settings.api_key: api_key is also a field of the credentials'],
    ['default: EU', 'default: UK', 'settings.region.default: expected one of EU, US, got "UK"'],
    ['secret: true }', 'secret: true, default: x }', 'settings.hook.default: expected no default'],
    [
      'Team id }',
      'Team id, required: false }',
      'check.path: expected team to be required, or to have a default',
    ],
    ['filter.team: {', 'filter..team: {', 'expected names joined by dots'],
    ['method: POST', 'method: GET', 'list.fill: expected method: POST beside it'],
    ['title: No sign-in, fields: {}', 'title: Other, fields: {}', 'auth.No sign-in: no such title among'],
    [
      'auth: { Key: {',
      'host: { a: { from: [{ text: a }] } }\n  auth: { Key: {',
      'host.a: expected a pattern, or a map',
    ],
    [
      'auth: { Key: {',
      'host: { a: { from: [{ text: a }], map: { a: a/b } } }\n  auth: { Key: {',
      'host.a.map.a: expected a host such as api.example.com',
    ],
  ])('has the problem: %s → %s', (change, to, expected) => {
    expect(changed(change, to).problems).toContain(expected);
  });

  it('is the same for what is stored, whatever their titles and defaults', () => {
    const hashOf = (...change: [string, string]) => changed(...change).definition?.contentHash;
    const same = hashOf('title: D', 'title: D');
    expect(hashOf('Team id', 'Your team')).toBe(same);
    expect(hashOf('default: EU', 'default: US')).toBe(same);
    expect(hashOf("fixed: '1', ", '')).not.toBe(same);
  });
});

describe('a host that a setting chooses from a table', () => {
  const account = (region: string) =>
    openTestAccount({
      baseUrl: 'https://{region}',
      allowHosts: [],
      resolve: (_name, done) => done(null, [{ address: '10.0.0.1', family: 4 }]),
      credentials: { token: 't', region },
      shape: shapeOf('token', 'region'),
      upstream: {
        host: new Map([
          [
            'region',
            { from: [{ kind: 'field', field: 'region', isOrigin: false }], map: { EU: 'eu.fake.example' } },
          ],
        ]),
      },
    }).list({ entity: things, params: {} }, never);

  it('is that of the table, and no other', async () => {
    expect((await failureOf(account('EU'))).text).toContain('eu.fake.example');
    for (const other of ['US', 'toString', 'evil.example']) {
      const failure = await failureOf(account(other));
      expect(failure).toMatchObject({ class: 'unauthorized', reason: 'credentials' });
      expect(failure.text).toContain(
        'the region of the address, from region, does not have one of the values EU',
      );
    }
  });
});

describe('the commands that make a connector', () => {
  it('ask for its settings, and write them beside its credentials', async () => {
    const service = await manyService();
    const file = 'definitions/described.yaml';
    const made = await callCli(['init', '--direct', file, '--config', 'new/sync.yaml'], {
      cwd: service.folder,
    });
    const text = readFileSync(join(service.folder, 'new', 'sync.yaml'), 'utf8');
    expect(text).toContain(
      'settings: { team: "${DESCRIBED_TEAM}", hook: "${DESCRIBED_HOOK}" } # Team id, Hook key',
    );
    expect(text).not.toContain('credentials:');
    expect(made.stdout).toContain('DESCRIBED_TEAM=...');
    const setting = ['--setting', 'team=a', '--setting', 'hook=${HOOK}'];
    const added = [
      'connectors',
      'add',
      'other',
      '--definition',
      'described',
      '--credentials-env',
      'api_key=ROOM',
    ];
    expect(await service.cli(...added, ...setting)).toMatchObject({ code: 0 });
    expect((await service.json('config', 'show')).at(-1)).toMatchObject({
      connectors: { other: { settings: { team: 'a', hook: '[secret]' } } },
    });
  });

  it('and those that try one take them as flags, secret ones from the environment only', async () => {
    const service = await manyService();
    const tried = async (env: Record<string, string>, ...flags: readonly string[]) =>
      await callCli(
        [
          'definitions',
          'try',
          'definitions/described.yaml',
          'things',
          ...flags,
          '--allow-upstream-host',
          '127.0.0.1',
        ],
        { cwd: service.folder, env },
      );
    const hook = { CONNECTOR_SYNC_CREDENTIAL_HOOK: secret };
    const done = await tried(hook, '--setting', 'team=t9');
    expect(done).toMatchObject({ code: 0, stderr: '' });
    expect(done.stdout).toContain('/hooks/[secret]/teams/t9/things');
    expect((await tried({}, '--setting', `hook=${secret}`)).stderr).toContain(
      '--setting: hook is secret: set CONNECTOR_SYNC_CREDENTIAL_HOOK in the environment.',
    );
    expect((await tried(hook)).stderr).toContain('--setting team: expected a text, got nothing (Team id)');
    expect((await tried(hook, '--setting', 'taem=1')).stderr).toContain(
      'expected name=value with one of team, region',
    );
  });
});

function bodyOf(request: ReceivedRequest | undefined): unknown {
  return JSON.parse(request?.body ?? '');
}
