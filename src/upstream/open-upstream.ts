import { pipeline, Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { instantOf, type Instant } from '../core/clock.ts';
import { isJsonObject, readMembers, withValueAt, type JsonObject, type JsonValue } from '../core/json.ts';
import type { EntityName } from '../core/names.ts';
import type { Params } from '../core/records.ts';
import type { Entity } from '../definitions/definition.ts';
import { emptyKey, readTotal, signOfMore } from '../definitions/pagination-file.ts';
import type { AnswerPath } from '../definitions/upstream/service-texts.ts';
import type { EntityRequests, ListRequest, DownloadRequest } from '../definitions/upstream/upstream.ts';
import { fileHead, type WireStream } from '../http/exchange.ts';
import { AddressRefusedError } from '../http/guard-address.ts';
import { redactMessage } from '../http/redact-message.ts';
import { askForJson, askForFile, redirectOf, type JsonAnswer, type Asked } from './ask-upstream.ts';
import { refusedValue } from './call-address.ts';
import {
  cameEmpty,
  emptyFormAt,
  noRecords,
  recordsAt,
  failureOfError,
  readFailure,
  valueAt,
  valueAtPlace,
} from './answers.ts';
import { openSession, type UpstreamOptions, type Session } from './account-session.ts';
import { nextLinkOf, translatePaging, type TranslatedCall } from './translate-paging.ts';
import { brokenAnswer, UpstreamFailure } from './upstream-failure.ts';

interface UpstreamCall {
  readonly entity: EntityName;
  /** Declared parameters of the action; null counts as absent. */
  readonly params: Params;
}

export interface UpstreamPage {
  /** Objects, if the service follows the definition. */
  readonly records: readonly JsonValue[];
  /** Values that the definition's `pagination` reads and its `metadata` copies; null if there are none. */
  readonly metadata: JsonObject | null;
  /** The answer's `Date` header. */
  readonly serverTime: Instant | null;
  /** The number of bytes received, before decompression. */
  readonly bytes: number;
  /** Length of the body after decompression, as a measure of the memory that the page takes. */
  readonly bodyBytes: number;
}

export type UpstreamAccount = ReturnType<typeof openUpstream>;

/**
 * Opens the account of a connector at its third party. Makes no call itself. Throws `TypeError` for a definition
 * without `upstream`. Each call rejects with `UpstreamFailure`, or with the reason of its signal. It repeats only a
 * call that found its idle connection closed, and one whose access token could be renewed.
 */
export function openUpstream(options: UpstreamOptions) {
  const { definition } = options;
  const session = openSession(options);
  const { upstream } = session;
  /** Entities whose records were at the place that the definition names. */
  const answered = new Set<EntityName>();
  const requestsOf = (call: UpstreamCall): { entity: Entity; requests: EntityRequests } => {
    const entity = definition.entities.get(call.entity);
    const requests = upstream.entities.get(call.entity);
    if (entity === undefined) throw refusedValue('the entity', 'is not declared');
    if (requests === undefined) {
      throw refusedValue('the entity', 'is read through an API only: the definition has no requests for it');
    }
    return { entity, requests };
  };

  return {
    /** Checks the credentials, and returns the account that they belong to: null where the definition cannot tell. */
    async check(signal: AbortSignal) {
      const { request, identity, name } = upstream.check;
      const answer = await askForJson({ request, call: { params: {} }, entity: null }, session, signal);
      return readIdentity(answer, identity, name);
    },
    /**
     * Reads one page, as the Connector Execution API would return it. Sends `params` and the additions of the
     * definition, nothing else.
     */
    async list(call: UpstreamCall, signal: AbortSignal): Promise<UpstreamPage> {
      const { entity, requests } = requestsOf(call);
      const translated = translatePaging(entity, requests.list, call.params);
      const { message } = upstream;
      const asked = { request: requests.list, call: translated.call, entity: call.entity } as const;
      try {
        const answer = await askForJson({ ...asked, mayLackBody: true }, session, signal);
        const hasAnswered = answered.has(call.entity);
        const page = readPage(answer, { entity, requests, message, hasAnswered }, translated);
        answered.add(call.entity);
        return page;
      } catch (error) {
        if (isBehindTheEnd(error, translated)) return nothing;
        throw error;
      }
    },
    /** Null: the service says that there is no such record. */
    async get(call: UpstreamCall, signal: AbortSignal): Promise<JsonObject | null> {
      const { entity, requests } = requestsOf(call);
      const { get } = requests;
      if (get === null) throw refusedValue('the action get', 'is not declared for this entity');
      const asked = { request: get, call: { params: call.params }, entity: call.entity };
      const answer = await orNull(askForJson(asked, session, signal));
      if (answer === null) return null;
      const record = valueAt(answer.value, get.record);
      if (!isJsonObject(record)) {
        throw brokenAnswer('expected a record in the answer, got none', answer.status);
      }
      return readMembers(record, entity);
    },
    /** Null: the service says that there is no such file. The caller reads the file to its end or closes it. */
    async download(call: UpstreamCall, signal: AbortSignal): Promise<UpstreamFile | null> {
      const { download } = requestsOf(call).requests;
      if (download === null) throw refusedValue('the action download', 'is not declared for this entity');
      const asked = { request: download, call: { params: call.params }, entity: call.entity };
      return await orNull(downloadFile(asked, download, session, signal));
    },
    /** Waits for a running renewal of tokens: its result must be stored. Idempotent. */
    close: async (): Promise<void> => await session.settled(),
  };
}

async function orNull<T>(answer: Promise<T>): Promise<T | null> {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof UpstreamFailure && error.class === 'notFound') return null;
    throw error;
  }
}

