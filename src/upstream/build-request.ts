import { withValueAt, type JsonObject, type JsonValue } from '../core/json.ts';
import { writeJson } from '../core/json-text.ts';
import type { Params } from '../core/records.ts';
import type { ParamPlace, UpstreamRequest } from '../definitions/upstream/upstream.ts';
import { stringifyParams } from '../http/lossless-json.ts';
import { buildPath, queryText, refusedValue } from './call-address.ts';
import type { Signature } from './credentials.ts';
import type { WireRequest } from './upstream-transport.ts';

/** What paging changes in a call; absent members change nothing. */
export interface PagedCall {
  readonly params: Params;
  /** Put into the query last, in place of what is there under the same names. */
  readonly query?: readonly (readonly [string, string])[];
  /** Behind the path of the request; null: nothing. */
  readonly segment?: string | null;
  /** Neither the query parameters of the call nor those of the definition are sent. */
  readonly isAlone?: boolean;
}

/**
 * The request as it is sent. Every parameter stands where the definition says; absent and null ones are not sent, and
 * one that the definition does not declare is refused. Throws `UpstreamFailure` refused for a value that cannot be
 * sent.
 */
export function buildRequest(
  base: URL,
  request: UpstreamRequest,
  call: PagedCall,
  /** Of the request itself, made of the credentials where the definition says so. */
  fixedHeaders: Readonly<Record<string, string>>,
  signature: Signature,
): WireRequest {
  const path = new Map<string, string>();
  const headers: Record<string, string> = {
    accept: 'application/json',
    'user-agent': 'connector-sync',
    ...fixedHeaders,
  };
  const query: (readonly [string, string])[] = call.isAlone === true ? [] : [...request.query];
  let body: JsonObject = request.body;

  for (const [name, value] of Object.entries(call.params)) {
    const place = request.params.get(name);
    if (place === undefined) throw refusedValue(`the parameter ${name.slice(0, 100)}`, 'is not declared');
    if (value === null || isOmitted(place, value)) continue;
    switch (place.kind) {
      case 'path':
        path.set(name, plainText(name, value));
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
  const paged = call.query ?? [];
  for (const name of new Set(paged.map(([one]) => one))) {
    const pairs = paged.filter(([one]) => one === name);
    put(query, name, pairs);
  }

  const url = buildPath(base, pathOf(request, call), path.set(nextSegment, call.segment ?? ''));
  url.search = queryText([...query, ...signature.query]);
  const isPost = request.method === 'POST';
  return {
    url,
    base,
    namedBy: 'definition',
    method: request.method,
    headers: { ...headers, ...(isPost ? { 'content-type': 'application/json' } : {}), ...signature.headers },
    body: isPost ? stringifyParams(body) : null,
    timeoutMs: request.timeoutMs,
    maxBodyBytes: request.maxBodyBytes,
  };
}

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

/** In place of fixed values under the same name. */
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
