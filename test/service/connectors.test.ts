import { mkdir, readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect } from 'vitest';
import { it } from '../support/it.ts';
import type { JsonObject } from '../../src/core/json.ts';
import { apiClient, textIn, type ApiClient } from '../support/service/api-client.ts';
import { definitions, object, objects, serveApi, type ServedApi } from '../support/service/served-api.ts';
import { searchable, statusWhen } from '../support/service/store-world.ts';

const connectors = '/api/v1/integrations/connectors';
const secret = 'planted-secret-4711';
const base = {
  workspace_name: 'default',
  connector_type: 'email-marketing',
  credentials: { api_key: secret },
};

let api: ServedApi;
let client: ApiClient;
const failures: unknown[] = [];

const open = async (options: Parameters<typeof serveApi>[0] = {}): Promise<void> => {
  api = await serveApi({ onFailure: (error) => failures.push(error), ...options });
  client = apiClient(api.service.url, api.token);
};
beforeEach(() => open());
afterEach(async () => {
  await api.service.close();
  expect(failures.splice(0)).toEqual([]);
});

const errorsOf = (body: JsonObject): readonly unknown[] =>
  objects(body['errors']).map(({ field, error_code }) => [field, error_code]);

describe('creating a connector', () => {
  // Proves specification 1.2, 2.4.2, 4.5.1
  it('makes one that lists, shows, executes and is inspected like any other', async () => {
    const made = await client.post(connectors, {
      ...base,
      name: 'Letters',
      replication_config: { start: '2024' },
    });
    expect(made.status).toBe(200);
    const id = textIn(made.body, 'id');
    expect(made.body).toMatchObject({
      name: 'Letters',
      replication_config: { start: '2024' },
      entities: null,
    });
    expect((await client.get(`${connectors}/${id}`)).body).toEqual(made.body);
    const listed = objects((await client.get(`${connectors}?workspace_name=default`)).body['data']);
    expect(listed.at(-1)).toMatchObject({ id, name: 'Letters' });
    const { records } = await api.list(id, 'lists');
    expect(records.length).toBeGreaterThan(0);
    expect((await client.get(`${connectors}/${id}/inspect`)).body).toMatchObject({
      connector_id: id,
      source_definition_name: 'Email marketing',
      context_store_readiness: { readiness: 'Loading' },
    });
  });

  // Proves specification 4.5.1
  it('takes the type by definition id, by either name in any case, or by template', async () => {
    const { body } = await client.get(`${connectors}/mail-1`);
    const template = textIn(object(body['source_template']), 'id');
    const ids = [
      { definition_id: definitions.get('email-marketing')?.id.toUpperCase() ?? '' },
      { connector_type: 'EMAIL-marketing' },
      { connector_type: 'Email Marketing' },
      { source_template_id: template },
      { source_template_id: template, connector_type: 'email-marketing' },
    ];
    for (const type of ids) {
      const { credentials, workspace_name } = base;
      const made = await client.post(connectors, { workspace_name, credentials, ...type });
      expect([type, made.status]).toEqual([type, 200]);
    }
  });

  it('refuses no type, two types and an unknown one', async () => {
    const { connector_type: _type, ...untyped } = base;
    const none = await client.post(connectors, untyped);
    expect([none.status, none.body['message']]).toEqual([
      422,
      'One of connector_type, definition_id, or source_template_id must be provided.',
    ]);
    const notesId = definitions.get('workspace-notes')?.id ?? '';
    expect((await client.post(connectors, { ...base, definition_id: notesId })).status).toBe(422);
    const unknown = await client.post(connectors, { ...base, connector_type: 'nope' });
    expect([unknown.status, errorsOf(unknown.body)]).toEqual([404, [['body.connector_type', 'not_found']]]);
  });

  it.each<[string, JsonObject | null, readonly unknown[]]>([
    ['nothing', null, [['body.credentials', 'missing']]],
    ['an empty object', {}, [['body.credentials.api_key', 'missing']]],
    ['a number', { api_key: 4711 }, [['body.credentials.api_key', 'invalid_type']]],
    ['an empty text', { api_key: '' }, [['body.credentials.api_key', 'invalid_type']]],
    ['an object', { api_key: { deep: secret } }, [['body.credentials.api_key', 'invalid_type']]],
    ['half a sign', { api_key: '\ud800' }, [['body.credentials.api_key', 'invalid_type']]],
    ['an unknown field', { api_key: secret, [secret]: 'x' }, [['body.credentials', 'unknown_field']]],
    [
      'an inherited name',
      { toString: secret },
      [
        ['body.credentials.api_key', 'missing'],
        ['body.credentials', 'unknown_field'],
      ],
    ],
  ])(
    'names the fields of wrong credentials (%s) and repeats no value',
    async (_name, credentials, errors) => {
      for (const path of [connectors, `${connectors}/check`]) {
        const { status, body } = await client.post(path, { ...base, credentials });
        expect([status, errorsOf(body)]).toEqual([422, errors]);
        expect(JSON.stringify(body)).not.toContain(secret);
        expect(JSON.stringify(body)).not.toContain('4711');
      }
    },
  );

  // Proves specification 5.7
  it('reports on the shape that was meant where a type has several', async () => {
    const notes = { workspace_name: 'default', connector_type: 'workspace-notes' };
    const credentials = { client_id: 'c', client_secret: secret };
    const { status, body } = await client.post(connectors, { ...notes, credentials });
    expect([status, errorsOf(body)]).toEqual([422, [['body.credentials.access_token', 'missing']]]);
    expect((await client.post(connectors, { ...notes, credentials: { token: secret } })).status).toBe(200);
  });

  // Proves specification 4.5.2
  it('makes the workspace that it names', async () => {
    const made = await client.post(connectors, { ...base, workspace_name: 'new one' });
    expect(made.status).toBe(200);
    const found = await client.get(`${connectors}?workspace_name=new%20one`);
    expect(objects(found.body['data']).map(({ id }) => id)).toEqual([made.body['id']]);
  });

  it.each(['', ' ', 'a\nb', 'a\u0000b', '\u202eb', 'x'.repeat(256), '\ud800'])(
    'refuses the name %j of a workspace or a connector',
    async (name) => {
      expect((await client.post(connectors, { ...base, workspace_name: name })).status).toBe(422);
      expect((await client.post(connectors, { ...base, name })).status).toBe(422);
    },
  );

  it('keeps names as they are, however they look', async () => {
    for (const name of [
      `Robert'); DROP TABLE connectors;--`,
      '<script>',
      '%',
      '../../x',
      '__proto__',
      '🦉',
    ]) {
      const made = await client.post(connectors, { ...base, workspace_name: name, name });
      expect([made.status, made.body['name']]).toEqual([200, name]);
      const found = await client.get(`${connectors}?workspace_name=${encodeURIComponent(name)}`);
      expect(objects(found.body['data'])).toHaveLength(1);
    }
  });

  it('refuses entities that the type does not have, writing, and a config without bounds', async () => {
    const entities = async (one: JsonObject): Promise<number> =>
      (await client.post(connectors, { ...base, entities: [one] })).status;
    expect(await entities({ entity: 'lists', modes: ['read'] })).toBe(200);
    expect(await entities({ entity: 'nope' })).toBe(422);
    expect(await entities({ entity: 'lists', modes: ['write'] })).toBe(422);
    const deep = JSON.parse('{"a":'.repeat(40) + '1' + '}'.repeat(40)) as JsonObject;
    expect((await client.post(connectors, { ...base, replication_config: deep })).status).toBe(422);
    const large = { text: 'x'.repeat(70_000) };
    expect((await client.post(connectors, { ...base, environment: large })).status).toBe(422);
  });

  it('answers thousands of wrong values with a few entries', async () => {
    const wrong = Array.from({ length: 50_000 }, () => 1);
    const { status, body } = await client.post(`${connectors}/mail-1/execute`, {
      entity: 'lists',
      action: 'list',
      select_fields: wrong,
    });
    expect(status).toBe(422);
    expect(objects(body['errors']).length).toBeLessThan(50);
    // So many that only their number is checked.
    const tags = await client.post(connectors, { ...base, selected_connection_template_tags: wrong });
    expect(objects(tags.body['errors'])).toMatchObject([{ error_code: 'too_big' }]);
  });
});

