import { checkDeclared, type Place } from './check-names.ts';
import { checkParam } from './params.ts';
import type { DefinitionFile, EntityFile } from './definition-file.ts';
import { buildAction, type Action, type Param } from './definition.ts';
import { mapOf } from './frozen.ts';
import { keyOfToken } from './pagination-file.ts';
import { noSuch } from './suggest-name.ts';
import {
  isIssued,
  type Authentication,
  type CredentialValue,
  type IssuedAuthentication,
  type UpstreamFile,
  type CheckFile,
  type EntityRequestsFile,
  type ParamRuleFile,
  type RequestFile,
  type ListRequestFile,
} from './upstream/upstream-file.ts';
import {
  recordsPlace,
  pathText,
  header,
  headerValue,
  queryName,
  namesIn,
  checkedTemplate,
  type Template,
} from './upstream/service-texts.ts';
import { givenParameters, sentByPaging, textsOf } from './upstream/upstream.ts';

/**
 * Checks `upstream:` against itself and against the credentials and entities of its definition; every problem is noted
 * at its place.
 */
export function checkUpstream(file: DefinitionFile, upstream: UpstreamFile, place: Place): void {
  const settings = mapOf(file.settings, ({ secret, required, ...setting }) => {
    return { secret, required: required || setting.default !== null };
  });
  const credentials = file.credentials.map(({ title, fields }) => {
    return { title, fields: { ...fields, ...Object.fromEntries(settings) } };
  });
  const check = { file: { ...file, credentials }, upstream };
  checkAuthentications(check, place);
  checkHeaders(check, upstream.headers, place.at('headers'));
  const inPath = checkRequest(check, upstream.check, place.at('check'));
  for (const name of inPath) checkGivenPath(check, name, place.at('check'));
  if (textsOf(upstream.check).length > 0) {
    place.note('expected no template: the check has no parameters', 'check');
  }
  checkHeaders(check, upstream.check.headers, place.at('check', 'headers'));
  checkErrors(check, place.at('errors'));
  checkEntities(check, place.at('entities'));
}

interface Checked {
  /** The settings are fields of its credentials. */
  readonly file: DefinitionFile;
  readonly upstream: UpstreamFile;
}

function checkErrors({ file, upstream }: Checked, errors: Place): void {
  const known = Object.keys(file.entities);
  upstream.errors.forEach((rule, index) => {
    const place = errors.at(index);
    const { status, where, contains, hasHeader, lacksHeader, entity } = rule;
    const conditions = [status, contains, hasHeader, lacksHeader].filter((one) => one !== null);
    if (conditions.length === 0 && where.length === 0) {
      place.note('expected a condition: status, where, contains, hasHeader or lacksHeader');
    }
    for (const { path } of where) {
      const text = path.join('.');
      pathText(text, (problem) => place.note(problem, 'where', text));
    }
    if (entity !== null && !known.includes(entity)) place.note(noSuch('entity', entity, known), 'entity');
  });
}

/** Checks that only entities have requests, and that at least one entity has some. */
function checkEntities(check: Checked, place: Place): void {
  const { entities } = check.upstream;
  const known = Object.keys(check.file.entities);
  for (const name of Object.keys(entities)) {
    if (!known.includes(name)) place.note(noSuch('entity', name, known), name);
  }
  for (const [name, entity] of Object.entries(check.file.entities)) {
    const requests = Object.hasOwn(entities, name) ? entities[name] : undefined;
    if (requests !== undefined) checkEntityRequests(check, requests, entity, place.at(name));
  }
  if (Object.keys(entities).length === 0) {
    place.note('expected at least one entity: say how its records are asked for');
  }
}

type Shape = DefinitionFile['credentials'][number];

/**
 * Checks that every way to sign in has an authentication, every value comes from one of its fields, and every name in
 * an address has a source.
 */
function checkAuthentications(check: Checked, place: Place): void {
  const { credentials } = check.file;
  const { auth } = check.upstream;
  const titles = credentials.map(({ title }) => title);
  if (titles.length === 0) {
    place.note('expected credentials beside it: say what is needed to sign in');
    return;
  }
  for (const title of Object.keys(auth)) {
    if (!titles.includes(title)) {
      place.note(noSuch('title among the credentials', title, titles), 'auth', title);
    }
  }
  for (const shape of credentials) {
    const { title } = shape;
    const own = Object.hasOwn(auth, title) ? auth[title] : undefined;
    if (own !== undefined) checkAuthentication(own, shape, place.at('auth', title));
    else place.note(`is missing ${JSON.stringify(title)}, which credentials name`, 'auth');
  }
  checkHost(check, place);
}

