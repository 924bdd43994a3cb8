import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { serveSamples } from '../../src/sample/sample-service.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../src/core/json.ts';
import { loadDefinition } from '../../src/definitions/load-definitions.ts';
import { apiClient, textIn, tokenFor } from '../support/service/api-client.ts';
import { testCredentials } from '../support/sync-once.ts';
import { memberIn, pointedAt } from './imported.ts';
import { textOf } from './paging-kinds.ts';
import type { MadeUpService } from './made-up-service.ts';
import type { Vendor } from './vendor.ts';

interface Served extends AsyncDisposable {
  /** Settings of the API, and the connector there; null: none is in between. */
  readonly api: JsonObject | null;
  readonly id: string | null;
}

interface ServedOptions {
  readonly hosted: JsonObject;
  readonly direct: JsonObject;
  readonly vendor: Vendor;
  readonly service: MadeUpService;
}

/** The program's own API in front of the service: it calls it as the direct definition says. Null: nothing. */
export async function openServed(options: ServedOptions | null): Promise<Served> {
  if (options === null) return { api: null, id: null, [Symbol.asyncDispose]: () => Promise.resolve() };
  const { hosted, direct, vendor, service } = options;
  const folder = mkdtempSync(join(tmpdir(), 'served-'));
  const file = join(folder, 'served.yaml');
  writeFileSync(file, stringify(pointedAt(asApi(hosted, direct), service.origin)));
  const definition = loadDefinition(file);
  const api = await serveSamples({
    port: 0,
    ...testCredentials,
    definitions: new Map([[definition.name, definition]]),
    accounts: [],
    otherwise: { size: 'tiny', seed: 1, revision: 0 },
    upstream: { allowHosts: [`127.0.0.1:${service.port}`] },
    isIndexed: false,
    onFailure: (error) => console.error(error),
  });
  const client = apiClient(api.url, await tokenFor(api.url, testCredentials));
  const { body } = await client.post('/api/v1/integrations/connectors', {
    workspace_name: 'default',
    connector_type: definition.name,
    credentials: vendor.credentials,
  });
  return {
    api: { baseUrl: api.url, clientId: testCredentials.clientId, clientSecret: testCredentials.clientSecret },
    id: textIn(body, 'id'),
    [Symbol.asyncDispose]: async () => {
      await api.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** The keys of `connector_metadata` that direct calls fill, and the lists of the pagination that name them. */
const lists = { next_page: 'tokenKeys', has_more: 'flagKeys', total: 'totalKeys' } as const;

/** The requests of the direct definition, whose answers have the keys of the hosted one. */
function asApi(hosted: JsonObject, direct: JsonObject): JsonObject {
  const upstream = memberIn(direct, 'upstream');
  const requestsOf = (entity: string): JsonObject => memberIn(memberIn(upstream, 'entities'), entity);
  const written = Object.entries(memberIn(hosted, 'entities')).filter((one): one is [string, JsonObject] =>
    isJsonObject(one[1]),
  );
  const entities = written.map(([entity, own]) => {
    const sent = listParams(memberIn(memberIn(direct, 'entities'), entity));
    return [entity, offering(own, sent)] as const;
  });
  const requests = written.flatMap(([entity, own]) => {
    const { list, ...others } = requestsOf(entity);
    return isJsonObject(list ?? null)
      ? [[entity, { ...others, list: listAsApi(list as JsonObject, own) }]]
      : [];
  });
  const credentials = direct['credentials'];
  return {
    ...hosted,
    ...(credentials === undefined ? {} : { credentials }),
    entities: Object.fromEntries(entities),
    upstream: { ...upstream, entities: Object.fromEntries(requests) as JsonObject },
  };
}

function listParams(entity: JsonObject): JsonObject {
  return memberIn(memberIn(memberIn(entity, 'actions'), 'list'), 'params');
}

/** The hosted entity without the parameters that the direct definition cannot send; paging has names of its own. */
function offering(hosted: JsonObject, sent: JsonObject): JsonObject {
  const ofPaging = Object.values(memberIn(hosted, 'pagination'));
  const params = Object.entries(listParams(hosted)).filter(
    ([name]) => sent[name] !== undefined || ofPaging.includes(name),
  );
  const actions = memberIn(hosted, 'actions');
  const list = { ...memberIn(actions, 'list'), params: Object.fromEntries(params) };
  return { ...hosted, actions: { ...actions, list } };
}

/** Where hosted connectors take a parameter out of an address, the API gives them the address. */
function listAsApi(list: JsonObject, written: JsonObject): JsonObject {
  const { metadata: _metadata, paging: _paging, ...rest } = list;
  const pagination = memberIn(written, 'pagination');
  const firstOf = (name: string): JsonValue | undefined => {
    const keys = pagination[name];
    return Array.isArray(keys) ? keys[0] : undefined;
  };
  const filled = Object.entries(memberIn(list, 'metadata')).flatMap(([key, place]) => {
    const name = firstOf(lists[key as keyof typeof lists]);
    return typeof name === 'string' ? [[name, place] as const] : [];
  });
  const token = firstOf('tokenKeys');
  const paging = memberIn(list, 'paging');
  const isAddress = isJsonObject(token);
  if (isAddress) filled.push([textOf(token['key']), paging['path'] ?? null]);
  return {
    ...rest,
    ...(isAddress || Object.keys(paging).length === 0 ? {} : { paging }),
    ...(filled.length === 0 ? {} : { metadata: Object.fromEntries(filled) }),
  };
}
