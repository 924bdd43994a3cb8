import * as z from 'zod';
import type { LocalConnector } from '../local-connectors.ts';
import { credentialsSchema, iconUrl, templateId } from './definition-endpoints.ts';
import { connectorConfig, requestedEntities } from './new-connector.ts';
import { searchableEntities } from '../store/store-entities.ts';
import { jsonObject, shownAs, time } from './endpoint.ts';

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

export const connectorSummary = shownAs<LocalConnector>()('ConnectorSummary', {
  id: [z.string(), ({ stored }) => stored.id],
  name: [z.string(), ({ stored }) => stored.name],
  summarized_source_template: [summarizedTemplate.shape, summarizedTemplate.show],
  created_at: [time, ({ stored }) => stored.createdAt],
  updated_at: [time, ({ stored }) => stored.updatedAt],
});

/** What a connector was made with, but for its credentials: those are in no answer. */
export const connectorDetail = shownAs<LocalConnector>()('Connector', {
  id: [z.string(), ({ stored }) => stored.id],
  name: [z.string(), ({ stored }) => stored.name],
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
  created_at: [time, ({ stored }) => stored.createdAt],
  updated_at: [time, ({ stored }) => stored.updatedAt],
});

function configOf({ stored }: LocalConnector) {
  return connectorConfig.parse(stored.replicationConfig);
}
