import type { JsonValue } from '../core/json.ts';

/** An id as text, whether it came as text or as a number; '' for what can be no id. */
export function textOf(value: JsonValue | undefined): string {
  return typeof value === 'string' || typeof value === 'number' ? String(value) : '';
}
