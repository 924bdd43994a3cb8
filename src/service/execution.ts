import { Readable } from 'node:stream';
import type { FastifyReply } from 'fastify';
import * as z from 'zod';
import { grouped } from '../core/grouped.ts';
import { firstCharacters, hasAtMostCharacters } from '../core/names.ts';
import { isJsonArray, isJsonObject, memberOf, type JsonObject, type JsonValue } from '../core/json.ts';
import type { Params } from '../core/records.ts';
import type { Action, ActionName, Definition, Entity, Param } from '../definitions/definition.ts';
import { copiedFields } from '../engine/prepare/prepare-record.ts';
import { orAborted } from '../http/or-aborted.ts';
import { safeBase } from '../sinks/files/safe-file-name.ts';
import { ApiError, badParameter, notFound } from './api-error.ts';
import type { SearchAnswer } from '../search/search-request.ts';
import { askProvider, type KeptConnector, type ProviderFile, type ProviderRequest } from './provider.ts';

/**
 * Checks an execute call's `params` against the definition and fills in defaults: what comes out holds only declared
 * parameters, of the declared types, within their limits.
 *
 * An undeclared `cursor` is refused (the specification's rule: the connector's own paging keys must be used); other
 * undeclared keys are ignored, as the hosted executor does and public clients rely on. A value of null counts as
 * absent. Throws 400.
 */
export function checkParams(
  entity: Entity,
  actionName: ActionName,
  { params: declared }: Action,
  given: JsonObject,
): Params {
  if ((given['cursor'] ?? null) !== null && !declared.has('cursor')) {
    throw badParameter(
      'cursor',
      `Parameter 'cursor' is not supported for entity '${entity.name}'. Supported parameters: ${pythonList([...declared.keys()])}`,
    );
  }
  const missing = (name: string): string =>
    `Missing required path parameter '${name}' for path '${entity.name}/${actionName}'. ` +
    `Provided parameters: ${pythonList(Object.keys(given).slice(0, 20).map(shorten))}`;
  const params: Record<string, JsonValue> = {};
  for (const [name, param] of declared) {
    const checked = checkValue(name, param, memberOf(given, name), missing);
    if (checked !== undefined) params[name] = checked;
  }
  return params;
}

function checkValue(
  name: string,
  param: Param,
  value: JsonValue | undefined,
  missing: (name: string) => string,
): JsonValue | undefined {
  if (param.required && value === undefined) throw badParameter(name, missing(name));
  if (param.required && (value === null || value === '')) {
    throw badParameter(name, `Path parameter '${name}' cannot be None or empty string`);
  }
  if (value === undefined || value === null) return param.default ?? undefined;
  const typed = toType(name, param, value);
  if (param.enum !== null && (typeof typed !== 'string' || !param.enum.includes(typed))) {
    throw invalid(name, typed, `one of: ${pythonList(param.enum)}`);
  }
  if (typeof typed !== 'number') return typed;
  if (param.min !== null && typed < param.min) throw invalid(name, typed, `at least ${param.min}`);
  if (param.max === null || typed <= param.max) return typed;
  if (param.aboveMax === 'cap') return param.max;
  throw invalid(name, typed, `at most ${param.max}`);
}

function toType(name: string, param: Param, value: JsonValue): JsonValue {
  switch (param.type) {
    case 'string':
      if (typeof value === 'string') return value;
      // Ids travel in the third party's path, where a number and its digits are the same thing.
      if (typeof value === 'number' && Number.isSafeInteger(value)) return String(value);
      break;
    case 'integer':
      if (typeof value === 'number' && Number.isSafeInteger(value)) return value;
      // The same, the other way round: a path's digits name the number.
      if (param.required && typeof value === 'string' && /^\d{1,15}$/.test(value)) return Number(value);
      break;
    case 'boolean':
      if (typeof value === 'boolean') return value;
      break;
    case 'array':
      if (isJsonArray(value)) return value;
      break;
    case 'object':
      if (!isJsonObject(value)) break;
      // Members that the definition knows are checked like parameters (without their defaults); others pass.
      for (const [member, declared] of param.members ?? []) {
        const missing = (): string => `Missing required member '${member}' of parameter '${name}'`;
        checkValue(`${name}.${member}`, declared, memberOf(value, member), missing);
      }
      return value;
  }
  throw invalid(name, value, `type: ${param.type}`);
}

function invalid(name: string, value: JsonValue, expected: string): ApiError {
  const message = `Invalid value '${shorten(value)}' for parameter '${name}'; expected ${expected}`;
  return badParameter(name, message);
}

/**
 * Enough of a wrong value to recognise it; of an array or object its kind, for it may be nested deeper than can be
 * written.
 */
function shorten(value: JsonValue): string {
  if (typeof value === 'object' && value !== null) return Array.isArray(value) ? '[…]' : '{…}';
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return hasAtMostCharacters(text, 60) ? text : `${firstCharacters(text, 60)}…`;
}

