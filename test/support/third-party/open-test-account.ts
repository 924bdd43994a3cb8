import { onTestFinished } from 'vitest';
import type { Clock } from '../../../src/core/clock.ts';
import type { JsonObject } from '../../../src/core/json.ts';
import type { ResolveHost } from '../../../src/http/guard-address.ts';
import type { CredentialShape, Definition, Pagination } from '../../../src/definitions/definition.ts';
import { recordsPlace, type Template } from '../../../src/definitions/upstream/service-texts.ts';
import type { Authentication } from '../../../src/definitions/upstream/upstream-file.ts';
import type {
  DownloadRequest,
  GetRequest,
  ListRequest,
  ParamPlace,
  Upstream,
  UpstreamRequest,
} from '../../../src/definitions/upstream/upstream.ts';
import { openCallGate, type CallGate, type CallGateOptions } from '../../../src/upstream/call-gate.ts';
import { openUpstream, type UpstreamAccount } from '../../../src/upstream/open-upstream.ts';
import { UpstreamFailure } from '../../../src/upstream/upstream-failure.ts';
import { openUpstreamTransport } from '../../../src/upstream/upstream-transport.ts';
import { entityName, testDefinition } from '../source/test-definition.ts';

export const never = new AbortController().signal;
export const things = entityName('notes');

export const query: ParamPlace = { kind: 'query', name: '', list: 'comma', omit: [] };

/** `/lists/{list_id}` as the definitions parse it. */
export function template(text: string): Template {
  return text
    .split(/(\{\w+\})/)
    .filter((part) => part !== '')
    .map((part) =>
      part.startsWith('{') ? { kind: 'name', name: part.slice(1, -1) } : { kind: 'text', text: part },
    );
}

/** Parameters go where `places` says; one that is only named goes into the query under its own name. */
export function requestOf(
  path: string,
  places: Readonly<Record<string, ParamPlace>> = {},
  more: Partial<UpstreamRequest> = {},
): UpstreamRequest {
  return {
    method: 'GET',
    isSafe: true,
    path: template(path),
    headers: new Map(),
    query: new Map(),
    body: {},
    hasBody: more.method === 'POST',
    isForm: false,
    fill: [],
    texts: [],
    timeoutMs: 5_000,
    maxBodyBytes: 1024 * 1024,
    params: new Map(
      Object.entries(places).map(([name, place]) => [
        name,
        place.kind === 'query' && place.name === '' ? { ...place, name } : place,
      ]),
    ),
    ...more,
  };
}

export function listOf(request: UpstreamRequest, more: Partial<ListRequest> = {}): ListRequest {
  return {
    ...request,
    records: recordsPlace('items'),
    empty: null,
    metadata: new Map(),
    paging: { kind: 'none' },
    ...more,
  };
}

interface TestAccountOptions {
  readonly baseUrl: string;
  readonly upstream?: Partial<Upstream>;
  readonly list?: ListRequest;
  readonly get?: GetRequest;
  readonly download?: DownloadRequest;
  readonly rename?: ReadonlyMap<string, string>;
  readonly pagination?: Pagination;
  readonly auth?: Authentication;
  readonly shape?: CredentialShape;
  readonly credentials?: JsonObject | (() => Promise<JsonObject>);
  readonly saveCredentials?: (changed: JsonObject) => Promise<void>;
  readonly allowHosts?: readonly string[];
  readonly resolve?: ResolveHost;
  readonly bodyTimeoutMs?: number;
  readonly clock?: Clock;
  readonly gate?: CallGateOptions;
  /** A gate that other accounts have too. */
  readonly sharedGate?: CallGate;
}

export const secretToken = 'planted-token-4711-abcdef';

/** A shape of the fields that are given, all of them secret and optional. */
export function shapeOf(...fields: readonly string[]): CredentialShape {
  return {
    title: 'Token',
    fields: new Map(fields.map((field) => [field, { isSecret: true, isRequired: false }])),
  };
}

function testUpstream(options: Pick<TestAccountOptions, 'baseUrl'> & Partial<TestAccountOptions>): Upstream {
  const list = options.list ?? listOf(requestOf('/items', { page_size: query, start_cursor: query }));
  return {
    baseUrl: template(options.baseUrl),
    host: new Map(),
    auth: new Map([
      [
        'Token',
        options.auth ?? { kind: 'bearer', token: { kind: 'field', field: 'token' }, scheme: 'Bearer' },
      ],
    ]),
    check: { request: requestOf('/me'), identity: [['account', 'id']], name: ['account', 'name'] },
    identifying: [],
    limits: { concurrency: 8, requestsPerSecond: 10_000 },
    message: [['detail'], ['title'], ['message']],
    failed: null,
    errors: [],
    retryAfter: [],
    remaining: null,
    entities: new Map([
      [
        things,
        {
          list,
          get: options.get ?? { ...requestOf('/items/{note_id}', { note_id: { kind: 'path' } }), record: [] },
          download: options.download ?? null,
        },
      ],
    ]),
    ...options.upstream,
  };
}

/** An account of the entity `notes` at a third party on this machine. Everything is closed when the test has ended. */
export function openTestAccount(options: TestAccountOptions): UpstreamAccount {
  const plain = testDefinition();
  const entity = plain.entities.get(things);
  if (entity === undefined) throw new Error('the test definition has changed');
  const definition: Definition = {
    ...plain,
    credentials: [options.shape ?? shapeOf('token')],
    upstream: testUpstream(options),
    entities: new Map([
      [
        things,
        {
          ...entity,
          pagination: options.pagination ?? entity.pagination,
          rename: options.rename ?? entity.rename,
        },
      ],
    ]),
  };
  const { credentials = { token: secretToken } } = options;
  const transport = openUpstreamTransport({
    allowHosts: options.allowHosts ?? ['127.0.0.1'],
    ...(options.resolve === undefined ? {} : { resolve: options.resolve }),
    limits: options.bodyTimeoutMs === undefined ? {} : { bodyTimeoutMs: options.bodyTimeoutMs },
  });
  const gate = options.sharedGate ?? openCallGate(options.gate);
  const account = openUpstream({
    definition,
    credentials: typeof credentials === 'function' ? credentials : () => Promise.resolve(credentials),
    saveCredentials: options.saveCredentials ?? null,
    connector: 'c1',
    gate,
    transport,
    ...(options.clock === undefined ? {} : { clock: options.clock }),
  });
  onTestFinished(async () => {
    await account.close();
    await transport[Symbol.asyncDispose]();
  });
  return account;
}

/** What a call that must fail fails with. */
export async function failureOf(call: Promise<unknown>): Promise<UpstreamFailure> {
  const error = await call.then(
    () => new Error('expected a failure, got an answer'),
    (failure: unknown) => failure,
  );
  if (error instanceof UpstreamFailure) return error;
  throw error;
}
