import { wholeJson } from '../core/canonical-json.ts';
import { grouped } from '../core/grouped.ts';
import { hideSecrets } from '../core/secret.ts';
import { writeJson, isJsonObject, withValueAt, type JsonValue, type JsonObject } from '../core/json.ts';
import type { EntityName } from '../core/names.ts';
import type { Params } from '../core/records.ts';
import { fillTemplate, namesIn } from '../definitions/upstream/service-texts.ts';
import type { UpstreamRequest, ParamPlace } from '../definitions/upstream/upstream.ts';
import {
  type ExchangeFacts,
  networkFaultOf,
  isSuccess,
  shownQuery,
  textOfBody,
  type WireAnswer,
  type WireStream,
} from '../http/exchange.ts';
import { redactMessage } from '../http/redact-message.ts';
import { buildPath, formType, queryText, refusedValue } from './call-address.ts';
import type { CallTurn } from './call-gate.ts';
import { openRequest, signRequest, type GivenParts } from './credentials.ts';
import { failureOfError, headerWait, isFailed, readFailure, readJsonAnswer } from './answers.ts';
import type { OpenedCall, Session } from './account-session.ts';
import { UpstreamFailure } from './upstream-failure.ts';
import type { WireRequest } from './upstream-transport.ts';

export interface Asked {
  readonly request: UpstreamRequest;
  readonly call: PagedCall;
  /** Null: the call is the check. */
  readonly entity: EntityName | null;
  /** An answer without a body is valid: its value is null. */
  readonly mayLackBody?: true;
}

export type JsonAnswer = Awaited<ReturnType<typeof askForJson>>;

interface SentCall {
  readonly wire: WireRequest;
  readonly secrets: readonly string[];
  readonly entity: EntityName | null;
  /** The address, without the parts that authentication adds to it. */
  readonly shownUrl: string;
  readonly facts: ExchangeFacts;
}

/** Asks once and gives the JSON of the answer. Rejects with `UpstreamFailure`, and with the signal's reason. */
export async function askForJson(asked: Asked, session: Session, signal: AbortSignal) {
  return await ask(asked, session, signal, {}, async (sent, opened) => {
    const { wire } = sent;
    const tell = seenBy(session, sent);
    let answer: WireAnswer | null = null;
    let value: JsonValue = null;
    let hasBody = true;
    try {
      answer = await sendOnce(session.transport.send, asked, wire, signal);
      noteRemaining(answer, opened, session);
      if (!isSuccess(answer.status)) throw failureOf(answer, sent, session);
      hasBody =
        asked.mayLackBody !== true || answer.body.byteLength > 16 || textOfBody(answer.body).trim() !== '';
      if (hasBody) value = readJsonAnswer(answer, sent.secrets);
      if (isFailed(session.upstream, value)) throw failureOf(answer, sent, session);
    } finally {
      tell(answer, isJsonObject(value) ? Object.keys(value) : null);
    }
    return {
      value,
      hasBody,
      status: answer.status,
      header: answer.header,
      url: wire.url,
      wireBytes: answer.wireBytes,
      bodyBytes: answer.body.byteLength,
      /** Whether a text contains a secret of the call. */
      holdsSecret: (text: string): boolean => hideSecrets(text, sent.secrets) !== text,
      /** A part of the answer for a message, without the secrets of the call. */
      redact: (text: string): string => redactMessage(text, sent.secrets),
    };
  });
}

/**
 * Calls once for an answer that is a file. A redirect is returned, and not followed here, so that the credentials go
 * nowhere else. `base`: the definition's own address, which gave the answer.
 */
export async function askForFile(asked: Asked, session: Session, signal: AbortSignal) {
  const headers = { accept: '*/*', 'accept-encoding': 'identity' };
  return await ask(asked, session, signal, headers, async (sent, opened, keep) => {
    const { wire } = sent;
    const tell = seenBy(session, sent);
    const answer = await sendOnce(session.transport.open, asked, wire, signal).catch((error: unknown) => {
      tell(null, null);
      throw error;
    });
    tell(answer, null);
    noteRemaining(answer, opened, session);
    if ('read' in answer) return heldBy(keep(), answer);
    const url = redirectOf(answer, wire.url);
    if (url === null) throw failureOf(answer, sent, session);
    return { url, base: wire.base };
  });
}

