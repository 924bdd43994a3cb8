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
} from '../local-connectors.ts';
import type { ProviderCheck } from '../provider.ts';
import type { Principal, StoredConnector, ServiceState, Workspace } from '../state/open-service-state.ts';
import { maxNameLength } from '../state/open-state-file.ts';
import {
  entityReadiness,
  type EntityStatus,
  readiness,
  type StoreStatus,
} from '../store/open-context-stores.ts';
import { searchableEntities } from '../store/store-ledger.ts';
import { credentialsSchema, definitionById, iconUrl, templateId } from './catalog-endpoints.ts';
import {
  type ApiParts,
  endpoint,
  givenName,
  givesSomething,
  json,
  jsonObject,
  ofConnector,
  shownAs,
  time,
} from './endpoint.ts';

const members = z.record(z.string(), z.custom<JsonValue>());
const maxConfigBytes = 64 * 1024;

/** An object that is kept and shown as it came. */
const config = members.refine(
  (value) => Buffer.byteLength(JSON.stringify(value)) <= maxConfigBytes,
  `Expected at most ${maxConfigBytes} bytes.`,
);

const requestedEntities = z
  .array(
    z.object({
      entity: z.string(),
      modes: z.array(z.enum(['read', 'write'])).nullish(),
    }),
  )
  .max(256);

const keptMembers = members.nullish().transform((given) => given ?? {});

/** Settings that a connector was created with, without its credentials, as one object for the service's state. */
export const connectorConfig = z.object({
  replication: keptMembers,
  environment: keptMembers,
  entities: requestedEntities
    .transform((entities) => entities.map(({ entity, modes }) => ({ entity, modes: modes ?? null })))
    .nullish()
    .transform((entities) => entities ?? null),
});

/** Shape is one thing, values another: see `checkCredentials`. */
const givenCredentials = members.describe("As the connector type's `connectionSpecification` has it.");

/** Body of a request that creates a connector, or checks one before that. */
const newConnector = z
  .object({
    workspace_name: givenName().describe('Made where there is none of this name.'),
    definition_id: z.guid().nullish().describe('One of these three says of what type the connector is.'),
    connector_type: z
      .string()
      .nullish()
      .describe("The type's name, short name or another name of it, in any case."),
    source_template_id: z.guid().nullish(),
    name: givenName().nullish().describe('Made of the type and the workspace where none is given.'),
    credentials: givenCredentials.nullish(),
    replication_config: config.nullish().describe('Kept and shown. It is no place for secrets.'),
    environment: config.nullish().describe('As replication_config.'),
    entities: requestedEntities.nullish().describe('Kept and shown; the indexed store holds all entities.'),
    server_side_oauth_secret_id: z.null().optional().describe('Not offered: expected null.'),
    selected_connection_template_tags: z
      .array(z.string())
      .max(256)
      .nullish()
      .describe('Accepted and not used.'),
    selected_connection_template_tags_mode: z.enum(['all', 'any']).nullish(),
  })
  .meta({ id: 'NewConnector' });

/** Body of a request that changes a connector, or checks a change. Null, like absent, keeps the value. */
const connectorChange = z
  .object({
    name: givenName().nullish(),
    credentials: givenCredentials.nullish(),
    replication_config: config.nullish(),
    environment: config.nullish(),
    entities: requestedEntities.nullish().describe('An empty array takes the selection back.'),
  })
  .meta({ id: 'ConnectorChange' });

/** Definitions come with the program and have no dates. */
const bornAt = '2024-02-01T09:30:00.000Z';

const templateFields = {
  id: [z.guid(), ({ definition }: LocalConnector) => templateId(definition)],
  name: [z.string(), ({ definition }: LocalConnector) => definition.title],
  icon: [z.url().nullable(), ({ definition }: LocalConnector) => iconUrl(definition)],
  connector_name: [
    z.string().nullable().describe("The definition's short name."),
    ({ definition }: LocalConnector) => definition.name,
  ],
  organization_id: [z.guid().nullable(), ({ stored }: LocalConnector) => stored.organizationId],
  actor_definition_id: [
    z.guid().describe('The `sourceDefinitionId` of the connector type.'),
    ({ definition }: LocalConnector) => definition.id,
  ],
  tags: [z.array(z.string()), () => []],
  customization: [z.null(), null],
  mode: [z.enum(['DIRECT', 'REPLICATION', 'MULTI']), 'DIRECT'],
  runtime_mode: [
    z.enum(['direct_only', 'context_store_only', 'direct_and_context_store']),
    (connector: LocalConnector) => (isSearchable(connector) ? 'direct_and_context_store' : 'direct_only'),
  ],
  supports_context_store: [z.boolean(), isSearchable],
  created_at: [time, bornAt],
  updated_at: [time, bornAt],
} as const;

