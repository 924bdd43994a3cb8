import * as z from 'zod';
import { config, requestedEntities } from './connector-config.ts';
import { givenName } from './given-text.ts';
import { givenCredentials } from './new-connector.ts';

/** What may be changed of a connector, or checked before it is. Null, like absent, leaves it as it is. */
export const connectorChange = z
  .object({
    name: givenName().nullish(),
    credentials: givenCredentials.nullish(),
    replication_config: config.nullish(),
    environment: config.nullish(),
    entities: requestedEntities.nullish().describe('An empty array takes the selection back.'),
  })
  .meta({ id: 'ConnectorChange' });