function checkAuthentication(auth: Authentication, shape: Shape, place: Place): void {
  for (const [part, given] of Object.entries(auth) as [string, unknown][]) {
    if (valueLists.has(part)) {
      checkValues(given as Readonly<Record<string, string | CredentialValue>>, shape, place.at(part));
    }
    // The `token` of a login is a place in its answer.
    if (!valuePlaces.has(part) || Array.isArray(given)) continue;
    const value = given as CredentialValue;
    if (value.kind === 'text' || !checkField(value.field, shape, place.at(part, 'field'))) continue;
    if (shape.fields[value.field]?.required === false) {
      const message = `expected a required field: without ${value.field} no one could sign in`;
      place.note(message, part, 'field');
    }
  }
  if (isIssued(auth)) checkIssued(auth, shape, place);
  if (auth.kind !== 'refresh') return;
  const { accessToken, refreshToken } = auth;
  checkField(accessToken, shape, place.at('accessToken'));
  checkField(refreshToken, shape, place.at('refreshToken'));
  if (accessToken === refreshToken) {
    place.note('expected another field than accessToken: both are saved', 'refreshToken');
  }
  if (![accessToken, refreshToken].some((field) => shape.fields[field]?.required === true)) {
    place.note('expected accessToken or refreshToken to be a required field');
  }
}

/**
 * Checks the values that are kept with a token: each has a separate credential field, which is not required beforehand.
 */
function checkIssued(auth: IssuedAuthentication, shape: Shape, place: Place): void {
  const tokens = auth.kind === 'refresh' ? [auth.accessToken, auth.refreshToken] : [];
  for (const field of Object.keys(auth.keeps)) {
    const here = place.at('keeps', field);
    if (!checkField(field, shape, here)) continue;
    if (tokens.includes(field)) here.note(`expected another field than ${field}: a token is saved there`);
    else if (shape.fields[field]?.required === true) {
      here.note(`expected required: false on ${field}: it comes with the token`);
    }
  }
  if (auth.kind === 'login') {
    if (auth.sign !== undefined) checkAuthentication(auth.sign, shape, place.at('sign'));
    const hasBody = auth.body !== undefined;
    if (hasBody === (auth.form !== undefined)) place.note('expected body or form, one of the two');
    if (hasBody && auth.method === 'GET') place.note('expected form: a GET has no body', 'body');
    for (const at of Object.keys(auth.body ?? {})) pathText(at, (message) => place.note(message, 'body', at));
    if (auth.expiresIn !== undefined && auth.lifetimeMs !== undefined) {
      place.note('expected expiresIn or lifetimeMs, not both');
    }
  } else if (auth.clientSecret === undefined && auth.style === 'basic') {
    place.note('expected body: basic authentication takes a clientSecret', 'style');
  }
}

/** Checks values by name, of which those that the connector does not have are left out. */
function checkValues(values: Readonly<Record<string, string | CredentialValue>>, shape: Shape, place: Place) {
  for (const [name, value] of Object.entries(values)) {
    if (typeof value === 'string' || value.kind === 'text') continue;
    checkField(value.field, shape, place.at(name, 'field'));
  }
}

/** The parts of an authentication that are values by name. */
const valueLists: ReadonlySet<string> = new Set(['params', 'body', 'form']);

/** The parts of an authentication that are values. */
const valuePlaces: ReadonlySet<string> = new Set([
  'user',
  'password',
  'token',
  'value',
  'clientId',
  'clientSecret',
]);

function checkField(field: string, { title, fields }: Shape, place: Place): boolean {
  if (Object.hasOwn(fields, field)) return true;
  place.note(noSuch(`field of the credentials ${JSON.stringify(title)}`, field, Object.keys(fields)));
  return false;
}

function checkHost({ file, upstream: { host, auth, baseUrl } }: Checked, place: Place): void {
  const declared = Object.keys(host);
  const checkNames = (names: readonly string[], here: Place): void => {
    for (const name of names) {
      if (!declared.includes(name)) here.note(noSuch('host variable', name, declared));
    }
  };
  checkNames(namesIn(baseUrl), place.at('baseUrl'));
  for (const [title, one] of Object.entries(auth)) {
    if (!isIssued(one)) continue;
    for (const [key, template] of addressesOf(one)) {
      const here = place.at('auth', title, key);
      const names = namesIn(template);
      checkNames(names, here);
      const kept = names.find((name) =>
        host[name]?.from.some((source) => 'field' in source && Object.hasOwn(one.keeps, source.field)),
      );
      if (kept !== undefined) here.note(`expected no host variable that comes with the token, ${kept} does`);
    }
  }
  for (const [name, { from }] of Object.entries(host)) {
    const here = place.at('host', name);
    const shapes = from.map((source, index) => shapesWith(source, file, here.at('from', index)));
    const without = file.credentials.find((shape) => !shapes.some((known) => known.includes(shape)));
    if (without !== undefined && shapes.every((known) => known.length > 0)) {
      here.note(`expected a source that the credentials ${JSON.stringify(without.title)} have`, 'from');
    }
  }
}