/** Tells who listens of a request that is about to be sent, once its answer is known; null: none came. */
function seenBy({ onExchange, clock }: Session, { wire, secrets, shownUrl, facts }: SentCall) {
  const began = clock.now();
  return (answer: WireAnswer | WireStream | null, keys: readonly string[] | null): void =>
    onExchange?.(
      {
        method: wire.method,
        url: hideSecrets(shownUrl, secrets),
        body: wire.body === null ? null : hideSecrets(wire.body, secrets),
        status: answer?.status ?? null,
        ms: clock.now() - began,
        wireBytes: answer !== null && 'wireBytes' in answer ? answer.wireBytes : 0,
        keys,
      },
      facts,
    );
}

/** The file's connection counts among the account's calls until it is closed. */
function heldBy(turn: CallTurn, stream: WireStream): WireStream {
  const close = (): void => {
    stream.close();
    turn.end(true);
  };
  return {
    ...stream,
    async *read(signal) {
      try {
        yield* stream.read(signal);
      } finally {
        close();
      }
    },
    close,
  };
}

/** Null where the answer has no target: 304 and 300 name none. */
export function redirectOf({ status, header }: Pick<WireAnswer, 'status' | 'header'>, from: URL): URL | null {
  const location = [301, 302, 303, 307, 308].includes(status) ? header('location') : null;
  return location !== null && URL.canParse(location, from.href) ? new URL(location, from.href) : null;
}

async function ask<T>(
  asked: Asked,
  session: Session,
  signal: AbortSignal,
  headers: Readonly<Record<string, string>>,
  send: (sent: SentCall, opened: OpenedCall, keep: () => CallTurn) => Promise<T>,
): Promise<T> {
  const attempt = async (opened: OpenedCall): Promise<T> => {
    const { credentials, base, lane } = opened;
    const signature = signRequest(credentials.auth, credentials);
    const own = openRequest(asked.request, credentials);
    const given = { ...own, fill: [...own.fill, ...signature.fill] };
    const hidden = [...given.hidden, ...signature.query];
    const unsigned = buildRequest(base, asked.request, asked.call, given);
    const url = new URL(unsigned.url);
    for (const [name, value] of hidden) url.searchParams.append(name, value);
    const wire = { ...unsigned, url, headers: { ...unsigned.headers, ...signature.headers, ...headers } };
    const secrets = [...credentials.secrets, ...signature.secrets, ...given.secrets];
    const queuedAt = session.clock.now();
    const turn = await lane.enter(signal);
    let isKept = false;
    const keep = (): CallTurn => {
      isKept = true;
      return turn;
    };
    try {
      const hiddenPath = given.hiddenPath.map((name) => [name, '[secret]'] as const);
      const shown = { ...given, path: new Map([...given.path, ...hiddenPath]) };
      const { url: plain } =
        hiddenPath.length === 0 ? unsigned : buildRequest(base, asked.request, asked.call, shown);
      const signed = hidden.map(([name]) => `${name}=[secret]`);
      const shownUrl = [plain.href.replaceAll('%5Bsecret%5D', '[secret]'), ...signed].join(
        plain.search === '' ? '?' : '&',
      );
      const { entity } = asked;
      const path = fillTemplate(asked.request.path, (name) => `{${name}}`);
      const address = `${path}${shownQuery(unsigned.url.searchParams.keys())}`;
      const facts = { entity, address, waitedMs: session.clock.now() - queuedAt };
      const result = await send({ wire, secrets, entity, shownUrl, facts }, opened, keep);
      if (!isKept) turn.end(true);
      return result;
    } catch (error) {
      turn.end(false);
      signal.throwIfAborted();
      const failure = failureOfError(error, wire.url.host);
      if (failure === null) throw error;
      if (failure.reason === 'answer' && (failure.class === 'throttled' || failure.class === 'edge')) {
        // The pause of an edge applies only to the call that met it: others may pass.
        lane.slowDown(failure.class === 'edge' ? null : failure.waitMs);
      }
      throw failure;
    }
  };

  const opened = await session.open(signal);
  try {
    return await attempt(opened);
  } catch (error) {
    if (!(error instanceof UpstreamFailure) || error.status !== 401 || error.class !== 'unauthorized') {
      throw error;
    }
    const renewed = await session.renew(opened, signal);
    if (renewed === null) throw error;
    return await attempt(renewed);
  }
}

