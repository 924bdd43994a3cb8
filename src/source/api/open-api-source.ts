import * as z from 'zod';
import { wholeJson } from '../../core/canonical-json.ts';
import { hasCode, SyncError, ThrottledError, usage } from '../../core/errors.ts';
import type { ConnectorId, EntityName } from '../../core/names.ts';
import type { SharedBudget } from '../../core/shared-budget.ts';
import { pagingParams, type Definition, type Entity } from '../../definitions/definition.ts';
import { readTotal, emptyKey } from '../../definitions/pagination-file.ts';
import { cameEmpty, emptyFormAt, recordsAt } from '../../upstream/answers.ts';
import { missingParams } from '../../definitions/params.ts';
import * as sources from '../source.ts';
import type { ApiCall, StreamCall } from './api-caller.ts';
import { openBrokenAnswers } from './call-with-retries.ts';
import {
  stopError,
  entityFacts,
  type CallFacts,
  invalidBody,
  noRecords,
  invalidFile,
  fileTooLarge,
} from './call-failure.ts';
import { unknownId, type ApiClient, otherTypeError } from './open-api-client.ts';
import { instantOf } from '../../core/clock.ts';
import {
  isJsonArray,
  isJsonObject,
  memberOf,
  readMembers,
  type JsonObject,
  type JsonValue,
} from '../../core/json.ts';
import type { Params } from '../../core/records.ts';
import type { EmptyForm } from '../../definitions/upstream/service-texts.ts';
import { styleOf } from '../../pagination/pagination-of.ts';
import { saysCut, type PageAnswer } from '../../pagination/pagination.ts';
import { type WireAnswer, fileHead, textOfBody } from '../../http/exchange.ts';
import { JsonTextError, parseJsonText, tryJsonText } from '../../http/lossless-json.ts';
import { scanPage } from '../../http/scan-json.ts';

export interface ApiSourceOptions extends sources.SourceOptions {
  readonly connectorId: ConnectorId;
  /** The API's, as `ConnectorOrigin.baseUrl`. */
  readonly address: string;
  /** The rate that other processes keep too; null: this process keeps its own alone. */
  readonly budget?: SharedBudget | null;
}

