import {
  isJsonObject,
  memberOf,
  isJsonArray,
  withMember,
  type JsonValue,
  type JsonObject,
} from '../core/json.ts';
import type { EntityName } from '../core/names.ts';
import {
  defaultFailureClass,
  type ErrorRule,
  type FailureClass,
  type HeaderTime,
  type Wait,
} from '../definitions/upstream/upstream-file.ts';
import type {
  EmptyForm,
  RecordsPlace,
  AnswerPath,
  AnswerPlace,
} from '../definitions/upstream/service-texts.ts';
import type { Upstream } from '../definitions/upstream/upstream.ts';
import {
  retryAfterMs,
  networkFaultOf,
  type NetworkFault,
  textOfBody,
  mediaType,
  pageIn,
  type WireAnswer,
} from '../http/exchange.ts';
import { firstNames } from '../definitions/suggest-name.ts';
import { tryJsonText } from '../http/lossless-json.ts';
import { redactMessage } from '../http/redact-message.ts';
import { brokenAnswer, UpstreamFailure, type FailureReason } from './upstream-failure.ts';

interface FailureFacts {
  /** Null: the call was the check, or asked for a token. */
  readonly entity: EntityName | null;
  readonly host: string;
  readonly secrets: readonly string[];
  readonly now: number;
}

interface FailedAnswer extends FailureFacts, Pick<WireAnswer, 'status' | 'header'> {
  readonly text: string;
  /** Undefined: the body is not JSON. */
  readonly value: JsonValue | undefined;
}

type Rules = Pick<Upstream, 'errors' | 'message' | 'failed' | 'retryAfter'>;

const longestWaitMs = 3_600_000;
const edgeWaitMs = 60_000;

/** True for an answer with a status below 300 that is an error nevertheless. */
export function isFailed({ failed }: Pick<Upstream, 'failed'>, value: JsonValue): boolean {
  if (failed === null) return false;
  const found = valueAt(value, failed.path);
  if (failed.is === null) return found !== undefined && found !== null && found !== false && found !== '';
  return found === failed.is;
}

/** Classifies an answer that is an error: by the first rule that matches, else by the default of its status. */
export function readFailure(
  rules: Rules,
  failed: Pick<WireAnswer, 'status' | 'header' | 'body'>,
  facts: FailureFacts,
): UpstreamFailure {
  const { status, header } = failed;
  const text = textOfBody(failed.body);
  const answer = { status, header, text, ...facts, value: tryJsonText(text) };
  const texts = textsOf(rules, answer.value);
  const words = answer.value === undefined ? text.slice(0, 2_000) : texts.join('\n');
  const rule = rules.errors.find((one) => matches(one, answer, words));
  const failureClass = rule?.then ?? defaultClass(answer);
  const asked = waitOf(rules.retryAfter, answer);
  const isRedirect = answer.status >= 300 && answer.status < 400;
  return new UpstreamFailure(failureClass, showText(failureClass, texts[0] ?? null, answer), {
    reason: isRedirect ? 'redirect' : 'answer',
    status: answer.status,
    waitMs: failureClass === 'edge' ? (asked ?? edgeWaitMs) : asked,
  });
}

function textsOf({ message, failed }: Rules, value: JsonValue | undefined): readonly string[] {
  if (value === undefined) return [];
  const code = failed?.code ?? null;
  return [...message, ...(code === null ? [] : [code])]
    .map((path) => valueAt(value, path))
    .filter((text) => typeof text === 'string')
    .map((text) => text.slice(0, 2_000))
    .filter((text) => text.trim() !== '');
}

function matches(rule: ErrorRule, answer: FailedAnswer, words: string): boolean {
  const { status, where, contains, hasHeader, lacksHeader, entity } = rule;
  return (
    (status === null || status === answer.status) &&
    (entity === null || entity === answer.entity) &&
    where.every(({ path, is }) => answer.value !== undefined && valueAt(answer.value, path) === is) &&
    (contains === null || words.toLowerCase().includes(contains.toLowerCase())) &&
    (hasHeader === null || answer.header(hasHeader) !== null) &&
    (lacksHeader === null || answer.header(lacksHeader) === null)
  );
}

/**
 * A page of HTML comes from a network in front of the service, which refuses a suspected attack, and not from the
 * service.
 */
function defaultClass({ status, header, value }: FailedAnswer): FailureClass {
  const isHtml = value === undefined && /^text\/html\b/i.test(header('content-type') ?? '');
  if (isHtml && (status === 400 || status === 503)) return 'edge';
  return defaultFailureClass(status, isJsonObject(value));
}

/** A body other than the service's JSON is never shown: it may contain anything. */
function showText(failureClass: FailureClass, text: string | null, { status, host, secrets }: FailedAnswer) {
  if (failureClass === 'edge') return `refused by the network in front of ${host} (HTTP ${status})`;
  if (status >= 300 && status < 400) {
    return `${host} redirects to another address (HTTP ${status}), which is not followed`;
  }
  const shown = text === null ? '' : redactMessage(text, secrets);
  return shown === '' ? `${host} answered with HTTP ${status}` : shown;
}

