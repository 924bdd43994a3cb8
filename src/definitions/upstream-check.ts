import { checkRenamed, type Note } from './check-names.ts';
import { checkParam } from './params.ts';
import type { DefinitionFile, EntityFile } from './definition-file.ts';
import { buildAction, type Action, type Param } from './definition.ts';
import { keyOfToken } from './pagination-file.ts';
import type { YamlPath } from './read-yaml.ts';
import { noSuch } from './suggest-name.ts';
import {
  isIssued,
  type Authentication,
  type CredentialValue,
  type HostSource,
  type IssuedAuthentication,
  type PlainAuthentication,
} from './upstream/authentication.ts';
import { recordsPlace } from './upstream/records-file.ts';
import { pathText, header, headerValue, queryName } from './upstream/sent-texts.ts';
import { namesIn, checkedTemplate, type Template } from './upstream/template.ts';
import type {
  UpstreamFile,
  CheckFile,
  EntityRequestsFile,
  ParamRuleFile,
  RequestFile,
  ListRequestFile,
  PagingFile,
} from './upstream/upstream-file.ts';
import { sentByPaging } from './upstream/upstream.ts';

/**
 * Holds `upstream:` against itself and against the credentials and entities of its definition; every problem goes to
 * `note`.
 */
export function checkUpstream(file: DefinitionFile, upstream: UpstreamFile, note: Note): void {
  const noteHere: Note = (at, message) => note(['upstream', ...at], message);
  checkAuthentications(file, upstream, note);
  checkHeaders(file, upstream, upstream.headers, [], noteHere);
  checkRequest(upstream.check, ['check'], noteHere);
  checkHeaders(file, upstream, upstream.check.headers, ['check'], noteHere);
  checkErrors(file, upstream, note);
  checkEntities(file, upstream, note);
}

function checkErrors(file: DefinitionFile, { errors }: UpstreamFile, note: Note): void {
  const known = Object.keys(file.entities);
  errors.forEach((rule, index) => {
    const at = ['upstream', 'errors', index];
    const { status, where, contains, hasHeader, lacksHeader, entity } = rule;
    const conditions = [status, contains, hasHeader, lacksHeader].filter((one) => one !== null);
    if (conditions.length === 0 && where.length === 0) {
      note(at, 'expected a condition: status, where, contains, hasHeader or lacksHeader');
    }
    for (const { path } of where) {
      const text = path.join('.');
      pathText(text, (problem) => note([...at, 'where', text], problem));
    }
    if (entity !== null && !known.includes(entity)) {
      note([...at, 'entity'], noSuch('entity', entity, known));
    }
  });
}

/** What has requests is an entity, and there is one. */
function checkEntities(file: DefinitionFile, upstream: UpstreamFile, note: Note): void {
  const at: YamlPath = ['upstream', 'entities'];
  const known = Object.keys(file.entities);
  for (const name of Object.keys(upstream.entities)) {
    if (!known.includes(name)) note([...at, name], noSuch('entity', name, known));
  }
  for (const [name, entity] of Object.entries(file.entities)) {
    const requests = Object.hasOwn(upstream.entities, name) ? upstream.entities[name] : undefined;
    if (requests !== undefined) checkEntityRequests(file, upstream, name, requests, entity, note);
  }
  if (Object.keys(upstream.entities).length === 0) {
    note(at, 'expected at least one entity: say how its records are asked for');
  }
}

type Shape = DefinitionFile['credentials'][number];

/**
 * Every way to sign in has its authentication, every value comes from a field of it, and every name in an address has a
 * source.
 */
function checkAuthentications(file: DefinitionFile, upstream: UpstreamFile, note: Note): void {
  const titles = file.credentials.map(({ title }) => title);
  const at: YamlPath = ['upstream', 'auth'];
  if (titles.length === 0) {
    note(['upstream'], 'expected credentials beside it: say what is needed to sign in');
    return;
  }
  for (const title of Object.keys(upstream.auth)) {
    if (titles.includes(title)) continue;
    note([...at, title], noSuch('title among the credentials', title, titles));
  }
  for (const shape of file.credentials) {
    const { title } = shape;
    const auth = Object.hasOwn(upstream.auth, title) ? upstream.auth[title] : undefined;
    if (auth === undefined) {
      note(at, `is missing ${JSON.stringify(title)}, which credentials name`);
    } else checkAuthentication(auth, shape, [...at, title], note);
  }
  checkHost(file, upstream, note);
}

