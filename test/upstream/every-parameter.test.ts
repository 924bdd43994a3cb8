import { describe, expect, it, onTestFinished } from 'vitest';
import type { JsonObject, JsonValue } from '../../src/core/json.ts';
import type { EntityName } from '../../src/core/names.ts';
import type { Param } from '../../src/definitions/definition.ts';
import { openCallGate } from '../../src/upstream/call-gate.ts';
import { openUpstream } from '../../src/upstream/open-upstream.ts';
import { openUpstreamTransport } from '../../src/upstream/upstream-transport.ts';
import { builtInDefinition } from '../support/sample-service.ts';
import { never, template } from '../support/third-party/open-test-account.ts';
import { startThirdParty } from '../support/third-party/start-third-party.ts';

/** As the documentation of each service has them: entity and action -> method and path. */
const documented: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'email-marketing': {
    'lists list': 'GET /lists',
    'lists get': 'GET /lists/{list_id}',
    'campaigns list': 'GET /campaigns',
    'campaigns get': 'GET /campaigns/{campaign_id}',
    'automations list': 'GET /automations',
    'reports list': 'GET /reports',
    'reports get': 'GET /reports/{campaign_id}',
    'list_members list': 'GET /lists/{list_id}/members',
    'list_members get': 'GET /lists/{list_id}/members/{subscriber_hash}',
    'tags list': 'GET /lists/{list_id}/tag-search',
    'interest_categories list': 'GET /lists/{list_id}/interest-categories',
    'interest_categories get': 'GET /lists/{list_id}/interest-categories/{interest_category_id}',
    'interests list': 'GET /lists/{list_id}/interest-categories/{interest_category_id}/interests',
    'interests get':
      'GET /lists/{list_id}/interest-categories/{interest_category_id}/interests/{interest_id}',
    'segments list': 'GET /lists/{list_id}/segments',
    'segments get': 'GET /lists/{list_id}/segments/{segment_id}',
    'segment_members list': 'GET /lists/{list_id}/segments/{segment_id}/members',
    'email_activity list': 'GET /reports/{campaign_id}/email-activity',
    'unsubscribes list': 'GET /reports/{campaign_id}/unsubscribed',
  },
  'workspace-notes': {
    'users list': 'GET /users',
    'users get': 'GET /users/{user_id}',
    'pages list': 'POST /search',
    'pages get': 'GET /pages/{page_id}',
    'data_sources list': 'POST /search',
    'data_sources get': 'GET /data_sources/{data_source_id}',
    'blocks list': 'GET /blocks/{block_id}/children',
    'blocks get': 'GET /blocks/{block_id}',
    'comments list': 'GET /comments',
    'comments get': 'GET /comments/{comment_id}',
  },
};
const credentials: Readonly<Record<string, JsonObject>> = {
  'email-marketing': { api_key: 'a'.repeat(32), data_center: 'us1' },
  'workspace-notes': { token: 'ntn_secret' },
};

function exampleOf(name: string, param: Param): JsonValue {
  const [first] = param.enum ?? [];
  if (first !== undefined) return first;
  switch (param.type) {
    case 'string':
      return `${name} of a call`;
    case 'integer':
      return param.min ?? 7;
    case 'boolean':
      return true;
    case 'array':
      return ['a'];
    case 'object':
      return Object.fromEntries(
        [...(param.members ?? [])].map(([member, inner]) => [member, exampleOf(member, inner)]),
      );
  }
}

interface Sent {
  readonly line: string;
  readonly query: JsonObject;
  readonly body: JsonObject;
}

/** Sends calls of a built-in definition to a server of this machine, and gives what that received. */
async function openCalls(definitionName: string) {
  const built = builtInDefinition(definitionName);
  if (built.upstream === null) throw new Error(`${definitionName} has no upstream`);
  const arrays = [...built.upstream.entities.values()].map(({ list }) => [list.records.path.join('.'), []]);
  const server = await startThirdParty(() => ({ body: Object.fromEntries(arrays) as JsonObject }));
  const upstream = { ...built.upstream, baseUrl: template(server.origin), host: new Map() };
  const gate = openCallGate();
  const transport = openUpstreamTransport({ allowHosts: ['127.0.0.1'] });
  const account = openUpstream({
    definition: { ...built, upstream: { ...upstream, limits: { concurrency: 6, requestsPerSecond: 1_000 } } },
    connector: 'one',
    credentials: () => Promise.resolve(credentials[definitionName] ?? {}),
    gate,
    transport,
  });
  onTestFinished(async () => {
    await gate[Symbol.asyncDispose]();
    await transport[Symbol.asyncDispose]();
  });
  return async (entity: EntityName, action: 'list' | 'get', params: JsonObject): Promise<Sent> => {
    await account[action]({ entity, params }, never);
    const { method, path, query, body } = server.requests.at(-1) ?? fail();
    return {
      line: `${method} ${path}`,
      query: Object.fromEntries(query),
      body: body === '' ? {} : (JSON.parse(body) as JsonObject),
    };
  };
}

function fail(): never {
  throw new Error('expected a request');
}

/** As a query has it. */
function textIn(value: JsonValue): string {
  if (Array.isArray(value)) return value.map(textIn).join(',');
  return typeof value === 'string' ? value : JSON.stringify(value);
}

describe.each(Object.keys(documented))('%s', (definitionName) => {
  it('sends each declared parameter alone, under its name and where the service looks for it, and nothing else', async () => {
    const call = await openCalls(definitionName);
    const paths = documented[definitionName] ?? {};
    const met = new Set<string>();
    for (const { name: entity, actions } of builtInDefinition(definitionName).entities.values()) {
      for (const action of ['list', 'get'] as const) {
        const declared = actions.get(action)?.params;
        if (declared === undefined) continue;
        const documentedLine = paths[`${entity} ${action}`] ?? '';
        met.add(`${entity} ${action}`);
        const required = [...declared].filter(([, { required: is }]) => is);
        for (const [name] of [...declared, ['', null] as const]) {
          const given = new Map([...required, ...[...declared].filter(([other]) => other === name)]);
          const params = Object.fromEntries([...given].map(([one, param]) => [one, exampleOf(one, param)]));
          const what = `${entity} ${action} ${name}`;
          const sent = await call(entity, action, params);
          const line = documentedLine.replace(/\{(\w+)\}/g, (_, one: string) =>
            encodeURIComponent(textIn(params[one] ?? '')),
          );
          expect(`${what}: ${sent.line}`).toBe(`${what}: ${line}`);
          const others = Object.entries(params).filter(([one]) => !documentedLine.includes(`{${one}}`));
          const isPost = line.startsWith('POST');
          expect({ what, ...sent }).toEqual({
            what,
            line,
            query: isPost ? {} : Object.fromEntries(others.map(([one, value]) => [one, textIn(value)])),
            body: isPost ? Object.fromEntries(others) : {},
          });
        }
      }
    }
    expect([...met].toSorted()).toEqual(Object.keys(paths).toSorted());
  });
});
