import * as z from 'zod';
import { instantOf } from '../../core/clock.ts';
import { SyncError } from '../../core/errors.ts';
import {
  isJsonArray,
  isJsonObject,
  memberOf,
  renamedMembers,
  type JsonObject,
  type JsonValue,
} from '../../core/json.ts';
import type { ConnectorId, EntityName } from '../../core/names.ts';
import type { Params } from '../../core/records.ts';
import { emptyKey } from '../../definitions/pagination-file.ts';
import type { EmptyForm } from '../../definitions/upstream/records-file.ts';
import { pagingParams } from '../../definitions/paging-params.ts';
import { readTotal } from '../../definitions/sign-of-more.ts';
import type { Definition, Entity } from '../../definitions/definition.ts';
import { styleOf } from '../../pagination/pagination-of.ts';
import { saysCut } from '../../pagination/answer-keys.ts';
import type { PageAnswer } from '../../pagination/pagination.ts';
import type { GetRequest, ListRequest, SourcePage } from '../source.ts';
import type { ApiCall } from './api-caller.ts';
import { entityFacts, type CallFacts } from './call-failure.ts';
import { checkDeclared } from './check-declared.ts';
import { invalidBody, noRecords } from './classify-failure.ts';
import type { WireAnswer } from '../../http/exchange.ts';
import { JsonTextError, parseJsonText, stringifyParams } from '../../http/lossless-json.ts';
import { textOfBody } from '../../http/read-body.ts';
import { scanPage } from '../../http/scan-json.ts';
import { cameEmpty, emptyFormAt, recordsAt } from '../../upstream/listed-records.ts';
import { readRecords, unreadRecords, type PageRecords } from '../page-records.ts';

/**
 * The calls that read a connector's records, however they travel. Throw USAGE for what the definition does not declare.
 */
export function recordCalls(definition: Definition, connector: ConnectorId) {
  return {
    list: ({ entity, params, isRoot, isLook }: ListRequest): ApiCall<SourcePage> => {
      const declared = checkDeclared(definition, entity, 'list', params);
      const request = { connector, definition, entity, action: 'list', params, isRoot, isLook } as const;
      const facts = factsOf(request);
      return {
        request: requestOf(request),
        facts,
        read: (answer) => readPage(answer, { connector, entity: declared, facts }),
      };
    },
    get: ({ entity, params }: GetRequest): ApiCall<JsonValue> => {
      const { rename } = checkDeclared(definition, entity, 'get', params);
      const request = { connector, definition, entity, action: 'get', params, isRoot: false } as const;
      return executeCall(request, ({ result }, facts): JsonValue => {
        if (isJsonObject(result)) return renamedMembers(result, rename);
        throw invalidBody(facts, 'expected an object as result, got another kind');
      });
    },
  };
}

/** One execute: a read, so it may be sent again. */
export interface ExecuteRequest {
  readonly connector: ConnectorId;
  readonly definition: Definition;
  readonly entity: EntityName;
  readonly action: 'list' | 'get' | 'context_store_search';
  readonly params: Params;
  readonly isRoot: boolean;
  readonly isLook?: boolean | undefined;
}

/** `POST connectors/{id}/execute`; `read` gets the answer of a success and throws when its result does not fit. */
export function executeCall<T>(
  request: ExecuteRequest,
  read: (answer: PageAnswer, facts: CallFacts) => T,
): ApiCall<T> {
  const facts = factsOf(request);
  return {
    request: requestOf(request),
    facts,
    read: ({ body }) => read(readEnvelope(textOfBody(body), request.connector, facts), facts),
  };
}

/** Without skip_truncation the service may cut every string of a list to 200 characters. */
function requestOf({ connector, entity, action, params }: ExecuteRequest): ApiCall<unknown>['request'] {
  return executeRequest(connector, { entity, action, params, skip_truncation: true });
}

export function executeRequest(connector: ConnectorId, body: JsonObject): ApiCall<unknown>['request'] {
  const path = `/api/v1/integrations/connectors/${connector}/execute`;
  return { method: 'POST', path, query: {}, body: stringifyParams(body) };
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
/** As a text may hold it; one expression reads a page once. */
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

/** Not recursive: a hostile value is deeper than the stack. */
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
  {
    connector,
    entity,
    facts,
  }: { readonly connector: ConnectorId; readonly entity: Entity; readonly facts: CallFacts },
): SourcePage {
  const { records: place, rename } = entity;
  const isPlain = place === null && rename.size === 0 && !body.includes(markerStart);
  const scanned = isPlain ? scanPage(body, recordPaths, mostLevels) : null;
  const came: Envelope =
    status === 204 && body.byteLength === 0
      ? { result: null, metadata: null, form: 'noContent' }
      : readEnvelope(scanned?.rest ?? textOfBody(body), connector, facts);
  const values = recordsOf(came.result, place);
  const answer = values === null ? asEmpty(came, status, entity, facts) : came;
  const named = (values ?? []).map((one) => (isJsonObject(one) ? renamedMembers(one, rename) : one));
  const records = scanned === null ? readRecords(named) : unreadRecords(scanned);
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

/** Of a result in one of the shapes that this API has had. */
export function plainForm(result: JsonValue) {
  if (!isJsonObject(result) || Object.keys(result).length === 0) return emptyFormAt(result, []);
  const member = ['data', 'hits'].find((name) => Object.hasOwn(result, name));
  return emptyFormAt(result, [member ?? 'data']);
}

/** What an answer says about the next page. Throws `CallFailure` BODY_INVALID. */
export function readPaging(
  answer: PageAnswer,
  records: PageRecords,
  { pagination, cut }: Pick<Entity, 'pagination' | 'cut'>,
  facts: CallFacts,
): Pick<SourcePage, 'next' | 'total' | 'wasNull' | 'isCut'> {
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