/** Addresses of the token endpoints, by their key. */
function addressesOf(auth: IssuedAuthentication): readonly (readonly [string, Template])[] {
  if (auth.kind === 'login') return [['url', auth.url]];
  if (auth.kind !== 'authorizationCode') return [['tokenUrl', auth.tokenUrl]];
  const { tokenUrl, authorizeUrl, deviceUrl, revokeUrl } = auth;
  return Object.entries({ tokenUrl, authorizeUrl, deviceUrl, revokeUrl }).flatMap(([key, template]) =>
    template === undefined ? [] : [[key, template] as const],
  );
}

/** The credentials that have a value for a host variable. */
function shapesWith(value: CredentialValue, { credentials }: DefinitionFile, place: Place): readonly Shape[] {
  if (value.kind === 'text') return credentials;
  const { field } = value;
  const found = credentials.filter(({ fields }) => Object.hasOwn(fields, field));
  if (found.length === 0) {
    const known = credentials.flatMap(({ fields }) => Object.keys(fields));
    place.note(noSuch('field of the credentials', field, known), 'field');
  }
  return found;
}

/** Checks one entity's requests: one for each action that calls the service, with a place for every parameter. */
function checkEntityRequests(check: Checked, requests: EntityRequestsFile, entity: EntityFile, place: Place) {
  checkHeaders(check, requests.headers, place.at('headers'));
  const { list } = requests;
  for (const action of ['list', 'get', 'download'] as const) {
    const declared = entity.actions[action];
    const request = requests[action];
    if (declared !== undefined && request === undefined) {
      place.note(`is missing ${action}: the entity has this action`);
    } else if (declared === undefined && request !== undefined) {
      place.note(`the entity has no action ${action}`, action);
    } else if (declared !== undefined && request !== undefined) {
      const ofPaging =
        action === 'list' && list !== undefined ? sentByPaging(list.paging, entity.pagination) : noParams;
      checkActionRequest(check, request, buildAction(declared), ofPaging, place.at(action));
    }
  }
  if (list !== undefined) {
    checkPaging(list, entity.pagination, place.at('list'));
    const { map } = recordsPlace(list.records);
    if (map !== null && map.keyInto !== null) {
      const note = (message: string): void => place.note(message, 'list', 'records', 'keyInto');
      checkDeclared('field', entity.fields, map.keyInto, note, ['string', 'integer']);
    }
    checkKept(check, list, place.at('list', 'paging', 'keep'));
    const { key } = entity.cut?.sign ?? {};
    const { doneKeys } = { doneKeys: undefined, ...entity.pagination };
    const isThere = (one: string): boolean => Object.hasOwn(list.metadata, one.split('.')[0] ?? one);
    const noteMissing = (what: string): void =>
      place.note(`expected ${what} of the entity, and where the answer has it`, 'list', 'metadata');
    if (key !== undefined && !isThere(key)) noteMissing(`${key}, the sign of cut`);
    if (doneKeys?.some(isThere) === false) noteMissing(`one of ${doneKeys.join(', ')}, the doneKeys`);
  }
}

/** Checks that no value of the connector, which may be secret, is taken from the address of a page. */
function checkKept({ upstream }: Checked, list: ListRequestFile, place: Place): void {
  if (!('keep' in list.paging) || list.paging.keep === 'any') return;
  const own = [...Object.values(upstream.auth).flatMap(signedParameter), ...givenParameters(list)];
  list.paging.keep.forEach((name, index) => {
    if (own.includes(name)) place.note(`${name} is sent with every page: leave it out`, index);
  });
}

function signedParameter(auth: Authentication): readonly string[] {
  return auth.kind === 'query' ? [auth.name] : [];
}

const noParams: ReadonlySet<string> = new Set();

/** Headers that a definition sends. */
function checkHeaders({ file, upstream }: Checked, headers: UpstreamFile['headers'], place: Place): void {
  const signed = Object.values(upstream.auth).flatMap((one) =>
    one.kind === 'header' ? [one.name] : one.kind === 'login' ? (one.header ?? []) : [],
  );
  for (const [name, value] of Object.entries(headers)) {
    const note = (message: string): void => place.note(message, name);
    if (signed.includes(header(name, note))) note(`${name} is also sent by auth`);
    if (typeof value === 'string') headerValue(value, note);
    else if (value.kind === 'text') headerValue(value.text, note);
    else checkGiven(file, value, place.at(name));
  }
}

