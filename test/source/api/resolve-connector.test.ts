import { describe, expect, it } from 'vitest';
import { openApiSource } from '../../../src/source/api/open-api-source.ts';
import { resolveConnector } from '../../../src/source/api/open-api-client.ts';
import { apiError, json, success } from '../../support/hostile/replies.ts';
import {
  connectorId,
  failureOf,
  never,
  openTestSource,
  type TestSource,
} from '../../support/source/open-test-source.ts';
import { entityName, testDefinition } from '../../support/source/test-definition.ts';

let open: TestSource;

const definition = testDefinition();
const inWorkspace = () =>
  resolveConnector(open.client, definition, { kind: 'workspace', workspace: 'my space & more' }, never);

describe('a connector in a workspace', () => {
  // Proves specification 4.3.4
  it('is found by workspace and definition, and read from', async () => {
    const queries: string[] = [];
    open = await openTestSource({
      connectors: [
        { id: 'other', name: 'Other', definitionId: 'another-type' },
        { id: 'mine', name: 'Mine', definitionId: definition.id },
      ],
      respondGet: (_path, query) => {
        queries.push(query.toString());
        return null;
      },
      respond: () => success([1]),
    });
    const found = await inWorkspace();
    expect(found).toBe('mine');
    const source = openApiSource(open.client, {
      definition,
      connectorId: found,
      address: 'https://api.example.com',
      concurrency: 1,
      requestsPerSecond: 1000,
    });
    expect(queries).toEqual([`workspace_name=my+space+%26+more&definition_id=${definition.id}`]);
    await source.list({ entity: entityName('members'), params: {}, isRoot: true }, never);
    expect(open.server.calls[0]?.connectorId).toBe('mine');
  });

  it('is found although the service ignores the filter or leaves the data wrapper out', async () => {
    const of = (id: string, type: string) => ({
      id,
      name: id,
      source_template: { actor_definition_id: type },
    });
    open = await openTestSource({
      respondGet: () => json(200, [of('other', 'another-type'), of('mine', definition.id.toUpperCase())]),
    });
    expect(await inWorkspace()).toBe('mine');
  });

  it('is unknown when there is none', async () => {
    open = await openTestSource({ connectors: [] });
    expect(await failureOf(inWorkspace())).toMatchObject({ code: 'CONNECTOR_UNKNOWN', recovery: 'stop' });
  });

  it('is unknown when the workspace is', async () => {
    open = await openTestSource({ respondGet: () => apiError(404, 'Workspace not found') });
    expect(await failureOf(inWorkspace())).toMatchObject({ code: 'CONNECTOR_UNKNOWN', recovery: 'stop' });
  });

  it('is ambiguous when there are several, and they are named', async () => {
    open = await openTestSource({
      connectors: [
        { id: 'c1', name: 'One', definitionId: definition.id },
        { id: 'c2', name: 'Two', definitionId: definition.id },
      ],
    });
    const error = await failureOf(inWorkspace());
    expect(error).toMatchObject({ code: 'CONNECTOR_AMBIGUOUS', recovery: 'stop' });
    expect(error.message).toContain('c1 (One), c2 (Two)');
  });
});

describe('the client', () => {
  it('reads the catalog of definitions', async () => {
    open = await openTestSource();
    expect(await open.client.definitions('Exam', never)).toEqual([
      { id: 'd', name: 'Example', supportLevel: 'certified' },
    ]);
  });

  it('reads one connector', async () => {
    open = await openTestSource();
    expect(await open.client.connector(connectorId('c1'), never)).toEqual({
      id: 'c1',
      name: 'One',
      definitionId: definition.id,
      account: null,
    });
  });

  it('knows an unknown connector', async () => {
    open = await openTestSource();
    expect(await failureOf(open.client.connector(connectorId('c9'), never))).toMatchObject({
      code: 'CONNECTOR_UNKNOWN',
      recovery: 'stop',
    });
  });

  it.each([[[]], [{ definitions: {} }], [{ definitions: [{ name: 5 }] }]])(
    'refuses a catalog of another shape: %j',
    async (body) => {
      open = await openTestSource({ respondGet: () => json(200, body), limits: { retries: 1 } });
      expect(await failureOf(open.client.definitions(null, never))).toMatchObject({ code: 'BODY_INVALID' });
    },
  );
});