function checkAuthentication(auth: Authentication, shape: Shape, at: YamlPath, note: Note): void {
  for (const [place, value] of valuesOf(auth)) {
    if (value.kind === 'text' || !checkField(value.field, shape, [...at, place, 'field'], note)) continue;
    if (shape.fields[value.field]?.required === false) {
      note([...at, place, 'field'], `expected a required field: without ${value.field} no one could sign in`);
    }
  }
  if (isIssued(auth)) checkIssued(auth, shape, at, note);
  if (auth.kind !== 'refresh') return;
  const fields = [auth.accessToken, auth.refreshToken];
  for (const [index, place] of (['accessToken', 'refreshToken'] as const).entries()) {
    checkField(fields[index] ?? '', shape, [...at, place], note);
  }
  if (auth.accessToken === auth.refreshToken) {
    note([...at, 'refreshToken'], 'expected another field than accessToken: both are saved');
  }
  if (!fields.some((field) => shape.fields[field]?.required === true)) {
    note(at, 'expected accessToken or refreshToken to be a required field');
  }
}

/** What comes with a token has a place of its own in the credentials, and is not there before. */
function checkIssued(auth: IssuedAuthentication, shape: Shape, at: YamlPath, note: Note): void {
  const tokens = auth.kind === 'refresh' ? [auth.accessToken, auth.refreshToken] : [];
  for (const field of Object.keys(auth.keeps)) {
    const here = [...at, 'keeps', field];
    if (!checkField(field, shape, here, note)) continue;
    if (tokens.includes(field)) note(here, `expected another field than ${field}: a token is saved there`);
    else if (shape.fields[field]?.required === true) {
      note(here, `expected required: false on ${field}: it comes with the token`);
    }
  }
  if (auth.kind === 'refresh') return;
  if (auth.kind === 'authorizationCode' && auth.clientSecret === undefined && auth.style === 'basic') {
    note([...at, 'style'], 'expected body: basic authentication takes a clientSecret');
  }
  const own = ownParams[auth.kind];
  for (const name of Object.keys(auth.params)) {
    if (own.includes(name)) note([...at, 'params', name], `${name} is sent anyway: leave it out here`);
  }
}

/** What the program sends itself. */
const ownParams: Readonly<Record<'clientCredentials' | 'authorizationCode', readonly string[]>> = {
  clientCredentials: ['grant_type', 'client_id', 'client_secret', 'scope'],
  authorizationCode: [
    'response_type',
    'client_id',
    'redirect_uri',
    'scope',
    'state',
    'code_challenge',
    'code_challenge_method',
  ],
};

/** The parts of an authentication that are values, by their key. */
function valuesOf(
  auth: Authentication | PlainAuthentication,
): readonly (readonly [string, CredentialValue])[] {
  return Object.entries(auth).flatMap(([place, part]) =>
    valuePlaces.has(place) ? [[place, part as CredentialValue] as const] : [],
  );
}

const valuePlaces: ReadonlySet<string> = new Set([
  'user',
  'password',
  'token',
  'value',
  'clientId',
  'clientSecret',
]);

function checkField(field: string, { title, fields }: Shape, at: YamlPath, note: Note): boolean {
  if (Object.hasOwn(fields, field)) return true;
  note(at, noSuch(`field of the credentials ${JSON.stringify(title)}`, field, Object.keys(fields)));
  return false;
}

function checkHost(file: DefinitionFile, { host, auth, baseUrl }: UpstreamFile, note: Note): void {
  const declared = Object.keys(host);
  const used = new Set<string>();
  const checkNames = (names: readonly string[], at: YamlPath): void => {
    for (const name of names) {
      used.add(name);
      if (!declared.includes(name)) note(at, noSuch('host variable', name, declared));
    }
  };
  checkNames(namesIn(baseUrl), ['upstream', 'baseUrl']);
  for (const [title, one] of Object.entries(auth)) {
    if (!isIssued(one)) continue;
    for (const [key, template] of addressesOf(one)) {
      const at = ['upstream', 'auth', title, key];
      const names = namesIn(template);
      checkNames(names, at);
      // What a lookup asks with is the very token that is asked for here.
      const looked = names.find((name) => host[name]?.from.some(({ kind }) => kind === 'lookup'));
      if (looked !== undefined) note(at, `expected no host variable with a lookup, ${looked} has one`);
      const kept = names.find((name) =>
        host[name]?.from.some((source) => 'field' in source && Object.hasOwn(one.keeps, source.field)),
      );
      if (kept !== undefined) {
        note(at, `expected no host variable that comes with the token, ${kept} does`);
      }
    }
  }
  for (const [name, { from }] of Object.entries(host)) {
    const at = ['upstream', 'host', name];
    if (!used.has(name)) note(at, 'is in no address: use it in baseUrl or leave it out');
    const shapes = from.map((source, index) => checkSource(source, file, [...at, 'from', index], note));
    const without = file.credentials.find((shape) => !shapes.some((known) => known.includes(shape)));
    if (without !== undefined && shapes.every((known) => known.length > 0)) {
      note([...at, 'from'], `expected a source that the credentials ${JSON.stringify(without.title)} have`);
    }
  }
}