function isSearchable({ definition }: LocalConnector): boolean {
  return searchableEntities(definition).length > 0;
}

const summarizedTemplate = shownAs<LocalConnector>()('SummarizedSourceTemplate', templateFields);

const detailedTemplate = shownAs<LocalConnector>()('SourceTemplate', {
  ...templateFields,
  source_definition_id: [z.guid(), ({ definition }) => definition.id],
  user_config_spec: [
    z.object({ connectionSpecification: jsonObject }),
    ({ definition }) => ({ connectionSpecification: credentialsSchema(definition) }),
  ],
  partial_default_config: [jsonObject, () => ({})],
  is_experimental: [z.boolean(), false],
});

const named = {
  id: [z.string(), ({ stored }: LocalConnector) => stored.id],
  name: [z.string(), ({ stored }: LocalConnector) => stored.name],
} as const;
const dated = {
  created_at: [time, ({ stored }: LocalConnector) => stored.createdAt],
  updated_at: [time, ({ stored }: LocalConnector) => stored.updatedAt],
} as const;

export const connectorSummary = shownAs<LocalConnector>()('ConnectorSummary', {
  ...named,
  summarized_source_template: [summarizedTemplate.shape, summarizedTemplate.show],
  ...dated,
});

/** A connector as answers show it: without its credentials. */
export const connectorDetail = shownAs<LocalConnector>()('Connector', {
  ...named,
  source_template: [detailedTemplate.shape, detailedTemplate.show],
  replication_config: [jsonObject, (connector) => configOf(connector).replication],
  environment: [jsonObject, (connector) => configOf(connector).environment],
  entities: [requestedEntities.nullable(), (connector) => configOf(connector).entities],
  account_id: [
    z
      .string()
      .nullable()
      .describe(
        'The account at the third party, as that one names it; null where it does not, and for a sample account.',
      ),
    ({ stored }) => (stored.account === '' ? null : stored.account),
  ],
  ...dated,
});

function configOf({ stored }: LocalConnector) {
  return connectorConfig.parse(stored.replicationConfig);
}

export const showConnector = endpoint({
  ...ofConnector,
  summary: 'Show a connector',
  description: 'All that a connector was made with, but for its credentials.',
  success: { status: 200, description: 'The connector.', body: connectorDetail.shape },
  handle: ({ path }, { principal }, { connectors }) =>
    json(connectorDetail.show(connectors.byId(principal, path.id))),
});

interface Inspected {
  readonly connector: LocalConnector;
  readonly status: StoreStatus;
}

const cachedEntity = shownAs<EntityStatus>()(null, {
  entity: [z.string(), ({ entity }) => entity],
  status: [entityReadiness, ({ status }) => status],
  ready_for_search: [z.boolean(), ({ isSearchable }) => isSearchable],
  supported: [z.boolean(), true],
  entity_count: [z.int().nullable(), ({ records }) => records],
  updated_at: [time.nullable(), ({ updatedAt }) => updatedAt],
  semantic_search_status: [z.array(z.never()), () => []],
});

const storeReadiness = shownAs<Inspected>()(null, {
  connector_id: [z.string(), ({ connector }) => connector.stored.id],
  source_definition_id: [z.guid(), ({ connector }) => connector.definition.id],
  readiness: [
    readiness.describe('Of the whole store. Search works in Preview and Ready.'),
    ({ status }) => status.readiness,
  ],
  supported_context_store_entities: [
    z.array(z.object({ entity: z.string(), suggested: z.boolean() })),
    ({ connector }) =>
      searchableEntities(connector.definition).map(({ name }) => ({ entity: name, suggested: true })),
  ],
  configured_cache_entities: [
    z.array(cachedEntity.shape),
    ({ status }) => status.entities.map(cachedEntity.show),
  ],
});

