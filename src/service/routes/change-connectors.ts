import { randomUUID } from 'node:crypto';
import * as z from 'zod';
import type { Definition } from '../../definitions/definition.ts';
import { ApiError } from '../api-error.ts';
import type { ProviderCheck } from '../provider.ts';
import { maxNameLength } from '../state/plain-name.ts';
import type { StoredConnector, Workspace } from '../state/service-state.ts';
import { connectorDetail, toDetail } from './connector-answers.ts';
import { checkRequestedEntities, readStoredConfig, toStoredConfig } from './connector-config.ts';
import { endpoint } from './endpoint.ts';
import { ensureWorkspace, workspaceByName } from './find-workspace.ts';
import {
  checkCredentials,
  connectorChange,
  definitionFor,
  givenFields,
  newConnector,
} from './new-connector.ts';
import { connectorPath } from './shapes.ts';

export const createConnector = endpoint({
  method: 'POST',
  path: '/api/v1/integrations/connectors',
  operationId: 'createConnector',
  tag: 'Connectors',
  summary: 'Create a connector',
  description:
    'Binds credentials to a connector type. The third party is asked whether it takes them, and to which account they belong; the ' +
    'connector keeps to that account. They are kept encrypted and are in no answer.\n\n' +
    'Without credentials, or with those whose first text begins with `sample`, the connector has a sample account and asks no ' +
    'third party; so has every connector of a server that was started with --samples.\n\n' +
    'An application token makes the workspace where there is none of its name; to a scoped token every other workspace is ' +
    'unknown. The indexed store begins to fill at once.',
  access: 'workspace',
  request: { body: newConnector },
  success: { status: 200, description: 'The connector.', body: connectorDetail },
  refusals: {
    404: 'There is no such connector type; for a scoped token also: it is another workspace.',
    409: 'The organization has as many connectors or workspaces as it may have.',
    422: 'The fields are not as expected, or the third party does not take the credentials.',
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
      replicationConfig: toStoredConfig({
        replication: body.replication_config ?? {},
        environment: body.environment ?? {},
        entities: body.entities ?? null,
      }),
    });
    state.audit.note(principal, 'connector.created', stored.id, givenFields(body));
    await connectors.settleStore(stored);
    return { kind: 'json', body: toDetail({ stored, definition, workspace }) };
  },
});

export const updateConnector = endpoint({
  method: 'PUT',
  path: '/api/v1/integrations/connectors/{id}',
  operationId: 'updateConnector',
  tag: 'Connectors',
  summary: 'Change a connector',
  description:
    'Changes what is given and leaves the rest. The third party is asked about new credentials; those of another account are refused. ' +
    'They count from the next call on, and the indexed store is brought up to date with them at once.',
  access: 'workspace',
  request: { path: connectorPath, body: connectorChange },
  success: { status: 200, description: 'The connector as it is now.', body: connectorDetail },
  refusals: {
    404: 'There is no such connector.',
    409: 'The credentials belong to another account.',
    422: 'The fields are not as expected, or the third party does not take the credentials.',
  },
  example: { path: { id: 'sample-newsletter' }, body: { name: 'Newsletter' } },
  async handle({ path, body }, { principal, signal }, { state, connectors }) {
    const { stored, definition } = connectors.byId(principal, path.id);
    checkRequestedEntities(definition, body.entities);
    if (body.credentials !== undefined && body.credentials !== null) {
      checkCredentials(definition, body.credentials);
      const asked = { definition, connectorId: stored.id };
      const account = accountOf(await connectors.checkNew(asked, body.credentials, signal));
      if (account !== stored.account) {
        throw new ApiError(409, otherAccount(stored), {
          field: 'body.credentials',
          errorCode: 'identity_changed',
        });
      }
    }
    const fields = givenFields(body);
    if (fields.length > 0) {
      const before = readStoredConfig(stored.replicationConfig);
      state.connectors.update(principal.organizationId, stored.id, {
        name: body.name ?? stored.name,
        ...(body.credentials ? { credentials: body.credentials } : {}),
        replicationConfig: toStoredConfig({
          replication: body.replication_config ?? before.replication,
          environment: body.environment ?? before.environment,
          entities: body.entities ?? before.entities,
        }),
      });
      state.audit.note(principal, 'connector.updated', stored.id, fields);
      // They may open another account, or one that was shut: the store does not wait for its time.
      if (body.credentials) await connectors.settleStore(stored);
    }
    return { kind: 'json', body: toDetail(connectors.byId(principal, path.id)) };
  },
});

