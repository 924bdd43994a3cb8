import type { Action, ActionName, Entity, Pagination } from '../definition.ts';
import { answerPath, type AnswerPlace } from './answer-place.ts';
import { checkedTemplate, namesIn } from './template.ts';
import type { EntityRequests, Paging, ParamPlace, UpstreamRequest } from './upstream.ts';
import type {
  CheckFile,
  EntityRequestsFile,
  PagingFile,
  ParamRuleFile,
  PlaceFile,
  RequestFile,
  UpstreamFile,
} from './upstream-file.ts';

/** `requests`: as checked, so with one for each action of the entity. */
export function buildEntityRequests(
  file: UpstreamFile,
  requests: EntityRequestsFile | undefined,
  entity: Entity,
): EntityRequests {
  if (requests?.list === undefined) {
    throw new TypeError(`expected a checked file with a list request of ${entity.name}`);
  }
  const { list, get, download, rename, inject } = requests;
  const build = (name: ActionName, request: RequestFile, ofPaging: ReadonlySet<string>): UpstreamRequest => ({
    ...buildRequest(file, request, requests),
    params: buildParams(request, entity.actions.get(name), ofPaging),
  });
  return {
    list: {
      ...build('list', list, sentByPaging(list.paging, entity.pagination)),
      records: answerPath(list.records),
      metadata: new Map(Object.entries(list.metadata).map(([key, place]) => [key, buildPlace(place)])),
      paging: buildPaging(list.paging),
    },
    get: get === undefined ? null : { ...build('get', get, new Set()), record: answerPath(get.record) },
    download:
      download === undefined
        ? null
        : {
            ...build('download', download, new Set()),
            url: download.url === null ? null : answerPath(download.url),
          },
    rename: new Map(Object.entries(rename)),
    inject: new Map(Object.entries(inject)),
  };
}

/** A request without parameters; `overrides` are those of its entity. */
export function buildRequest(
  { headers, limits }: UpstreamFile,
  request: RequestFile | CheckFile,
  overrides: Pick<EntityRequestsFile, 'headers' | 'timeoutMs' | 'maxBodyBytes'>,
): UpstreamRequest {
  const { method, safe, path, query, body } = request;
  const sent = [...Object.entries(headers), ...Object.entries(overrides.headers)];
  return {
    method,
    isSafe: method === 'GET' || safe,
    path: checkedTemplate(path),
    headers: new Map(sent.map(([name, value]) => [name.toLowerCase(), value])),
    query: new Map(Object.entries(query)),
    body,
    timeoutMs: overrides.timeoutMs ?? limits.timeoutMs,
    maxBodyBytes: overrides.maxBodyBytes ?? limits.maxBodyBytes,
    params: new Map(),
  };
}

function buildParams(
  { method, path, params: rules }: RequestFile,
  action: Action | undefined,
  ofPaging: ReadonlySet<string>,
): ReadonlyMap<string, ParamPlace> {
  const inPath = new Set(namesIn(checkedTemplate(path)));
  return new Map(
    [...(action?.params.keys() ?? [])].map((name): [string, ParamPlace] => {
      if (inPath.has(name)) return [name, { kind: 'path' }];
      if (ofPaging.has(name)) return [name, { kind: 'paging' }];
      return [name, placeOf(name, method, Object.hasOwn(rules, name) ? (rules[name] ?? {}) : {})];
    }),
  );
}

function placeOf(name: string, method: RequestFile['method'], rule: ParamRuleFile): ParamPlace {
  const { as = name, at = as, omit = [], list = 'comma' } = rule;
  const kind = rule.in ?? (method === 'POST' ? 'body' : 'query');
  return kind === 'body'
    ? { kind, at: answerPath(at), omit }
    : { kind, name: kind === 'header' ? as.toLowerCase() : as, list, omit };
}

/** Parameters that stand for another one of the service (an address's parameters, a page's number), or for none. */
export function sentByPaging(paging: PagingFile, pagination: Pagination): ReadonlySet<string> {
  switch (paging.kind) {
    case 'nextUrl':
    case 'linkHeader':
      return new Set(pagination.kind === 'pageToken' ? [pagination.tokenParam] : []);
    case 'page': {
      if (pagination.kind !== 'offset') return new Set();
      return new Set([pagination.offsetParam, ...(paging.fixed === true ? [pagination.sizeParam] : [])]);
    }
    case 'none':
    case 'cursor':
    case 'lastRecord':
    case 'offset':
      return new Set();
  }
}

function buildPaging(paging: PagingFile): Paging {
  switch (paging.kind) {
    case 'none':
      return paging;
    case 'cursor':
      return { kind: paging.kind, token: buildPlace(paging.token), more: placeOrNull(paging.more) };
    case 'lastRecord':
      return { kind: paging.kind, field: answerPath(paging.field), more: buildPlace(paging.more) };
    case 'nextUrl':
    case 'linkHeader':
      return {
        kind: paging.kind,
        url: paging.kind === 'nextUrl' ? answerPath(paging.path) : [],
        keep: paging.keep,
        isAlone: paging.alone,
      };
    case 'offset':
      return { kind: paging.kind, total: placeOrNull(paging.total) };
    case 'page':
      return {
        kind: paging.kind,
        param: paging.param,
        first: paging.first,
        total: placeOrNull(paging.total),
        isFixed: paging.fixed === true,
        endStatus: typeof paging.end === 'object' ? paging.end.status : null,
      };
  }
}

function placeOrNull(place: PlaceFile | null): AnswerPlace | null {
  return place === null ? null : buildPlace(place);
}

function buildPlace({ path = '', header }: PlaceFile): AnswerPlace {
  return header === undefined
    ? { kind: 'body', path: answerPath(path) }
    : { kind: 'header', name: header.toLowerCase() };
}