const nothing: UpstreamPage = {
  records: [],
  metadata: { [emptyKey]: 'nothing' },
  serverTime: null,
  bytes: 0,
  bodyBytes: 0,
};

/** A page of a network in front of the service does not show the end of a listing. */
function isBehindTheEnd(error: unknown, { endStatus }: TranslatedCall): boolean {
  return (
    error instanceof UpstreamFailure &&
    error.reason === 'answer' &&
    endStatus !== null &&
    error.status === endStatus &&
    (error.class === 'notFound' || error.class === 'refused')
  );
}

function readIdentity(answer: JsonAnswer, paths: readonly AnswerPath[] | null, name: AnswerPath | null) {
  const [identity = null] = (paths ?? [])
    .map((path) => textOf(valueAt(answer.value, path)))
    .filter((found) => found !== null);
  if (identity === null && paths !== null) {
    const text = `${answer.url.host} does not say which account the credentials belong to`;
    throw new UpstreamFailure('refused', text, { reason: 'brokenBody', status: answer.status });
  }
  const shown = name === null ? null : textOf(valueAt(answer.value, name));
  return {
    identity,
    /** The host that answered. */
    host: answer.url.host,
    name: shown === null ? null : redactMessage(shown, []),
    /** The answer's `Date` header. */
    serverTime: instantOf(answer.header('date')),
  };
}

function textOf(value: JsonValue | undefined): string | null {
  if (typeof value === 'number' || typeof value === 'bigint') return String(value);
  return typeof value === 'string' && value.trim() !== '' && value.length <= 1_000 ? value.trim() : null;
}

interface ListRules {
  readonly entity: Entity;
  readonly requests: EntityRequests;
  readonly message: readonly AnswerPath[];
  readonly hasAnswered: boolean;
}

/** Throws `UpstreamFailure` for an answer without records that does not say that there are none. */
function readPage(answer: JsonAnswer, rules: ListRules, { readMetadata }: TranslatedCall): UpstreamPage {
  const { entity, requests } = rules;
  const { list } = requests;
  const found = recordsAt(answer.value, list.records);
  const metadataOf = (): JsonObject => ({
    ...signOfMoreIn(answer, entity, list),
    ...copied(list, answer),
    ...(answer.hasBody ? readMetadata(answer) : {}),
  });
  const came = found === null ? howEmpty(answer, rules, metadataOf) : null;
  const isNoPage = found?.length !== 0 && found?.some(isJsonObject) !== true;
  if (came === null && isNoPage) throw noRecords(answer, list.records, rules.hasAnswered);
  const metadata = { ...metadataOf(), ...(came === null ? {} : { [emptyKey]: came }) };
  return {
    records: (found ?? []).map((record) => (isJsonObject(record) ? readMembers(record, entity) : record)),
    metadata: Object.keys(metadata).length === 0 ? null : metadata,
    serverTime: instantOf(answer.header('date')),
    bytes: answer.wireBytes,
    bodyBytes: answer.bodyBytes,
  };
}

function howEmpty(
  { value, hasBody, status }: JsonAnswer,
  { entity: { pagination, trustsTotal }, requests: { list }, message }: ListRules,
  metadataOf: () => JsonObject,
) {
  const keys = trustsTotal ? pagination.totalKeys : [];
  return cameEmpty(hasBody ? emptyFormAt(value, list.records.path) : 'noContent', {
    empty: list.empty,
    status,
    total: () => (keys.length === 0 ? null : readTotal(keys, metadataOf())),
    saysError: message.some((path) => (textOf(valueAt(value, path)) ?? '') !== ''),
  });
}

