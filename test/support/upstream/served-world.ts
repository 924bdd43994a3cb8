import { onTestFinished } from 'vitest';
import { type SampleServiceOptions, serveSamples } from '../../../src/sample/sample-service.ts';
import type { JsonObject } from '../../../src/core/json.ts';
import { type Answer, apiClient, object, textIn, tokenFor } from '../service/served-api.ts';
import { testCredentials } from '../sync-once.ts';
import type { UpstreamWorld } from './upstream-world.ts';

export type ServedWorld = Awaited<ReturnType<typeof serveWorlds>>;

export const connectorsPath = '/api/v1/integrations/connectors';

/** `serve` in front of made-up third parties, and a client of it. */
export async function serveWorlds(
  worlds: readonly UpstreamWorld[],
  options: Partial<SampleServiceOptions> = {},
) {
  const failures: unknown[] = [];
  const service = await serveSamples({
    port: 0,
    ...testCredentials,
    definitions: new Map(worlds.map(({ definition }) => [definition.name, definition])),
    accounts: [],
    otherwise: { size: 'tiny', seed: 1, revision: 0 },
    upstream: { allowHosts: worlds.flatMap(({ allowHosts }) => allowHosts) },
    isIndexed: false,
    onFailure: (error) => failures.push(error),
    ...options,
  });
  onTestFinished(() => service.close());
  const token = await tokenFor(service.url, testCredentials);
  const client = apiClient(service.url, token);
  /** The answer to the creation of a connector. */
  const create = (world: UpstreamWorld, credentials: JsonObject): Promise<Answer> =>
    client.post(connectorsPath, {
      workspace_name: 'default',
      connector_type: world.definition.name,
      credentials,
    });
  return {
    service,
    client,
    token,
    failures,
    create,
    /** The id of a connector that is created with these credentials. */
    async connect(world: UpstreamWorld, credentials = firstCredentials(world)) {
      const { status, body } = await create(world, credentials);
      if (status !== 200) throw new Error(`expected a connector, got ${status} ${JSON.stringify(body)}`);
      return textIn(body, 'id');
    },
    execute: (id: string, body: JsonObject) => client.post(`${connectorsPath}/${id}/execute`, body),
  };
}

export function firstCredentials(world: UpstreamWorld): JsonObject {
  return object([...world.credentials.values()][0]);
}

/** The config of a connector that is read directly, with an API in between. */
export function throughApi(own: string, url: string, id: string): string {
  const { clientId, clientSecret } = testCredentials;
  const api = `api: { baseUrl: "${url}", clientId: ${clientId}, clientSecret: ${clientSecret} }\n`;
  return api + own.replace(/ {4}credentials: .*\n/, `    id: ${id}\n`);
}

/** Opened for one test. */
export async function opened<World extends AsyncDisposable>(opening: Promise<World>): Promise<World> {
  const world = await opening;
  onTestFinished(() => world[Symbol.asyncDispose]());
  return world;
}

/** What a client decides by. */
export function refusalOf({ status, headers, body }: Answer) {
  const [first] = Array.isArray(body['errors']) ? body['errors'] : [];
  return {
    status,
    code: first === undefined ? null : object(first)['error_code'],
    text: textIn(body, 'message'),
    retryAfter: headers.get('retry-after'),
  };
}