/** Sends a call, and repeats it if an idle connection had been closed and the call changes nothing. */
async function sendOnce<T>(
  send: (wire: WireRequest, signal: AbortSignal) => Promise<T>,
  { request }: Asked,
  wire: WireRequest,
  signal: AbortSignal,
): Promise<T> {
  try {
    return await send(wire, signal);
  } catch (error) {
    if (!request.isSafe || signal.aborted || networkFaultOf(error)?.kind !== 'cut') throw error;
    return await send(wire, signal);
  }
}

function failureOf(answer: WireAnswer, { wire, secrets, entity }: SentCall, { upstream, clock }: Session) {
  return readFailure(upstream, answer, { entity, secrets, host: wire.url.host, now: clock.now() });
}

/** With 0 calls left, the next one waits for the time that the service names. */
function noteRemaining(
  { header }: Pick<WireAnswer, 'header'>,
  { lane }: OpenedCall,
  { upstream: { remaining }, clock }: Session,
): void {
  if (remaining === null || Number(header(remaining.header) ?? Number.NaN) !== 0) return;
  const waitMs = headerWait(remaining.reset, { header, now: clock.now() });
  if (waitMs !== null) lane.pause(waitMs);
}

/** Changes that paging makes to a call; absent members change nothing. */
export interface PagedCall {
  readonly params: Params;
  /** Added to the query last, replacing parameters of the same names. */
  readonly query?: readonly (readonly [string, string])[];
  /** Appended to the path of the request; null: nothing. */
  readonly segment?: string | null;
  /** Neither the query parameters of the call nor those of the definition are sent. */
  readonly isAlone?: boolean;
}

/**
 * Builds the request in the form in which it is sent, without its signature. Every parameter is placed where the
 * definition says; absent and null ones are not sent, and one that the definition does not declare is refused. Throws
 * `UpstreamFailure` refused for a value that cannot be sent.
 */
export function buildRequest(
  base: URL,
  request: UpstreamRequest,
  call: PagedCall,
  given: Pick<GivenParts, 'headers' | 'query' | 'fill' | 'path'>,
): WireRequest {
  const texts = new Map(given.path);
  const headers: Record<string, string> = {
    accept: 'application/json',
    'user-agent': 'connector-sync',
    ...given.headers,
  };
  const fixed = [...request.query].filter((pair): pair is [string, string] => typeof pair[1] === 'string');
  const query = [...(call.isAlone === true ? [] : fixed), ...given.query];
  let body: JsonObject = request.body;
  for (const { at, text } of given.fill) body = withValueAt(body, at, text);

  for (const [name, value] of Object.entries(call.params)) {
    const place = request.params.get(name);
    if (place === undefined) throw refusedValue(`the parameter ${name.slice(0, 100)}`, 'is not declared');
    if (value === null || isOmitted(place, value)) continue;
    switch (place.kind) {
      case 'path':
        texts.set(name, plainText(name, value));
        break;
      case 'query':
        if (call.isAlone !== true) put(query, place.name, inQuery(name, place, value));
        break;
      case 'header':
        headers[place.name] = headerText(name, value, place.list);
        break;
      case 'body':
        body = withValueAt(body, place.at, value);
        break;
      case 'paging':
        break;
    }
  }
  for (const { name, at, text } of filledTexts(request, texts)) {
    if (at !== null) body = withValueAt(body, at, text);
    else if (call.isAlone !== true) put(query, name, [[name, text]]);
  }
  for (const [name, pairs] of grouped(call.query ?? [], ([one]) => one)) put(query, name, pairs);

  const url = buildPath(base, pathOf(request, call), texts.set(nextSegment, call.segment ?? ''));
  url.search = queryText(query);
  return {
    url,
    base,
    namedBy: 'definition',
    method: request.method,
    headers: {
      ...headers,
      ...(request.hasBody ? { 'content-type': request.isForm ? formType : 'application/json' } : {}),
    },
    body: request.hasBody ? (request.isForm ? queryText(formPairs(body)) : wholeJson(body)) : null,
    timeoutMs: request.timeoutMs,
    maxBodyBytes: request.maxBodyBytes,
  };
}

