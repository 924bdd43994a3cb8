import { isJsonObject, type JsonObject, type JsonValue } from '../../../src/core/json.ts';
import { builtInDefinitionsFolder, loadDefinitions } from '../../../src/definitions/load-definitions.ts';
import { serveSamples, type ServedAccount, type ServeOptions } from '../serve-samples.ts';
import type { SampleSize } from '../../../src/sample/sample-account.ts';
import { expectDeclared } from './declared-answers.ts';

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

  const call = async (path: string, init: RequestInit = {}): Promise<Answer> => {
    const headers = new Headers(init.headers);
    if (!headers.has('authorization')) headers.set('authorization', `Bearer ${token}`);
    const answer = await answerOf(await fetch(`${service.url}${path}`, { ...init, headers }));
    expectDeclared(init.method ?? 'GET', path, answer.status, answer.body);
    return answer;
  };
  const execute = (connectorId: string, body: JsonObject): Promise<Answer> =>
    call(`/api/v1/integrations/connectors/${connectorId}/execute`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });

  return {
    service,
    token,
    call,
    execute,
    /** The records and metadata of one successful list call. */
    async list(connectorId: string, entity: string, params: JsonObject = {}): Promise<Page> {
      const { status, body } = await execute(connectorId, { entity, action: 'list', params });
      if (status !== 200) throw new Error(`expected 200, got ${status}: ${JSON.stringify(body)}`);
      return { records: objects(body['result']), metadata: object(body['connector_metadata']) };
    },
    [Symbol.asyncDispose]: () => service.close(),
  };
}

export async function askForToken(url: string, body: JsonValue): Promise<Answer> {
  return answerOf(
    await fetch(`${url}/api/v1/account/applications/token`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    }),
  );
}

export async function fetchToken(url: string): Promise<string> {
  const { body } = await askForToken(url, {
    client_id: credentials.clientId,
    client_secret: credentials.clientSecret,
  });
  return text(body['access_token']);
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
