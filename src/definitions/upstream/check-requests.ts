import type { Note } from '../check-names.ts';
import { checkRenamed } from '../check-names.ts';
import { checkParam } from '../check-params.ts';
import type { DefinitionFile, EntityFile } from '../definition-file.ts';
import { buildAction, type Action, type Param } from '../definition.ts';
import type { YamlPath } from '../read-yaml.ts';
import { noSuch } from '../suggest-name.ts';
import { checkPaging } from './check-paging.ts';
import { header, headerValue, queryName } from './sent-texts.ts';
import { checkedTemplate, namesIn } from './template.ts';
import type {
  CheckFile,
  EntityRequestsFile,
  ParamRuleFile,
  RequestFile,
  UpstreamFile,
} from './upstream-file.ts';
import { sentByPaging } from './upstream.ts';

/** One entity's requests: as many as it has actions that ask the service, and their parameters where they can go. */
export function checkEntityRequests(
  file: Pick<DefinitionFile, 'credentials'>,
  upstream: UpstreamFile,
  name: string,
  requests: EntityRequestsFile,
  entity: EntityFile,
  note: Note,
): void {
  const at: YamlPath = ['upstream', 'entities', name];
  const entityAt: YamlPath = ['entities', name];
  checkHeaders(file, upstream, requests.headers, at, note);
  for (const action of ['list', 'get', 'download'] as const) {
    const declared = entity.actions[action];
    const request = requests[action];
    const actionAt = [...entityAt, 'actions'];
    if (declared !== undefined && request === undefined) {
      note(at, `is missing ${action}: the entity has this action`, [...at, action], actionAt);
    } else if (declared === undefined && request !== undefined) {
      note([...at, action], `the entity has no action ${action}`, actionAt);
    } else if (declared !== undefined && request !== undefined) {
      const paging = action === 'list' && requests.list !== undefined ? requests.list.paging : null;
      const ofPaging = paging === null ? new Set<string>() : sentByPaging(paging, entity.pagination);
      const params = { action: buildAction(declared), ofPaging, authQuery: queryOfAuth(upstream) };
      checkActionRequest(request, params, [...at, action], [...actionAt, action], note);
    }
  }
  if (requests.list !== undefined) {
    checkPaging(requests.list, entity.pagination, [...at, 'list'], [...entityAt, 'pagination'], note);
    const { key } = entity.cut?.sign ?? {};
    if (key !== undefined && !Object.hasOwn(requests.list.metadata, key.split('.')[0] ?? key)) {
      const message = `expected ${key}, the sign of cut of the entity, and where the answer has it`;
      note([...at, 'list', 'metadata'], message, [...at, 'list', 'metadata'], [...entityAt, 'cut', 'sign']);
    }
  }
  checkRecord(requests, entity, at, entityAt, note);
}

interface Declared {
  readonly action: Action;
  /** Parameters that the paging sends in another form. */
  readonly ofPaging: ReadonlySet<string>;
  /** Query parameters that hold a secret. */
  readonly authQuery: readonly string[];
}

/** Headers that a definition sends. */
export function checkHeaders(
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
export function checkRequest(request: RequestFile | CheckFile, at: YamlPath, note: Note): readonly string[] {
  const { method, path, query, body, safe } = request;
  const methodAt = [...at, 'method'];
  if (method === 'GET' && Object.keys(body).length > 0) {
    note([...at, 'body'], 'expected method: POST beside it: a GET has no body', methodAt);
  }
  if (method === 'GET' && safe) {
    note([...at, 'safe'], 'belongs to a POST: a GET is always safe to send again', methodAt);
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
  actionAt: YamlPath,
  note: Note,
): void {
  const inPath = checkRequest(request, at, note);
  const restsOn: YamlPath = [...actionAt, 'params'];
  for (const name of inPath) {
    const param = action.params.get(name);
    const pathAt = [...at, 'path'];
    if (param === undefined) note(pathAt, noSuch('parameter', name, action.params.keys()), restsOn);
    else if (!param.required) {
      note(pathAt, `expected required: true on ${name}: a path has no place to leave empty`, restsOn);
    } else if (param.type !== 'string' && param.type !== 'integer') {
      note(pathAt, `expected a string or integer in a path, ${name} is of type ${param.type}`, restsOn);
    }
  }
  for (const name of Object.keys(request.params)) {
    const ruleAt = [...at, 'params', name];
    if (!action.params.has(name)) note(ruleAt, noSuch('parameter', name, action.params.keys()), restsOn);
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
    if (other !== undefined) note(ruleAt, `goes where ${other} goes: ${place}`, restsOn);
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
  entityAt: YamlPath,
  note: Note,
): void {
  const fields = Object.keys(entity.fields);
  const fieldsAt: YamlPath = [...entityAt, 'fields'];
  const all = { ...entity.rename, ...rename };
  const renamed = Object.values(all);
  checkRenamed(rename, all, fields, [...at, 'rename'], fieldsAt, note);
  const requests = { list, get };
  for (const [field, param] of Object.entries(inject)) {
    const here = [...at, 'inject', field];
    if (!fields.includes(field)) note(here, noSuch('field', field, fields), fieldsAt);
    if (renamed.includes(field)) note(here, `${field} is also renamed from another field`);
    for (const action of ['list', 'get'] as const) {
      const declared = entity.actions[action]?.params ?? {};
      if (requests[action] === undefined || Object.hasOwn(declared, param)) continue;
      note(here, noSuch(`${action} parameter`, param, Object.keys(declared)), [...entityAt, 'actions']);
    }
  }
}
