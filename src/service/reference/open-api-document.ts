import * as z from 'zod';
import { apiError } from '../api-error.ts';
import type { Endpoint, Tag } from '../routes/endpoint.ts';

export type JsonSchema = z.core.JSONSchema.BaseSchema;

/**
 * The document is made of the same declarations that the server routes and parses by: there is no second description.
 */
export function openApiDocument(endpoints: readonly Endpoint[]) {
  const schemas = collectSchemas();
  /** Path -> method in lower case -> operation. */
  const paths: Record<string, Record<string, ReturnType<typeof operationOf>>> = {};
  for (const endpoint of endpoints) {
    const operations = (paths[endpoint.path] ??= {});
    operations[endpoint.method.toLowerCase()] = operationOf(endpoint, schemas);
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
    // Relative, so that it is right under every name of the service.
    servers: [{ url: '/' }],
    tags: Object.entries(tags).map(([name, description]) => ({ name, description })),
    paths,
    components: {
      schemas: schemas.named,
      securitySchemes: {
        bearer: { type: 'http', scheme: 'bearer', description: 'An application token or a scoped token.' },
      },
    },
  };
}

const tags: Readonly<Record<Tag, string>> = {
  Authentication: 'Client credentials for tokens: of the whole organization, or of one workspace.',
  Definitions: 'The connector types.',
  Connectors: 'A connector type, bound to credentials, in a workspace.',
  Execute: 'Read records and files, live or from the indexed store.',
  Workspaces: 'What connectors are kept apart by.',
  Reference: 'This description.',
};

function operationOf(endpoint: Endpoint, schemas: Schemas) {
  const { request, example, access } = endpoint;
  return {
    operationId: endpoint.operationId,
    tags: [endpoint.tag],
    summary: endpoint.summary,
    description: endpoint.description,
    security: access === 'public' ? [] : [{ bearer: [] }],
    parameters: [
      ...parametersIn('path', request.path, example.path, schemas),
      ...parametersIn('query', request.query, example.query, schemas),
      ...(access === 'public' ? [] : [organizationHeader]),
    ],
    ...(request.body !== undefined && {
      requestBody: {
        required: !request.body.safeParse(undefined).success,
        content: {
          'application/json': { schema: schemas.of(request.body, 'input'), example: example.body },
        },
      },
    }),
    responses: { ...successOf(endpoint, schemas), ...refusalsOf(endpoint, schemas) },
  };
}

const organizationHeader: ReturnType<typeof parametersIn>[number] = {
  name: 'X-Organization-Id',
  in: 'header',
  required: false,
  description: "The token's organization, which is known without it; another one is refused.",
  schema: { type: 'string', format: 'uuid' },
};

function parametersIn(
  place: 'path' | 'query' | 'header',
  shape: z.ZodObject | undefined,
  examples: Readonly<Record<string, string>> = {},
  schemas: Schemas,
) {
  if (shape === undefined) return [];
  const { properties = {}, required = [] } = schemas.of(shape, 'input');
  return Object.entries(properties as Record<string, JsonSchema>).map(
    ([name, { description, ...schema }]) => ({
      name,
      in: place,
      required: required.includes(name),
      ...(description !== undefined && { description }),
      schema: schema as JsonSchema,
      ...(examples[name] !== undefined && { example: examples[name] }),
    }),
  );
}

function successOf({ success }: Endpoint, schemas: Schemas) {
  const { status, description, body, others = {} } = success;
  const more = Object.entries(others).map(([type, when]) => [type, { schema: { description: when } }]);
  return {
    [status]: {
      description,
      content: { 'application/json': { schema: schemas.of(body, 'output') }, ...Object.fromEntries(more) },
    },
  };
}

function refusalsOf({ access, request, refusals }: Endpoint, schemas: Schemas) {
  const needsToken = access !== 'public';
  const hasBody = request.body !== undefined;
  const isParsed = request.query !== undefined || hasBody;
  const reasons: Record<string, readonly (string | false | undefined)[]> = {
    400: [hasBody && 'The body is no JSON.'],
    401: [needsToken && 'There is no token, or it is unknown or has expired.'],
    403: [
      access === 'application' && 'The token is scoped to a workspace.',
      needsToken && 'X-Organization-Id names another organization.',
    ],
    413: [hasBody && 'The body is larger than the service takes.'],
    415: [hasBody && 'The body does not say that it is application/json.'],
    421: ['The Host header names a host that this service does not answer for.'],
    422: [isParsed && 'The request does not have the expected shape; `errors` names each field.'],
    429: ['Too many requests; Retry-After says how many seconds to wait.'],
    500: ['The service failed.'],
  };
  const content = { 'application/json': { schema: schemas.of(apiError, 'output') } };
  return Object.fromEntries(
    Object.keys({ ...reasons, ...refusals }).flatMap((status) => {
      const description = [refusals[Number(status)], ...(reasons[status] ?? [])].filter(Boolean).join(' ');
      const headers = status === '429' && { headers: retryAfter };
      return description === '' ? [] : [[status, { description, ...headers, content }]];
    }),
  );
}

const retryAfter = { 'Retry-After': { description: 'Seconds.', schema: { type: 'integer', minimum: 1 } } };

/** Turns shapes into JSON schemas; those that have a name are gathered and referred to. */
type Schemas = ReturnType<typeof collectSchemas>;

function collectSchemas() {
  /** Schemas by name, as in `components.schemas`. */
  const named: Record<string, JsonSchema> = {};
  return {
    named,
    /** `input`: the schema of a request. `output`: that of an answer. */
    of(shape: z.ZodType, io: 'input' | 'output'): JsonSchema {
      const json = z.toJSONSchema(shape, {
        io,
        unrepresentable: 'any',
        override: ({ jsonSchema }) => simplify(jsonSchema),
      });
      const text = JSON.stringify(json).replaceAll('"#/$defs/', '"#/components/schemas/');
      const { $schema: _draft, $defs = {}, ...schema } = JSON.parse(text) as JsonSchema;
      Object.assign(named, $defs);
      return schema;
    },
  };
}

/**
 * Leaves out details that are of no use to a reader: patterns beside a format, bounds of safe integers, that names are
 * texts, that arrays are read.
 */
function simplify(schema: JsonSchema): void {
  if (schema.format !== undefined) delete schema.pattern;
  if (schema.minimum === Number.MIN_SAFE_INTEGER) delete schema.minimum;
  if (schema.maximum === Number.MAX_SAFE_INTEGER) delete schema.maximum;
  delete schema.propertyNames;
  delete schema.readOnly;
  // A later version may say more; a client that refuses fields it does not know would break then.
  if (schema.additionalProperties === false) delete schema.additionalProperties;
}
