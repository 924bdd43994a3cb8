import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, it } from 'vitest';
import {
  describedService,
  hostedAnswers,
  type DescribedOptions,
  type DescribedService,
} from '../support/described/described-service.ts';
import { signInWorld } from '../support/sign-in/sign-in-world.ts';
import type { ReceivedRequest } from '../support/third-party/start-third-party.ts';

const limits = 'limits: { concurrency: 4, requestsPerSecond: 1000, timeoutMs: 5000, maxBodyBytes: 1048576 }';
const entities = `
entities:
  things:
    fields: { id: string }
    key: [id]
    actions: { list: {}, get: { params: { id: { type: string, required: true } }, key: { id: id } }, download: { params: { id: { type: string, required: true } }, key: { id: id }, file: { version: [id] } } }
    pagination: { kind: single }
`;
const requests = `
  ${limits}
  message: [error]
  check: { path: /me, identity: id }
  entities: { things: { list: { path: /things, records: '' }, get: { path: '/things/{id}' }, download: { path: '/files/{id}' } } }
`;
const keyed = `credentials: [{ title: Key, fields: { api_key: {} } }]
${entities}
upstream:
  baseUrl: $ORIGIN
  auth: { Key: { kind: bearer, token: { field: api_key } } }
${requests}`;
const issued = `credentials: [{ title: App, fields: { id: {}, secret: {} } }]
${entities}
upstream:
  baseUrl: $ORIGIN
  auth:
    App: { kind: clientCredentials, scheme: Bearer, clientId: { field: id }, clientSecret: { field: secret }, tokenUrl: $ORIGIN/token, style: body, format: form }
${requests}`;

const respond = ({ path: asked }: ReceivedRequest) => {
  if (asked === '/me') return { body: { id: 'acct-1' } };
  if (asked === '/token') return { body: { access_token: 't', expires_in: 3600 } };
  return asked === '/things' ? { body: [{ id: '1' }, { id: '2' }] } : { body: { id: '1' } };
};

/** Requests that came by another name of the same machine. */
const atNewHost = (service: Pick<DescribedService, 'requests'>): readonly string[] =>
  service.requests
    .filter(({ headers }) => headers.host?.startsWith('localhost') === true)
    .map((one) => one.path);

/** The host of one address of the definition, or of the API, is another name of this machine from now on. */
function move(folder: string, file: string, key: 'baseUrl' | 'tokenUrl'): void {
  const place = path.join(folder, file);
  const moved = readFileSync(place, 'utf8').replace(
    new RegExp(`${key}: http://127\\.0\\.0\\.1`),
    `${key}: http://localhost`,
  );
  writeFileSync(place, moved, { mode: 0o600 });
}

const definitionFile = path.join('definitions', 'described.yaml');
const commands: readonly (readonly string[])[] = [
  ['check'],
  ['sync'],
  ['audit', 'mine/things'],
  ['refetch', 'mine/things', '--key', 'id=1'],
  ['list', 'mine/things'],
  ['get', 'mine/things', '--param', 'id=1'],
  ['download', 'mine/things', '--param', 'id=1', '--output', 'file'],
  ['adopt', 'mine'],
];
const direct = [...commands, ['definitions', 'try', definitionFile, 'things', '--connector', 'mine']];

// Proves promise 4.3
it.each<
  [string, string, 'baseUrl' | 'tokenUrl', readonly (readonly string[])[], Omit<DescribedOptions, 'respond'>]
>([
  ['of the service', definitionFile, 'baseUrl', direct, { definition: keyed, credentials: { api_key: 'k' } }],
  [
    'that issues tokens',
    definitionFile,
    'tokenUrl',
    direct,
    { definition: issued, credentials: { id: 'i', secret: 's' } },
  ],
  ['of an API', 'sync.yaml', 'baseUrl', commands, { definition: entities }],
])(
  'no command sends credentials to another address %s before a person adopts it',
  async (_of, file, key, all, given) => {
    const served = hostedAnswers(({ action }) => ({
      result: action === 'list' ? [{ id: '1' }, { id: '2' }] : { id: '1' },
    }));
    const service = await describedService({
      ...given,
      respond: given.credentials === undefined ? served : respond,
    });
    await service.sync();
    move(service.folder, file, key);
    for (const command of all) {
      const { code, stdout, stderr } = await service.cli(...command);
      expect({ command, at: atNewHost(service), code }).toEqual({
        command,
        at: [],
        code: command[0] === 'adopt' ? 0 : 2,
      });
      expect(stdout + stderr).toMatch(/base URL.* http:\/\/127\.0\.0\.1:\d+.* http:\/\/localhost:\d+/);
    }
    const adopted = await service.cli('adopt', 'mine', '--yes');
    expect(adopted).toMatchObject({ code: 0, stdout: expect.stringContaining('mine: adopted') as string });
    await service.sync('--full');
    expect(atNewHost(service)).not.toEqual([]);
    const { stdout } = await service.cli('actions', '--json');
    expect(JSON.parse(stdout)).toMatchObject({
      actions: expect.arrayContaining([
        expect.objectContaining({
          action: 'adopt',
          detail: {
            baseUrl: expect.stringContaining('localhost') as string,
            connectorId: expect.any(String) as string,
            from: {
              baseUrl: expect.stringContaining('127.0.0.1') as string,
              connectorId: expect.any(String) as string,
            },
          },
        }),
      ]) as unknown,
    });
  },
);

it('takes the right address where a try with a wrong one has stored nothing, and reads it from the start', async () => {
  let isRight = false;
  const service = await describedService({
    definition: keyed,
    credentials: { api_key: 'k' },
    respond: (request) => (isRight || request.path === '/me' ? respond(request) : { body: [] }),
  });
  await service.sync();
  isRight = true;
  move(service.folder, definitionFile, 'baseUrl');
  await service.sync();
  expect(service.rows('things').size).toBe(2);
  expect((await service.cli('adopt', 'mine')).stdout).toContain('there is nothing to adopt');
});

it('sends a person and the tokens of a sign-in to another address only once it is adopted', async () => {
  const world = await signInWorld();
  expect((await world.signIn()).code).toBe(0);
  expect((await world.cli('sync')).code).toBe(0);
  const config = path.join(world.folder, 'sync.yaml');
  writeFileSync(
    config,
    readFileSync(config, 'utf8').replace("['127.", `['localhost:${world.provider.port}', '127.`),
    { mode: 0o600 },
  );
  move(world.folder, definitionFile, 'tokenUrl');
  for (const command of [['sync'], ['login', 'crm', '--device']]) {
    const refused = await world.cli(...command);
    expect(refused.code).toBe(2);
    expect(refused.stderr).toContain('connector-sync adopt crm');
  }
  const adopted = await world.cli('adopt', 'crm', '--yes');
  expect(adopted).toMatchObject({ code: 0, stdout: expect.stringContaining('login crm') as string });
  expect(atNewHost(world.provider)).toEqual([]);
  expect((await world.signIn()).code).toBe(0);
  expect((await world.cli('sync', '--full')).code).toBe(0);
  expect(atNewHost(world.provider)).toContain('/token');
});

it('keeps the tokens from another address when a person signs out', async () => {
  const world = await signInWorld();
  expect((await world.signIn()).code).toBe(0);
  expect((await world.cli('sync')).code).toBe(0);
  move(world.folder, definitionFile, 'tokenUrl');
  const before = world.provider.requests.length;
  expect(await world.cli('logout', 'crm')).toMatchObject({
    code: 0,
    stderr: expect.stringContaining('origin') as string,
  });
  expect(world.provider.requests).toHaveLength(before);
});
