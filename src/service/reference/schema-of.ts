import * as z from 'zod';

export type JsonSchema = Readonly<Record<string, unknown>>;

/** Turns shapes into JSON schemas; those that have a name are gathered and referred to. */
export interface Schemas {
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

/** Leaves out what says nothing to a reader: patterns beside a format, bounds of safe integers, that names are texts, that arrays are read. */
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