/** Checks that a value is fixed, or one of the fields of the credentials and settings. */
function checkGiven({ credentials, settings }: DefinitionFile, value: CredentialValue, place: Place): void {
  if (value.kind === 'text') return;
  const fields = credentials.flatMap((shape) => Object.keys(shape.fields));
  if (fields.includes(value.field)) return;
  const kinds = Object.keys(settings).length === 0 ? 'credentials' : 'credentials and settings';
  place.note(noSuch(`field of the ${kinds}`, value.field, fields), 'field');
}

/** Checks the method and the fixed and given values of a request; returns the names in its path. */
function checkRequest(
  { file, upstream }: Checked,
  { method, path, query, body, bodyAs, fill = {} }: RequestFile | CheckFile,
  place: Place,
): readonly string[] {
  for (const [part, members] of Object.entries({ body, fill })) {
    if (method === 'POST' || bodyAs !== undefined || Object.keys(members).length === 0) continue;
    place.note('expected method: POST beside it, or bodyAs: a GET has no body otherwise', part);
  }
  if (method === 'GET' && Object.values(upstream.auth).some(({ kind }) => kind === 'body')) {
    place.note('expected method: POST: auth puts a value into the body of each request');
  }
  for (const [name, value] of Object.entries(query)) {
    queryName(name, (message) => place.note(message, 'query', name));
    if (typeof value !== 'string' && value.kind !== 'template') {
      checkGiven(file, value, place.at('query', name));
    }
  }
  for (const [at, value] of Object.entries(fill)) {
    const here = place.at('fill', at);
    pathText(at, here.note);
    if (value.kind !== 'template') checkGiven(file, value, here);
  }
  return namesIn(checkedTemplate(path));
}

/** Checks a name in a path that is no parameter: a path has no place to leave empty. */
function checkGivenPath({ file, upstream }: Checked, name: string, place: Place, others: string[] = []) {
  const shapes = file.credentials.filter(({ fields }) => Object.hasOwn(fields, name));
  if (shapes.length === 0) {
    const known = [...others, ...Object.keys(file.settings)];
    place.note(
      noSuch(Object.keys(file.settings).length === 0 ? 'parameter' : 'parameter or setting', name, known),
      'path',
    );
    return;
  }
  const lacks = file.credentials.find(({ title, fields }) => {
    const auth = upstream.auth[title];
    const isKept = auth !== undefined && isIssued(auth) && Object.hasOwn(auth.keeps, name);
    return fields[name]?.required !== true && !isKept;
  });
  if (lacks === undefined) return;
  const message = `expected ${name} to be required, or to have a default: a path has no place to leave empty`;
  place.note(message, 'path');
}

/** `ofPaging`: parameters that the paging sends in another form. */
function checkActionRequest(
  check: Checked,
  request: RequestFile,
  { params }: Action,
  ofPaging: ReadonlySet<string>,
  place: Place,
): void {
  const { upstream } = check;
  const inPath = checkRequest(check, request, place);
  for (const name of inPath) {
    const param = params.get(name);
    if (param === undefined) checkGivenPath(check, name, place, [...params.keys()]);
    else if (!param.required) {
      place.note(`expected required: true on ${name}: a path has no place to leave empty`, 'path');
    } else if (param.type !== 'string' && param.type !== 'integer') {
      place.note(`expected a string or integer in a path, ${name} is of type ${param.type}`, 'path');
    }
  }
  const texts = textsOf(request);
  for (const { name: sent, at, template } of texts) {
    const here = place.at(at === null ? 'query' : 'fill', sent, 'template');
    const names = namesIn(template);
    if (names.length === 0) here.note('expected a parameter or setting in it, such as {team}');
    for (const name of names) {
      const type = params.get(name)?.type;
      if (type === 'object' || type === 'array') {
        here.note(`expected a text, number or flag, ${name} is of type ${type}`);
      } else if (type === undefined) {
        checkGiven(check.file, { kind: 'field', field: name }, here);
        const isSecret = check.file.credentials.some(({ fields }) => fields[name]?.secret === true);
        if (isSecret) here.note(`expected no secret: ${name} would be shown in messages`);
      }
    }
  }
  const inTexts = [...inPath, ...texts.flatMap(({ template }) => namesIn(template))];
  for (const name of Object.keys(request.params)) {
    if (!params.has(name)) place.note(noSuch('parameter', name, params.keys()), 'params', name);
  }
  const authQuery = Object.values(upstream.auth).flatMap(signedParameter);
  const takenBy = new Map<string, string>(authQuery.map((name) => [`query ${name}`, 'auth']));
  for (const auth of Object.values(upstream.auth)) {
    if (auth.kind === 'body') takenBy.set(`body ${auth.at}`, 'auth');
  }
  for (const name of authQuery) {
    if (Object.hasOwn(request.query, name)) place.note('is also sent by auth', 'query', name);
  }
  for (const name of givenParameters(request)) takenBy.set(`query ${name}`, 'a value of the connector');
  for (const at of Object.keys(request.fill ?? {})) takenBy.set(`body ${at}`, 'fill');
  for (const { name, at } of texts) if (at === null) takenBy.set(`query ${name}`, 'a text of the query');
  for (const [name, param] of params) {
    if (inTexts.includes(name) || ofPaging.has(name)) continue;
    const rule = Object.hasOwn(request.params, name) ? (request.params[name] ?? {}) : {};
    const here = place.at('params', name);
    checkRule(request, name, param, rule, here);
    const goesTo = placeName(request, name, rule);
    const other = takenBy.get(goesTo);
    if (other !== undefined) here.note(`goes where ${other} goes: ${goesTo}`);
    takenBy.set(goesTo, name);
  }
}

