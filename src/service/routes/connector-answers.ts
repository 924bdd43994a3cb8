import * as z from 'zod';
import type { LocalConnector } from '../local-connectors.ts';
import { credentialsSchema, iconUrl, templateId } from './definition-endpoints.ts';
import { connectorConfig, requestedEntities } from './new-connector.ts';
import { searchableEntities } from '../store/store-entities.ts';
import { jsonObject, time } from './endpoint.ts';

const template = z.object({
  id: z.guid(),
  name: z.string(),
  icon: z.url().nullable(),
  connector_name: z.string().nullable().describe("The definition's short name."),
  organization_id: z.guid().nullable(),
  actor_definition_id: z.guid().describe('The `sourceDefinitionId` of the connector type.'),
  tags: z.array(z.string()),
  customization: z.null(),
  mode: z.enum(['DIRECT', 'REPLICATION', 'MULTI']),
  runtime_mode: z.enum(['direct_only', 'context_store_only', 'direct_and_context_store']),
  supports_context_store: z.boolean(),
  created_at: time,
  updated_at: time,
});

const summarizedTemplate = template.meta({ id: 'SummarizedSourceTemplate' });

const detailedTemplate = template
  .extend({
    source_definition_id: z.guid(),
    user_config_spec: z.object({ connectionSpecification: jsonObject }),
    partial_default_config: jsonObject,
    is_experimental: z.boolean(),
  })
  .meta({ id: 'SourceTemplate' });

export const connectorSummary = z
  .object({
    id: z.string(),
    name: z.string(),
    summarized_source_template: summarizedTemplate,
    created_at: time,
    updated_at: time,
  })
  .meta({ id: 'ConnectorSummary' });

/** What a connector was made with, but for its credentials: those are in no answer. */
export const connectorDetail = z
  .object({
    id: z.string(),
    name: z.string(),
    source_template: detailedTemplate,
    replication_config: jsonObject,
    environment: jsonObject,
    entities: requestedEntities.nullable(),
    account_id: z
      .string()
      .nullable()
      .describe('The account at the third party, as that one names it; null for a sample account.'),
    created_at: time,
    updated_at: time,
  })
  .meta({ id: 'Connector' });

export function toSummary(connector: LocalConnector): z.input<typeof connectorSummary> {
  const { id, name, createdAt, updatedAt } = connector.stored;
  const summarized = templateOf(connector);
  return { id, name, summarized_source_template: summarized, created_at: createdAt, updated_at: updatedAt };
}

export function toDetail(connector: LocalConnector): z.input<typeof connectorDetail> {
  const { stored, definition } = connector;
  const { replication, ...config } = connectorConfig.parse(stored.replicationConfig);
  return {
    id: stored.id,
    name: stored.name,
    source_template: {
      ...templateOf(connector),
      source_definition_id: definition.id,
      user_config_spec: { connectionSpecification: credentialsSchema(definition) },
      partial_default_config: {},
      is_experimental: false,
    },
    replication_config: replication,
    ...config,
    account_id: stored.account,
    created_at: stored.createdAt,
    updated_at: stored.updatedAt,
  };
}

/** Definitions come with the program and have no dates of their own. */
const bornAt = '2024-02-01T09:30:00.000Z';

function templateOf({ definition, stored }: LocalConnector): z.input<typeof template> {
  const isSearchable = searchableEntities(definition).length > 0;
  return {
    id: templateId(definition),
    name: definition.title,
    icon: iconUrl(definition),
    connector_name: definition.name,
    organization_id: stored.organizationId,
    actor_definition_id: definition.id,
    tags: [],
    customization: null,
    mode: 'DIRECT',
    runtime_mode: isSearchable ? 'direct_and_context_store' : 'direct_only',
    supports_context_store: isSearchable,
    created_at: bornAt,
    updated_at: bornAt,
  };
}
