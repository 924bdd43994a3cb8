import { isJsonObject, type JsonObject, type JsonValue } from '../../core/json.ts';
import { holdsTemplate, objectIn, oneLine, partIn, prefix, textIn } from './parts.ts';
import { declarable, fallbackOf, paramType, type Parameter, type Variables } from './parameter.ts';
import type { Schemas } from './schemas.ts';

export type Body = typeof emptyBody;

const emptyBody = {
  params: [] as readonly Parameter[],
  fixed: {} as JsonObject,
  variables: null as Variables | null,
  isGraphql: false,
  /** Fields of a record that a GraphQL query selects, where the file lists them. */
  selected: [] as readonly string[],
  problem: null as string | null,
};

/** What a request sends in its body. `problem`: why it cannot be sent by this program. */
export function requestBodyOf(body: JsonObject, schemas: Schemas): Body {
  const kind = objectIn(body, `${prefix}body-type`);
  if (textIn(kind, 'type') === 'graphql') return readGraphql(kind);
  if (Object.keys(kind).length > 0) return { ...emptyBody, problem: 'its body is of an unknown type' };
  const content = Object.entries(objectIn(body, 'content'));
  const json = content.find(([type]) => /^application\/json\b/.test(type));
  if (json === undefined) {
    const type = oneLine(content[0]?.[0] ?? '', 60);
    return content.length === 0 ? emptyBody : { ...emptyBody, problem: `its body is ${type}, not JSON` };
  }
  const schema = schemas.resolve(partIn(json[1], 'schema'));
  const required = schemas.required(schema);
  const params = [...schemas.properties(schema)].map(([name, property]): Parameter => ({
    name: declarable(name),
    sent: name,
    place: 'body',
    type: paramType(schemas, property),
    isRequired: required.has(name),
    schema: property,
    description: oneLine(textIn(property, 'description') ?? '', 1000),
    fallback: fallbackOf(schemas, property),
    at: declarable(name) === name ? null : name,
    list: 'repeat',
    isSpread: false,
    isFilled: false,
  }));
  const nested = params.find(({ schema: one }) => hidesDefaults(schemas, one));
  const problem = nested === undefined ? null : `its body has defaults within the elements of ${nested.name}`;
  return { ...emptyBody, params, problem };
}

/** Defaults in the elements of an array have no place in a request. */
function hidesDefaults(schemas: Schemas, schema: JsonObject): boolean {
  const items = schemas.items(schema);
  return partIn(schema, 'default') === undefined && fallbackOf(schemas, items) !== undefined;
}

/**
 * A query with variables. Known forms only: a variable that is one parameter, and `{{ fields }}` in the query, which
 * stands for the fields that the file names.
 */
function readGraphql(kind: JsonObject): Body {
  const fields = textIn(kind, 'default_fields');
  const text = textIn(kind, 'query') ?? '';
  const query = fields === null ? text : text.replaceAll(/\{\{ *fields *\}\}/g, () => fields);
  const paramByVariable = new Map<string, string>();
  const values: Record<string, JsonValue> = {};
  const computed: string[] = [];
  for (const [variable, value] of Object.entries(objectIn(kind, 'variables'))) {
    const param = /^\{\{ *([A-Za-z_]\w*) *\}\}$/.exec(typeof value === 'string' ? value : '')?.[1];
    if (param !== undefined) paramByVariable.set(param, variable);
    else if (holdsTemplate(value)) computed.push(variable);
    else values[variable] = value;
  }
  const problem = holdsTemplate(query)
    ? 'its GraphQL query holds a template'
    : computed.length > 0
      ? `its GraphQL variable ${computed[0]} is computed by a template`
      : /^\s*(?:query\b|\{)/.test(query)
        ? null
        : 'its GraphQL text is no query';
  const fixed =
    isJsonObject(values) && Object.keys(values).length > 0 ? { query, variables: values } : { query };
  const placeOf = (param: string): string | null => {
    const variable = paramByVariable.get(param);
    return variable === undefined ? null : `variables.${variable}`;
  };
  return {
    ...emptyBody,
    fixed,
    variables: { placeOf },
    isGraphql: true,
    problem,
    selected: selectedIn(fields ?? ''),
  };
}

/** `id name owner { login }`: the names that are in no braces; none where aliases or fragments make them others. */
function selectedIn(fields: string): readonly string[] {
  if (/[:@.]/.test(fields)) return [];
  const names: string[] = [];
  let depth = 0;
  for (const [part] of fields.replaceAll(/\([^()]*\)/g, '').matchAll(/[{}]|[A-Za-z_]\w*/g)) {
    if (part === '{') depth += 1;
    else if (part === '}') depth -= 1;
    else if (depth === 0) names.push(part);
  }
  return names;
}