describe('checking a connector', () => {
  it('says what the third party says, and keeps nothing', async () => {
    const taken = await client.post(`${connectors}/check`, base);
    expect(taken.body).toMatchObject({ status: 'succeeded', error_message: null, failure_reason: null });
    const refused = await client.post(`${connectors}/check`, {
      ...base,
      workspace_name: 'nowhere yet',
      credentials: { api_key: `revoked-${secret}` },
    });
    expect([refused.status, refused.body['status']]).toEqual([200, 'failed']);
    expect(refused.body['error_message']).toEqual(expect.any(String));
    expect(JSON.stringify(refused.body)).not.toContain(secret);
    expect((await client.get('/api/v1/workspaces/stats')).body['total_count']).toBe(1);
  });

  it('tries the credentials of the body or those that the connector has', async () => {
    const { body } = await client.post(connectors, { ...base, credentials: { api_key: 'revoked' } });
    const path = `${connectors}/${textIn(body, 'id')}`;
    expect((await client.post(`${path}/check`, {})).body['status']).toBe('failed');
    const other = await client.post(`${path}/check`, { credentials: { api_key: 'good' } });
    expect(other.body['status']).toBe('succeeded');
    expect((await client.post(`${path}/check`, {})).body['status']).toBe('failed');
  });
});

