import { isJsonObject, memberOf, type JsonValue } from '../core/json.ts';
import type { AnswerPath, AnswerPlace } from '../definitions/upstream/template.ts';
import { type WireAnswer, mediaType, pageIn, textOfBody } from '../http/exchange.ts';
import { tryJsonText } from '../http/lossless-json.ts';
import { redactMessage } from '../http/redact-message.ts';
import { brokenAnswer, UpstreamFailure } from './upstream-failure.ts';

/** Above the 200 levels that a record may have, so that one record too deep does not cost its page. */
const maxDepth = 300;
const jsonType = /^[\w.+-]+\/(?:json|[\w.+-]+\+json)\s*(?:;|$)/i;

/**
 * The JSON of a 2xx answer, whatever its content type. Throws `UpstreamFailure` for what is none: `unavailable`, as a
 * page of a proxy or for maintenance may pass like a cut answer.
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
  const text = textOfBody(body);
  if (isDeeperThan(text, maxDepth)) {
    const why = `expected JSON of at most ${maxDepth} levels, got a deeper answer`;
    throw new UpstreamFailure('tooLarge', why, { reason: 'tooLarge', status });
  }
  const value = tryJsonText(text);
  if (value !== undefined) return value;
  const type = header('content-type');
  if (type !== null && !jsonType.test(type)) throw notJson(`other text ${mediaType(type, redact)}`);
  throw brokenAnswer('expected JSON, got an answer that is cut or damaged', status);
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