/**
 * Finds the sign, in an answer that should be complete, that more records follow: only here is the whole answer known.
 */
function signOfMoreIn(answer: JsonAnswer, { pagination }: Entity, { records: { path, isOne } }: ListRequest) {
  if (pagination.kind !== 'single' || pagination.flagKeys !== undefined || isOne) return {};
  const around = [answer.value, valueAt(answer.value, path.slice(0, -1))];
  const [sign] = around.flatMap((one) => (isJsonObject(one) ? (signOfMore(one) ?? []) : []));
  if (sign !== undefined) return withValueAt({}, sign.split('.'), true);
  return nextLinkOf(answer.header('link')) === null ? {} : { next: true };
}

function copied({ metadata }: ListRequest, answer: JsonAnswer): JsonObject {
  const pairs = [...metadata].map(([key, place]) => [key, valueAtPlace(answer, place)] as const);
  return Object.fromEntries(pairs.filter((pair): pair is [string, JsonValue] => pair[1] !== undefined));
}

export type UpstreamFile = ReturnType<typeof fileOf>;

const mostHops = 5;

/**
 * Downloads the file of a record. A redirect, or an address in the JSON of the answer, is followed without credentials,
 * to the service's own origin and to public addresses only. Rejects with `UpstreamFailure`, and with the signal's
 * reason.
 */
async function downloadFile(
  asked: Asked,
  { url: path }: Pick<DownloadRequest, 'url'>,
  session: Session,
  signal: AbortSignal,
): Promise<UpstreamFile> {
  if (path !== null) {
    const answer = await askForJson(asked, session, signal);
    const address = valueAt(answer.value, path);
    if (typeof address !== 'string' || !URL.canParse(address)) {
      throw brokenAnswer(`${answer.url.host} names no address of the file`, answer.status);
    }
    return await followTo(new URL(address), answer.url, asked, session, signal);
  }
  const found = await askForFile(asked, session, signal);
  return 'read' in found
    ? fileOf(found, 'the service')
    : await followTo(found.url, found.base, asked, session, signal);
}

async function followTo(start: URL, base: URL, asked: Asked, session: Session, signal: AbortSignal) {
  let url = start;
  for (let hop = 0; hop < mostHops; hop += 1) {
    const { timeoutMs, maxBodyBytes } = asked.request;
    const headers = { accept: '*/*', 'accept-encoding': 'identity', 'user-agent': 'connector-sync' };
    try {
      const answer = await session.transport.open(
        { url, base, namedBy: 'answer', method: 'GET', headers, body: null, timeoutMs, maxBodyBytes },
        signal,
      );
      if ('read' in answer) return fileOf(answer, url.host);
      const next = redirectOf(answer, url);
      if (next === null) {
        // The service's rules do not apply: this is another host. Its texts may repeat the signed address.
        const rules = { ...session.upstream, errors: [], message: [], failed: null };
        const { entity } = asked;
        throw readFailure(rules, answer, { entity, host: url.host, secrets: [], now: session.clock.now() });
      }
      url = next;
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof AddressRefusedError) throw notFollowed(error);
      throw failureOfError(error, url.host) ?? error;
    }
  }
  const text = `the address of the file redirects more than ${mostHops} times`;
  throw new UpstreamFailure('refused', text, { reason: 'redirect' });
}

/**
 * The reason `address` is avoided, because it ends a run and advises to allow the host: one record's file must not
 * cause either.
 */
function notFollowed({ message }: AddressRefusedError): UpstreamFailure {
  const text = `${message}; the address of a file must be public, or the service's own`;
  return new UpstreamFailure('refused', text, { reason: 'otherOrigin' });
}

function fileOf(stream: WireStream, host: string) {
  const { fault, isGzip, ...head } = fileHead(stream);
  if (fault !== null) {
    stream.close();
    throw brokenAnswer(`expected a whole file from ${host}, got ${fault}`, stream.status);
  }
  return {
    ...head,
    /**
     * To be called once. Ends after the last byte; throws `UpstreamFailure` if the file is cut or arrives too slowly.
     */
    async *read(signal: AbortSignal): AsyncGenerator<Uint8Array> {
      try {
        const bytes = stream.read(signal);
        // The iteration throws the error that ends the stream; the callback would report it a second time.
        yield* isGzip ? pipeline(Readable.from(bytes), createGunzip(), () => undefined) : bytes;
      } catch (error) {
        signal.throwIfAborted();
        throw failureOfError(error, host) ?? error;
      }
    },
    /** Frees the connection of a file that is not read to its end. Idempotent. */
    close: (): void => stream.close(),
  };
}
