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
  if (found.some(({ name, value }) => flags.includes(name) && value === false)) return null;
  return found.find(({ name, value }) => (flags.includes(name) ? value === true : leads(value)))?.key ?? null;
}

/** An address, a token or a number; or an object that has one, such as `{ href }`. */
function leads(value: JsonValue | undefined): boolean {
  if (typeof value === 'string') return value !== '';
  if (isJsonObject(value)) return Object.values(value).some((one) => typeof one === 'string' && one !== '');
  return value === true || (typeof value === 'number' && value > 0);
}
