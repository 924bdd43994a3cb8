import { expect, onTestFinished } from 'vitest';
import { isJsonObject, type JsonObject, type JsonValue } from '../../../src/core/json.ts';
import { builtInDefinitionsFolder, loadDefinitions } from '../../../src/definitions/load-definitions.ts';
import type { SampleSize } from '../../../src/sample/sample-account.ts';
import { apiError } from '../../../src/service/api-error.ts';
import { openApiDocument } from '../../../src/service/reference/open-api-document.ts';
import { apiEndpoints } from '../../../src/service/routes/api-endpoints.ts';
import type { Endpoint } from '../../../src/service/routes/endpoint.ts';
import { serveSamples, type ServedAccount, type ServeOptions } from '../serve-samples.ts';

export const definitions = loadDefinitions([builtInDefinitionsFolder]);
export const credentials = { clientId: 'client-1', clientSecret: 'a-secret-of-the-tests' };
export const mailing = 'mail-1';
export const notes = 'notes-1';

export type ServedApi = Awaited<ReturnType<typeof serveApi>>;

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: JsonObject;
}

export interface Page {
  readonly records: readonly JsonObject[];
  readonly metadata: JsonObject;
}

export function sampleAccounts(size: SampleSize): readonly ServedAccount[] {
  return [
    { connectorId: mailing, workspace: 'default', definitionName: 'email-marketing', seed: 7, size },
    { connectorId: notes, workspace: 'default', definitionName: 'workspace-notes', seed: 7, size },
  ];
}

/** A service on a free port and a client that holds a token for it, and each answer against its declaration. */
export async function serveApi(options: Partial<ServeOptions> = {}) {
  const service = await serveSamples({
    port: 0,
    ...credentials,
    definitions,
    accounts: sampleAccounts('tiny'),
    ...options,
  });
  const token = await fetchToken(service.url);
  const client = apiClient(service.url, token);
  const executePath = (connectorId: string): string =>
    `/api/v1/integrations/connectors/${connectorId}/execute`;
  const execute = (connectorId: string, body: JsonObject): Promise<Answer> =>
    client.post(executePath(connectorId), body);

  return {
    service,
    token,
    client,
    call: client.call,
    execute,
    /** The answer to an execute as it came: the bytes of a file, or a text to the letter. */
    send: (connectorId: string, body: JsonObject, more: RequestInit = {}): Promise<Response> =>
      fetch(`${service.url}${executePath(connectorId)}`, { ...jsonRequest('POST', token, body), ...more }),
    /** The records and metadata of one successful list call. */
    async list(connectorId: string, entity: string, params: JsonObject = {}): Promise<Page> {
      const { status, body } = await execute(connectorId, { entity, action: 'list', params });
      if (status !== 200) throw new Error(`expected 200, got ${status}: ${JSON.stringify(body)}`);
      return { records: objects(body['result']), metadata: object(body['connector_metadata']) };
    },
    [Symbol.asyncDispose]: () => service.close(),
  };
}

/** The same for one test, which closes it at its end. */
export async function serveHere(options: Partial<ServeOptions> = {}): Promise<ServedApi> {
  const api = await serveApi(options);
  onTestFinished(() => api.service.close());
  return api;
}

export type ApiClient = ReturnType<typeof apiClient>;

/** A client with one token; each answer is held against the declaration of its endpoint. */
export function apiClient(url: string, token: string | null) {
  const call = async (path: string, init: RequestInit = {}): Promise<Answer> => {
    const headers = new Headers(init.headers);
    if (token !== null && !headers.has('authorization')) headers.set('authorization', `Bearer ${token}`);
    const answer = await answerOf(await fetch(`${url}${path}`, { ...init, headers }));
    expectDeclared(init.method ?? 'GET', path, answer.status, answer.body);
    return answer;
  };
  const send = async (method: string, path: string, body?: JsonValue): Promise<Answer> =>
    await call(path, jsonRequest(method, token, body));
  return {
    call,
    get: (path: string) => send('GET', path),
    post: (path: string, body: JsonValue) => send('POST', path, body),
    put: (path: string, body: JsonValue) => send('PUT', path, body),
    delete: (path: string) => send('DELETE', path),
  };
}

