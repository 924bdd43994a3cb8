import { isJsonObject, type JsonValue } from '../../../core/json.ts';

/** The fields that a query sorts and chooses by, in this order: each by its whole name, and by the first name of its path. */
export function askedFields(query: JsonValue): readonly string[] {
  if (!isJsonObject(query)) return [];
  const { sort = null, filter = null } = query;
  const sorted = Array.isArray(sort)
    ? sort.flatMap((one) => (isJsonObject(one) ? Object.keys(one) : []))
    : [];
  return [...sorted, ...fieldsOf(filter)].flatMap((path) => [path, path.split('.')[0] ?? path]);
}

function fieldsOf(filter: JsonValue): readonly string[] {
  if (!isJsonObject(filter)) return [];
  return Object.entries(filter).flatMap(([operator, operand]) => {
    if (Array.isArray(operand)) return operand.flatMap(fieldsOf);
    if (operator === 'not') return fieldsOf(operand);
    return isJsonObject(operand) ? Object.keys(operand) : [];
  });
}
