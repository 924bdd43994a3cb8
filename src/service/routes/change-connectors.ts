import { randomUUID } from 'node:crypto';
import * as z from 'zod';
import type { Definition } from '../../definitions/definition.ts';
import { ApiError } from '../api-error.ts';
import type { ProviderCheck } from '../provider.ts';
import { maxNameLength } from '../state/plain-name.ts';
import type { StoredConnector } from '../state/connectors.ts';
import type { Workspace } from '../state/workspaces.ts';
import { connectorDetail } from './connector-answers.ts';
import { endpoint, json, ofConnector } from './endpoint.ts';
import { addressFor, ensureWorkspace, workspaceByName } from '../local-connectors.ts';
import {
  checkCredentials,
  checkRequestedEntities,
  connectorChange,
  connectorConfig,
  definitionFor,
  givenFields,
  newConnector,
} from './new-connector.ts';

export const createConnector = endpoint({
  method: 'POST',
  path: '/api/v1/integrations/connectors',
  operationId: 'createConnector',
  tag: 'Connectors',
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
    502: 'The third party cannot be asked: nothing was changed.',
    504: 'The third party did not answer in time: nothing was changed.',
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
    state.audit.note(principal, 'connector.created', stored.id, givenFields(body));
    await connectors.settleStore(stored);
    return json(connectorDetail.show({ stored, definition, workspace }));
  },
});

export const updateConnector = endpoint({
  ...ofConnector,
  method: 'PUT',
  path: '/api/v1/integrations/connectors/{id}',
  operationId: 'updateConnector',
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
    502: 'The third party cannot be asked: nothing was changed.',
    504: 'The third party did not answer in time: nothing was changed.',
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
        throw new ApiError(409, otherAccount(stored), {
          field: 'body.credentials',
          errorCode: 'identity_changed',
        });
      }
    }
    const fields = givenFields(body);
    if (fields.length > 0) {
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
      state.audit.note(principal, 'connector.updated', stored.id, fields);
      // They may open another account, or one that was shut: the store does not wait for its time.
      if (body.credentials) await connectors.settleStore(stored);
    }
    return json(connectorDetail.show(connectors.byId(principal, path.id)));
  },
});

export const deleteConnector = endpoint({
  ...ofConnector,
  method: 'DELETE',
  path: '/api/v1/integrations/connectors/{id}',
  operationId: 'deleteConnector',
  summary: 'Delete a connector',
  description:
    'With its credentials and its indexed store. The answer names a job because clients expect one; here the work is done when it comes.',
  success: {
    status: 202,
    description: 'The connector was deleted.',
    body: z.object({ job_id: z.guid() }).meta({ id: 'ConnectorDeletion' }),
  },
  async handle({ path }, { principal }, { state, connectors }) {
    const { stored } = connectors.byId(principal, path.id);
    await connectors.delete(stored);
    state.audit.note(principal, 'connector.deleted', stored.id);
    return json({ job_id: randomUUID() });
  },
});

/**
 * Null: a sample account, which takes any credentials until it is asked for records. Throws `ApiError` 422 where the
 * third party does not take them.
 */
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
export function otherAccount({ account }: StoredConnector): string {
  return account === null
    ? 'This connector has a sample account, and these credentials belong to a real one. Create another connector for it.'
    : 'These credentials belong to another account than the one that this connector was created for. Create another connector for it.';
}

function defaultName({ title }: Definition, { name }: Workspace): string {
  const both = `${title} (${name})`;
  return both.length <= maxNameLength ? both : title;
}