const inspection = shownAs<Inspected>()('ConnectorInspection', {
  connector_id: [z.string(), ({ connector }) => connector.stored.id],
  name: [z.string(), ({ connector }) => connector.stored.name],
  workspace_id: [z.guid(), ({ connector }) => connector.stored.workspaceId],
  organization_id: [z.guid(), ({ connector }) => connector.stored.organizationId],
  source_definition_id: [z.guid(), ({ connector }) => connector.definition.id],
  source_definition_name: [z.string(), ({ connector }) => connector.definition.title],
  source_config_template_id: [z.guid(), ({ connector }) => templateId(connector.definition)],
  docs_skill_id: [z.string(), ({ connector }) => connector.definition.name],
  context_store_readiness: [storeReadiness.shape, storeReadiness.show],
  warnings: [z.array(z.string()), ({ connector, status }) => warningsOf(connector, status)],
});

export const inspectConnector = endpoint({
  ...ofConnector,
  summary: "Get the status of a connector's index",
  description:
    'Loading, Building Preview, Preview, Ready: in the last two `context_store_search` works. `warnings` says what keeps the store from ' +
    'being complete.',
  success: { status: 200, description: 'The connector and its store.', body: inspection.shape },
  handle({ path }, { principal }, { connectors }) {
    const connector = connectors.byId(principal, path.id);
    return json(inspection.show({ connector, status: connectors.status(connector) }));
  },
});

/** Reasons why the connector's store is incomplete. */
export function warningsOf({ workspace }: LocalConnector, { problem }: StoreStatus): string[] {
  const ofStore = problem === null ? [] : [problem];
  if (workspace.status === 'inactive') {
    return ['The workspace is inactive: its connectors are disabled.', ...ofStore];
  }
  if (!workspace.isCacheEnabled) {
    return ['cache_enabled is false in the workspace: there is no indexed store.', ...ofStore];
  }
  return ofStore;
}

const oldName = z
  .string()
  .min(1)
  .optional()
  .meta({ deprecated: true, description: 'An old name of workspace_name.' });

const query = z.object({
  workspace_name: z.string().min(1).optional(),
  workspace_id: z.guid().optional(),
  customer_name: oldName,
  external_user_id: oldName,
  definition_id: z.guid().optional().describe('Only connectors of this type.'),
});

export const listConnectors = endpoint({
  summary: 'List the connectors of a workspace',
  description:
    'In the order of their creation, not paginated. The workspace is named by `workspace_name` or `workspace_id`; where both are ' +
    'given, both must be right. A scoped token needs neither.',
  access: 'workspace',
  request: { query },
  success: {
    status: 200,
    description: 'The connectors. Their type stands in `summarized_source_template.actor_definition_id`.',
    body: z.object({ data: z.array(connectorSummary.shape) }).meta({ id: 'ConnectorList' }),
  },
  refusals: { 404: 'There is no such workspace.' },
  example: { query: { workspace_name: 'default' } },
  handle({ query: wanted }, { principal }, { state, definitions, connectors }) {
    const workspace = wantedWorkspace(state, principal, wanted);
    const id = wanted.definition_id;
    const definition = id === undefined ? null : definitionById(definitions, id);
    const found = definition === undefined ? [] : connectors.inWorkspace(workspace, definition);
    return json({ data: found.map(connectorSummary.show) });
  },
});

function wantedWorkspace(state: ServiceState, principal: Principal, wanted: z.output<typeof query>) {
  const id = wanted.workspace_id?.toLowerCase() ?? null;
  const name = wanted.workspace_name ?? wanted.customer_name ?? wanted.external_user_id ?? null;
  if (name !== null) {
    const found = workspaceByName(state, principal, name);
    // No workspace has both this name and this id.
    return id === null || found.id === id ? found : workspaceById(state, principal, '');
  }
  if (id !== null || principal.workspaceId !== null) {
    return workspaceById(state, principal, id ?? principal.workspaceId ?? '');
  }
  throw new ApiError(422, 'Expected workspace_name or workspace_id.', {
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
  success: { status: 200, description: 'The connector.', body: connectorDetail.shape },
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
    const definition = definitionFor(definitions, body);
    const credentials = body.credentials ?? null;
    // A third party is not asked on behalf of a token that may not create this.
    if (principal.kind === 'scoped') workspaceByName(state, principal, body.workspace_name);
    // Before anything is made: a check may take a while, and may say no.
    const account = accountOf(await connectors.checkNew({ definition }, credentials, signal));
    const workspace = ensureWorkspace(state, principal, body.workspace_name);
    const stored = state.connectors.create({
      organizationId: principal.organizationId,
      workspaceId: workspace.id,
      definition: definition.name,
      name: body.name ?? defaultName(definition, workspace),
      credentials,
      account,
      address: addressFor(definition, account, credentials),
      replicationConfig: connectorConfig.parse({ ...body, replication: body.replication_config }),
    });
    await connectors.settleStore(stored);
    return json(connectorDetail.show({ stored, definition, workspace }));
  },
});

