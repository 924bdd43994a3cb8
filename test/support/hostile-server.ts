import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { isJsonObject, type JsonObject, type JsonValue } from '../../src/core/json.ts';
import { type Exchange, type HostileCall, type Reply, apiError, json, success } from './hostile/replies.ts';
import { countArrivals, listen } from './listen.ts';

export interface HostileServerOptions {
  /** Answers an execute; by default with an empty list. */
  readonly respond?: (call: HostileCall) => Reply;
  /** Answers the token endpoint instead of a fresh token; null: a fresh token after all. */
  readonly respondToken?: (index: number) => Reply | null;
  /** Answers every GET; null: the catalog below. */
  readonly respondGet?: (path: string, query: URLSearchParams) => Reply | null;
  /** Answers what changes something: a POST that is no execute, a PUT or DELETE; null: 404. */
  readonly respondChange?: (change: HostileChange) => Reply | null;
  /** What `GET connectors` and `GET connectors/{id}` know. */
  readonly connectors?: readonly {
    readonly id: string;
    readonly name: string;
    readonly definitionId: string;
  }[];
  /** The `Date` of every answer, in milliseconds; by default this machine's. */
  readonly dateMs?: () => number;
  /** Seconds, as given by the token endpoint. */
  readonly tokenLifetime?: number;
}

/** A request that changes something, as the server got it. */
export interface HostileChange {
  readonly method: string;
  readonly path: string;
  readonly body: JsonObject;
}

export type HostileServer = Awaited<ReturnType<typeof startHostileServer>>;

/** A Connector Execution API on port 0 that can fail in every way; see `hostile/` for the replies. */
export async function startHostileServer(options: HostileServerOptions = {}) {
  const calls: HostileCall[] = [];
  const requests: string[] = [];
  const { check, arrived } = countArrivals(calls);
  const validTokens = new Set<string>();
  const scopedTo: string[] = [];
  let tokensIssued = 0;
  let tokenRequests = 0;
  let refusesAll = false;

  const issueToken = (): Reply => {
    const override = options.respondToken?.(tokenRequests++);
    if (override !== null && override !== undefined) return override;
    tokensIssued += 1;
    const token = `token-${tokensIssued}-${'x'.repeat(20)}`;
    validTokens.add(token);
    return json(200, {
      access_token: token,
      token_type: 'bearer',
      expires_in: options.tokenLifetime ?? 900,
      organization_id: null,
    });
  };

  const issueScopedToken = (applicationToken: string, body: JsonObject): Reply => {
    if (!isValid(applicationToken) || applicationToken.startsWith('scoped-')) {
      return apiError(401, 'Invalid token');
    }
    scopedTo.push(textOf(body['workspace_name']));
    const token = `scoped-${scopedTo.length}-${'x'.repeat(20)}`;
    validTokens.add(token);
    return json(200, { token });
  };

  const answerChange = (method: string, path: string, body: JsonObject): Reply =>
    options.respondChange?.({ method, path, body }) ?? apiError(404, 'Not Found');

  const answerGet = (url: URL): Reply => {
    const override = options.respondGet?.(url.pathname, url.searchParams);
    if (override !== null && override !== undefined) return override;
    const known = (options.connectors ?? []).map(({ id, name, definitionId }) => ({
      id,
      name,
      summarized_source_template: { id: 't', name, actor_definition_id: definitionId },
    }));
    if (url.pathname.endsWith('/definitions/sources')) {
      return json(200, {
        definitions: [{ sourceDefinitionId: 'd', name: 'Example', supportLevel: 'certified' }],
      });
    }
    if (url.pathname.endsWith('/connectors')) {
      const wanted = url.searchParams.get('definition_id');
      const matching = known.filter(
        ({ summarized_source_template: template }) =>
          wanted === null || template.actor_definition_id === wanted,
      );
      return json(200, { data: matching });
    }
    const found = known.find(({ id }) => url.pathname.endsWith(`/connectors/${id}`));
    return found === undefined ? apiError(404, 'Connector not found') : json(200, found);
  };

  const answerExecute = (exchange: Exchange, token: string, body: JsonObject): Reply => {
    const call: HostileCall = {
      index: calls.length,
      at: Date.now(),
      connectorId: exchange.connectorId,
      entity: textOf(body['entity']),
      action: textOf(body['action']),
      params: isJsonObject(body['params']) ? body['params'] : {},
      body,
      token,
      headers: exchange.request.headers,
    };
    calls.push(call);
    check();
    return isValid(token) ? (options.respond?.(call) ?? success([])) : apiError(401, 'Invalid token');
  };

  const isValid = (token: string): boolean => !refusesAll && validTokens.has(token);

  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const url = new URL(request.url ?? '/', 'http://localhost');
    requests.push(`${request.method} ${url.pathname}`);
    if (options.dateMs !== undefined) response.setHeader('date', new Date(options.dateMs()).toUTCString());
    const body = await readJson(request);
    const exchange = {
      request,
      response,
      connectorId: /connectors\/([^/]*)\/execute$/.exec(url.pathname)?.[1] ?? '',
    };
    const token = request.headers.authorization?.replace(/^Bearer /, '') ?? '';
    let reply: Reply;
    if (url.pathname.endsWith('/account/applications/token')) reply = issueToken();
    else if (url.pathname.endsWith('/scoped-token')) reply = issueScopedToken(token, body);
    else if (exchange.connectorId !== '') reply = answerExecute(exchange, token, body);
    else if (!isValid(token)) reply = apiError(401, 'Invalid token');
    else if (request.method === 'GET') reply = answerGet(url);
    else reply = answerChange(request.method ?? '', url.pathname, body);
    await reply(exchange);
  };

  const server = createServer((request, response) => {
    // A reply that breaks its own connection is what this server is for.
    answer(request, response).catch(() => request.socket.destroy());
  });
  const { origin, openSockets, close } = await listen(server);

  return {
    baseUrl: origin,
    /** Every execute, in order of arrival. */
    calls,
    /** Every request of any kind as `METHOD path`. */
    requests,
    tokensIssued: () => tokensIssued,
    /** Workspaces that scoped tokens were given for, in order. */
    scopedTo,
    /** From now on the tokens issued so far (the scoped ones alone) are answered with 401. */
    expireTokens(kind?: 'scoped') {
      for (const token of validTokens) {
        if (kind === undefined || token.startsWith(`${kind}-`)) validTokens.delete(token);
      }
    },
    /** From now on every token is answered with 401. */
    refuseAllTokens() {
      refusesAll = true;
    },
    /** Resolves when `count` executes have arrived. */
    arrived,
    /** Sockets open at this moment. */
    openSockets,
    [Symbol.asyncDispose]: close,
  };
}

function textOf(value: JsonValue | undefined): string {
  return typeof value === 'string' ? value : '';
}

async function readJson(request: IncomingMessage): Promise<JsonObject> {
  const sent = await text(request);
  try {
    const body = JSON.parse(sent) as JsonValue;
    return isJsonObject(body) ? body : {};
  } catch {
    // Not every request carries JSON; what it would have held is then absent.
    return {};
  }
}