/** A request with a token (null: without one) and a JSON body, unless there is none. */
export function jsonRequest(method: string, token: string | null, body?: unknown) {
  return {
    method,
    headers: {
      ...(token === null ? {} : { authorization: `Bearer ${token}` }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  };
}

/** A token for credentials, or for one workspace of whom they stand for. */
export async function tokenFor(
  url: string,
  { clientId, clientSecret }: { readonly clientId: string; readonly clientSecret: string },
  workspace?: string,
): Promise<string> {
  const { body } = await askForToken(url, { client_id: clientId, client_secret: clientSecret });
  const token = textIn(body, 'access_token');
  if (workspace === undefined) return token;
  const scoped = await apiClient(url, token).post('/api/v1/account/applications/scoped-token', {
    workspace_name: workspace,
  });
  return textIn(scoped.body, 'token');
}

export async function askForToken(url: string, body: JsonValue): Promise<Answer> {
  return await apiClient(url, null).post('/api/v1/account/applications/token', body);
}

async function fetchToken(url: string): Promise<string> {
  return await tokenFor(url, credentials);
}

/** A text member that must be there. */
export function textIn(body: JsonObject, name: string): string {
  const value = body[name];
  if (typeof value !== 'string') throw new Error(`expected a text ${name}, got ${JSON.stringify(body)}`);
  return value;
}

/** An id or a time as text; '' where there is none. */
export function text(value: JsonValue | undefined): string {
  return typeof value === 'string' || typeof value === 'number' ? String(value) : '';
}

export function object(value: JsonValue | undefined): JsonObject {
  if (!isJsonObject(value)) throw new Error(`expected an object, got ${JSON.stringify(value)}`);
  return value;
}

export function objects(value: JsonValue | undefined): readonly JsonObject[] {
  if (!Array.isArray(value)) throw new Error(`expected an array, got ${JSON.stringify(value)}`);
  return value.map(object);
}

export async function answerOf(response: Response): Promise<Answer> {
  return {
    status: response.status,
    headers: response.headers,
    body: object((await response.json()) as JsonValue),
  };
}

const { paths } = openApiDocument(apiEndpoints);

/**
 * Holds an answer against what its endpoint declares: the status is among the declared ones, the body is of the
 * declared shape.
 */
function expectDeclared(method: string, path: string, status: number, body: JsonValue): void {
  const endpoint = endpointFor(method, path);
  const isSuccess = endpoint?.success.status === status;
  const shape = isSuccess ? endpoint.success.body : apiError;
  const parsed = shape.safeParse(body);
  expect([method, path, status, parsed.error?.issues ?? []]).toEqual([method, path, status, []]);
  // What the shape does not know it leaves out: nothing may be missing now.
  expect(parsed.data).toEqual(body);
  if (endpoint !== undefined) {
    const declared = Object.keys(paths[endpoint.path]?.[method.toLowerCase()]?.responses ?? {});
    expect([method, path, declared]).toEqual([method, path, expect.arrayContaining([String(status)])]);
  }
}

/** Undefined: there is none. */
function endpointFor(method: string, path: string): Endpoint | undefined {
  const [plain = ''] = path.split('?', 1);
  const fits = (endpoint: Endpoint): boolean => {
    const parts = endpoint.path.split('/');
    const given = plain.split('/');
    return (
      parts.length === given.length &&
      parts.every((part, index) => (part.startsWith('{') ? given[index] !== '' : part === given[index]))
    );
  };
  const fitting = apiEndpoints.filter((endpoint) => endpoint.method === method && fits(endpoint));
  // A path without a parameter wins, as in the server.
  return fitting.find(({ path: own }) => !own.includes('{')) ?? fitting[0];
}