describe('changing and deleting a connector', () => {
  it('changes what is given, and new credentials count at once', async () => {
    const made = await client.post(connectors, { ...base, replication_config: { a: 1 } });
    const id = textIn(made.body, 'id');
    const renamed = await client.put(`${connectors}/${id}`, { name: 'Other', replication_config: null });
    expect(renamed.body).toMatchObject({ id, name: 'Other', replication_config: { a: 1 } });
    const list = { entity: 'lists', action: 'list', params: {} };
    expect((await api.execute(id, list)).status).toBe(200);
    await client.put(`${connectors}/${id}`, { credentials: { api_key: 'revoked' } });
    expect((await api.execute(id, list)).status).toBe(401);
    expect((await client.put(`${connectors}/${id}`, { credentials: { api_key: 1 } })).status).toBe(422);
  });

  it('deletes it with 202 and a job id, once', async () => {
    const { status, body } = await client.delete(`${connectors}/mail-1`);
    expect([status, Object.keys(body)]).toEqual([202, ['job_id']]);
    expect((await client.get(`${connectors}/mail-1`)).status).toBe(404);
    expect((await client.delete(`${connectors}/mail-1`)).status).toBe(404);
    expect((await api.execute('mail-1', { entity: 'lists', action: 'list' })).status).toBe(404);
  });

  it.each(['..%2Fmail-1', '%00', '__proto__', "mail-1'--", 'x'.repeat(90), '%F0%9F%A6%89'])(
    'answers the id %s with 404 everywhere',
    async (id) => {
      const answers = [
        await client.get(`${connectors}/${id}`),
        await client.get(`${connectors}/${id}/inspect`),
        await client.put(`${connectors}/${id}`, {}),
        await client.delete(`${connectors}/${id}`),
        await client.post(`${connectors}/${id}/check`, {}),
        await client.post(`${connectors}/${id}/execute`, { entity: 'lists', action: 'list' }),
        await client.get(`/api/v1/workspaces/${id}`),
        await client.put(`/api/v1/workspaces/${id}`, {}),
        await client.delete(`/api/v1/workspaces/${id}`),
        await client.get(`/api/v1/integrations/definitions/sources/${id}`),
      ];
      expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 404));
    },
  );
});

describe('the indexed store of a connector', () => {
  let data: string;
  const notes = { workspace_name: 'default', connector_type: 'workspace-notes' };
  const openWithStores = async (options: Parameters<typeof serveApi>[0] = {}): Promise<void> => {
    await api.service.close();
    await open({ data, accounts: [], ...options });
  };
  it.beforeEach(({ folder }) => {
    data = folder;
  });

  it('fills at once with new credentials, where the old ones were refused', async () => {
    // A clock by which nothing that waits for its time ever comes to it.
    const sleep = (_ms: number, signal?: AbortSignal): Promise<never> =>
      new Promise((_resolve, reject) => {
        signal?.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
      });
    await openWithStores({ clock: { now: () => Date.now(), sleep } });
    const made = await client.post(connectors, { ...notes, credentials: { token: 'revoked' } });
    const id = textIn(made.body, 'id');
    const { stores } = api.service;
    await statusWhen(stores, id, ({ problem }) => problem?.includes('AUTH_FAILED') === true);
    await client.put(`${connectors}/${id}`, { credentials: { token: secret } });
    await searchable(stores, id);
  });

  it('is kept on where the connector could not be deleted', async () => {
    await openWithStores();
    const made = await client.post(connectors, { ...notes, credentials: { token: secret } });
    const id = textIn(made.body, 'id');
    const { stores } = api.service;
    await searchable(stores, id);
    const file = join(data, 'stores', `${id}.db`);
    await rm(file);
    await mkdir(file);
    expect((await client.delete(`${connectors}/${id}`)).status).toBe(500);
    expect(failures.splice(0)).toHaveLength(1);
    await rm(file, { recursive: true });
    await searchable(stores, id);
    expect((await client.delete(`${connectors}/${id}`)).status).toBe(202);
    expect(await readdir(join(data, 'stores'))).toEqual([]);
  });
});

describe('credentials', () => {
  // Proves promise 17; specification 5.7
  it('are in no answer, no failure and no file', async ({ folder: data }) => {
    await api.service.close();
    await open({ data, accounts: [] });
    const texts: unknown[] = [];
    const made = await client.post(connectors, base);
    const path = `${connectors}/${textIn(made.body, 'id')}`;
    texts.push(made.body, (await client.get(path)).body, (await client.get(`${path}/inspect`)).body);
    texts.push((await client.get(`${connectors}?workspace_name=default`)).body);
    texts.push(
      (await client.put(path, { credentials: { api_key: `${secret}-2`, data_center: secret } })).body,
    );
    texts.push((await client.post(`${path}/check`, {})).body);
    await searchable(api.service.stores, textIn(made.body, 'id'));
    expect(JSON.stringify(texts)).not.toContain(secret);
    expect(await filesWith(data, secret)).toEqual([]);
    await api.service.close();
    expect(await filesWith(data, secret)).toEqual([]);
    // The search for it would find it: what is stored in the open is there.
    expect((await filesWith(data, 'Email marketing (default)')).length).toBeGreaterThan(0);

    await open({ data, accounts: [] });
    expect((await client.post(`${path}/check`, {})).body['status']).toBe('succeeded');
  });
});

async function filesWith(folder: string, text: string): Promise<readonly string[]> {
  const names = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = names.filter((one) => one.isFile()).map((one) => join(one.parentPath, one.name));
  const found = await Promise.all(files.map(async (file) => (await readFile(file)).includes(text)));
  return files.filter((_file, index) => found[index]);
}