/** What is asked for tokens, by its key. */
function addressesOf(auth: IssuedAuthentication): readonly (readonly [string, Template])[] {
  if (auth.kind !== 'authorizationCode') return [['tokenUrl', auth.tokenUrl]];
  const { tokenUrl, authorizeUrl, deviceUrl, revokeUrl } = auth;
  return Object.entries({ tokenUrl, authorizeUrl, deviceUrl, revokeUrl }).flatMap(([key, template]) =>
    template === undefined ? [] : [[key, template] as const],
  );
}

/** The credentials that a source of a host variable can have a value for. */
function checkSource(
  source: HostSource,
  { credentials }: DefinitionFile,
  at: YamlPath,
  note: Note,
): readonly Shape[] {
  const having = (value: CredentialValue, place: YamlPath): readonly Shape[] => {
    if (value.kind === 'text') return credentials;
    const { field } = value;
    const found = credentials.filter(({ fields }) => Object.hasOwn(fields, field));
    if (found.length === 0) {
      const known = credentials.flatMap(({ fields }) => Object.keys(fields));
      note([...place, 'field'], noSuch('field of the credentials', field, known));
    }
    return found;
  };
  if (source.kind !== 'lookup') return having(source, at);
  const found = valuesOf(source.auth).map(([place, one]) => having(one, [...at, 'lookup', 'auth', place]));
  return credentials.filter((shape) => found.every((shapes) => shapes.includes(shape)));
}

/** One entity's requests: as many as it has actions that ask the service, and their parameters where they can go. */
function checkEntityRequests(
  file: Pick<DefinitionFile, 'credentials'>,
  upstream: UpstreamFile,
  name: string,
  requests: EntityRequestsFile,
  entity: EntityFile,
  note: Note,
): void {
  const at: YamlPath = ['upstream', 'entities', name];
  checkHeaders(file, upstream, requests.headers, at, note);
  for (const action of ['list', 'get', 'download'] as const) {
    const declared = entity.actions[action];
    const request = requests[action];
    if (declared !== undefined && request === undefined) {
      note(at, `is missing ${action}: the entity has this action`);
    } else if (declared === undefined && request !== undefined) {
      note([...at, action], `the entity has no action ${action}`);
    } else if (declared !== undefined && request !== undefined) {
      const paging = action === 'list' && requests.list !== undefined ? requests.list.paging : null;
      const ofPaging = paging === null ? new Set<string>() : sentByPaging(paging, entity.pagination);
      const params = { action: buildAction(declared), ofPaging, authQuery: queryOfAuth(upstream) };
      checkActionRequest(request, params, [...at, action], note);
    }
  }
  if (requests.list !== undefined) {
    checkPaging(requests.list, entity.pagination, [...at, 'list'], note);
    const { key } = entity.cut?.sign ?? {};
    if (key !== undefined && !Object.hasOwn(requests.list.metadata, key.split('.')[0] ?? key)) {
      const message = `expected ${key}, the sign of cut of the entity, and where the answer has it`;
      note([...at, 'list', 'metadata'], message);
    }
  }
  checkRecord(requests, entity, at, note);
}

interface Declared {
  readonly action: Action;
  /** Parameters that the paging sends in another form. */
  readonly ofPaging: ReadonlySet<string>;
  /** Query parameters that hold a secret. */
  readonly authQuery: readonly string[];
}

/** Headers that a definition sends. */
function checkHeaders(
  { credentials }: Pick<DefinitionFile, 'credentials'>,
  { auth }: UpstreamFile,
  headers: UpstreamFile['headers'],
  at: YamlPath,
  note: Note,
): void {
  const signed = Object.values(auth).flatMap((one) => (one.kind === 'header' ? [one.name] : []));
  const fields = credentials.flatMap((shape) => Object.keys(shape.fields));
  for (const [name, value] of Object.entries(headers)) {
    const here: YamlPath = [...at, 'headers', name];
    const noteHeader = (message: string): void => note(here, message);
    if (signed.includes(header(name, noteHeader))) noteHeader(`${name} is also sent by auth`);
    if (typeof value === 'string') headerValue(value, noteHeader);
    else if (value.kind === 'text') headerValue(value.text, noteHeader);
    else if (!fields.includes(value.field)) {
      note([...here, 'field'], noSuch('field of the credentials', value.field, fields));
    }
  }
}

