import type { JsonSchema } from './describe-operation.ts';

/** A field of a schema, flattened for a table. */
interface SchemaRow {
  /** `data[].name`: from the schema's root. */
  readonly path: string;
  readonly type: string;
  readonly isRequired: boolean;
  readonly description: string;
}

const maxDepth = 6;

/** The fields of a schema, outer before inner, references followed. */
export function schemaRows(
  schema: JsonSchema,
  named: Readonly<Record<string, JsonSchema>>,
): readonly SchemaRow[] {
  return rowsBelow(schema, '', 0, named);
}

function rowsBelow(
  schema: JsonSchema,
  prefix: string,
  depth: number,
  named: Readonly<Record<string, JsonSchema>>,
): readonly SchemaRow[] {
  if (depth > maxDepth) return [];
  const found = resolved(schema, named);
  const required = Array.isArray(found['required']) ? found['required'] : [];
  return Object.entries(membersOf(found)).flatMap(([name, member]) => {
    const path = prefix === '' ? name : `${prefix}.${name}`;
    const { deprecated } = member;
    const row: SchemaRow = {
      path,
      type: typeText(member, named),
      isRequired: required.includes(name),
      description: `${deprecated === true ? 'Deprecated. ' : ''}${descriptionOf(member, named)}`,
    };
    return [row, ...alternatives(member, named).flatMap((one) => innerRows(one, path, depth, named))];
  });
}

function innerRows(
  schema: JsonSchema,
  path: string,
  depth: number,
  named: Readonly<Record<string, JsonSchema>>,
): readonly SchemaRow[] {
  const items = schemaIn(schema, 'items');
  return items === null
    ? rowsBelow(schema, path, depth + 1, named)
    : alternatives(items, named).flatMap((one) => rowsBelow(one, `${path}[]`, depth + 1, named));
}

/** Its own, or that of what it is when it is not null. */
function descriptionOf(member: JsonSchema, named: Readonly<Record<string, JsonSchema>>): string {
  const [first] = [member, ...alternatives(member, named)]
    .map(({ description }) => description)
    .filter((description) => typeof description === 'string');
  return first ?? '';
}

/** As a person would say it: `text`, `array of object`, `"active" or "inactive" or null`. */
export function typeText(schema: JsonSchema, named: Readonly<Record<string, JsonSchema>>): string {
  const { enum: values, const: value, type, format } = resolved(schema, named);
  const others = alternatives(schema, named);
  if (others.length > 1) return others.map((one) => typeText(one, named)).join(' or ');
  if (value !== undefined) return JSON.stringify(value);
  if (Array.isArray(values)) return values.map((one) => JSON.stringify(one)).join(' or ');
  if (Array.isArray(type)) return type.join(' or ');
  if (type === 'array') {
    const items = schemaIn(resolved(schema, named), 'items');
    const inner = items === null ? '' : typeText(items, named);
    return inner === '' || inner === 'anything' ? 'array' : `array of ${inner}`;
  }
  if (typeof type !== 'string') return 'anything';
  return typeof format === 'string' ? `${type} (${format})` : type;
}

/** What a schema may be: itself, or the members of its `anyOf`. */
function alternatives(
  schema: JsonSchema,
  named: Readonly<Record<string, JsonSchema>>,
): readonly JsonSchema[] {
  const found = resolved(schema, named);
  const anyOf = found['anyOf'];
  return Array.isArray(anyOf) ? anyOf.map((one: JsonSchema) => resolved(one, named)) : [found];
}

function resolved(schema: JsonSchema, named: Readonly<Record<string, JsonSchema>>): JsonSchema {
  const { $ref } = schema;
  return typeof $ref === 'string' ? (named[$ref.replace('#/components/schemas/', '')] ?? {}) : schema;
}

function membersOf({ properties }: JsonSchema): Readonly<Record<string, JsonSchema>> {
  return isSchemas(properties) ? properties : {};
}

function schemaIn(schema: JsonSchema, name: string): JsonSchema | null {
  const found = schema[name];
  return isSchema(found) ? found : null;
}

function isSchemas(value: unknown): value is Readonly<Record<string, JsonSchema>> {
  return isSchema(value) && Object.values(value).every(isSchema);
}

function isSchema(value: unknown): value is JsonSchema {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