/** One connector of a Connector Execution API. Asks nothing. Disposing it leaves the client open. */
export function openApiSource(client: ApiClient, options: ApiSourceOptions): sources.ConnectorSource {
  const { definition, connectorId, onEvent = () => undefined, onExchange } = options;
  const budget = client.openBudget({ ...options, shared: () => options.budget ?? null });
  const calls = recordCalls(definition, connectorId);
  const presence = openConnectorPresence(client, connectorId, definition);
  const brokenAnswersOf = openBrokenAnswers(options.isTrial);
  const sharing = <T>(call: ApiCall<T>): ApiCall<T> => ({
    ...call,
    brokenAnswers: brokenAnswersOf(call.facts.label),
    onExchange,
  });

  const send = async <T>(call: ApiCall<T> | StreamCall<T>, isRoot: boolean, signal: AbortSignal) => {
    try {
      const value = await client.call(call, budget, onEvent, signal);
      presence.answered();
      return value;
    } catch (error) {
      // Check every refusal of a root: it would skip a whole entity, and there are few roots.
      throw hasCode(error, 'NOT_FOUND') || hasCode(error, 'FORBIDDEN')
        ? await presence.judge(error, isRoot || error.context['namesConnector'] === true, signal)
        : error;
    }
  };

  let hasConnected = false;
  const connect = async (signal: AbortSignal): Promise<void> => {
    if (!hasConnected) await presence.connect(signal);
    hasConnected = true;
  };

  return {
    connect,
    async origin(signal) {
      await connect(signal);
      const origin = sources.accountOrigin(options.address, presence.account());
      return origin.isAccount ? origin : { ...origin, connectorId };
    },
    accountName: presence.account,
    list: async (request, signal) => await send(sharing(calls.list(request)), request.isRoot, signal),
    async get(request, signal) {
      try {
        return await send(sharing(calls.get(request)), false, signal);
      } catch (error) {
        // Null means "deleted", which is wrong if the whole connector is deleted: that is another error by now.
        if (hasCode(error, 'NOT_FOUND')) return null;
        throw error;
      }
    },
    async download(request, receive, signal) {
      checkDeclared(definition, request.entity, 'download', request.params);
      const call = downloadCall(connectorId, definition, request, receive);
      return await send({ ...call, onExchange }, false, signal);
    },
    stats: () => ({ ...budget.stats(), serverTime: client.serverTime() }),
    // Sockets and token belong to the client.
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}

const freshMs = 60_000;

/**
 * Tells "this entity is refused" from "there is no such connector".
 *
 * `GET connectors/{id}` is not part of the published specification: a 404 or 405 there that does not speak of a
 * connector may mean that the service has no such endpoint. Then only a refusal of the first execute that is 404 too
 * makes the connector unknown.
 */
function openConnectorPresence(client: ApiClient, id: ConnectorId, definition: Definition) {
  const { clock } = client;
  let hasDetail = false;
  let account: string | null = null;
  let answeredAt: number | null = null;

  const probe = async (signal: AbortSignal, isFresh: boolean): Promise<SyncError | null> => {
    try {
      const found = await client.connector(id, signal, { isFresh });
      const { definitionId } = found;
      account = found.account;
      hasDetail = true;
      answeredAt = clock.now();
      if (definitionId === null || definitionId.toLowerCase() === definition.id.toLowerCase()) return null;
      return otherTypeError(id, definitionId, `but ${definition.name} is ${definition.id}`);
    } catch (error) {
      if (error instanceof SyncError) return error;
      throw error;
    }
  };

  const mayLackEndpoint = ({ context: { namesConnector, status } }: SyncError): boolean =>
    !hasDetail && namesConnector !== true && (status === 404 || status === 405);

  return {
    account: () => account,
    /**
     * Checks the connector and the credentials, by an answer of a while ago where there is one. Throws with recovery
     * `stop` (a long throttle: `ThrottledError`).
     */
    async connect(signal: AbortSignal): Promise<void> {
      const error = await probe(signal, false);
      if (error === null || mayLackEndpoint(error)) return;
      const isStopping = error.recovery === 'stop' || error instanceof ThrottledError;
      throw isStopping ? error : stopError(error.code, error.message, error);
    },
    /** An execute was answered with success: the connector is there. */
    answered(): void {
      answeredAt = clock.now();
    },
    /**
     * Judges a refusal (403, 404, 410). Returns the error that stands: `refusal` itself while the connector is there,
     * else CONNECTOR_UNKNOWN (stop). An answer of the last minute counts as there, unless `isSuspect`.
     */
    async judge(refusal: SyncError, isSuspect: boolean, signal: AbortSignal): Promise<SyncError> {
      const isFresh = answeredAt !== null && clock.now() - answeredAt < freshMs;
      if (isFresh && !isSuspect) return refusal;
      const error = await probe(signal, true);
      if (error === null) return refusal;
      if (mayLackEndpoint(error)) {
        const isThere = answeredAt !== null || refusal.code !== 'NOT_FOUND';
        return isThere ? refusal : stopError('CONNECTOR_UNKNOWN', unknownId(id), refusal);
      }
      // Only what the probe says about the connector or the account outweighs the refusal.
      return error.recovery === 'stop' ? error : refusal;
    },
  };
}

/**
 * The calls that read a connector's records, over any transport. Throw USAGE for entities and parameters that the
 * definition does not declare.
 */
export function recordCalls(definition: Definition, connector: ConnectorId) {
  return {
    list: (asked: sources.ListRequest): ApiCall<sources.SourcePage> => {
      const declared = checkDeclared(definition, asked.entity, 'list', asked.params);
      const request = { ...asked, connector, definition, action: 'list' } as const;
      const facts = factsOf(request);
      const read = (answer: WireAnswer): sources.SourcePage => readPage(answer, connector, declared, facts);
      return { request: requestOf(request), facts, read };
    },
    get: (asked: sources.GetRequest): ApiCall<JsonValue> => {
      const entity = checkDeclared(definition, asked.entity, 'get', asked.params);
      const request = { ...asked, connector, definition, action: 'get', isRoot: false } as const;
      const facts = factsOf(request);
      const read = ({ body }: WireAnswer): JsonValue => {
        const { result } = readEnvelope(textOfBody(body), connector, facts);
        if (isJsonObject(result)) return readMembers(result, entity);
        throw invalidBody(facts, 'expected an object as result, got another kind');
      };
      return { request: requestOf(request), facts, read };
    },
  };
}

/** One execute: a read, so it may be sent again. */
interface ExecuteRequest extends sources.ListRequest {
  readonly connector: ConnectorId;
  readonly definition: Definition;
  readonly action: 'list' | 'get';
}

/** Without skip_truncation the service may cut every string of a list to 200 characters. */
function requestOf({ connector, entity, action, params }: ExecuteRequest): ApiCall<unknown>['request'] {
  return executeRequest(connector, { entity, action, params, skip_truncation: true });
}

function executeRequest(connector: ConnectorId, body: JsonObject): ApiCall<unknown>['request'] {
  const path = `/api/v1/integrations/connectors/${connector}/execute`;
  return { method: 'POST', path, query: {}, body: wholeJson(body) };
}

/** Facts of a call for records. */
export function factsOf(request: Omit<ExecuteRequest, 'connector'>): CallFacts {
  const { definition, entity, action, params, isRoot, isLook = false } = request;
  const listed = action === 'list' ? definition.entities.get(entity) : undefined;
  const paging = listed === undefined ? [] : pagingParams(listed.pagination);
  return entityFacts(definition, action, entity, {
    isRoot,
    isLook,
    canShrink: paging.some(({ role }) => role === 'sizeParam'),
    hasPageToken: paging.some(({ role, name }) => role === 'tokenParam' && Object.hasOwn(params, name)),
  });
}

const envelopeShape = z.object({
  status: z.string(),
  // Records stay unread here: `unknown` hands them on as they are, however deep.
  result: z.unknown().optional(),
  connector_metadata: z.unknown().optional(),
  execution_metadata: z.looseObject({ connector_instance_id: z.string().nullish() }).nullish(),
});

/** Where the records of a `list` may be. In `hits` each is wrapped in an object: such an answer is read whole. */
const recordPaths = [['result'], ['result', 'data']];
/** A deeper answer is read whole, as deep as the memory allows. */
const mostLevels = 1_000;
const markerStart = '[truncated ';
const marker = '[truncated — use';
/** Marker as a text may hold it; one expression reads a page once. */
const markerText = /\[truncated (?:—|\\u2014) use/;

/** `form`: it has no result; null: it has one. */
type Envelope = PageAnswer & { readonly form: EmptyForm | null };

/**
 * The execute envelope. Throws `CallFailure` BODY_INVALID for a body that is not the envelope of a success of this
 * connector, and `SyncError` TRUNCATED_VALUE when a value was shortened by the service.
 */
function readEnvelope(text: string, connector: ConnectorId, facts: CallFacts): Envelope {
  const json = parseOrFail(text, facts);
  const parsed = envelopeShape.safeParse(json);
  if (!parsed.success) {
    const path = parsed.error.issues[0]?.path.join('.') ?? '';
    throw invalidBody(facts, `expected the execute envelope${path === '' ? '' : `, got another ${path}`}`);
  }
  if (parsed.data.status !== 'success') {
    throw invalidBody(facts, 'expected status "success", got another one with HTTP 200');
  }
  const instance = parsed.data.execution_metadata?.connector_instance_id ?? null;
  if (instance !== null && instance !== connector && !instance.endsWith(`:${connector}`)) {
    throw invalidBody(
      facts,
      'expected an answer of the connector that was asked, got one of another connector',
    );
  }
  // `as`: both came out of the JSON reader; absent is null.
  const result = (parsed.data.result ?? null) as JsonValue;
  const metadata = (parsed.data.connector_metadata ?? null) as JsonValue;
  if (markerText.test(text) && holdsMarker(result)) throw truncated(facts);
  return { result, metadata, form: parsed.data.result === undefined ? 'missing' : null };
}

function parseOrFail(text: string, facts: CallFacts): JsonValue {
  try {
    return parseJsonText(text);
  } catch (error) {
    if (!(error instanceof JsonTextError)) throw error;
    // Two records may only be too much together: the smaller page separates them.
    const recovery = error.isTooDeep ? (facts.canShrink ? 'smaller-page' : 'skip-partition') : 'retry';
    throw invalidBody(facts, `expected a JSON envelope, got ${error.message}`, recovery);
  }
}

/** Not recursive: a hostile value may be deeper than the stack. */
function holdsMarker(root: JsonValue): boolean {
  const open: JsonValue[] = [root];
  for (let value = open.pop(); value !== undefined; value = open.pop()) {
    if (typeof value === 'string') {
      if (value.includes(marker)) return true;
    } else if (isJsonArray(value)) {
      for (const element of value) open.push(element);
    } else if (isJsonObject(value)) {
      for (const member of Object.values(value)) open.push(member);
    }
  }
  return false;
}

function truncated(facts: CallFacts): SyncError {
  return new SyncError(
    `${facts.label}: expected whole values, got one the service had shortened; nothing of the page is stored`,
    { code: 'TRUNCATED_VALUE', recovery: facts.isRoot ? 'skip-entity' : 'skip-partition' },
  );
}

/**
 * The records of a `list`. The result is the array itself, or has it where the definition says, or is `{data, meta}` or
 * `{hits: [{data}], next_cursor}`: shapes this API has had without a new version. Throws `CallFailure` BODY_INVALID.
 */
function readPage(
  { body, header, status }: Pick<WireAnswer, 'body' | 'header' | 'status'>,
  connector: ConnectorId,
  entity: Entity,
  facts: CallFacts,
): sources.SourcePage {
  const { records: place, rename, at } = entity;
  const isPlain = place === null && rename.size + at.size === 0 && !body.includes(markerStart);
  const scanned = isPlain ? scanPage(body, recordPaths, mostLevels) : null;
  const came: Envelope =
    status === 204 && body.byteLength === 0
      ? { result: null, metadata: null, form: 'noContent' }
      : readEnvelope(scanned?.rest ?? textOfBody(body), connector, facts);
  const values = recordsOf(came.result, place);
  const answer = values === null ? asEmpty(came, status, entity, facts) : came;
  const named = (values ?? []).map((one) => (isJsonObject(one) ? readMembers(one, entity) : one));
  const records = scanned === null ? sources.readRecords(named) : sources.unreadRecords(scanned);
  return {
    records,
    ...readPaging(answer, records, entity, facts),
    metadata: answer.metadata,
    serverTime: instantOf(header('date')),
    bytes: body.byteLength,
  };
}

/** The answer with how it says that there are no records. Throws `CallFailure` BODY_INVALID for one that does not. */
function asEmpty(
  { result, metadata, form }: Envelope,
  status: number,
  { pagination, records, empty, trustsTotal }: Entity,
  facts: CallFacts,
): PageAnswer {
  const found = records === null ? plainForm(result) : emptyFormAt(result, records.path);
  const came = cameEmpty(form ?? found, {
    empty,
    status,
    total: () => (trustsTotal ? readTotal(pagination.totalKeys, metadata) : null),
    saysError: false,
  });
  if (came === null) throw noRecords(facts);
  return { result, metadata: { ...(isJsonObject(metadata) ? metadata : {}), [emptyKey]: came } };
}

/** Empty form of a result, in the shapes that this API has had. */
function plainForm(result: JsonValue) {
  if (!isJsonObject(result) || Object.keys(result).length === 0) return emptyFormAt(result, []);
  const member = ['data', 'hits'].find((name) => Object.hasOwn(result, name));
  return emptyFormAt(result, [member ?? 'data']);
}

/** Reads from an answer where the next page is. Throws `CallFailure` BODY_INVALID. */
export function readPaging(
  answer: PageAnswer,
  records: sources.PageRecords,
  { pagination, cut }: Pick<Entity, 'pagination' | 'cut'>,
  facts: CallFacts,
): Pick<sources.SourcePage, 'next' | 'total' | 'wasNull' | 'isCut'> {
  const lastRecord = (): JsonValue | undefined =>
    records.length === 0 ? undefined : records.value(records.length - 1);
  const read = styleOf(pagination).readNext(answer, lastRecord);
  const came = isJsonObject(answer.metadata) ? memberOf(answer.metadata, emptyKey) : undefined;
  const isEnd = came !== undefined && records.length === 0 && read !== null && 'isSilent' in read;
  const next = isEnd ? { hasMore: false, token: null } : read;
  if (next !== null && 'fault' in next) throw invalidBody(facts, next.fault);
  const total = readTotal(pagination.totalKeys, answer.metadata);
  return {
    next,
    ...(total === null ? {} : { total }),
    ...(came === 'null' ? { wasNull: true } : {}),
    ...(cut?.sign !== undefined && saysCut(cut.sign, answer) ? { isCut: true } : {}),
  };
}

/** The records of a result in any of its shapes; null where it has no array. `place`: where the definition says. */
export function recordsOf(result: JsonValue, place: Entity['records'] = null): readonly JsonValue[] | null {
  if (isJsonArray(result)) return result;
  if (place !== null) return recordsAt(result, place);
  if (!isJsonObject(result)) return null;
  const data = memberOf(result, 'data');
  if (isJsonArray(data)) return data;
  const hits = memberOf(result, 'hits');
  if (!isJsonArray(hits)) return null;
  const records: JsonValue[] = [];
  for (const hit of hits) {
    const record = isJsonObject(hit) ? memberOf(hit, 'data') : undefined;
    if (record === undefined) return null;
    records.push(record);
  }
  return records;
}

/**
 * The entity, when the definition offers the action and declares every parameter. Throws USAGE: the service would drop
 * an unknown parameter silently and answer with the first page again.
 */
export function checkDeclared(
  definition: Definition,
  entity: EntityName,
  action: 'list' | 'get' | 'download',
  params: Params,
): Entity {
  const declared = definition.entities.get(entity);
  const offered = declared?.actions.get(action);
  if (declared === undefined || offered === undefined) {
    throw usage(`${definition.name} offers no ${action} of ${entity}`);
  }
  const unknown = Object.keys(params).filter((name) => !offered.params.has(name));
  if (unknown.length > 0) {
    throw usage(
      `${action} ${entity} takes no ${unknown.join(', ')}; declared: ${[...offered.params.keys()].join(', ')}`,
    );
  }
  const missing = missingParams(offered, params);
  if (missing.length > 0) throw usage(`${action} ${entity} needs ${missing.join(', ')}`);
  return declared;
}

const mediaType = /^[!#$&^\w.+-]{1,100}\/[!#$&^\w.+-]{1,100}(\s*;[\x20-\x7e]*)?$/;
const maxTypeChars = 200;

/** `POST connectors/{id}/execute` with `download`: the answer is the file itself. */
export function downloadCall<T>(
  connector: ConnectorId,
  definition: Definition,
  { entity, params, size, maxBytes }: sources.DownloadRequest,
  receive: sources.ReceiveFile<T>,
): StreamCall<T> {
  const facts = entityFacts(definition, 'download', entity);
  return {
    request: {
      ...executeRequest(connector, { entity, action: 'download', params }),
      headers: { accept: '*/*', 'accept-encoding': 'identity' },
    },
    facts,
    receive: async (head, body, signal) => {
      const { name, contentType: type, size: announced, isGzip, fault } = fileHead(head);
      // `identity` was requested: with another encoding the length could not be checked.
      const wrong = isGzip ? 'it with a content encoding' : fault;
      if (wrong !== null) throw invalidFile(facts, `expected a whole file as it is, got ${wrong}`);
      const checked = checkedBytes(body, announced, size, maxBytes, facts);
      const isJson = /^\s*[^;]*[/+]json\s*(;|$)/i.test(type ?? '');
      const bytes = isJson ? refuseEnvelope(checked, name !== null, facts) : checked;
      const file = { name, contentType: contentTypeOf(type), size: announced, bytes };
      return await receiveWhole(receive, file, signal);
    },
  };
}

/** Hands a file on. Rejects with the error that ends its bytes, whatever `receive` makes of it. */
export async function receiveWhole<T>(
  receive: sources.ReceiveFile<T>,
  file: sources.IncomingFile,
  signal: AbortSignal,
): Promise<T> {
  const broken: unknown[] = [];
  async function* bytes(): AsyncGenerator<Uint8Array> {
    try {
      yield* file.bytes;
    } catch (error) {
      broken.push(error);
      throw error;
    }
  }
  const received = receive({ ...file, bytes: bytes() }, signal);
  await Promise.allSettled([received]);
  if (broken.length > 0) throw broken[0];
  return await received;
}

/** Media type of a `Content-Type` that may be shown and stored; null for any other value. */
export function contentTypeOf(type: string | null): string | null {
  const text = type?.trim() ?? '';
  return text.length <= maxTypeChars && mediaType.test(text) ? text : null;
}

/**
 * The chunks of a file, ended only where it is whole as far as that can be known: a connection that is closed too early
 * looks like the end of a body without a length. Its length in bytes is known from the answer's `Content-Length`
 * (announced) or the record; null: not known. Throws `CallFailure` for a file that is empty, of another length, or too
 * large.
 */
export async function* checkedBytes(
  chunks: AsyncIterable<Uint8Array>,
  announced: number | null,
  recorded: number | null,
  max: number,
  facts: CallFacts,
): AsyncGenerator<Uint8Array> {
  if (Math.max(announced ?? 0, recorded ?? 0) > max) throw fileTooLarge(facts, max);
  if (announced !== null && recorded !== null && announced !== recorded) {
    throw invalidFile(facts, `expected ${recorded} bytes by its record, the answer announces ${announced}`);
  }
  const expected = announced ?? recorded;
  let length = 0;
  for await (const chunk of chunks) {
    length += chunk.byteLength;
    if (length > max) throw fileTooLarge(facts, max);
    if (expected !== null && length > expected) {
      throw invalidFile(facts, `expected ${expected} bytes, got more`);
    }
    if (chunk.byteLength > 0) yield chunk;
  }
  if (length === 0) {
    throw invalidFile(facts, 'expected a file, got an empty body; the API may not know the file');
  }
  if (expected !== null && length < expected) {
    throw invalidFile(facts, `expected ${expected} bytes, got ${length}`);
  }
}

/** An envelope without records is shorter; a longer one is a file. */
const longestEnvelope = 64 * 1024;

/**
 * The same chunks, unless all of them are an answer about the call instead of a file: the execute envelope, or where
 * the service names no file, the body of an error. JSON may well be a file. Throws `CallFailure` FILE_INVALID.
 */
async function* refuseEnvelope(chunks: AsyncIterable<Uint8Array>, isNamed: boolean, facts: CallFacts) {
  const held: Uint8Array[] = [];
  let length = 0;
  let isHeld = true;
  for await (const chunk of chunks) {
    if (isHeld) {
      held.push(chunk);
      length += chunk.byteLength;
      if (length <= longestEnvelope) continue;
      isHeld = false;
      yield* held.splice(0);
    } else yield chunk;
  }
  if (isHeld && isAboutCall(tryJsonText(Buffer.concat(held).toString('utf8')), isNamed)) {
    throw invalidFile(
      facts,
      'expected the bytes of a file, got an answer that says it failed, with HTTP 200',
    );
  }
  yield* held;
}

/** A file called JSON that is none is still a file. */
function isAboutCall(value: JsonValue | undefined, isNamed: boolean): boolean {
  if (!isJsonObject(value)) return false;
  const [status, metadata, message] = ['status', 'execution_metadata', 'message'].map((name) =>
    memberOf(value, name),
  );
  const instance = isJsonObject(metadata) ? memberOf(metadata, 'connector_instance_id') : null;
  const isEnvelope = typeof status === 'string' && typeof instance === 'string';
  if (isEnvelope || isNamed) return isEnvelope;
  const isFailure = typeof status === 'string' && /^(error|fail)/i.test(status);
  return isFailure || (typeof message === 'string' && Array.isArray(memberOf(value, 'errors')));
}