/** Method and fixed values of a request; gives the names in its path. */
function checkRequest(request: RequestFile | CheckFile, at: YamlPath, note: Note): readonly string[] {
  const { method, path, query, body, safe } = request;
  if (method === 'GET' && Object.keys(body).length > 0) {
    note([...at, 'body'], 'expected method: POST beside it: a GET has no body');
  }
  if (method === 'GET' && safe) {
    note([...at, 'safe'], 'belongs to a POST: a GET is always safe to send again');
  }
  for (const name of Object.keys(query)) {
    queryName(name, (message) => note([...at, 'query', name], message));
  }
  return namesIn(checkedTemplate(path));
}

function queryOfAuth({ auth }: UpstreamFile): readonly string[] {
  return Object.values(auth).flatMap((one) => (one.kind === 'query' ? [one.name] : []));
}

function checkActionRequest(
  request: RequestFile,
  { action, ofPaging, authQuery }: Declared,
  at: YamlPath,
  note: Note,
): void {
  const inPath = checkRequest(request, at, note);
  for (const name of inPath) {
    const param = action.params.get(name);
    const pathAt = [...at, 'path'];
    if (param === undefined) note(pathAt, noSuch('parameter', name, action.params.keys()));
    else if (!param.required) {
      note(pathAt, `expected required: true on ${name}: a path has no place to leave empty`);
    } else if (param.type !== 'string' && param.type !== 'integer') {
      note(pathAt, `expected a string or integer in a path, ${name} is of type ${param.type}`);
    }
  }
  for (const name of Object.keys(request.params)) {
    const ruleAt = [...at, 'params', name];
    if (!action.params.has(name)) note(ruleAt, noSuch('parameter', name, action.params.keys()));
    else if (inPath.includes(name)) note(ruleAt, `${name} stands in the path: leave it out here`);
    else if (ofPaging.has(name)) note(ruleAt, `${name} is sent by paging: leave it out here`);
  }
  const takenBy = new Map<string, string>(authQuery.map((name) => [`query ${name}`, 'auth']));
  for (const name of authQuery) {
    if (Object.hasOwn(request.query, name)) note([...at, 'query', name], 'is also sent by auth');
  }
  for (const [name, param] of action.params) {
    if (inPath.includes(name) || ofPaging.has(name)) continue;
    const rule = Object.hasOwn(request.params, name) ? (request.params[name] ?? {}) : {};
    const ruleAt = [...at, 'params', name];
    checkRule(request, name, param, rule, ruleAt, note);
    const place = placeName(request, name, rule);
    const other = takenBy.get(place);
    if (other !== undefined) note(ruleAt, `goes where ${other} goes: ${place}`);
    takenBy.set(place, name);
  }
}

/** How one parameter is sent. */
function checkRule(
  { method }: RequestFile,
  name: string,
  param: Param,
  rule: ParamRuleFile,
  at: YamlPath,
  note: Note,
): void {
  const isBody = method === 'POST' && rule.in === undefined;
  if (rule.at !== undefined) {
    if (!isBody) note([...at, 'at'], 'belongs to a parameter in the body of a POST');
    if (rule.as !== undefined) note([...at, 'as'], 'expected as or at, not both');
  }
  const sentAs = rule.as ?? name;
  const noteName = (key: string) => (message: string) => note([...at, key], message);
  if (rule.in === 'header') header(sentAs, noteName(rule.as === undefined ? 'in' : 'as'));
  else if (!isBody) queryName(sentAs, noteName('as'));
  if (!isBody && param.type === 'object') {
    note(at, `expected method: POST: ${name} is an object, which only a body can hold`);
  }
  if (rule.list !== undefined && (isBody || param.type !== 'array')) {
    note([...at, 'list'], 'belongs to an array in the query or a header');
  }
  if (rule.list !== undefined && rule.list !== 'comma' && rule.in === 'header') {
    note([...at, 'list'], 'expected comma: a header is sent once');
  }
  (rule.omit ?? []).forEach((value, index) => {
    for (const message of checkParam(name, param, value)) note([...at, 'omit', index], message);
  });
}

