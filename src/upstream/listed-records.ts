import { isJsonArray, isJsonObject, memberOf, type JsonObject, type JsonValue } from '../core/json.ts';
import type { EmptyForm, RecordsPlace } from '../definitions/upstream/records-file.ts';
import { valueAt } from './read-json.ts';
import { UpstreamFailure } from './upstream-failure.ts';

const mostNamed = 8;
const longestName = 40;

interface FoundJson {
  readonly value: JsonValue;
  readonly status: number;
  readonly redact: (text: string) => string;
}

/** What is known of an answer without an array of records. */
interface WithoutArray {
  /** As the definition says; null: it says nothing. */
  readonly empty: readonly EmptyForm[] | null;
  readonly status: number;
  /** How many records the listing has by this answer; null: it does not say. */
  readonly total: () => number | null;
  /** It has a text where the service writes the text of its errors. */
  readonly saysError: boolean;
}

/**
 * Whether an answer without an array of records says that there are none. `nothing`: by its status, by its total, or by
 * what the definition says; `null`: it has a null there, which services write for an empty array. Null: it does not,
 * and is a broken answer.
 */
export function cameEmpty(form: EmptyForm | null, answer: WithoutArray): 'nothing' | 'null' | null {
  const { empty, status, saysError } = answer;
  if (form === null) return null;
  if (empty?.includes(form) === true || (form === 'noContent' && status === 204)) return 'nothing';
  const total = answer.total();
  if (total === 0) return 'nothing';
  return form === 'null' && empty === null && total === null && !saysError ? 'null' : null;
}

/** What there is in the place of an array of records; null: something that never means an empty one. */
export function emptyFormAt(value: JsonValue, path: RecordsPlace['path']): EmptyForm | null {
  if (value === null) return 'null';
  let found: JsonValue | undefined = value;
  for (const name of path) {
    // PHP writes an object without members so.
    if (found === null || (isJsonArray(found) && found.length === 0)) return 'missing';
    if (!isJsonObject(found)) return null;
    found = memberOf(found, name);
    if (found === undefined) return 'missing';
  }
  return found === null ? 'null' : null;
}

/** What should be records; null where nothing of the kind is at the place. */
export function recordsAt(
  value: JsonValue,
  { path, member, isOne }: RecordsPlace,
): readonly JsonValue[] | null {
  const found = valueAt(value, path);
  if (isOne) return isJsonObject(found) ? [found] : null;
  if (!isJsonArray(found)) return null;
  if (member === null) return found;
  // What has no such member shows as no record.
  return found.flatMap((element) => {
    const inside = valueAt(element, member) ?? null;
    return isJsonArray(inside) ? inside : [inside];
  });
}

/**
 * Thrown where nothing of the kind is at the place: says what is there instead. `hasAnswered`: the path has led to
 * records before, so that it is the answer that is wrong, and not the definition.
 */
export function noRecords(answer: FoundJson, place: RecordsPlace, hasAnswered: boolean): UpstreamFailure {
  const { status } = answer;
  const [first] = recordsAt(answer.value, place) ?? [];
  const why =
    first === undefined ? withoutRecords(answer, place) : `expected objects as records, got ${kindOf(first)}`;
  const reason = hasAnswered ? 'brokenRecords' : 'noRecords';
  return new UpstreamFailure('unavailable', why, { reason, status });
}

/** Names what the answer has, as far down as the path leads. */
function withoutRecords({ value, redact }: FoundJson, { path, isOne }: RecordsPlace): string {
  let deepest = 0;
  while (deepest < path.length && valueAt(value, path.slice(0, deepest + 1)) !== undefined) deepest += 1;
  const there = valueAt(value, path.slice(0, deepest)) ?? null;
  const where = deepest === 0 ? 'the answer' : path.slice(0, deepest).join('.');
  const what = isOne ? 'one record' : 'an array of records';
  const expected = path.length === 0 ? `the answer to be ${what}` : `${what} at ${path.join('.')}`;
  const got = deepest === path.length ? '' : 'nothing there: ';
  return `expected ${expected}, got ${got}${where} is ${kindOf(there)}${isJsonObject(there) ? ` ${redact(membersOf(there))}` : ''}`;
}

/** Arrays first: the records may be in one of them. */
function membersOf(value: JsonObject): string {
  const members = Object.entries(value);
  const isList = ([, member]: readonly [string, JsonValue]): boolean => Array.isArray(member);
  const named = [...members.filter(isList), ...members.filter((member) => !isList(member))]
    .slice(0, mostNamed)
    .map(([name, member]) => `${JSON.stringify(cut(name))} (${kindOf(member)})`);
  const more = members.length > mostNamed ? ` and ${members.length - mostNamed} more` : '';
  return named.length === 0 ? 'without members' : `with ${named.join(', ')}${more}`;
}

function cut(name: string): string {
  return name.length > longestName ? `${name.slice(0, longestName)}…` : name;
}

function kindOf(value: JsonValue): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return `an array of ${value.length}`;
  if (isJsonObject(value)) return 'an object';
  if (typeof value === 'string') return 'a text';
  return typeof value === 'boolean' ? String(value) : 'a number';
}
