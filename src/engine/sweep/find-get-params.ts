import { SyncError } from '../../core/errors.ts';
import type { JsonValue } from '../../core/json.ts';
import { keyPartsOf } from '../../core/json-text.ts';
import type { ColumnValue, Params } from '../../core/records.ts';
import { missingParams } from '../../definitions/check-params.ts';
import { convertValue } from '../../definitions/convert-value.ts';
import type { Entity } from '../../definitions/definition.ts';
import type { Candidate } from '../../sinks/deletes.ts';

/**
 * Parameters of the `get` for a record: from its key and its partition. Null where there is no `get`, or one of them
 * cannot be had.
 */
export function findGetParams(
  entity: Entity,
  { keyText, inject, params }: Pick<Candidate, 'keyText' | 'inject' | 'params'>,
): Params | null {
  const get = entity.actions.get('get');
  if (get === undefined) return null;
  const parts = keyPartsOf(keyText, entity.key.length);
  if (parts === null) return null;
  const fields = new Map<string, JsonValue>([
    ...Object.entries(inject),
    ...entity.key.map((name, index) => [name, wholeDigits(parts[index] ?? null)] as const),
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

/** An integer beyond what doubles hold exactly, as a bigint: `convertValue` trusts no such number. */
function wholeDigits(part: ColumnValue): ColumnValue {
  const isLong = typeof part === 'number' && Number.isInteger(part) && !Number.isSafeInteger(part);
  return isLong ? BigInt(part) : part;
}

type Meaning = 'ends-run' | 'later' | 'unanswered' | 'refused' | 'entity-refused';

/**
 * What a failed `get` means. `later`: the calls are used up, or the service asks for a pause. `refused`: this record is
 * not given to this caller.
 */
export function meaningOfGet(error: unknown): Meaning {
  if (!(error instanceof SyncError)) return 'ends-run';
  switch (error.recovery) {
    case 'stop':
      return error.code === 'BUDGET_SPENT' ? 'later' : 'ends-run';
    case 'throttle':
      return 'later';
    case 'retry':
    case 'smaller-page':
    case 'restart-walk':
      return 'unanswered';
    case 'skip-partition':
      return 'refused';
    case 'skip-entity':
      return 'entity-refused';
  }
}
