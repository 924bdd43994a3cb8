import type { Definition } from '../../definitions/definition.ts';
import type { Endpoint, Tag } from '../routes/endpoint.ts';
import { connectorTypes, type ConnectorType } from './connector-types.ts';
import { describeOperation, type Operation } from './describe-operation.ts';
import { collectSchemas, type JsonSchema } from './schema-of.ts';

/** An OpenAPI 3.1 document, as far as this service makes use of the format. */
export interface OpenApiDocument {
  readonly openapi: '3.1.1';
  readonly info: {
    readonly title: string;
    readonly version: string;
    readonly description: string;
    /** `identifier`: of SPDX's list. */
    readonly license: { readonly name: string; readonly identifier: string };
  };
  readonly servers: readonly { readonly url: string }[];
  readonly tags: readonly { readonly name: Tag; readonly description: string }[];
  /** Path -> method in lower case -> operation. */
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  /** What execute takes depends on the connector type: as data, because OpenAPI cannot say it of one path. */
  readonly 'x-connector-types': readonly ConnectorType[];
  readonly components: {
    readonly schemas: Readonly<Record<string, JsonSchema>>;
    readonly securitySchemes: Readonly<Record<string, unknown>>;
  };
}

/** The document is made of the same declarations that the server routes and parses by: there is no second description. */
export function openApiDocument(
  endpoints: readonly Endpoint[],
  definitions: Iterable<Definition>,
): OpenApiDocument {
  const schemas = collectSchemas();
  const paths: Record<string, Record<string, Operation>> = {};
  for (const endpoint of endpoints) {
    const operations = (paths[endpoint.path] ??= {});
    operations[endpoint.method.toLowerCase()] = describeOperation(endpoint, schemas);
  }
  return {
    openapi: '3.1.1',
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
    'x-connector-types': connectorTypes(definitions),
    components: {
      schemas: schemas.named,
      securitySchemes: {
        bearer: { type: 'http', scheme: 'bearer', description: 'An application token or a scoped token.' },
      },
    },
  };
}

const tags: OpenApiDocument['tags'] = [
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
