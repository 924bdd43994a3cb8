import type { JsonValue } from '../../core/json.ts';
import type { Params } from '../../core/records.ts';
import { missingParams } from '../../definitions/check-params.ts';
import { convertValue } from '../../definitions/convert-value.ts';
import type { Entity } from '../../definitions/definition.ts';
import type { Candidate } from '../../sinks/deletes.ts';

/** Parameters of the `get` for a stored row: from its key and its partition. Null where there is no `get`, or one of them cannot be had. */
export function findGetParams(
  entity: Entity,
  { keyText, inject, params }: Pick<Candidate, 'keyText' | 'inject' | 'params'>,
): Params | null {
  const get = entity.actions.get('get');
  if (get === undefined) return null;
  const parts = readKeyText(keyText);
  if (parts.length !== entity.key.length) return null;
  const fields = new Map<string, JsonValue>([
    ...Object.entries(inject),
    ...entity.key.map((name, index) => [name, parts[index] ?? null] as const),
  ]);
  const found: Record<string, JsonValue> = {};
  for (const [name, param] of get.params) {
    const field = get.key.get(name);
    const own = field === undefined ? null : (fields.get(field) ?? null);
    const value = convertValue(param.type, own ?? params[name] ?? null);
    if (value !== null && (field !== undefined || param.required)) found[name] = value;
    else if (field !== undefined) return null;
  }
  return missingParams(get, found).length === 0 ? found : null;
}

/** The parts of a key's canonical text: texts, null, and numbers with all their digits. */
function readKeyText(keyText: string): readonly JsonValue[] {
  const parts = keyText.slice(1, -1).match(/"(?:[^"\\]|\\.)*"|[^,]+/g) ?? [];
  return parts.map((part) => {
    if (/^-?\d+$/.test(part) && !Number.isSafeInteger(Number(part))) return BigInt(part);
    return JSON.parse(part) as JsonValue;
  });
}
