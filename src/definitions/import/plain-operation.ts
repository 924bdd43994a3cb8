import type { JsonObject, JsonValue } from '../../core/json.ts';
import { answerSchema } from './operation.ts';
import { listIn, objectIn, prefix, textIn } from './parts.ts';
import type { Schemas } from './schemas.ts';

/** Values of an answer that lie deeper are of the service's records, not of its pages. */
const mostLevels = 3;
const mostValues = 1_000;

export function namedOperation(
  operation: JsonObject,
  entity: string,
  action: 'list' | 'get',
  schemas: Schemas,
): JsonObject {
  const parameters = listIn(operation, 'parameters')
    .map((one) => schemas.resolve(one))
    .filter(isSent);
  const named = {
    ...withoutOurs(operation),
    parameters,
    [`${prefix}entity`]: entity,
    [`${prefix}action`]: action,
  };
  const answer = answerSchema(operation, schemas);
  if (action === 'get') {
    const [member, ...others] = [...schemas.properties(answer)];
    const isWrapped = member !== undefined && others.length === 0 && schemas.typeOf(member[1]) === 'object';
    return isWrapped ? { ...named, [`${prefix}record-extractor`]: `$.${member[0]}` } : named;
  }
  const found: Record<string, JsonValue> = {};
  let seen = 0;
  const add = (schema: JsonObject, at: string, level: number): void => {
    for (const [name, member] of schemas.properties(schema)) {
      if ((seen += 1) > mostValues) return;
      const type = schemas.typeOf(member);
      if (type === 'object' && level < mostLevels) add(member, `${at}.${name}`, level + 1);
      else if (type !== 'array' && type !== 'object') found[`${at}.${name}`.slice(2)] = `${at}.${name}`;
    }
  };
  add(answer, '$', 1);
  for (const name of Object.keys(headersOf(operation, schemas))) {
    found[name] = name.toLowerCase() === 'link' ? '@link.next' : `@header.${name}`;
  }
  return { ...named, [`${prefix}meta-extractor`]: found };
}

/** A plain file that uses our keys does not know what they stand for. */
export function withoutOurs(part: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(part).filter(([name]) => !name.startsWith(prefix)));
}

/** OpenAPI says that these are described elsewhere. */
function isSent(param: JsonObject): boolean {
  const name = textIn(param, 'name')?.toLowerCase() ?? '';
  return textIn(param, 'in') !== 'header' || !['accept', 'content-type', 'authorization'].includes(name);
}

function headersOf(operation: JsonObject, schemas: Schemas): JsonObject {
  const success = Object.entries(objectIn(operation, 'responses')).find(([status]) => status.startsWith('2'));
  return objectIn(schemas.resolve(success?.[1]), 'headers');
}
