import type { EntityName } from '../../core/names.ts';
import { type Frozen, mapOf } from '../frozen.ts';
import type { DefinitionFile, EntityFile } from '../definition-file.ts';
import type {
  CredentialValue,
  CheckFile,
  EntityRequestsFile,
  PagingFile,
  ParamRuleFile,
  PlaceFile,
  RequestFile,
  UpstreamFile,
} from './upstream-file.ts';
import {
  recordsPlace,
  answerPath,
  type AnswerPath,
  type AnswerPlace,
  checkedTemplate,
  namesIn,
} from './service-texts.ts';

/**
 * Describes how a definition's records are read from the third party itself: its `upstream:`, checked and with every
 * default filled in. Data only; `src/upstream` makes the calls. `upstream-file.ts` says what each member means.
 */
export type Upstream = Frozen<ReturnType<typeof buildUpstream>>;
export type EntityRequests = Frozen<ReturnType<typeof buildEntityRequests>>;
export type UpstreamRequest = Frozen<ReturnType<typeof buildRequest>>;
export type ListRequest = EntityRequests['list'];
export type GetRequest = NonNullable<EntityRequests['get']>;
export type DownloadRequest = NonNullable<EntityRequests['download']>;
/** The place of a parameter's value in a request. Absent values, and values in `omit`, are not sent. */
export type ParamPlace =
  | Frozen<ReturnType<typeof placeOf>>
  /** In the path, or in a text of the query or the body. */
  | { readonly kind: 'path' }
  /** `paging` sends the parameter in another form. */
  | { readonly kind: 'paging' };
export type Paging = Frozen<ReturnType<typeof buildPaging>>;

export function buildUpstream(
  file: UpstreamFile,
  entities: ReadonlyMap<EntityName, EntityFile>,
  settings: DefinitionFile['settings'],
) {
  const { timeoutMs, maxBodyBytes, ...limits } = file.limits;
  const { headers, check: checked, ...rest } = file;
  const { identity, name, headers: ofCheck, ...check } = checked;
  const signing = Object.values(file.auth).flatMap((one) => (one.kind === 'query' ? [one.name] : []));
  const shared = { headers, timeoutMs, maxBodyBytes, signing };
  const requests = [...entities].flatMap(([entity, declared]) => {
    if (!Object.hasOwn(file.entities, entity)) return [];
    return [[entity, buildEntityRequests(file.entities[entity], entity, declared, shared)] as const];
  });
  return {
    ...rest,
    host: mapOf(file.host),
    auth: mapOf(file.auth),
    /** `identity`: null: the answer does not say which account it is. */
    check: {
      request: buildRequest(check, {
        ...shared,
        headers: { ...lowerCased(headers), ...lowerCased(ofCheck) },
      }),
      identity: identity ?? null,
      name,
    },
    limits,
    /**
     * The settings that decide which records a connector reads: those of its requests that are not secret. A secret one
     * may be renewed, as credentials may.
     */
    identifying: [
      ...new Set([
        ...givenNames([file.headers, file.entities]),
        ...[...entities.values()].flatMap(settingsOf),
      ]),
    ].filter((name) => Object.hasOwn(settings, name) && settings[name]?.secret === false),
    /** Entities that can be requested from the service itself. */
    entities: new Map(requests),
  };
}

/** The fields of the credentials and settings that a part of the file may name, each once. */
export function givenNames(part: unknown): readonly string[] {
  const named = (value: unknown): readonly string[] => {
    if (typeof value !== 'object' || value === null) return [];
    return Object.entries(value).flatMap(([key, inner]: [string, unknown]) => {
      if (typeof inner !== 'string') return named(inner);
      // A name in a text, and those of a path.
      const isName = key === 'name' && 'kind' in value && value.kind === 'name';
      if (isName || key === 'field' || key === 'setting') return [inner];
      return key === 'path' ? [...inner.matchAll(/\{([^{}]+)\}/g)].map(([, name = '']) => name) : [];
    });
  };
  return [...new Set(named(part))];
}

/** The settings that choose among the records of an entity, or divide its listings. */
function settingsOf({ only, each = {} }: EntityFile): readonly string[] {
  return [
    ...[only ?? []].flat().flatMap(({ setting }) => setting ?? []),
    ...Object.values(each).flatMap((values) => (Array.isArray(values) ? [] : values.field)),
  ];
}

type Shared = Pick<UpstreamFile['limits'], 'timeoutMs' | 'maxBodyBytes'> & Pick<UpstreamFile, 'headers'>;
/** `signing`: query parameters that sign a request. */
type SharedByLists = Shared & { readonly signing: readonly string[] };

/** `requests`: checked, so there is one for each action of the entity. */
function buildEntityRequests(
  requests: EntityRequestsFile | undefined,
  name: EntityName,
  entity: EntityFile,
  shared: SharedByLists,
) {
  if (requests?.list === undefined) {
    throw new TypeError(`expected a checked file with a list request of ${name}`);
  }
  const { list, get, download, headers, timeoutMs, maxBodyBytes } = requests;
  const own = {
    headers: { ...lowerCased(shared.headers), ...lowerCased(headers) },
    timeoutMs: timeoutMs ?? shared.timeoutMs,
    maxBodyBytes: maxBodyBytes ?? shared.maxBodyBytes,
  };
  const build = (
    action: 'list' | 'get' | 'download',
    request: RequestFile,
    ofPaging?: ReadonlySet<string>,
  ) => ({
    ...buildRequest(request, own),
    params: buildParams(request, Object.keys(entity.actions[action]?.params ?? {}), ofPaging),
  });
  return {
    list: {
      ...build('list', list, sentByPaging(list.paging, entity.pagination)),
      records: recordsPlace(list.records),
      /** Null: the definition says nothing. */
      empty: list.empty ?? null,
      metadata: mapOf(list.metadata, buildPlace),
      paging: buildPaging(list.paging, [...shared.signing, ...givenParameters(list)]),
    },
    get: get === undefined ? null : { ...build('get', get), record: answerPath(get.record) },
    download:
      download === undefined
        ? null
        : { ...build('download', download), url: download.url === null ? null : answerPath(download.url) },
  };
}