/** Texts around values; one that lacks a value is not sent. */
function filledTexts({ texts }: UpstreamRequest, values: ReadonlyMap<string, string>) {
  const valueOf = (name: string): string => values.get(name) ?? '';
  return texts.flatMap(({ template, ...text }) =>
    namesIn(template).some((name) => valueOf(name) === '')
      ? []
      : [{ ...text, text: fillTemplate(template, valueOf) }],
  );
}

/** The fields of a form with these members: `{ a: { b: 1 } }` is `a[b]=1`, and each element of an array is sent. */
function formPairs(members: JsonObject, outer: string | null = null): readonly Pair[] {
  return Object.entries(members).flatMap(([member, value]): readonly Pair[] => {
    const name = outer === null ? member : `${outer}[${member}]`;
    if (isJsonObject(value)) return formPairs(value, name);
    const values = Array.isArray(value) ? (value as readonly JsonValue[]) : [value];
    return values.flatMap((one) => (one === null ? [] : [[name, plainText(name, one)] as const]));
  });
}

type Pair = readonly [string, string];

/** No parameter has this name. */
const nextSegment = 'the next page';

function pathOf({ path }: UpstreamRequest, { segment = null }: PagedCall): UpstreamRequest['path'] {
  if (segment === null) return path;
  const last = path.at(-1);
  const isOpen = last?.kind === 'text' && last.text.endsWith('/');
  return [
    ...path,
    ...(isOpen ? [] : [{ kind: 'text', text: '/' } as const]),
    { kind: 'name', name: nextSegment },
  ];
}

function isOmitted(place: ParamPlace, value: JsonValue): boolean {
  if (place.kind === 'path' || place.kind === 'paging') return false;
  const text = writeJson(value);
  return place.omit.some((one) => writeJson(one) === text);
}

/** Replaces fixed values of the same name. */
function put(
  query: (readonly [string, string])[],
  name: string,
  pairs: readonly (readonly [string, string])[],
): void {
  const others = query.filter(([one]) => one !== name);
  query.splice(0, query.length, ...others, ...pairs);
}

function inQuery(
  name: string,
  place: Extract<ParamPlace, { kind: 'query' | 'header' }>,
  value: JsonValue,
): readonly (readonly [string, string])[] {
  if (!Array.isArray(value)) return [[place.name, plainText(name, value)]];
  const texts = (value as readonly JsonValue[]).map((one) => plainText(name, one));
  switch (place.list) {
    case 'comma':
      return texts.length === 0 ? [] : [[place.name, texts.join(',')]];
    case 'repeat':
      return texts.map((text) => [place.name, text]);
    case 'brackets':
      return texts.map((text) => [`${place.name}[]`, text]);
  }
}

function headerText(name: string, value: JsonValue, list: 'comma' | 'repeat' | 'brackets'): string {
  if (Array.isArray(value) && list !== 'comma') throw refusedValue(name, 'must be one value');
  const values = Array.isArray(value) ? (value as readonly JsonValue[]) : [value];
  const text = values
    .map((one) => plainText(name, one))
    .join(',')
    .trim();
  if (!/^[\x20-\x7e]*$/.test(text)) {
    throw refusedValue(name, 'goes into a header: only printable ASCII may stand there');
  }
  return text;
}

function plainText(name: string, value: JsonValue): string {
  if (typeof value === 'object') throw refusedValue(name, 'must be a text, a number, true or false');
  if (typeof value === 'string' && !value.isWellFormed()) {
    throw refusedValue(name, 'must be well-formed Unicode');
  }
  return String(value);
}
