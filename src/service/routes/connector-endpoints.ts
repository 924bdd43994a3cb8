import { randomUUID } from 'node:crypto';
import * as z from 'zod';
import type { JsonObject, JsonValue } from '../../core/json.ts';
import type { Definition } from '../../definitions/definition.ts';
import { credentialProblems } from '../../definitions/params.ts';
import { ApiError } from '../api-error.ts';
import {
  addressFor,
  ensureWorkspace,
  workspaceById,
  workspaceByName,
  type LocalConnector,
  type LocalConnectors,
} from '../local-connectors.ts';
import type { ProviderCheck } from '../provider.ts';
import type { Principal, StoredConnector, ServiceState } from '../state/open-service-state.ts';
import { maxNameLength } from '../state/open-state-file.ts';
import { readiness, type StoreStatus } from '../store/open-context-stores.ts';
import { definitionById } from './catalog-endpoints.ts';
import { endpoint, givenName, json, ofConnector, shownAs, time } from './endpoint.ts';

/** Shape is one thing, values another: see `checkCredentials`. */
const givenCredentials = z
  .record(z.string(), z.custom<JsonValue>())
  .describe("As the connector type's `connectionSpecification` has it.");

/** Body of a request that creates a connector. */
const newConnector = z
  .object({
    workspace_name: givenName().describe('Made where there is none of this name.'),
    definition_id: z
      .guid()
      .nullish()
      .describe('This or `connector_type` says of what type the connector is.'),
    connector_type: z
      .string()
      .nullish()
      .describe("The type's name, short name or another name of it, in any case."),
    name: givenName().nullish().describe('Made of the type and the workspace where none is given.'),
    credentials: givenCredentials.nullish(),
  })
  .meta({ id: 'NewConnector' });

/** Body of a request that changes a connector. Null, like absent, keeps the value. */
const connectorChange = z
  .object({ name: givenName().nullish(), credentials: givenCredentials.nullish() })
  .meta({ id: 'ConnectorChange' });

const connectorType = shownAs<LocalConnector>()(null, {
  actor_definition_id: [
    z.guid().describe('The `sourceDefinitionId` of the connector type.'),
    ({ definition }) => definition.id,
  ],
  name: [z.string(), ({ definition }) => definition.title],
  connector_name: [z.string().describe("The definition's short name."), ({ definition }) => definition.name],
});

const summaryFields = {
  id: [z.string(), ({ stored }: LocalConnector) => stored.id],
  name: [z.string(), ({ stored }: LocalConnector) => stored.name],
  workspace_id: [z.guid(), ({ stored }: LocalConnector) => stored.workspaceId],
  summarized_source_template: [connectorType.shape, connectorType.show],
  account_id: [
    z
      .string()
      .nullable()
      .describe(
        'The account at the third party, as that one names it; null where it does not, and for a sample account.',
      ),
    ({ stored }: LocalConnector) => (stored.account === '' ? null : stored.account),
  ],
  created_at: [time, ({ stored }: LocalConnector) => stored.createdAt],
  updated_at: [time, ({ stored }: LocalConnector) => stored.updatedAt],
} as const;

const connectorSummary = shownAs<LocalConnector>()('ConnectorSummary', summaryFields);

type Inspected = LocalConnector & { readonly status: StoreStatus };

const contextStore = shownAs<Inspected>()(null, {
  readiness: [
    readiness.describe('Of the whole store. Search works in Preview and Ready.'),
    ({ status }) => status.readiness,
  ],
  entities: [
    z
      .array(z.object({ entity: z.string(), records: z.int().nullable() }))
      .describe('With the number of records that a search finds; null where it cannot be searched.'),
    ({ status }) => [...status.entities],
  ],
  problem: [
    z.string().nullable().describe('What keeps the store from being complete; null: nothing.'),
    ({ status }) => status.problem,
  ],
});

/** A connector as answers show it: without its credentials. */
const connectorDetail = shownAs<Inspected>()('Connector', {
  ...summaryFields,
  context_store: [contextStore.shape, contextStore.show],
});

function detailOf(connectors: LocalConnectors, connector: LocalConnector) {
  return json(connectorDetail.show({ ...connector, status: connectors.status(connector) }));
}

export const showConnector = endpoint({
  ...ofConnector,
  summary: 'Show a connector',
  description:
    'All but its credentials, with the state of its indexed store: Loading, Building Preview, Preview, Ready. In the last two ' +
    '`context_store_search` works.',
  success: { description: 'The connector.', body: connectorDetail.shape },
  handle: ({ path }, { principal }, { connectors }) =>
    detailOf(connectors, connectors.byId(principal, path.id)),
});