/** Where a parameter goes, for a sentence; no two may go to one place. */
function placeName(
  { method }: RequestFile,
  name: string,
  { as = name, at = as, ...rule }: ParamRuleFile,
): string {
  if (rule.in === 'header') return `header ${as.toLowerCase()}`;
  return rule.in === 'query' || method === 'GET' ? `query ${as}` : `body ${at}`;
}

/** What is renamed or filled in becomes a declared field, from one source. */
function checkRecord(
  { list, get, rename, inject }: EntityRequestsFile,
  entity: EntityFile,
  at: YamlPath,
  note: Note,
): void {
  const fields = Object.keys(entity.fields);
  const all = { ...entity.rename, ...rename };
  const renamed = Object.values(all);
  checkRenamed(rename, all, fields, [...at, 'rename'], note);
  const requests = { list, get };
  for (const [field, param] of Object.entries(inject)) {
    const here = [...at, 'inject', field];
    if (!fields.includes(field)) note(here, noSuch('field', field, fields));
    if (renamed.includes(field)) note(here, `${field} is also renamed from another field`);
    for (const action of ['list', 'get'] as const) {
      const declared = entity.actions[action]?.params ?? {};
      if (requests[action] === undefined || Object.hasOwn(declared, param)) continue;
      note(here, noSuch(`${action} parameter`, param, Object.keys(declared)));
    }
  }
}

type Pagination = EntityFile['pagination'];

/** What the kinds become: tokens of `pagination` by token, or offsets. A new kind does not compile until it is here. */
const becomes: Readonly<Record<Exclude<PagingFile['kind'], 'none'>, Pagination['kind']>> = {
  cursor: 'pageToken',
  lastRecord: 'pageToken',
  nextUrl: 'pageToken',
  linkHeader: 'pageToken',
  offset: 'offset',
  page: 'offset',
};

/**
 * The service's paging fits the one that the entity declares, and what the engine reads of an answer is written once.
 */
function checkPaging(
  { paging, metadata, records }: ListRequestFile,
  pagination: Pagination,
  at: YamlPath,
  note: Note,
): void {
  const pagingAt = [...at, 'paging'];
  if (recordsPlace(records).isOne && pagination.kind !== 'single') {
    note([...at, 'records'], oneIsSingle(pagination));
  }
  if (paging.kind !== 'none' && (pagination.kind === 'page' || pagination.kind === 'lastRecord')) {
    const message = `expected no paging: by ${pagination.kind}, the pagination of the entity is the service's own`;
    note([...pagingAt, 'kind'], message);
    return;
  }
  if (paging.kind !== 'none' && pagination.kind !== becomes[paging.kind]) {
    const message = `${paging.kind} expects pagination by ${becomes[paging.kind]}, got ${pagination.kind}`;
    note([...pagingAt, 'kind'], message);
    return;
  }
  const written = keysWritten(paging, pagination);
  for (const key of Object.keys(metadata)) {
    if (written.includes(key)) note([...at, 'metadata', key], 'is written by paging: leave it out');
  }
  if (paging.kind === 'none' && pagination.kind === 'pageToken') {
    const tokenKeys = pagination.tokenKeys.map(keyOfToken);
    if (
      !tokenKeys.some((key) => [key, key.split('.')[0] ?? ''].some((name) => Object.hasOwn(metadata, name)))
    ) {
      const message = `expected one of ${tokenKeys.join(', ')}, the tokenKeys of the entity, or a paging`;
      note([...at, 'metadata'], message);
    }
  }
  if (
    paging.kind !== 'none' &&
    pagination.kind === 'pageToken' &&
    typeof pagination.tokenKeys[0] === 'object'
  ) {
    const message = `${paging.kind} writes the token itself: expected a key without param as the first of tokenKeys`;
    note([...pagingAt, 'kind'], message);
  }
  const total = 'total' in paging ? paging.total : null;
  if (total !== null && pagination.kind === 'offset' && pagination.totalKeys.length === 0) {
    note([...pagingAt, 'total'], 'expected totalKeys in the pagination of the entity beside it');
  }
}

/** Keys of the metadata that a translated paging sets. */
function keysWritten({ kind }: PagingFile, pagination: Pagination): readonly string[] {
  if (kind === 'none') return [];
  switch (pagination.kind) {
    case 'single':
      return [];
    case 'page':
    case 'lastRecord':
    case 'offset':
      return pagination.totalKeys;
    case 'pageToken':
      return [...pagination.tokenKeys.map(keyOfToken), ...pagination.flagKeys];
  }
}

/** For where one object is all that a listing has. */
export function oneIsSingle({ kind }: Pick<Pagination, 'kind'>): string {
  return `one record expects pagination of kind single, got ${kind}`;
}