/** Null: the answer does not ask for a wait. Without rules in the definition the standard HTTP header applies. */
function waitOf(rules: readonly Wait[], answer: Pick<FailedAnswer, 'header' | 'now'>): number | null {
  if (rules.length === 0) {
    return retryAfterMs(answer.header('retry-after'), answer.header('date'), answer.now);
  }
  for (const rule of rules) {
    const waitMs = rule.kind === 'constant' ? rule.seconds * 1_000 : headerWait(rule, answer);
    if (waitMs !== null) return Math.min(waitMs, longestWaitMs);
  }
  return null;
}

/** The wait from now, at most an hour; null where the header is absent or cannot be read. */
export function headerWait({ header, format }: HeaderTime, answer: Pick<FailedAnswer, 'header' | 'now'>) {
  const text = answer.header(header)?.trim() ?? '';
  const date = answer.header('date');
  if (format === 'httpDate') return /[a-z]/i.test(text) ? retryAfterMs(text, date, answer.now) : null;
  if (!/^\d{1,15}(?:\.\d{1,9})?$/.test(text)) return null;
  const serverNow = date === null ? Number.NaN : Date.parse(date);
  const value = Number(text);
  const waitMs = {
    seconds: value * 1_000,
    milliseconds: value,
    // Compared with the server's own clock, so that a wrong clock here does not matter.
    unix: value * 1_000 - (Number.isNaN(serverNow) ? answer.now : serverNow),
  }[format];
  return Math.min(Math.max(Math.ceil(waitMs), 0), longestWaitMs);
}

/**
 * Converts the error of a call that got no answer, or one that could not be read. Null for other errors. The error
 * itself is not kept: it may contain headers.
 */
export function failureOfError(error: unknown, host: string): UpstreamFailure | null {
  if (error instanceof UpstreamFailure) return error;
  const fault = networkFaultOf(error);
  if (fault === null) return null;
  const [failureClass, reason] = meaningOfFault[fault.kind];
  const text = fault.kind === 'address' ? fault.text : `${host}: ${fault.text}`;
  return new UpstreamFailure(failureClass, text, { reason });
}

const network = ['unavailable', 'network'] as const;
const meaningOfFault: Readonly<Record<NetworkFault['kind'], readonly [FailureClass, FailureReason]>> = {
  timeout: ['unavailable', 'timeout'],
  tooLarge: ['tooLarge', 'tooLarge'],
  unreadable: ['unavailable', 'brokenBody'],
  address: ['refused', 'address'],
  tls: ['refused', 'network'],
  name: ['unavailable', 'name'],
  cut: network,
  closed: network,
  other: network,
};

/** More than the 200 levels that a record may have, so that one record too deep does not make its page unreadable. */
const maxDepth = 300;
const jsonType = /^[\w.+-]+\/(?:json|[\w.+-]+\+json)\s*(?:;|$)/i;

/**
 * The JSON of a 2xx answer, whatever its content type. Throws `UpstreamFailure` if the body is none: `unavailable`,
 * because the page of a proxy or for maintenance is temporary, like a cut answer.
 */
export function readJsonAnswer(
  { status, body, header }: Omit<WireAnswer, 'wireBytes'>,
  secrets: readonly string[],
): JsonValue {
  const redact = (words: string): string => redactMessage(words, secrets);
  const notJson = (got: string): UpstreamFailure =>
    new UpstreamFailure('unavailable', `expected JSON, got ${got}`, { reason: 'notJson', status });
  const page = pageIn(body, header, redact);
  if (page !== null) throw notJson(page);
  const value = tryJsonText(textOfBody(body));
  if (value !== undefined && isDeeperThan(value, maxDepth)) {
    const why = `expected JSON of at most ${maxDepth} levels, got a deeper answer`;
    throw new UpstreamFailure('tooLarge', why, { reason: 'tooLarge', status });
  }
  if (value !== undefined) return value;
  const type = header('content-type');
  if (type !== null && !jsonType.test(type)) throw notJson(`other text ${mediaType(type, redact)}`);
  throw brokenAnswer('expected JSON, got an answer that is cut or damaged', status);
}