const query = z.object({
  workspace_name: z.string().min(1).optional(),
  definition_id: z.guid().optional().describe('Only connectors of this type.'),
});

export const listConnectors = endpoint({
  summary: 'List the connectors of a workspace',
  description: 'In the order of their creation, not paginated. A scoped token need not name its workspace.',
  access: 'workspace',
  request: { query },
  success: {
    description: 'The connectors. Their type stands in `summarized_source_template.actor_definition_id`.',
    body: z.object({ data: z.array(connectorSummary.shape) }).meta({ id: 'ConnectorList' }),
  },
  refusals: { 404: 'There is no such workspace.' },
  example: { query: { workspace_name: 'default' } },
  handle({ query: wanted }, { principal }, { state, definitions, connectors }) {
    const workspace = wantedWorkspace(state, principal, wanted.workspace_name);
    const id = wanted.definition_id;
    const definition = id === undefined ? null : definitionById(definitions, id);
    const found = definition === undefined ? [] : connectors.inWorkspace(workspace, definition);
    return json({ data: found.map(connectorSummary.show) });
  },
});

function wantedWorkspace(state: ServiceState, principal: Principal, name: string | undefined) {
  if (name !== undefined) return workspaceByName(state, principal, name);
  if (principal.workspaceId !== null) return workspaceById(state, principal, principal.workspaceId);
  throw new ApiError(422, 'Expected workspace_name.', {
    field: 'query.workspace_name',
    errorCode: 'missing',
  });
}

function unasked(so: string) {
  return {
    502: `The third party cannot be asked${so}.`,
    504: `The third party did not answer in time${so}.`,
  };
}

export const createConnector = endpoint({
  summary: 'Create a connector',
  description:
    'Binds credentials to a connector type. The third party is asked whether it takes them, and to which account they belong; the ' +
    'connector keeps to that account. They are kept encrypted and are in no answer.\n\n' +
    'With a secret that begins with `sample`, such as `{"api_key": "sample"}`, the connector has a sample account and asks no ' +
    'third party; so has every connector of a type that no third party is declared for, or that was created on a server started with ' +
    '--samples.\n\n' +
    'An application token makes the workspace where there is none of its name; to a scoped token every other workspace is ' +
    'unknown. The indexed store begins to fill at once.',
  access: 'workspace',
  request: { body: newConnector },
  success: { description: 'The connector.', body: connectorDetail.shape },
  refusals: {
    404: 'There is no such connector type; for a scoped token also: it is another workspace.',
    409: 'The organization has as many connectors or workspaces as it may have.',
    422: 'The fields are not as expected, or the third party does not take the credentials.',
    ...unasked(': nothing was changed'),
  },
  example: {
    body: {
      workspace_name: 'default',
      connector_type: 'email-marketing',
      name: 'Newsletter',
      credentials: { api_key: '…' },
    },
  },
  async handle({ body }, { principal, signal }, { state, definitions, connectors }) {
    const definition = namedDefinition([...definitions.values()], body);
    const credentials = body.credentials ?? null;
    checkCredentials(definition, credentials);
    // A third party is not asked on behalf of a token that may not create this.
    if (principal.kind === 'scoped') workspaceByName(state, principal, body.workspace_name);
    // Before anything is made: a check may take a while, and may say no.
    const account = accountOf(await connectors.checkNew({ definition }, credentials, signal));
    const workspace = ensureWorkspace(state, principal, body.workspace_name);
    const name = `${definition.title} (${workspace.name})`;
    const stored = state.connectors.create({
      organizationId: principal.organizationId,
      workspaceId: workspace.id,
      definition: definition.name,
      name: body.name ?? (name.length <= maxNameLength ? name : definition.title),
      credentials,
      account,
      address: addressFor(definition, account, credentials),
    });
    await connectors.settleStore(stored);
    return detailOf(connectors, { stored, definition });
  },
});

