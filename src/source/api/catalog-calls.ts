import * as z from 'zod';
import { isConnectorId, type ConnectorId } from '../../core/names.ts';
import type { ApiCall, IssuedToken } from './api-caller.ts';
import { usage } from '../../core/usage-error.ts';
import { callFacts, stopError, type CallFacts, invalidBody } from './call-failure.ts';
import type { Secret } from '../../core/secret.ts';
import { tryJsonText } from '../../http/lossless-json.ts';
import { textOfBody } from '../../http/exchange.ts';

/** What the service does not say is null. */
export const unsaid = z.string().nullable().default(null);
const connectorId = z.string().refine(isConnectorId, 'expected letters, digits, "_" and "-"');

const definition = z
  .object({ sourceDefinitionId: unsaid, name: z.string(), supportLevel: unsaid })
  .transform(({ sourceDefinitionId: id, ...others }) => ({ id, ...others }));
/** A connector type of the API's catalog. */
export type SourceDefinition = Readonly<z.output<typeof definition>>;
const definitionList = z.object({ definitions: z.array(definition) });
/** As a path segment it leads to no other endpoint. */
const definitionPathId = /^[A-Za-z0-9_-]{1,128}$/;

const template = z.object({ actor_definition_id: unsaid }).nullish();
export const namedConnector = z.object({ id: connectorId, name: unsaid });
const summary = namedConnector
  .extend({
    /** The account at the third party, as that one names it; the service that comes with this program says it. */
    account_id: z.string().min(1).nullable().default(null),
    summarized_source_template: template,
    source_template: template,
  })
  .transform(
    ({ id, name, account_id: account, summarized_source_template: ofAll, source_template: ofOne }) => {
      const { actor_definition_id: definitionId } = ofAll ?? ofOne ?? { actor_definition_id: null };
      return { id, name, definitionId, account };
    },
  );
/** A configured connector. */
export type ConnectorSummary = Readonly<z.output<typeof summary>>;
/** `{data: [...]}`, as today, or the bare array: the outer shape is not part of the specification. */
const summaryList = z.union([
  z.object({ data: z.array(summary) }).transform(({ data }) => data),
  z.array(summary),
]);

export interface ConnectorFilter {
  readonly workspace: string;
  readonly definitionId?: string;
}

export const connectorsPath = '/api/v1/integrations/connectors';
const definitionsPath = '/api/v1/integrations/definitions/sources';

/** Judged again where the id enters a path: `..` would lead to another endpoint, encoded or not. */
export function checkConnectorId(id: string): ConnectorId {
  if (isConnectorId(id)) return id;
  throw stopError(
    'CONFIG_INVALID',
    'a connector id has 1 to 128 letters, digits, "_" or "-"; copy it from the service',
  );
}

export function definitionsCall(name: string | null): ApiCall<readonly SourceDefinition[]> {
  const request = { path: definitionsPath, query: name === null ? {} : { name } };
  return catalogCall('list source definitions', request, definitionList, ({ definitions }) => definitions);
}

/** One connector type. Throws USAGE for what is no id. */
export function definitionCall(id: string): ApiCall<SourceDefinition> {
  if (!definitionPathId.test(id)) {
    throw usage('an id of a definition has letters, digits, "_" and "-"; copy it from the service');
  }
  const request = { path: `${definitionsPath}/${id}` };
  return catalogCall('read the source definition', request, definition, (found) => found);
}

export function findConnectorsCall(filter: ConnectorFilter): ApiCall<readonly ConnectorSummary[]> {
  const { workspace, definitionId } = filter;
  const query = {
    workspace_name: workspace,
    ...(definitionId === undefined ? {} : { definition_id: definitionId }),
  };
  const request = { path: connectorsPath, query };
  return catalogCall('find connectors', request, summaryList, (found) =>
    // A service that ignores the filter must not make the answer ambiguous.
    found.filter((one) => isOfType(one, definitionId)),
  );
}

/** `definitionId` undefined: any type will do. */
export function isOfType(found: ConnectorSummary, definitionId: string | undefined): boolean {
  return (
    definitionId === undefined ||
    found.definitionId === null ||
    found.definitionId.toLowerCase() === definitionId.toLowerCase()
  );
}

