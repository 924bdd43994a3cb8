import type { Definition } from '../../definitions/definition.ts';
import type { Endpoint, Tag } from '../routes/endpoint.ts';
import { collectSchemas, describeOperation, type Operation } from './describe-operation.ts';

/** An OpenAPI 3.1 document, as far as this service makes use of the format. */
export type OpenApiDocument = ReturnType<typeof openApiDocument>;

/**
 * The document is made of the same declarations that the server routes and parses by: there is no second description.
 */
export function openApiDocument(endpoints: readonly Endpoint[], definitions: Iterable<Definition>) {
  const schemas = collectSchemas();
  /** Path -> method in lower case -> operation. */
  const paths: Record<string, Record<string, Operation>> = {};
  for (const endpoint of endpoints) {
    const operations = (paths[endpoint.path] ??= {});
    operations[endpoint.method.toLowerCase()] = describeOperation(endpoint, schemas);
  }
  return {
    openapi: '3.1.1' as const,
    info: {
      title: 'Connector Execution API',
      version: '1',
      description:
        'Connectors to third-party services: create them, run their actions, search what they hold. Served by connector-sync on this machine.',
      license: { name: 'Apache License 2.0', identifier: 'Apache-2.0' },
    },
    // Relative: right under whatever name the service was reached.
    servers: [{ url: '/' }],
    tags,
    paths,
    // What execute takes depends on the connector type: as data, because OpenAPI cannot say it of one path.
    'x-connector-types': connectorTypes(definitions),
    components: {
      schemas: schemas.named,
      securitySchemes: {
        bearer: { type: 'http', scheme: 'bearer', description: 'An application token or a scoped token.' },
      },
    },
  };
}

const tags: readonly { readonly name: Tag; readonly description: string }[] = [
  {
    name: 'Authentication',
    description: 'Client credentials for tokens: of the whole organization, or of one workspace.',
  },
  { name: 'Definitions', description: 'The connector types.' },
  { name: 'Connectors', description: 'A connector type, bound to credentials, in a workspace.' },
  { name: 'Execute', description: 'Read records and files, live or from the indexed store.' },
  { name: 'Workspaces', description: 'What connectors are kept apart by.' },
  { name: 'Reference', description: 'This description.' },
];

export type ConnectorType = ReturnType<typeof connectorTypes>[number];

/** What execute takes for the connectors of each type. */
function connectorTypes(definitions: Iterable<Definition>) {
  return [...definitions].map(({ name, title, id, entities }) => ({
    name,
    title,
    id,
    actions: [...entities.values()].flatMap((entity) =>
      [...entity.actions].map(([action, { params }]) => ({
        entity: entity.name,
        action,
        params: [...params].map(([param, declared]) => ({
          name: param,
          type: declared.type,
          required: declared.required,
          enum: declared.enum,
          default: declared.default,
          maximum: declared.max,
        })),
        // What a search returns and can be asked for.
        fields: action === 'context_store_search' ? [...entity.searchable.keys()] : [],
      })),
    ),
  }));
}