export const updateConnector = endpoint({
  ...ofConnector,
  summary: 'Change a connector',
  description:
    'Changes what is given and leaves the rest. The third party is asked about new credentials; those of another account are refused. ' +
    'They count from the next call on, and the indexed store is brought up to date with them at once.',
  request: { ...ofConnector.request, body: connectorChange },
  success: { description: 'The connector as it is now.', body: connectorDetail.shape },
  refusals: {
    ...ofConnector.refusals,
    409: 'The credentials belong to another account.',
    422: 'The fields are not as expected, or the third party does not take the credentials.',
    ...unasked(': nothing was changed'),
  },
  example: { ...ofConnector.example, body: { name: 'Newsletter' } },
  async handle({ path, body }, { principal, signal }, { state, connectors }) {
    const { stored, definition } = connectors.byId(principal, path.id);
    if (body.credentials) {
      checkCredentials(definition, body.credentials);
      const asked = { definition, connectorId: stored.id };
      const account = accountOf(await connectors.checkNew(asked, body.credentials, signal));
      if (account !== stored.account) {
        const at = { field: 'body.credentials', errorCode: 'identity_changed' };
        throw new ApiError(409, otherAccount(stored), at);
      }
    }
    if (body.name || body.credentials) {
      state.connectors.update(principal.organizationId, stored.id, {
        name: body.name ?? stored.name,
        ...(body.credentials
          ? {
              credentials: body.credentials,
              address: addressFor(definition, stored.account, body.credentials),
            }
          : {}),
      });
      // They may open another account, or one that was shut: the store does not wait for its time.
      if (body.credentials) await connectors.settleStore(stored);
    }
    return detailOf(connectors, connectors.byId(principal, path.id));
  },
});

export const deleteConnector = endpoint({
  ...ofConnector,
  summary: 'Delete a connector',
  description:
    'With its credentials and its indexed store. The answer names a job because clients expect one; here the work is done when it comes.',
  success: {
    status: 202,
    description: 'The connector was deleted.',
    body: z.object({ job_id: z.guid() }).meta({ id: 'ConnectorDeletion' }),
  },
  async handle({ path }, { principal }, { connectors }) {
    const { stored } = connectors.byId(principal, path.id);
    await connectors.delete(stored);
    return json({ job_id: randomUUID() });
  },
});

/**
 * Null: a sample account, which takes any credentials until it is asked for records. Throws `ApiError` 422 where the
 * third party does not take them.
 */
function accountOf(check: ProviderCheck): string | null {
  if (check.kind === 'refused') {
    throw new ApiError(422, check.why, { field: 'body.credentials', errorCode: 'third_party_refused' });
  }
  return check.kind === 'account' ? check.account : null;
}

/** Their records must not come under one connector. */
function otherAccount({ account }: StoredConnector): string {
  return account === null
    ? 'This connector has a sample account, and these credentials belong to a real one. Create another connector for it.'
    : 'These credentials belong to another account than the one that this connector was created for. Create another connector for it.';
}

const outcome = shownAs<ProviderCheck>()('ConnectorCheck', {
  status: [z.enum(['succeeded', 'failed']), (check) => (refusalOf(check) === null ? 'succeeded' : 'failed')],
  error_message: [z.string().nullable(), refusalOf],
});

function refusalOf(check: ProviderCheck): string | null {
  return check.kind === 'account' ? null : check.why;
}

export const checkConnector = endpoint({
  ...ofConnector,
  summary: 'Try a connector',
  description:
    'Asks the third party whether it takes the credentials that the connector has. A third party that refuses is an answer, not an ' +
    'error: 200 with `status: failed`.',
  success: { description: 'What the third party said.', body: outcome.shape },
  refusals: { ...ofConnector.refusals, ...unasked('') },
  async handle({ path }, { principal, signal }, { connectors }) {
    const connector = connectors.byId(principal, path.id);
    return json(outcome.show(await connectors.check(connector, signal)));
  },
});

function namedDefinition(
  all: readonly Definition[],
  { definition_id: id, connector_type: name }: z.output<typeof newConnector>,
): Definition {
  const named = all.filter(
    (one) =>
      (!id || isAmong([one.id], id)) && (!name || isAmong([one.name, one.title, ...one.aliases], name)),
  );
  const [definition] = named;
  if (!id && !name) {
    throw new ApiError(422, 'Expected connector_type or definition_id.', {
      field: 'body',
      errorCode: 'value_error',
    });
  }
  if (definition !== undefined) return definition;
  throw new ApiError(404, 'There is no connector type of this name or id.', {
    field: id ? 'body.definition_id' : 'body.connector_type',
    errorCode: 'not_found',
  });
}

/** In any case. */
function isAmong(names: readonly string[], wanted: string): boolean {
  return names.some((name) => name.toLowerCase() === wanted.toLowerCase());
}

/**
 * Holds credentials (null: none are given) against the definition's ways to sign in. Whether the third party takes them
 * is another question. Throws `ApiError` 422 with the path of each wrong field.
 */
function checkCredentials(definition: Definition, credentials: JsonObject | null): void {
  const problems = credentialProblems(definition, credentials);
  if (problems.length === 0) return;
  throw new ApiError(
    422,
    `The credentials are not of a shape that the connector type '${definition.title}' takes.`,
    {
      errors: problems.map(({ field, code, message }) => ({
        field: field === null ? 'body.credentials' : `body.credentials.${field}`,
        message,
        error_code: code,
        details: null,
      })),
    },
  );
}
