import {
  isJsonObject,
  memberInAnySpelling,
  valueAtKey,
  type JsonObject,
  type JsonValue,
} from '../core/json.ts';

const flags = ['has_more', 'has_next_page', 'has_next', 'more_records'];
const nexts = [
  'next',
  'next_page',
  'next_url',
  'next_link',
  'next_page_url',
  'next_cursor',
  'next_page_token',
  'next_token',
];
/** The values by which services say yes and no, beside true and false. */
const yes: readonly unknown[] = [true, 'true', 1, '1'];
const no: readonly unknown[] = [false, 'false', 0, '0'];

/** What a flag says; null: it is none. */
export function flagOf(value: JsonValue | undefined): boolean | null {
  const said = typeof value === 'string' ? value.trim().toLowerCase() : value;
  return yes.includes(said) ? true : no.includes(said) ? false : null;
}

/**
 * The token that a value is; null: there is no next page, as by a 0, which is the place of no later page. Undefined: it
 * is none.
 */
export function tokenOf(value: JsonValue): string | null | undefined {
  if (value === null || value === '' || value === 0) return null;
  if (typeof value === 'string') return value;
  if (typeof value === 'bigint') return String(value);
  return typeof value === 'number' && Number.isSafeInteger(value) ? String(value) : undefined;
}

/** How many records a listing has, as the first of the keys says that is there; null where none does. */
export function readTotal(keys: readonly string[], metadata: JsonValue): number | null {
  if (!isJsonObject(metadata)) return null;
  const value = keys.map((key) => valueAtKey(metadata, key)).find((one) => one !== undefined);
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : null;
}

/** Objects that services put them into; empty: the answer itself. */
const places = ['', 'meta', 'pagination', 'paging', 'page_info', 'links', '_links', 'response_metadata'];

/**
 * The key by which an answer says that more follows, under a name that services use for that; null where it does not.
 */
export function signOfMore(answer: JsonObject): string | null {
  const found = places.flatMap((place) =>
    [...flags, ...nexts].map((name) => {
      const key = place === '' ? name : `${place}.${name}`;
      return { key, name, value: valueAtKey(answer, key, memberInAnySpelling) };
    }),
  );
  // A token may come with the last page too: a flag says what it means.
  if (found.some(({ name, value }) => flags.includes(name) && flagOf(value) === false)) return null;
  return (
    found.find(({ name, value }) => (flags.includes(name) ? flagOf(value) === true : leads(value)))?.key ??
    null
  );
}

/** An address, a token or a number; or an object that has one, such as `{ href }`. */
function leads(value: JsonValue | undefined): boolean {
  if (typeof value === 'string') return value !== '';
  if (isJsonObject(value)) return Object.values(value).some((one) => typeof one === 'string' && one !== '');
  return value === true || (typeof value === 'number' && value > 0);
}