/** JSON that is nested so deeply would overflow the stack of what reads or writes it. */
function isDeeperThan(value: JsonValue, most: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return most === 0 || Object.values(value).some((one: JsonValue) => isDeeperThan(one, most - 1));
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

/** The value at a place; a header that is a whole number is a number, as it would be in the body. */
export function valueAtPlace(
  answer: { readonly value: JsonValue; readonly header: (name: string) => string | null },
  place: AnswerPlace,
): JsonValue | undefined {
  if (place.kind === 'body') return valueAt(answer.value, place.path);
  const text = answer.header(place.name)?.trim();
  return text === undefined ? undefined : /^\d{1,15}$/.test(text) ? Number(text) : text;
}

interface FoundJson {
  readonly value: JsonValue;
  readonly status: number;
  readonly redact: (text: string) => string;
}

/** Facts about an answer without an array of records. */
interface WithoutArray {
  /** The forms in the definition; null: it names none. */
  readonly empty: readonly EmptyForm[] | null;
  readonly status: number;
  /** The number of records in the listing, according to this answer; null: unknown. */
  readonly total: () => number | null;
  /** The answer has a text at the place of the service's error texts. */
  readonly saysError: boolean;
}

/**
 * Whether an answer without an array of records means that there are none. `nothing`: its status, its total, or the
 * definition says so; `null`: it has a null there, which services write for an empty array. Null: it does not mean
 * that, and is a broken answer.
 */
export function cameEmpty(form: EmptyForm | null, answer: WithoutArray): 'nothing' | 'null' | null {
  const { empty, status, saysError } = answer;
  if (form === null) return null;
  if (empty?.includes(form) === true || (form === 'noContent' && status === 204)) return 'nothing';
  const total = answer.total();
  if (total === 0) return 'nothing';
  return form === 'null' && empty === null && total === null && !saysError ? 'null' : null;
}

/** The form that replaces the array of records; null: a value that never stands for an empty array. */
export function emptyFormAt(value: JsonValue, path: RecordsPlace['path']): EmptyForm | null {
  if (value === null) return 'null';
  let found: JsonValue | undefined = value;
  for (const name of path) {
    // PHP writes an empty object as an empty array.
    if (found === null || (isJsonArray(found) && found.length === 0)) return 'missing';
    if (!isJsonObject(found)) return null;
    found = memberOf(found, name);
    if (found === undefined) return 'missing';
  }
  return found === null ? 'null' : null;
}

/** The values at the place of the records; null where the place does not have the expected type. */
export function recordsAt(value: JsonValue, { path, members, isOne, map }: RecordsPlace) {
  const found = valueAt(value, path);
  if (isOne) return isJsonObject(found) ? [found] : null;
  if (map !== null && isJsonObject(found)) return namedRecords(found, map.keyInto);
  // PHP writes an empty object as an empty array.
  if (!isJsonArray(found) || (map !== null && found.length > 0)) return null;
  let elements: readonly JsonValue[] = found;
  for (const [index, member] of members.entries()) {
    const inside = elements.map((element) => valueAt(element, member) ?? null);
    const isInner = index < members.length - 1;
    if (isInner && inside.some((one) => one !== null && !isJsonArray(one))) return null;
    // An element without such a member counts as no record.
    elements = inside.flatMap((one) => (isJsonArray(one) ? one : [one]));
  }
  return elements;
}

/** The members of an object, with their names in a field. */
function namedRecords(object: JsonObject, keyInto: string | null): readonly JsonValue[] {
  return Object.entries(object).map(([name, record]) =>
    keyInto !== null && isJsonObject(record) ? withMember(record, keyInto, name) : record,
  );
}

/**
 * Makes the error for an answer without records at their place: it says what is there instead. `hasAnswered`: the path
 * has led to records before, so the answer is wrong, and not the definition.
 */
export function noRecords(answer: FoundJson, place: RecordsPlace, hasAnswered: boolean): UpstreamFailure {
  const { status } = answer;
  const [first] = recordsAt(answer.value, place) ?? [];
  const why =
    first === undefined ? withoutRecords(answer, place) : `expected objects as records, got ${kindOf(first)}`;
  const reason = hasAnswered ? 'brokenRecords' : 'noRecords';
  return new UpstreamFailure('unavailable', why, { reason, status });
}

/** Names the members of the answer, as far down as the path leads. */
function withoutRecords({ value, redact }: FoundJson, { path, isOne, map }: RecordsPlace): string {
  let deepest = 0;
  while (deepest < path.length && valueAt(value, path.slice(0, deepest + 1)) !== undefined) deepest += 1;
  const there = valueAt(value, path.slice(0, deepest)) ?? null;
  const where = deepest === 0 ? 'the answer' : path.slice(0, deepest).join('.');
  const what = isOne ? 'one record' : map === null ? 'an array of records' : 'an object of records';
  const expected = path.length === 0 ? `the answer to be ${what}` : `${what} at ${path.join('.')}`;
  const got = deepest === path.length ? '' : 'nothing there: ';
  return `expected ${expected}, got ${got}${where} is ${kindOf(there)}${isJsonObject(there) ? ` ${redact(membersOf(there))}` : ''}`;
}

/** Arrays first: the records may be in one of them. */
function membersOf(value: JsonObject): string {
  const members = Object.entries(value)
    .toSorted(([, one], [, other]) => Number(Array.isArray(other)) - Number(Array.isArray(one)))
    .map(([name, member]) => `${JSON.stringify(name)} (${kindOf(member)})`);
  return members.length === 0 ? 'without members' : `with ${firstNames(members)}`;
}

function kindOf(value: JsonValue): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return `an array of ${value.length}`;
  if (isJsonObject(value)) return 'an object';
  if (typeof value === 'string') return 'a text';
  return typeof value === 'boolean' ? String(value) : 'a number';
}
