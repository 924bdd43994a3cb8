import * as z from 'zod';
import type { JsonObject } from '../../core/json.ts';
import { isConnectorId, type ConnectorId } from '../../core/names.ts';
import type { ApiCall } from './api-caller.ts';
import { catalogFacts } from './catalog-facts.ts';
import { checkConnectorId } from './check-connector-id.ts';
import { readAnswer } from './read-answer.ts';
import { stringifyParams } from './json-text.ts';

export interface NewConnector {
  readonly workspace: string;
  readonly definitionId: string;
  /** Null: the service makes one up. */
  readonly name: string | null;
  /** For the third party; they travel in the body and nowhere else. Null: none are sent. */
  readonly credentials: JsonObject | null;
}

export interface CreatedConnector {
  readonly id: ConnectorId;
  readonly name: string | null;
}

const connectorsPath = '/api/v1/integrations/connectors';

const created = z.object({
  id: z.string().refine(isConnectorId, 'expected letters, digits, "_" and "-"'),
  name: z.string().nullish(),
});
const deleted = z.object({ job_id: z.string().nullish() });

/** `POST connectors`: sent again only where it cannot have been done. */
export function createConnectorCall(connector: NewConnector): ApiCall<CreatedConnector> {
  const facts = catalogFacts('create the connector', true);
  const { workspace, definitionId, name, credentials } = connector;
  return {
    request: {
      method: 'POST',
      path: connectorsPath,
      query: {},
      body: stringifyParams({
        workspace_name: workspace,
        definition_id: definitionId,
        ...(name === null ? {} : { name }),
        ...(credentials === null ? {} : { credentials }),
      }),
    },
    facts,
    read({ text }) {
      const answer = readAnswer(text, created, facts);
      return { id: answer.id, name: answer.name ?? null };
    },
  };
}

/** `DELETE connectors/{id}`: answered when it is accepted; the job's id where the service gives one. */
export function deleteConnectorCall(id: ConnectorId): ApiCall<string | null> {
  const facts = catalogFacts('delete the connector', true);
  return {
    request: { method: 'DELETE', path: `${connectorsPath}/${checkConnectorId(id)}`, query: {}, body: null },
    facts,
    // The status has said that it is done: a body that says nothing more is no failure.
    read: ({ text }) => (text.trim() === '' ? null : (readAnswer(text, deleted, facts).job_id ?? null)),
  };
}
