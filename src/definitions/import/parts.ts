import { isJsonArray, isJsonObject, memberOf, type JsonObject, type JsonValue } from '../../core/json.ts';
import { isDeclaredName, systemColumns } from '../../core/names.ts';
import { isReservedName } from '../yaml-data.ts';

// Readers of data whose shape is not checked: what is not of the kind that is asked for is as if it were absent.

/** Of the keys that these files add to OpenAPI. */
export const prefix = 'x-airbyte-';

const nothing: JsonObject = {};

/** The member at the end of these names. */
export function partIn(value: JsonValue | undefined, ...names: readonly string[]): JsonValue | undefined {
  let part = value;
  for (const name of names) part = isJsonObject(part) ? memberOf(part, name) : undefined;
  return part;
}

export function textIn(value: JsonValue | undefined, ...names: readonly string[]): string | null {
  const part = partIn(value, ...names);
  return typeof part === 'string' ? part : null;
}

export function objectIn(value: JsonValue | undefined, ...names: readonly string[]): JsonObject {
  const part = partIn(value, ...names);
  return isJsonObject(part) ? part : nothing;
}

export function listIn(value: JsonValue | undefined, ...names: readonly string[]): readonly JsonValue[] {
  const part = partIn(value, ...names);
  return isJsonArray(part) ? part : [];
}

export function textsIn(value: JsonValue | undefined, ...names: readonly string[]): readonly string[] {
  return listIn(value, ...names).filter((one) => typeof one === 'string');
}

/** Whether a text, at any depth, holds a template that only its own program could run. */
export function holdsTemplate(value: JsonValue | undefined): boolean {
  if (typeof value === 'string') return /\{\{|\{%/.test(value);
  if (isJsonArray(value)) return value.some(holdsTemplate);
  return isJsonObject(value) && Object.values(value).some(holdsTemplate);
}

/** `nextPageToken`, `page[token]`, `next-page_token`: lower-case words, as far as a name can be divided. */
export function wordsOf(name: string): readonly string[] {
  return name
    .slice(0, 200)
    .replaceAll(/([a-z0-9])([A-Z])/g, '$1 $2')
    .replaceAll(/([A-Z])([A-Z][a-z])/g, '$1 $2')
    .toLowerCase()
    .split(/[^a-z0-9]+/)
    .filter((word) => word !== '');
}

/** The name as a column can have it (`createdAt`: `created_at`); null where there is none. */
export function columnName(name: string): string | null {
  const column = systemColumns.has(name)
    ? `${name}_2`
    : isDeclaredName(name)
      ? name
      : wordsOf(name).join('_');
  return isDeclaredName(column) && !isReservedName(column) ? column : null;
}

/** For a comment or a message: one line, at most `length` characters, without what steers a terminal. */
export function oneLine(text: string, length = 160): string {
  const line = text.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\s]+/gu, ' ').trim();
  return line.length > length ? `${line.slice(0, length - 1)}…` : line;
}

/** `issues`: `issue`; `companies`: `company`. */
export function singular(name: string): string {
  if (name.endsWith('ies')) return `${name.slice(0, -3)}y`;
  return /(?:ss|us)$/.test(name) || !name.endsWith('s') ? name : name.slice(0, -1);
}

/** A text, number or flag as text; everything else is nothing. */
export function plainText(value: JsonValue | undefined): string {
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
    ? String(value)
    : '';
}