/** The hosted executor prints its lists so: `['a', 'b']`. */
function pythonList(texts: readonly string[]): string {
  return `[${texts.map((text) => `'${text}'`).join(', ')}]`;
}

/** More than an answer needs: all of them are looked for in each of its records. */
const fieldPaths = z.array(z.string()).max(1_000).nullish();

/** The body of an execute call. `checkParams` checks `params` against the definition. */
export const executeBody = z.object({
  entity: z.string(),
  action: z
    .string()
    .describe('list, get, context_store_search (or search), download: as the entity offers them.'),
  params: z
    .record(z.string(), z.custom<JsonValue>())
    .nullish()
    .describe("The action's parameters; null or absent where there are none."),
  select_fields: fieldPaths.describe('Dot paths of what is kept of a record; wins over exclude_fields.'),
  exclude_fields: fieldPaths.describe('Dot paths of what is left out of a record.'),
});

export type ExecuteBody = z.output<typeof executeBody>;

interface ExecuteCall extends KeptConnector {
  /** The search of the indexed stores. */
  readonly stores: {
    search(connector: string, entity: string, params: JsonObject, signal: AbortSignal): Promise<SearchAnswer>;
  };
  readonly body: ExecuteBody;
  /** Aborted when the client disconnects. */
  readonly signal: AbortSignal;
}

/**
 * Runs one action of one entity: `list`, `get` and `download` at the third party, searches in the indexed store. Throws
 * `ApiError`: 400 for what the definition does not offer or a value it does not take, 404 for a record that is not
 * there, 504 where the third party takes too long, and what the provider or the store throws.
 */
export async function executeAction(call: ExecuteCall) {
  const { body, provider, signal } = call;
  const { entity, action, actionName } = findAction(call.definition, body.entity, body.action);
  const params = checkParams(entity, actionName, action, body.params ?? {});
  const shown = openSelection(body);
  const ask = <Answer>(call: (request: ProviderRequest) => Promise<Answer>): Promise<Answer> =>
    askProvider(signal, (own) => call({ entity, params, signal: own }));
  switch (actionName) {
    case 'list': {
      const { records, metadata } = await ask((request) => provider.list(request));
      // An element other than an object is returned unchanged.
      const selected = records.map((record) =>
        isJsonObject(record) ? shown(withCopies(record, entity)) : record,
      );
      return envelope(selected, metadata);
    }
    case 'get': {
      const record = await ask((request) => provider.get(request));
      if (record === null) throw notFound(`There is no such record in '${entity.name}'.`);
      return envelope(shown(withCopies(record, entity)));
    }
    case 'context_store_search': {
      const { data, meta } = await call.stores.search(call.connectorId, entity.name, params, signal);
      return envelope({ data: data.map(shown), meta: { ...meta } });
    }
    case 'download':
      // The body is its bytes and nothing else.
      return { kind: 'file', file: (await ask((request) => provider.download(request))) ?? noFile } as const;
  }
}

/** Adds the fields that the definition fills from others of the third party, which stay beside them. */
function withCopies(record: JsonObject, { filledFrom }: Entity): JsonObject {
  return filledFrom.size === 0
    ? record
    : { ...record, ...Object.fromEntries(copiedFields(record, filledFrom)) };
}

/** Makes what the call wants to see of a record: the members that its paths name, or all others. */
function openSelection({ select_fields: select, exclude_fields: exclude }: ExecuteBody) {
  const isSelect = (select ?? []).length > 0;
  const paths = ((isSelect ? select : exclude) ?? []).map((path) => path.split('.'));
  return (record: JsonObject): JsonObject =>
    paths.length === 0 ? record : selectMembers(record, paths, isSelect, 0);
}

/** `depth`: how many names of the paths led here. A path into a value without members names nothing. */
function selectMembers(
  object: JsonObject,
  paths: readonly (readonly string[])[],
  isSelect: boolean,
  depth: number,
): JsonObject {
  const byName = grouped(paths, (path) => path[depth]);
  const entries: [string, JsonValue][] = [];
  for (const [name, value] of Object.entries(object)) {
    const named = byName.get(name) ?? [];
    const isWhole = named.some((path) => path.length === depth + 1);
    if (named.length > 0 && !isWhole && isJsonObject(value)) {
      entries.push([name, selectMembers(value, named, isSelect, depth + 1)]);
    } else if (isWhole === isSelect) entries.push([name, value]);
  }
  return Object.fromEntries(entries);
}

function envelope(result: JsonObject | readonly JsonValue[], connectorMetadata: JsonObject | null = null) {
  return { kind: 'envelope', result, connectorMetadata } as const;
}

/**
 * The hosted service answers an unknown file's id with success and no bytes: its documentation tells clients to check
 * the size.
 */
const noFile: ProviderFile = {
  name: 'download',
  contentType: 'application/octet-stream',
  size: 0,
  async *read() {
    // Nothing to give.
  },
};

/**
 * Looks up the entity and the action of an execute call; 400 in the hosted executor's words when the definition does
 * not have it.
 */
