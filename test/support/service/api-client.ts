import type { JsonObject, JsonValue } from '../../../src/core/json.ts';
import { expectDeclared } from './declared-answers.ts';
import { answerOf, type Answer } from './served-api.ts';

export type ApiClient = ReturnType<typeof apiClient>;

/** A client with one token; each answer is held against the declaration of its endpoint. */
export function apiClient(url: string, token: string | null) {
  const call = async (method: string, path: string, body?: JsonValue): Promise<Answer> => {
    const response = await fetch(`${url}${path}`, {
      method,
      headers: {
        ...(token === null ? {} : { authorization: `Bearer ${token}` }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const answer = await answerOf(response);
    expectDeclared(method, path, answer.status, answer.body);
    return answer;
  };
  return {
    get: (path: string) => call('GET', path),
    post: (path: string, body: JsonValue) => call('POST', path, body),
    put: (path: string, body: JsonValue) => call('PUT', path, body),
    delete: (path: string) => call('DELETE', path),
  };
}

/** A token for credentials, or for one workspace of whom they stand for. */
export async function tokenFor(
  url: string,
  credentials: { readonly clientId: string; readonly clientSecret: string },
  workspace?: string,
): Promise<string> {
  const { body } = await apiClient(url, null).post('/api/v1/account/applications/token', {
    client_id: credentials.clientId,
    client_secret: credentials.clientSecret,
  });
  const token = textIn(body, 'access_token');
  if (workspace === undefined) return token;
  const scoped = await apiClient(url, token).post('/api/v1/account/applications/scoped-token', {
    workspace_name: workspace,
  });
  return textIn(scoped.body, 'token');
}

/** A text member that must be there. */
export function textIn(body: JsonObject, name: string): string {
  const value = body[name];
  if (typeof value !== 'string') throw new Error(`expected a text ${name}, got ${JSON.stringify(body)}`);
  return value;
}
