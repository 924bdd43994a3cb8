import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { serveSamples } from '../support/serve-samples.ts';
import {
  credentials,
  definitions,
  object,
  objects,
  sampleAccounts,
  serveApi,
  type ServedApi,
} from '../support/service/served-api.ts';

let api: ServedApi;
beforeAll(async () => {
  api = await serveApi({
    accounts: [
      ...sampleAccounts('tiny'),
      {
        connectorId: 'mail-2',
        workspace: 'team b',
        definitionName: 'email-marketing',
        seed: 8,
        size: 'tiny',
      },
    ],
  });
});
afterAll(() => api.service.close());

const sources = '/api/v1/integrations/definitions/sources';
const connectors = '/api/v1/integrations/connectors';
const mailingId = definitions.get('email-marketing')?.id ?? '';
const ids = async (query: string): Promise<readonly unknown[]> =>
  objects((await api.call(`${connectors}?${query}`)).body['data']).map(({ id }) => id);

describe('definitions', () => {
  // Proves specification 2.3.1, 2.3.2, 4.2.1
  it('lists the catalog in the documented shape', async () => {
    const { body } = await api.call(sources);
    expect(Object.keys(body)).toEqual(['definitions']);
    expect(objects(body['definitions']).map(({ name }) => name)).toEqual([
      'Document library',
      'Email marketing',
      'Workspace notes',
    ]);
    expect(objects(body['definitions'])[1]).toEqual({
      sourceDefinitionId: mailingId,
      destinationDefinitionId: null,
      name: 'Email marketing',
      dockerRepository: null,
      iconUrl: expect.stringMatching(/^https:/),
      custom: false,
      supportLevel: 'certified',
    });
  });

  // Proves specification 4.2.3
  it('lists the same catalog where there is no connector', async () => {
    await using empty = await serveApi({ accounts: [] });
    expect(objects((await empty.call(`${connectors}?workspace_name=default`)).body['data'] ?? [])).toEqual(
      [],
    );
    expect((await empty.call(sources)).body).toEqual((await api.call(sources)).body);
  });

  // Proves specification 4.2.2
  it.each([
    ['Mailchimp', ['Email marketing']],
    ['NOTION', ['Workspace notes']],
    ['marketing email', ['Email marketing']],
    ['document-lib', ['Document library']],
    ['email notes', []],
  ])('finds connector types by words of all their names: %s', async (name, expected) => {
    const { body } = await api.call(`${sources}?name=${encodeURIComponent(name)}`);
    expect(objects(body['definitions']).map((found) => found['name'])).toEqual(expected);
  });

  // Proves specification 4.2.2
  it('filters by a part of the name, in any case', async () => {
    const found = async (name: string): Promise<number> =>
      objects((await api.call(`${sources}?name=${encodeURIComponent(name)}`)).body['definitions']).length;
    expect([await found('EMAIL'), await found('e'), await found('no such'), await found('')]).toEqual([
      1, 3, 0, 3,
    ]);
  });
});

describe('connectors', () => {
  // Proves specification 2.4.2, 4.3.3
  it('lists those of a workspace in the documented shape', async () => {
    const { body } = await api.call(`${connectors}?workspace_name=default`);
    expect(Object.keys(body)).toEqual(['data']);
    const [first] = objects(body['data']);
    expect(first).toMatchObject({ id: 'mail-1', name: expect.any(String), created_at: expect.any(String) });
    expect(object(first?.['summarized_source_template'])).toMatchObject({
      id: expect.any(String),
      name: 'Email marketing',
      connector_name: 'email-marketing',
      organization_id: api.service.organizationId,
      actor_definition_id: mailingId,
      tags: [],
      mode: 'DIRECT',
    });
  });

  // Proves specification 4.3.1
  it('filters by definition and takes the deprecated names of the workspace', async () => {
    expect(await ids('workspace_name=default')).toEqual(['mail-1', 'notes-1']);
    expect(await ids(`workspace_name=default&definition_id=${mailingId}`)).toEqual(['mail-1']);
    expect(await ids(`workspace_name=default&definition_id=${api.service.organizationId}`)).toEqual([]);
    expect(await ids('customer_name=team+b')).toEqual(['mail-2']);
    expect(await ids('external_user_id=team%20b')).toEqual(['mail-2']);
  });

  // Proves specification 4.3.2
  it('answers an unknown workspace with 404 and a missing one with 422', async () => {
    expect((await api.call(`${connectors}?workspace_name=nowhere`)).status).toBe(404);
    expect((await api.call(connectors)).status).toBe(422);
    expect((await api.call(`${connectors}?workspace_name=default&definition_id=x`)).status).toBe(422);
    expect((await api.call(`${connectors}?workspace_name=a&workspace_name=b`)).status).toBe(422);
  });

  // Proves specification 2.4.1
  it('shows one connector and answers an unknown one with 404', async () => {
    const { status, body } = await api.call(`${connectors}/notes-1`);
    expect([status, body['id']]).toEqual([200, 'notes-1']);
    expect(object(body['source_template'])['connector_name']).toBe('workspace-notes');
    for (const unknown of ['nobody', '..%2Fnotes-1', '__proto__']) {
      expect((await api.call(`${connectors}/${unknown}`)).status).toBe(404);
    }
  });
});

describe('starting', () => {
  it('refuses an account of a definition that it does not know, a size out of bounds, and an id given twice', async () => {
    const start = (accounts: Parameters<typeof serveSamples>[0]['accounts']) =>
      serveSamples({ port: 0, ...credentials, definitions, accounts });
    const account = { connectorId: 'a', workspace: 'w', definitionName: 'email-marketing', seed: 1 };
    await expect(start([{ ...account, definitionName: 'nope', size: 'tiny' }])).rejects.toMatchObject({
      code: 'USAGE',
    });
    await expect(start([{ ...account, size: { members: 1_000_001 } }])).rejects.toMatchObject({
      code: 'USAGE',
    });
    await expect(
      start([
        { ...account, size: 'tiny' },
        { ...account, size: 'tiny' },
      ]),
    ).rejects.toMatchObject({ code: 'USAGE' });
  });

  it('says where it listens and which connectors it serves, counts requests, and closes more than once', async () => {
    const own = await serveApi();
    expect(own.service.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    expect(own.service.connectors).toEqual(['mail-1', 'notes-1']);
    const before = own.service.requestCount();
    await own.call(sources);
    await own.call('/nothing/here');
    expect(own.service.requestCount() - before).toBe(2);
    await Promise.all([own.service.close(), own.service.close()]);
    await own.service.close();
    await expect(fetch(own.service.url)).rejects.toThrow();
  });
});