export function connectorCall(id: ConnectorId): ApiCall<ConnectorSummary> {
  const request = { path: `${connectorsPath}/${id}` };
  return catalogCall('read the connector', request, summary, (found, facts) => {
    if (found.id === id) return found;
    throw invalidBody(facts, 'expected the connector that was asked for, got another one');
  });
}

/** RFC 6750's b64token: what may stand behind "Bearer " in a header. */
const bearerToken = z.string().regex(/^[A-Za-z0-9._~+/=-]{1,16384}$/);

const tokenAnswer = z.object({
  access_token: bearerToken,
  // Seconds. Absent: as the hosted service has it.
  expires_in: z.number().positive().default(900),
});

/**
 * `POST account/applications/token` with the client credentials; there is no refresh token, so this is also the
 * renewal.
 */
export function tokenCall(api: {
  readonly clientId: string;
  readonly clientSecret: Secret;
}): ApiCall<IssuedToken> {
  const request = {
    path: '/api/v1/account/applications/token',
    body: JSON.stringify({ client_id: api.clientId, client_secret: api.clientSecret.reveal() }),
  };
  const read = (answer: z.output<typeof tokenAnswer>): IssuedToken => ({
    token: answer.access_token,
    lifetimeMs: answer.expires_in * 1_000,
  });
  return catalogCall('get an application token', request, tokenAnswer, read, {
    purpose: 'token',
    expected:
      'expected {access_token, expires_in} with a token that fits a header; where this is no token endpoint, check the path in api.baseUrl',
  });
}

/** The service says 20 minutes in its documentation and nothing in its answer. */
const lifetimeMs = 15 * 60_000;

const scopedTokenAnswer = z.object({ token: bearerToken });

/**
 * `POST account/applications/scoped-token`, with the application token: a token that sees one workspace alone. The
 * service may make a workspace that it does not know.
 */
export function scopedTokenCall(workspace: string): ApiCall<IssuedToken> {
  const request = {
    path: '/api/v1/account/applications/scoped-token',
    body: JSON.stringify({ workspace_name: workspace }),
  };
  const label = 'get a token for the workspace of api.scopedToWorkspace';
  return catalogCall(label, request, scopedTokenAnswer, ({ token }) => ({ token, lifetimeMs }));
}

interface CatalogRequest {
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  /** GET without a body and POST with one, unless it is given. */
  readonly method?: 'GET' | 'POST' | 'DELETE';
  readonly body?: string | null;
}

interface CatalogOptions {
  readonly purpose?: 'catalog' | 'token';
  /** It is sent again only where it cannot have been done. */
  readonly isWrite?: boolean;
  readonly mayBeEmpty?: boolean;
  /** What to say of an answer in another shape, whatever it is. */
  readonly expected?: string;
}

/** One call about the account: `read` gets the answer in the shape that the API promises. */
export function catalogCall<Schema extends z.ZodType, T>(
  label: string,
  { path, query = {}, body = null, method = body === null ? 'GET' : 'POST' }: CatalogRequest,
  schema: Schema,
  read: (answer: z.output<Schema>, facts: CallFacts) => T,
  { purpose = 'catalog', isWrite = false, mayBeEmpty = false, expected }: CatalogOptions = {},
): ApiCall<T> {
  const facts = callFacts(purpose, label, { isWrite });
  return {
    request: { method, path, query, body },
    facts,
    read: ({ body: answer }) => {
      const text = textOfBody(answer);
      const isEmpty = mayBeEmpty && text.trim() === '';
      return read(isEmpty ? schema.parse({}) : readAnswer(text, schema, facts, expected), facts);
    },
  };
}

/** A body as the shape that the API promises; unknown members are left out. Throws `CallFailure` BODY_INVALID. */
function readAnswer<Schema extends z.ZodType>(
  text: string,
  schema: Schema,
  facts: CallFacts,
  expected: string | undefined,
): z.output<Schema> {
  const json = tryJsonText(text);
  if (json === undefined) throw invalidBody(facts, expected ?? 'expected JSON, got something else');
  const parsed = schema.safeParse(json);
  if (parsed.success) return parsed.data;
  const path = parsed.error.issues[0]?.path.join('.') ?? '';
  const shape = `the answer does not have the expected shape${path === '' ? '' : ` at ${path}`}`;
  throw invalidBody(facts, expected ?? shape);
}