function findAction(definition: Definition, entityName: string, wantedAction: string) {
  const entity = [...definition.entities.values()].find(({ name }) => name === entityName);
  if (entity === undefined) {
    throw new ApiError(
      400,
      `Entity '${shorten(entityName)}' not found in connector. Available entities: ${pythonList([...definition.entities.keys()])}`,
      { field: 'body.entity', errorCode: 'unknown_entity' },
    );
  }
  // The documentation's prose still says `search`.
  const name = wantedAction === 'search' ? 'context_store_search' : wantedAction;
  for (const [actionName, action] of entity.actions) {
    if (actionName === name) return { entity, action, actionName };
  }
  throw new ApiError(
    400,
    `Action '${shorten(wantedAction)}' not supported for entity '${entity.name}'. ` +
      `Supported actions: ${pythonList([...entity.actions.keys()])}`,
    { field: 'body.action', errorCode: 'unsupported_action' },
  );
}

/** A client that takes nothing, or a provider that sends nothing, for so long is cut off. */
const defaultStalledMs = 60_000;

/**
 * Answers with the bytes of a file, at the pace at which the client takes them: about two chunks are in memory.
 * Resolves when the answer is through, whole or not. Where the provider fails, or gives other than `file.size` bytes,
 * it rejects while nothing was sent (two chunks, or the end, are waited for), for an answer that says so; later, it
 * ends the connection: what comes short never ends cleanly. `signal` must be aborted when the client disconnects; once
 * bytes were sent, the connection is cut when none has moved for `stalledMs`.
 */
export async function sendFile(
  reply: FastifyReply,
  file: ProviderFile,
  signal: AbortSignal,
  stalledMs: number = defaultStalledMs,
): Promise<FastifyReply> {
  const size = file.size !== null && Number.isSafeInteger(file.size) && file.size >= 0 ? file.size : null;
  // Do not start a read for a client that has disconnected: its failure would be unnoticed.
  signal.throwIfAborted();
  // A provider that ignores its signal does not hold the connection.
  const cut = (): void => {
    if (reply.raw.headersSent) reply.raw.destroy();
  };
  signal.addEventListener('abort', cut, { once: true });
  const bytes = wholeFile(file, size, signal);
  await orAborted(bytes.next(), signal);
  reply.raw.setTimeout(stalledMs);
  const { contentType: type } = file;
  return reply
    .headers({
      // The third party's, if it is a valid one: anything else could break out of the header.
      'content-type': type.length <= 200 && mediaTypePattern.test(type) ? type : 'application/octet-stream',
      'content-disposition': contentDisposition(file.name),
      // The type is the third party's word: no browser is to make something livelier of the bytes.
      'x-content-type-options': 'nosniff',
      ...(size === null ? {} : { 'content-length': String(size) }),
    })
    .send(Readable.from(bytes, { objectMode: false }));
}

/**
 * Always a chunk behind the provider, so that the last one comes when that has ended as it should: before, no client
 * can have it all. The first thing it gives is empty, and says that there are bytes to send (or none at all): until
 * then the answer can still be another one.
 */
async function* wholeFile(file: ProviderFile, size: number | null, signal: AbortSignal) {
  let held: Uint8Array | null = null;
  let length = 0;
  let isOpen = false;
  for await (const chunk of file.read(signal)) {
    length += chunk.byteLength;
    if (size !== null && length > size) throw wrongLength(size, `${length} or more`);
    if (held !== null) {
      if (!isOpen) yield nothing;
      isOpen = true;
      yield held;
    }
    held = chunk;
  }
  if (size !== null && length < size) throw wrongLength(size, `${length}`);
  if (!isOpen) yield nothing;
  if (held !== null) yield held;
}

const nothing = new Uint8Array(0);

function wrongLength(size: number, got: string): ApiError {
  return new ApiError(502, `Expected a file of ${size} bytes from the third party, got ${got}.`, {
    errorCode: 'file_invalid',
  });
}

const token = "[A-Za-z0-9!#$&^_.+'*`|~%-]+";
const mediaTypePattern = new RegExp(`^${token}/${token}(; ?${token}=(${token}|"[ !#-[\\]-~]*"))*$`);

/**
 * `attachment` with a file's name as RFC 6266 has it. The third party's name is first made harmless in any folder and
 * on any terminal; `filename*` holds it whole, and a plain `filename` beside it serves clients that know no other. Pure
 * ASCII whatever the name, so nothing in one can begin another header.
 */
export function contentDisposition(name: string): string {
  if (name === '') return 'attachment';
  const safe = safeBase(name);
  const plain = safe.replace(/[^ !#$&'()+,\-.0-9;=@A-Z[\]^_`a-z{}~]/gu, '_');
  const quoted = `attachment; filename="${plain}"`;
  return plain === safe ? quoted : `${quoted}; filename*=UTF-8''${encoded(safe)}`;
}

/** RFC 5987: characters that `encodeURIComponent` leaves and an extended value may not hold are written in hex, too. */
function encoded(name: string): string {
  return encodeURIComponent(name).replace(
    /['()*]/g,
    (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}
