import type { JsonValue } from '../../core/json.ts';
import type { Params } from '../../core/records.ts';
import { missingParams } from '../../definitions/check-params.ts';
import { toParamValue } from '../../definitions/convert-value.ts';
import type { Entity } from '../../definitions/definition.ts';
import type { Candidate } from '../../sinks/deletes.ts';

/**
 * The parameters of the `get` that asks for a stored row: from its key, from what its partition fills in, from the
 * partition's own parameters. Null where the entity has no `get`, or where one of them is not to be had.
 */
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
    const value = toParamValue(param.type, own ?? params[name] ?? null);
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