/** A request without parameters. */
function buildRequest(
  { method, safe, path, query, body, bodyAs, fill }: CheckRequest,
  { headers, ...limits }: Shared,
) {
  return {
    method,
    /** The request changes nothing, so it may be sent again. Always true of GET. */
    isSafe: method === 'GET' || safe,
    path: checkedTemplate(path),
    /** Lower-case names: those of all requests and those of the entity, which win. */
    headers: new Map<string, string | CredentialValue>(Object.entries(lowerCased(headers))),
    query: new Map(
      Object.entries(query).flatMap(([name, value]) =>
        typeof value === 'string' || value.kind !== 'template' ? [[name, value] as const] : [],
      ),
    ),
    body,
    hasBody: method === 'POST' || bodyAs !== undefined,
    isForm: bodyAs === 'form',
    /** Values at places in the body. */
    fill: Object.entries(fill ?? {}).flatMap(([at, value]) =>
      value.kind === 'template' ? [] : [{ at: answerPath(at), value }],
    ),
    /** Texts with parameters in them. */
    texts: textsOf({ query, fill }),
    ...limits,
    /** Every declared parameter of the action. */
    params: new Map<string, ParamPlace>(),
  };
}

/** Texts with parameters in them, and where they go. `at`: a place in the body; null: the query. */
export function textsOf({ query, fill = {} }: Pick<RequestFile, 'query' | 'fill'>) {
  const found = (values: typeof query | typeof fill, at: (name: string) => AnswerPath | null) =>
    Object.entries(values).flatMap(([name, value]) =>
      typeof value !== 'string' && value.kind === 'template'
        ? [{ name, at: at(name), template: value.template }]
        : [],
    );
  return [...found(query, () => null), ...found(fill, answerPath)];
}

type CheckRequest = Pick<CheckFile, 'method' | 'safe' | 'path' | 'query' | 'body' | 'bodyAs' | 'fill'>;

function lowerCased(headers: UpstreamFile['headers']): UpstreamFile['headers'] {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}

function buildParams(
  { method, path, params: rules, ...request }: RequestFile,
  declared: readonly string[],
  ofPaging: ReadonlySet<string> = new Set(),
): Map<string, ParamPlace> {
  const texts = textsOf(request).map(({ template }) => template);
  const inTexts = new Set([checkedTemplate(path), ...texts].flatMap(namesIn));
  return new Map(
    declared.map((name): [string, ParamPlace] => {
      if (inTexts.has(name)) return [name, { kind: 'path' }];
      if (ofPaging.has(name)) return [name, { kind: 'paging' }];
      return [name, placeOf(name, method, Object.hasOwn(rules, name) ? (rules[name] ?? {}) : {})];
    }),
  );
}

function placeOf(name: string, method: RequestFile['method'], rule: ParamRuleFile) {
  const { as = name, at = as, omit = [], list = 'comma' } = rule;
  const isBody = method === 'POST' || rule.at !== undefined;
  const kind: 'query' | 'header' | 'body' = rule.in ?? (isBody ? 'body' : 'query');
  return kind === 'body'
    ? { kind, at: answerPath(at), omit }
    : { kind, name: kind === 'header' ? as.toLowerCase() : as, list, omit };
}

/** Parameters that replace others of the service: those of an address. */
export function sentByPaging(paging: PagingFile, pagination: EntityFile['pagination']): ReadonlySet<string> {
  switch (paging.kind) {
    case 'nextUrl':
    case 'linkHeader':
      return new Set(pagination.kind === 'pageToken' ? [pagination.tokenParam] : []);
    case 'none':
    case 'cursor':
      return new Set();
  }
}

/** The query parameters that are made of the credentials and settings. */
export function givenParameters({ query }: Pick<RequestFile, 'query'>): readonly string[] {
  return Object.entries(query).flatMap(([name, value]) =>
    typeof value === 'string' || value.kind === 'template' ? [] : [name],
  );
}

/** `own`: query parameters that the connector sends with each request, which are taken from no address. */
function buildPaging(paging: PagingFile, own: readonly string[]) {
  switch (paging.kind) {
    case 'none':
      return paging;
    case 'cursor':
      return {
        kind: paging.kind,
        token: buildPlace(paging.token),
        more: paging.more && buildPlace(paging.more),
      };
    case 'nextUrl':
    case 'linkHeader':
      return {
        kind: paging.kind,
        url: paging.kind === 'nextUrl' ? answerPath(paging.path) : [],
        keep: paging.keep === 'any' ? { except: own } : paging.keep,
        isAlone: paging.alone || paging.keep === 'any',
      };
  }
}

function buildPlace({ path = '', header }: PlaceFile): AnswerPlace {
  return header === undefined
    ? { kind: 'body', path: answerPath(path) }
    : { kind: 'header', name: header.toLowerCase() };
}
