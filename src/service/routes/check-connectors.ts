import { randomUUID } from 'node:crypto';
import * as z from 'zod';
import type { ProviderCheck } from '../provider.ts';
import { otherAccount } from './change-connectors.ts';
import { endpoint, json, ofConnector, shownAs } from './endpoint.ts';
import { workspaceByName } from '../local-connectors.ts';
import {
  checkCredentials,
  checkRequestedEntities,
  connectorChange,
  definitionFor,
  newConnector,
} from './new-connector.ts';

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
  method: 'POST',
  path: '/api/v1/integrations/connectors/check',
  operationId: 'checkNewConnector',
  tag: 'Connectors',
  summary: 'Validate a new connector',
  description:
    'Takes the body of a creation, asks the third party whether it takes the credentials, and keeps nothing. A third party that refuses ' +
    'is an answer, not an error: 200 with `status: failed`.',
  access: 'workspace',
  request: { body: newConnector },
  success: { status: 200, description: 'What the third party said.', body: outcome.shape },
  refusals: {
    404: 'There is no such connector type; for a scoped token also: it is another workspace.',
    502: 'The third party cannot be asked.',
    504: 'The third party did not answer in time.',
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
  method: 'POST',
  path: '/api/v1/integrations/connectors/{id}/check',
  operationId: 'checkConnector',
  summary: 'Try a connector, or a change to it',
  description:
    'Asks the third party about the credentials in the body, or, where there are none or no body, about those that the connector has.',
  request: { ...ofConnector.request, body: connectorChange.optional() },
  success: { status: 200, description: 'What the third party said.', body: outcome.shape },
  refusals: {
    ...ofConnector.refusals,
    502: 'The third party cannot be asked.',
    504: 'The third party did not answer in time.',
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
