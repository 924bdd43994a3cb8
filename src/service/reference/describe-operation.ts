import * as z from 'zod';
import type { Access, Endpoint } from '../routes/endpoint.ts';
import { apiError } from '../routes/shapes.ts';

export interface Operation {
  readonly operationId: string;
  readonly tags: readonly string[];
  readonly summary: string;
  readonly description: string;
  readonly security: readonly Readonly<Record<string, readonly string[]>>[];
  /** Who may call it: the one thing about a token that OpenAPI has no word for. */
  readonly 'x-access': Access;
  readonly parameters: readonly Parameter[];
  readonly requestBody?: RequestBody;
  /** By status code. */
  readonly responses: Readonly<Record<string, Response>>;
}

export interface Parameter {
  readonly name: string;
  readonly in: 'path' | 'query' | 'header';
  readonly required: boolean;
  readonly description?: string;
  readonly deprecated?: boolean;
  readonly schema: JsonSchema;
  readonly example?: string | number;
}

interface RequestBody {
  readonly required: boolean;
  readonly content: {
    readonly 'application/json': { readonly schema: JsonSchema; readonly example: unknown };
  };
}

interface Response {
  readonly description: string;
  readonly headers?: Readonly<Record<string, unknown>>;
  /** By media type. */
  readonly content: Readonly<Record<string, { readonly schema: JsonSchema }>>;
}

export function describeOperation(endpoint: Endpoint, schemas: Schemas): Operation {
  const { request, example, access } = endpoint;
  return {
    operationId: endpoint.operationId,
    tags: [endpoint.tag],
    summary: endpoint.summary,
    description: endpoint.description,
    security: access === 'public' ? [] : [{ bearer: [] }],
    'x-access': access,
    parameters: [
      ...parametersOf(request.path, 'path', example.path, schemas),
      ...parametersOf(request.query, 'query', example.query, schemas),
      ...(access === 'public' ? [] : [organizationHeader]),
    ],
    ...(request.body === null
      ? {}
      : {
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

const organizationHeader: Parameter = {
  name: 'X-Organization-Id',
  in: 'header',
  required: false,
  description: "The token's organization, which is known without it; another one is refused.",
  schema: { type: 'string', format: 'uuid' },
};

function parametersOf(
  shape: z.ZodObject | null,
  place: 'path' | 'query',
  examples: Readonly<Record<string, string>> = {},
  schemas: Schemas,
): readonly Parameter[] {
  if (shape === null) return [];
  const { properties = {}, required = [] } = objectSchema.parse(schemas.of(shape, 'input'));
  return Object.entries(properties).map(([name, { description, deprecated, ...schema }]) => ({
    name,
    in: place,
    required: required.includes(name),
    ...(description === undefined ? {} : { description }),
    ...(deprecated === undefined ? {} : { deprecated }),
    schema,
    ...(examples[name] === undefined ? {} : { example: valueOf(examples[name], schema) }),
  }));
}

/** An example is declared as it stands in an address; the document wants the value that it names. */
function valueOf(example: string, { type }: JsonSchema): string | number {
  return type === 'integer' || type === 'number' ? Number(example) : example;
}

const objectSchema = z.object({
  properties: z
    .record(
      z.string(),
      z.looseObject({ description: z.string().optional(), deprecated: z.boolean().optional() }),
    )
    .optional(),
  required: z.array(z.string()).optional(),
});

function successOf({ success }: Endpoint, schemas: Schemas): Record<string, Response> {
  const { status, description, body, mediaType = 'application/json', others = {} } = success;
  const more = Object.entries(others).map(([type, when]) => [type, { schema: { description: when } }]);
  return {
    [status]: {
      description,
      content: { [mediaType]: { schema: schemas.of(body, 'output') }, ...Object.fromEntries(more) },
    },
  };
}

function refusalsOf({ access, request, refusals }: Endpoint, schemas: Schemas): Record<string, Response> {
  const isPublic = access === 'public';
  const isParsed = request.query !== null || request.body !== null;
  const reasons: Record<string, readonly (string | undefined)[]> = {
    400: [refusals[400], request.body === null ? undefined : 'The body is no JSON.'],
    401: [refusals[401], isPublic ? undefined : 'There is no token, or it is unknown or has expired.'],
    403: [
      refusals[403],
      forbidden[access],
      isPublic ? undefined : 'X-Organization-Id names another organization.',
    ],
    402: [refusals[402]],
    404: [refusals[404]],
    409: [refusals[409]],
    413: [request.body === null ? undefined : 'The body is larger than the service takes.'],
    415: [request.body === null ? undefined : 'The body does not say that it is application/json.'],
    421: ['The Host header names a host that this service does not answer for.'],
    422: [
      refusals[422],
      isParsed ? 'The request does not have the expected shape; `errors` names each field.' : undefined,
    ],
    429: [refusals[429], 'Too many requests; Retry-After says how many seconds to wait.'],
    500: ['The service failed.'],
    502: [refusals[502]],
    504: [refusals[504]],
  };
  const schema = schemas.of(apiError, 'output');
  return Object.fromEntries(
    Object.entries(reasons)
      .map(([status, texts]) => [status, texts.filter((text) => text !== undefined).join(' ')] as const)
      .filter(([, description]) => description !== '')
      .map(([status, description]) => [
        status,
        {
          description,
          ...(status === '429' ? { headers: retryAfter } : {}),
          content: { 'application/json': { schema } },
        },
      ]),
  );
}

const forbidden: Readonly<Record<Access, string | undefined>> = {
  public: undefined,
  application: 'The token is scoped to a workspace.',
  scoped: 'The token is not scoped to a workspace.',
  workspace: undefined,
};

const retryAfter = { 'Retry-After': { description: 'Seconds.', schema: { type: 'integer', minimum: 1 } } };

export type JsonSchema = Readonly<Record<string, unknown>>;

/** Turns shapes into JSON schemas; those that have a name are gathered and referred to. */
interface Schemas {
  /** By name, as they stand in `components.schemas`. */
  readonly named: Readonly<Record<string, JsonSchema>>;
  /** `input`: what a request may be. `output`: what an answer is. */
  of(shape: z.ZodType, io: 'input' | 'output'): JsonSchema;
}

export function collectSchemas(): Schemas {
  const named: Record<string, JsonSchema> = {};
  return {
    named,
    of(shape, io) {
      const {
        $schema: _draft,
        $defs = {},
        ...schema
      } = z.toJSONSchema(shape, {
        io,
        unrepresentable: 'any',
        override: ({ jsonSchema }) => simplify(jsonSchema),
      });
      for (const [name, definition] of Object.entries($defs)) named[name] = withReferences(definition);
      return withReferences(schema);
    },
  };
}

/**
 * Leaves out what says nothing to a reader: patterns beside a format, bounds of safe integers, that names are texts,
 * that arrays are read.
 */
function simplify(schema: z.core.JSONSchema.BaseSchema): void {
  if (schema.format !== undefined) delete schema.pattern;
  if (schema.minimum === Number.MIN_SAFE_INTEGER) delete schema.minimum;
  if (schema.maximum === Number.MAX_SAFE_INTEGER) delete schema.maximum;
  delete schema.propertyNames;
  delete schema.readOnly;
  // A later version may say more; a client that refuses fields it does not know would break then.
  if (schema.additionalProperties === false) delete schema.additionalProperties;
}

function withReferences(schema: unknown): JsonSchema {
  return JSON.parse(JSON.stringify(schema), (key, value: unknown) =>
    key === '$ref' && typeof value === 'string' ? value.replace('#/$defs/', '#/components/schemas/') : value,
  ) as JsonSchema;
}
