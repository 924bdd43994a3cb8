import type { EntityName } from '../core/names.ts';
import { isJsonObject, type JsonValue } from '../core/json.ts';
import {
  defaultFailureClass,
  type ErrorRule,
  type FailureClass,
  type HeaderTime,
  type Wait,
} from '../definitions/upstream/failure-class.ts';
import type { Upstream } from '../definitions/upstream/upstream.ts';
import { type WireAnswer, networkFaultOf, retryAfterMs, textOfBody } from '../http/exchange.ts';
import { redactMessage } from '../http/redact-message.ts';
import { readJsonOfFailure, valueAt } from './read-json.ts';
import { brokenAnswer, UpstreamFailure, type FailureReason } from './upstream-failure.ts';

interface FailureFacts {
  /** Null: the check, or a token. */
  readonly entity: EntityName | null;
  readonly host: string;
  readonly secrets: readonly string[];
  readonly now: number;
}

interface FailedAnswer extends FailureFacts, Pick<WireAnswer, 'status' | 'header'> {
  readonly text: string;
  /** Undefined: the body is no JSON. */
  readonly value: JsonValue | undefined;
}

type Rules = Pick<Upstream, 'errors' | 'message' | 'failed' | 'retryAfter'>;

const longestWaitMs = 3_600_000;
const edgeWaitMs = 60_000;

/** True for an answer with a status below 300 that is an error all the same. */
export function isFailed({ failed }: Pick<Upstream, 'failed'>, value: JsonValue): boolean {
  if (failed === null) return false;
  const found = valueAt(value, failed.path);
  if (failed.is === null) return found !== undefined && found !== null && found !== false && found !== '';
  return found === failed.is;
}

/** What an answer that is an error means: the first rule that matches, else the default of its status. */
export function readFailure(
  rules: Rules,
  failed: Pick<WireAnswer, 'status' | 'header' | 'body'>,
  facts: FailureFacts,
): UpstreamFailure {
  const { status, header } = failed;
  const text = textOfBody(failed.body);
  const answer = { status, header, text, ...facts, value: readJsonOfFailure(text) };
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
 * A page of HTML instead of an error of the service comes from a network in front of it, which refuses what it takes
 * for an attack.
 */
function defaultClass({ status, header, value }: FailedAnswer): FailureClass {
  const isHtml = value === undefined && /^text\/html\b/i.test(header('content-type') ?? '');
  if (isHtml && (status === 400 || status === 503)) return 'edge';
  return defaultFailureClass(status, isJsonObject(value));
}

/** A body that is not the service's own JSON is never shown: it may hold anything. */
function showText(
  failureClass: FailureClass,
  text: string | null,
  { status, host, secrets }: FailedAnswer,
): string {
  if (failureClass === 'edge') return `refused by the network in front of ${host} (HTTP ${status})`;
  if (status >= 300 && status < 400) {
    return `${host} redirects to another address (HTTP ${status}), which is not followed`;
  }
  const shown = text === null ? '' : redactMessage(text, secrets);
  return shown === '' ? `${host} answered with HTTP ${status}` : shown;
}

/** Null: the answer asks for no wait. A definition without rules means the header that HTTP has for it. */
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

/** From now, at most an hour; null where the header is not there or cannot be read. */
export function headerWait(
  { header, format }: HeaderTime,
  answer: Pick<FailedAnswer, 'header' | 'now'>,
): number | null {
  const text = answer.header(header)?.trim() ?? '';
  const date = answer.header('date');
  if (format === 'httpDate') return /[a-z]/i.test(text) ? retryAfterMs(text, date, answer.now) : null;
  if (!/^\d{1,15}(?:\.\d{1,9})?$/.test(text)) return null;
  const serverNow = date === null ? Number.NaN : Date.parse(date);
  const value = Number(text);
  const waitMs = {
    seconds: value * 1_000,
    milliseconds: value,
    // Against the server's own clock, so that one that is off here does not matter.
    unix: value * 1_000 - (Number.isNaN(serverNow) ? answer.now : serverNow),
  }[format];
  return Math.min(Math.max(Math.ceil(waitMs), 0), longestWaitMs);
}

/**
 * A call that got no answer, or one that could not be read. Null for what is no failure of a call. The error itself is
 * not kept: it may hold headers.
 */
export function failureOfError(error: unknown, host: string): UpstreamFailure | null {
  if (error instanceof UpstreamFailure) return error;
  const fault = networkFaultOf(error);
  if (fault === null) return null;
  const { kind, code, text } = fault;
  const unavailable = (why: string, reason: FailureReason): UpstreamFailure =>
    new UpstreamFailure('unavailable', why, { reason });
  switch (kind) {
    case 'slow':
      return unavailable(`${host} did not answer in time: ${text}`, 'timeout');
    case 'timeout':
      return unavailable(`${host} did not answer in time (${code})`, 'timeout');
    case 'tooLarge':
      return new UpstreamFailure('tooLarge', `${host}: ${text}`, { reason: 'tooLarge' });
    case 'unreadable':
      return brokenAnswer(`${host}: ${text}`);
    case 'address':
      return new UpstreamFailure('refused', text, { reason: 'address' });
    case 'tls':
      return new UpstreamFailure('refused', `${text} to ${host} (${code})`, { reason: 'network' });
    case 'name':
      return unavailable(`cannot reach ${host}: ${text}`, 'name');
    case 'noHttp':
      return unavailable(`${host} does not answer in HTTP (${code})`, 'network');
    case 'cut':
      return unavailable(`${host}: ${text} (${code})`, 'network');
    case 'unreachable':
      return unavailable(`cannot reach ${host}: ${text} (${code})`, 'network');
    case 'closed':
    case 'other':
      return unavailable(`cannot reach ${host}, or its answer was cut off (${code})`, 'network');
  }
}
