import type { JsonValue } from '../../../../src/core/json.ts';
import { invalid } from './notion-errors.ts';

/** Unknown names are refused, not ignored. */
export function refuseOthers(place: string, others: Readonly<Record<string, unknown>>): void {
  const [name] = Object.keys(others);
  if (name === undefined) return;
  throw invalid(
    `${place.split('.')[0]} failed validation: ${place}.${name} should be not present, ` +
      `instead was \`${JSON.stringify(others[name])}\`.`,
  );
}

export function expected(place: string, what: string, came: JsonValue | undefined): Error {
  return invalid(
    `${place.split('.')[0]} failed validation: ${place} should be \`${what}\`, instead was \`${JSON.stringify(came)}\`.`,
  );
}

export function sizeIn(place: string, value: JsonValue | undefined): number {
  if (value === undefined) return 100;
  if (typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= 100) return value;
  throw expected(`${place}.page_size`, 'a whole number from 1 to 100', value);
}

export function uuidIn(place: string, value: string | null): string {
  if (value !== null && /^[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}$/i.test(value)) return value;
  throw expected(place, 'a valid uuid', value ?? undefined);
}
