import { isJsonArray, isJsonObject, memberOf, type JsonObject, type JsonValue } from '../core/json.ts';
import type { RecordsPlace } from '../definitions/upstream/records-file.ts';
import type { AnswerPath, AnswerPlace } from '../definitions/upstream/template.ts';
import type { WireAnswer } from '../http/exchange.ts';
import { tryJsonText } from '../http/lossless-json.ts';
import { textOfBody } from '../http/read-body.ts';
import { brokenAnswer, UpstreamFailure } from './upstream-failure.ts';

/** Above the 200 levels that a record may have, so that one record too deep does not cost its page. */
const maxDepth = 300;
const jsonType = /^[\w.+-]+\/(?:json|[\w.+-]+\+json)\s*(?:;|$)/i;

/**
 * The JSON of a 2xx answer. Throws `UpstreamFailure` for what is none: `unavailable`, as a page of a proxy or for
 * maintenance may pass like a cut answer.
 */
export function readJsonAnswer({ status, body, header }: Omit<WireAnswer, 'wireBytes'>): JsonValue {
  const type = header('content-type');
  if (type !== null && !jsonType.test(type)) {
    const text =
      'expected JSON, got an answer of another content type; something else may answer at this address';
    throw new UpstreamFailure('unavailable', text, { reason: 'notJson', status });
  }
  const text = textOfBody(body);
  if (isDeeperThan(text, maxDepth)) {
    const text = `expected JSON of at most ${maxDepth} levels, got a deeper answer`;
    throw new UpstreamFailure('tooLarge', text, { reason: 'tooLarge', status });
  }
  const value = tryJsonText(text);
  if (value === undefined) throw brokenAnswer('expected JSON, got an answer that is cut or damaged', status);
  return value;
}

/** The JSON of a failure; undefined where its body is none, or too deep to be read. */
export function readJsonOfFailure(text: string): JsonValue | undefined {
  return isDeeperThan(text, maxDepth) ? undefined : tryJsonText(text);
}

/** Counted in the text: what is deep enough to overflow a stack must not be parsed first. */
function isDeeperThan(text: string, most: number): boolean {
  let depth = 0;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === 0x22) at = endOfText(text, at);
    else if (code === 0x5b || code === 0x7b) {
      depth += 1;
      if (depth > most) return true;
    } else if (code === 0x5d || code === 0x7d) depth -= 1;
  }
  return false;
}

/** The position of the quotation mark that closes the one at `start`. */
function endOfText(text: string, start: number): number {
  for (let at = text.indexOf('"', start + 1); at !== -1; at = text.indexOf('"', at + 1)) {
    let backslashes = 0;
    while (text.charCodeAt(at - 1 - backslashes) === 0x5c) backslashes += 1;
    if (backslashes % 2 === 0) return at;
  }
  return text.length;
}

/** Undefined where there is nothing at the path. Digits are positions in an array. */
export function valueAt(value: JsonValue, path: AnswerPath): JsonValue | undefined {
  let found: JsonValue | undefined = value;
  for (const name of path) {
    if (isJsonObject(found)) found = memberOf(found, name);
    else if (Array.isArray(found) && /^\d{1,6}$/.test(name)) {
      found = (found as readonly JsonValue[])[Number(name)];
    } else return undefined;
  }
  return found;
}

/** A header that is a whole number is a number, as it would be in the body. */
export function valueAtPlace(
  answer: { readonly value: JsonValue; readonly header: (name: string) => string | null },
  place: AnswerPlace,
): JsonValue | undefined {
  if (place.kind === 'body') return valueAt(answer.value, place.path);
  const text = answer.header(place.name)?.trim();
  return text === undefined ? undefined : /^\d{1,15}$/.test(text) ? Number(text) : text;
}

const mostNamed = 8;
const longestName = 40;

interface FoundJson {
  readonly value: JsonValue;
  readonly status: number;
  readonly redact: (text: string) => string;
}

/**
 * The records of a page. Throws `UpstreamFailure`: where there is no array at the path (or no object, where that is the
 * record), its text says what is there instead. `hasAnswered`: the path has led to records before, so that it is the
 * answer that is wrong, and not the definition.
 */
export function findRecords(
  answer: FoundJson,
  place: RecordsPlace,
  hasAnswered: boolean,
): readonly JsonObject[] {
  const { status } = answer;
  const found = recordsAt(answer.value, place);
  if (found === null) {
    const reason = hasAnswered ? 'brokenBody' : 'noRecords';
    throw new UpstreamFailure('unavailable', withoutRecords(answer, place), { reason, status });
  }
  const records: JsonObject[] = [];
  for (const record of found) {
    if (!isJsonObject(record)) {
      throw brokenAnswer(`expected objects as records, got ${kindOf(record)}`, status);
    }
    records.push(record);
  }
  return records;
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