export const updateConnector = endpoint({
  ...ofConnector,
  summary: 'Change a connector',
  description:
    'Changes what is given and leaves the rest. The third party is asked about new credentials; those of another account are refused. ' +
    'They count from the next call on, and the indexed store is brought up to date with them at once.',
  request: { ...ofConnector.request, body: connectorChange },
  success: { status: 200, description: 'The connector as it is now.', body: connectorDetail.shape },
  refusals: {
    ...ofConnector.refusals,
    409: 'The credentials belong to another account.',
    422: 'The fields are not as expected, or the third party does not take the credentials.',
    ...unasked(': nothing was changed'),
  },
  example: { ...ofConnector.example, body: { name: 'Newsletter' } },
  async handle({ path, body }, { principal, signal }, { state, connectors }) {
    const { stored, definition } = connectors.byId(principal, path.id);
    checkRequestedEntities(definition, body.entities);
    if (body.credentials !== undefined && body.credentials !== null) {
      checkCredentials(definition, body.credentials);
      const asked = { definition, connectorId: stored.id };
      const account = accountOf(await connectors.checkNew(asked, body.credentials, signal));
      if (account !== stored.account) {
        const at = { field: 'body.credentials', errorCode: 'identity_changed' };
        throw new ApiError(409, otherAccount(stored), at);
      }
    }
    if (givesSomething(body)) {
      const before = stored.replicationConfig;
      state.connectors.update(principal.organizationId, stored.id, {
        name: body.name ?? stored.name,
        ...(body.credentials
          ? {
              credentials: body.credentials,
              address: addressFor(definition, stored.account, body.credentials),
            }
          : {}),
        replicationConfig: connectorConfig.parse({
          replication: body.replication_config ?? before['replication'],
          environment: body.environment ?? before['environment'],
          entities: body.entities ?? before['entities'],
        }),
      });
      // They may open another account, or one that was shut: the store does not wait for its time.
      if (body.credentials) await connectors.settleStore(stored);
    }
    return json(connectorDetail.show(connectors.byId(principal, path.id)));
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
export function otherAccount({ account }: StoredConnector): string {
  return account === null
    ? 'This connector has a sample account, and these credentials belong to a real one. Create another connector for it.'
    : 'These credentials belong to another account than the one that this connector was created for. Create another connector for it.';
}

function defaultName({ title }: Definition, { name }: Workspace): string {
  const both = `${title} (${name})`;
  return both.length <= maxNameLength ? both : title;
}

/** `why`: why the check failed; null: it succeeded. */
const outcome = shownAs<{ readonly why: string | null; readonly now: number }>()('ConnectorCheck', {
  id: [z.guid().describe('Of the check.'), () => randomUUID()],
  status: [z.enum(['succeeded', 'failed']), ({ why }) => (why === null ? 'succeeded' : 'failed')],
  error_message: [z.string().nullable(), ({ why }) => why],
  failure_reason: [
    z
      .object({ timestamp: z.int(), failure_type: z.literal('config_error'), external_message: z.string() })
      .nullable(),
    ({ why, now }) =>
      why === null
        ? null
        : { timestamp: Math.floor(now / 1000), failure_type: 'config_error' as const, external_message: why },
  ],
  entity_check_results: [z.null(), null],
});

export const checkNewConnector = endpoint({
  summary: 'Validate a new connector',
  description:
    'Takes the body of a creation, asks the third party whether it takes the credentials, and keeps nothing. A third party that refuses ' +
    'is an answer, not an error: 200 with `status: failed`.',
  access: 'workspace',
  request: { body: newConnector },
  success: { status: 200, description: 'What the third party said.', body: outcome.shape },
  refusals: {
    404: 'There is no such connector type; for a scoped token also: it is another workspace.',
    ...unasked(''),
  },
  example: {
    body: { workspace_name: 'default', connector_type: 'email-marketing', credentials: { api_key: '…' } },
  },
  async handle({ body }, { principal, signal }, { state, definitions, connectors, clock }) {
    if (principal.kind === 'scoped') workspaceByName(state, principal, body.workspace_name);
    const definition = definitionFor(definitions, body);
    const check = await connectors.checkNew({ definition }, body.credentials ?? null, signal);
    return json(toOutcome(check, clock.now()));
  },
});

export const checkConnector = endpoint({
  ...ofConnector,
  summary: 'Try a connector, or a change to it',
  description:
    'Asks the third party about the credentials in the body, or, where there are none or no body, about those that the connector has.',
  request: { ...ofConnector.request, body: connectorChange.optional() },
  success: { status: 200, description: 'What the third party said.', body: outcome.shape },
  refusals: {
    ...ofConnector.refusals,
    ...unasked(''),
  },
  example: { ...ofConnector.example, body: {} },
  async handle({ path, body }, { principal, signal }, { connectors, clock }) {
    const connector = connectors.byId(principal, path.id);
    const { definition, stored } = connector;
    checkRequestedEntities(definition, body?.entities);
    if (!body?.credentials) {
      return json(toOutcome(await connectors.check(connector, signal), clock.now()));
    }
    checkCredentials(definition, body.credentials);
    const asked = { definition, connectorId: stored.id };
    const check = await connectors.checkNew(asked, body.credentials, signal);
    const account = check.kind === 'account' ? check.account : null;
    const isOther = check.kind !== 'refused' && account !== stored.account;
    const judged: ProviderCheck = isOther ? { kind: 'refused', why: otherAccount(stored) } : check;
    return json(toOutcome(judged, clock.now()));
  },
});

function toOutcome(check: ProviderCheck, now: number) {
  return outcome.show({ why: check.kind === 'account' ? null : check.why, now });
}

/** The type that a body names, with the rest of the body checked against it. Throws `ApiError` 404 or 422. */
function definitionFor(definitions: ApiParts['definitions'], body: z.output<typeof newConnector>) {
  const definition = namedDefinition([...definitions.values()], body);
  checkCredentials(definition, body.credentials ?? null);
  checkRequestedEntities(definition, body.entities);
  return definition;
}

function namedDefinition(
  all: readonly Definition[],
  { definition_id, connector_type, source_template_id }: z.output<typeof newConnector>,
): Definition {
  const named = [
    ['definition_id', definition_id, (one: Definition) => [one.id]],
    ['connector_type', connector_type, (one: Definition) => [one.name, one.title, ...one.aliases]],
    ['source_template_id', source_template_id, (one: Definition) => [templateId(one)]],
  ] as const;
  const found = new Set<Definition>();
  for (const [field, value, namesOf] of named) {
    if (value === null || value === undefined) continue;
    const wanted = value.toLowerCase();
    const definition = all.find((one) => namesOf(one).some((name) => name.toLowerCase() === wanted));
    if (definition === undefined) {
      throw new ApiError(404, 'There is no connector type of this name or id.', {
        field: `body.${field}`,
        errorCode: 'not_found',
      });
    }
    found.add(definition);
  }
  const [definition, another] = found;
  if (definition === undefined || another !== undefined) {
    throw new ApiError(
      422,
      definition === undefined
        ? 'One of connector_type, definition_id, or source_template_id must be provided.'
        : 'connector_type, definition_id and source_template_id name different connector types.',
      { field: 'body', errorCode: 'value_error' },
    );
  }
  return definition;
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

/**
 * Throws `ApiError` 422 for an entity that the definition does not have, and for writing, which no connector offers.
 */
function checkRequestedEntities(
  { entities: known }: Definition,
  entities: z.output<typeof requestedEntities> | null | undefined,
): void {
  const names: ReadonlySet<string> = new Set(known.keys());
  for (const [index, { entity, modes }] of (entities ?? []).entries()) {
    if (!names.has(entity)) {
      throw wrong(`${index}.entity`, `Expected one of ${[...names].join(', ')}.`);
    }
    if (modes?.includes('write') === true) {
      throw wrong(`${index}.modes`, 'Expected read: the connectors of this service do not write.');
    }
  }
}

function wrong(place: string, message: string): ApiError {
  return new ApiError(422, message, { field: `body.entities.${place}`, errorCode: 'value_error' });
}