export const deleteConnector = endpoint({
  method: 'DELETE',
  path: '/api/v1/integrations/connectors/{id}',
  operationId: 'deleteConnector',
  tag: 'Connectors',
  summary: 'Delete a connector',
  description:
    'With its credentials and its indexed store. The answer names a job because clients expect one; here the work is done when it comes.',
  access: 'workspace',
  request: { path: connectorPath },
  success: {
    status: 202,
    description: 'The connector is gone.',
    body: z.object({ job_id: z.guid() }).meta({ id: 'ConnectorDeletion' }),
  },
  refusals: { 404: 'There is no such connector.' },
  example: { path: { id: 'sample-newsletter' } },
  async handle({ path }, { principal }, { state, connectors }) {
    const { stored } = connectors.byId(principal, path.id);
    await connectors.delete(stored);
    state.audit.note(principal, 'connector.deleted', stored.id);
    return { kind: 'json', body: { job_id: randomUUID() } };
  },
});

/** Null: a sample account, which takes any credentials until it is asked for records. Throws `ApiError` 422 where the third party does not take them. */
function accountOf(check: ProviderCheck): string | null {
  if (check.kind === 'refused') {
    throw new ApiError(422, check.why, {
      field: 'body.credentials',
      errorCode: 'third_party_refused',
    });
  }
  return check.kind === 'account' ? check.account : null;
}

/** Their records must not come under one connector. */
function otherAccount({ account }: StoredConnector): string {
  return account === null
    ? 'This connector has a sample account, and these credentials belong to a real one. Create another connector for it.'
    : 'These credentials belong to another account than the one that this connector was created for. Create another connector for it.';
}

function defaultName({ title }: Definition, { name }: Workspace): string {
  const both = `${title} (${name})`;
  return both.length <= maxNameLength ? both : title;
}

const outcome = z
  .object({
    id: z.guid().describe('Of the check.'),
    status: z.enum(['succeeded', 'failed']),
    error_message: z.string().nullable(),
    failure_reason: z
      .object({ timestamp: z.int(), failure_type: z.literal('config_error'), external_message: z.string() })
      .nullable(),
    entity_check_results: z.null(),
  })
  .meta({ id: 'ConnectorCheck' });

export const checkNewConnector = endpoint({
  method: 'POST',
  path: '/api/v1/integrations/connectors/check',
  operationId: 'checkNewConnector',
  tag: 'Connectors',
  summary: 'Try what a connector would be made of',
  description:
    'Takes the body of a creation, asks the third party whether it takes the credentials, and keeps nothing. A third party that says no ' +
    'is an answer, not an error: 200 with `status: failed`.',
  access: 'workspace',
  request: { body: newConnector },
  success: { status: 200, description: 'What the third party said.', body: outcome },
  refusals: { 404: 'There is no such connector type; for a scoped token also: it is another workspace.' },
  example: {
    body: { workspace_name: 'default', connector_type: 'email-marketing', credentials: { api_key: '…' } },
  },
  async handle({ body }, { principal, signal }, { state, definitions, connectors, clock }) {
    if (principal.kind === 'scoped') workspaceByName(state, principal, body.workspace_name);
    const definition = definitionFor(definitions, body);
    const check = await connectors.checkNew({ definition }, body.credentials ?? null, signal);
    return { kind: 'json', body: toOutcome(check, clock.now()) };
  },
});

export const checkConnector = endpoint({
  method: 'POST',
  path: '/api/v1/integrations/connectors/{id}/check',
  operationId: 'checkConnector',
  tag: 'Connectors',
  summary: 'Try a connector, or a change to it',
  description:
    'Asks the third party about the credentials in the body, or, where there are none or no body, about those that the connector has.',
  access: 'workspace',
  request: { path: connectorPath, body: connectorChange.optional() },
  success: { status: 200, description: 'What the third party said.', body: outcome },
  refusals: { 404: 'There is no such connector.' },
  example: { path: { id: 'sample-newsletter' }, body: {} },
  async handle({ path, body }, { principal, signal }, { connectors, clock }) {
    const connector = connectors.byId(principal, path.id);
    const { definition, stored } = connector;
    checkRequestedEntities(definition, body?.entities);
    if (!body?.credentials) {
      return { kind: 'json', body: toOutcome(await connectors.check(connector, signal), clock.now()) };
    }
    checkCredentials(definition, body.credentials);
    const asked = { definition, connectorId: stored.id };
    const check = await connectors.checkNew(asked, body.credentials, signal);
    const account = check.kind === 'account' ? check.account : null;
    const isOther = check.kind !== 'refused' && account !== stored.account;
    const judged: ProviderCheck = isOther ? { kind: 'refused', why: otherAccount(stored) } : check;
    return { kind: 'json', body: toOutcome(judged, clock.now()) };
  },
});

function toOutcome(check: ProviderCheck, now: number): z.input<typeof outcome> {
  const why = check.kind === 'account' ? null : check.why;
  const reason =
    why === null
      ? null
      : {
          timestamp: Math.floor(now / 1000),
          failure_type: 'config_error' as const,
          external_message: why,
        };
  return {
    id: randomUUID(),
    status: reason === null ? 'succeeded' : 'failed',
    error_message: reason?.external_message ?? null,
    failure_reason: reason,
    entity_check_results: null,
  };
}