/** Checks the rule for one parameter. */
function checkRule(
  { method, bodyAs }: RequestFile,
  name: string,
  param: Param,
  rule: ParamRuleFile,
  place: Place,
): void {
  const isBody =
    rule.in === undefined && (method === 'POST' || (bodyAs !== undefined && rule.at !== undefined));
  if (rule.at !== undefined && !isBody) place.note('belongs to a parameter in a body', 'at');
  const sentAs = rule.as ?? name;
  const noteName = (key: string) => (message: string) => place.note(message, key);
  if (rule.in === 'header') header(sentAs, noteName(rule.as === undefined ? 'in' : 'as'));
  else if (!isBody) queryName(sentAs, noteName('as'));
  if (!isBody && param.type === 'object') {
    place.note(`expected method: POST: ${name} is an object, which only a body can hold`);
  }
  if (rule.list !== undefined && rule.list !== 'comma' && rule.in === 'header') {
    place.note('expected comma: a header is sent once', 'list');
  }
  (rule.omit ?? []).forEach((value, index) => {
    for (const message of checkParam(name, param, value)) place.note(message, 'omit', index);
  });
}

/** Names the place of a parameter, for a message; each place takes only one. */
function placeName({ method }: RequestFile, name: string, { as = name, at, ...rule }: ParamRuleFile): string {
  if (rule.in === 'header') return `header ${as.toLowerCase()}`;
  const isBody = method === 'POST' || at !== undefined;
  return rule.in === 'query' || !isBody ? `query ${as}` : `body ${at ?? as}`;
}

type Pagination = EntityFile['pagination'];

/**
 * Checks that the service's paging is one by token, and that each fact the engine reads from an answer is written once.
 */
function checkPaging({ paging, metadata, records }: ListRequestFile, pagination: Pagination, place: Place) {
  const noteKind = (message: string): void => place.note(message, 'paging', 'kind');
  if (recordsPlace(records).isOne && pagination.kind !== 'single') {
    place.note(oneIsSingle(pagination), 'records');
  }
  if (pagination.kind !== 'pageToken') {
    if (paging.kind === 'none') return;
    noteKind(`${paging.kind} expects pagination by pageToken, got ${pagination.kind}`);
    return;
  }
  const tokenKeys = pagination.tokenKeys.map(keyOfToken);
  if (paging.kind === 'none') {
    const names = tokenKeys.flatMap((key) => [key, key.split('.')[0] ?? '']);
    if (names.some((name) => Object.hasOwn(metadata, name))) return;
    const message = `expected one of ${tokenKeys.join(', ')}, the tokenKeys of the entity, or a paging`;
    place.note(message, 'metadata');
    return;
  }
  if (typeof pagination.tokenKeys[0] === 'object') {
    noteKind(
      `${paging.kind} writes the token itself: expected a key without param as the first of tokenKeys`,
    );
  }
  for (const key of [...tokenKeys, ...pagination.flagKeys]) {
    if (Object.hasOwn(metadata, key)) place.note('is written by paging: leave it out', 'metadata', key);
  }
}

/** The problem with a pagination where a listing is one object. */
export function oneIsSingle({ kind }: Pick<Pagination, 'kind'>): string {
  return `one record expects pagination of kind single, got ${kind}`;
}
