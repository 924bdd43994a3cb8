import { stringify } from 'lossless-json';
import type { JsonValue } from '../../core/json.ts';

/** JSON for a request: a bigint (an id taken from a record, say) is written with all its digits. */
export function stringifyParams(value: JsonValue): string {
  // Undefined only for a value that is no JSON; the type leaves none.
  return stringify(value) ?? 'null';
}
