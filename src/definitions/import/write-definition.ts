import { basename } from 'node:path';
import { Document, isCollection, isMap, isPair, isScalar, visit, type Pair } from 'yaml';
import { withValueAt, type JsonObject, type JsonValue } from '../../core/json.ts';
import { guesses, hidingParams, type Asked, type Guess } from '../guesses.ts';
import type { YamlPath } from '../read-yaml.ts';
import { type EntityPlan, getsOwnKind, namesKey, neededParams } from './entity-plan.ts';
import type { Operation } from './operation.ts';
import type { Paging, Told } from './paging.ts';
import { holdsTemplate, objectIn, oneLine, plainText, textsIn } from './schemas.ts';
import type { Comment, ModeName } from './sent-values.ts';
import { uuidOf, type Server, type ServiceFile } from './service-file.ts';
import type { SignIn } from './sign-in-ways.ts';

/** Comments above places of the written file. */
type NoteAt = (at: YamlPath, text: string) => void;

/** The text of a definition file of these entities. Comments say what is guessed. */
export function writeDefinition(
  service: ServiceFile,
  mode: ModeName,
  plans: readonly EntityPlan[],
  ways: readonly SignIn[],
  server: Server,
) {
  const comments: Comment[] = [];
  const note: NoteAt = (at, text) => void comments.push({ at, text: oneLine(text, 300) });
  // A plain file has no hosted definition in addition to this one.
  const isOnly = mode === 'hosted' || service.isPlain;
  const name = isOnly ? service.name : `${service.name}-direct`;
  const written = plans.map((plan) => [plan.entity, writeEntity(plan, mode, service, note)] as const);
  const used = mode === 'hosted' ? ways : ways.filter(({ auth }) => auth !== null);
  const hostFields = Object.keys(server.host);
  const data: Record<string, JsonValue> = {
    name,
    title: isOnly ? service.title : `${service.title} (direct)`,
    // Direct mode needs a type other than the one of the API's catalog, and the same one in every import.
    id: mode === 'hosted' ? service.id : uuidOf(`${service.id} direct`),
    rateLimit: { requestsPerSecond: 2, concurrency: 2 },
    ...stated({ credentials: used.map((way) => credentialsOf(way, hostFields)) }),
    entities: Object.fromEntries(written.map(([entity, { entity: part }]) => [entity, part])),
  };
  if (mode === 'direct') {
    const requests = written.flatMap(([entity, { upstream }]) =>
      upstream === null ? [] : [[entity, upstream] as const],
    );
    if (server.open !== null) note(['upstream', 'baseUrl'], `TODO ${server.open}`);
    data['upstream'] = upstreamOf(service, used, server, plans, Object.fromEntries(requests), note);
  }
  for (const { at, text } of plans.flatMap(({ open }) => open)) note(at, `TODO ${text}`);
  return { name, text: writeYaml(data, comments, headOf(service, mode)) };
}

/** The file that a definition is made of. */
type Described = Pick<ServiceFile, 'name' | 'version' | 'sha256' | 'title' | 'file' | 'licenseNote'>;

export function headOf({ name, version, sha256, title, file, licenseNote }: Described, mode: ModeName) {
  return [
    `${title}: imported for ${mode} connectors from ${name} ${version} (${oneLine(basename(file), 80)}, SHA-256 ${sha256}).`,
    ...licenseNote,
    'Written by "connector-sync definitions import". Guesses: rateLimit, limits, message, and what is marked.',
  ];
}

function credentialsOf({ title, fields }: SignIn, hostFields: readonly string[]): JsonObject {
  const host = hostFields.filter((name) => !Object.hasOwn(fields, name));
  const others = Object.fromEntries(host.map((name) => [name, { secret: false }]));
  return { title, fields: { ...credentialFields(fields), ...others } };
}

export function credentialFields(fields: SignIn['fields']): JsonObject {
  const entries = Object.entries(fields).map(([name, { secret, required }]) => [
    name,
    { ...(secret ? {} : { secret }), ...(required ? {} : { required }) },
  ]);
  return Object.fromEntries(entries);
}

/** Comments about guesses of ways to sign in. */
export function guessesOf(ways: readonly SignIn[]): readonly Comment[] {
  return ways.flatMap(({ title, guesses }) =>
    guesses.length === 0
      ? []
      : [{ at: ['upstream', 'auth', title], text: `${guesses.join(', ')} # guessed` }],
  );
}

/** Members of `upstream` that no file says. */
export const commonUpstream = {
  limits: { concurrency: 2, requestsPerSecond: 2, timeoutMs: 60_000, maxBodyBytes: 67_108_864 },
  message: ['message', 'error.message', 'error_description', 'error', 'errors.0.message', 'detail'],
};

function upstreamOf(
  service: ServiceFile,
  ways: readonly SignIn[],
  { baseUrl, host }: Server,
  plans: readonly EntityPlan[],
  entities: JsonObject,
  note: NoteAt,
): JsonObject {
  for (const { at, text } of guessesOf(ways)) note(at, text);
  const headers = ways.flatMap((way) => [...way.headers].map(([name, field]) => [name, { field }] as const));
  return {
    baseUrl,
    ...stated({ host }),
    auth: Object.fromEntries(ways.map(({ title, auth }) => [title, auth])),
    ...stated({ headers: Object.fromEntries(headers) }),
    check: checkOf(service, plans),
    ...commonUpstream,
    ...stated({ failed: service.failed }),
    entities,
  };
}

/** The listing that the file prefers for it, or the first one, as a request without parameters. */
function checkOf({ operations }: ServiceFile, plans: readonly EntityPlan[]): JsonObject {
  const roots = plans.filter(({ parents }) => parents.length === 0);
  const preferred = operations.filter(({ isPreferred }) => isPreferred).map(({ entity }) => entity);
  const plan = roots.find(({ entity }) => preferred.includes(entity)) ?? roots[0] ?? plans[0];
  if (plan === undefined) throw new TypeError('expected at least one entity');
  const { list, fixed, paging } = plan;
  const query: Record<string, string> = {};
  let body: JsonObject = {};
  const headers: Record<string, string> = fixedHeaders(list);
  let path = list.path;
  for (const [name, value] of fixed) {
    const param = list.params.find((one) => one.name === name);
    if (param?.place === 'path') path = path.replace(`{${name}}`, () => encodeURIComponent(plainText(value)));
    else if (param?.place === 'query' && typeof value !== 'object') query[name] = plainText(value);
    else if (param?.place === 'header') headers[param.sent] = plainText(value);
    else if (param?.place === 'body') body = withValueAt(body, param.sent.split('.'), value);
  }
  const size = paging.size?.param;
  if (size?.place === 'body') body = withValueAt(body, size.sent.split('.'), 1);
  const isPost = list.method === 'POST';
  const sentAs = isPost ? { method: 'POST', safe: true } : {};
  return { ...sentAs, path, ...stated({ query, body: isPost ? body : undefined, headers }) };
}

/** A plan as a member of `entities`, and of `upstream.entities` where the service itself is called. */
function writeEntity(plan: EntityPlan, mode: ModeName, service: ServiceFile, note: NoteAt) {
  const at = ['entities', plan.entity];
  const { fields, key, list } = plan;
  const get = usableGet(plan, service);
  const guess = (text: string): void => note([...at, 'pagination'], `${text} # guessed`);
  const pagination = writePaging(plan.paging, list, mode, guess);
  const changed = fields.filter(({ name, sent }) => name !== sent);
  const params = listParams(plan, mode, pagination.params);
  const actions: Record<string, JsonObject> = { list: { params } };
  if (get !== null) {
    const required = get.params.map(({ name, type }) => [name, { type, required: true }]);
    actions['get'] = { params: Object.fromEntries(required), key: Object.fromEntries(get.columns) };
  }
  const fixed = [...plan.fixed].filter(([name]) => Object.hasOwn(params, name));
  const entity: JsonObject = {
    fields: Object.fromEntries([...plan.injected, ...fields.map(({ name, type }) => [name, type] as const)]),
    ...stated({
      rename: Object.fromEntries(changed.map(({ name, sent }) => [sent, name])),
      key: key.length === 0 ? 'none' : key,
      ...(mode === 'hosted' ? { ...hostedRecords(list), ...emptyRecords(list, service) } : {}),
      actions,
      pagination: pagination.pagination,
      deletes: key.length === 0 ? 'never' : 'confirm',
      fixedParams: Object.fromEntries(fixed),
      parents: plan.parents.map(writeParent),
    }),
  };
  Object.assign(entity, stated({ unproven: guessedIn(entity) }));
  if (mode === 'hosted') return { entity, upstream: null };
  const upstream = stated({
    list: {
      ...writeRequest(list, params, plan),
      records: directRecords(list),
      ...emptyRecords(list, service),
      ...stated({ metadata: pagination.metadata, paging: pagination.paging }),
    },
    get: get === null ? undefined : { ...writeRequest(get.operation, null, null), record: get.record },
    headers: fixedHeaders(list),
  });
  return { entity, upstream };
}

/** The guesses of an entity as an import writes it. */
export function guessedIn(entity: JsonObject): readonly Guess[] {
  const paging = objectIn(entity, 'pagination');
  // `as`: the import writes each parameter as an object with a type.
  const params = Object.entries(
    objectIn(objectIn(objectIn(entity, 'actions'), 'list'), 'params') as Readonly<Record<string, Asked[1]>>,
  );
  const hiding = hidingParams(params, objectIn(entity, 'fixedParams'), Object.values(paging));
  const isHeld: Readonly<Record<Guess, boolean>> = {
    key: entity['key'] !== 'none',
    paging: paging['kind'] !== 'single',
    hidden: hiding.size > 0,
    parent: entity['parents'] !== undefined,
  };
  return guesses.filter((guess) => isHeld[guess]);
}

function writeParent({ parent, params, inject, when }: EntityPlan['parents'][number]): JsonObject {
  const columns = Object.fromEntries([...inject].map(([param, column]) => [column, param]));
  return { entity: parent.entity, params: Object.fromEntries(params), ...stated({ inject: columns, when }) };
}

/** Leaves out members without content: absent ones, empty lists and empty objects. */
export function stated(members: Readonly<Record<string, JsonValue | undefined>>): JsonObject {
  return Object.fromEntries(
    Object.entries(members).flatMap(([name, value]) => {
      const isEmpty = typeof value === 'object' && value !== null && Object.keys(value).length === 0;
      return value === undefined || isEmpty ? [] : [[name, value]];
    }),
  );
}

/** The place of the records in a result of the API: the API has applied the extractor of the file, if there is one. */
function hostedRecords({ records, extractor }: Operation): JsonObject {
  if (records?.isOne === true) return { records: { path: '', one: true } };
  const path = extractor === null ? records?.path.join('.') : '';
  return path === '' ? {} : stated({ records: path });
}

/** Allows null in place of the records where the file does. A status of 204 needs no entry. */
function emptyRecords({ answer, records }: Operation, { schemas }: ServiceFile): JsonObject {
  const place = records === null ? null : schemas.at(answer, records.path);
  return place !== null && schemas.kinds(place).has('null') ? { empty: [null] } : {};
}

function directRecords({ records }: Operation): JsonValue {
  const path = records?.path.join('.') ?? '';
  if (records?.isOne === true) return { path, one: true };
  return records === null || records.wrapped.length === 0 ? path : `${path}[*].${records.wrapped.join('.')}`;
}

/** The list parameters of the definition: those that are sent, and optional ones that a person may use. */
function listParams(plan: EntityPlan, mode: ModeName, ofPaging: Readonly<Record<string, JsonObject>>) {
  const filled = new Set(plan.parents.flatMap(({ params }) => [...params.keys()]));
  const counted = 'param' in plan.paging ? plan.paging.param?.name : undefined;
  const own = plan.list.params.flatMap((param): readonly [string, JsonObject][] => {
    const { name, place, type, schema } = param;
    if (name === counted || Object.hasOwn(ofPaging, name) || type === 'number') return [];
    const isNeeded = filled.has(name) || plan.fixed.has(name);
    if (!isNeeded && (param.isRequired || place === 'header' || place === 'body')) return [];
    if (mode === 'direct' && !isNeeded && type === 'object') return [];
    const isRequired = isNeeded && (filled.has(name) || place === 'path');
    if (!isRequired) {
      const choices = type === 'string' ? textsIn(schema, 'enum') : [];
      return [[name, { type, ...stated({ enum: choices }) }]];
    }
    return [[name, { type: place === 'path' && type !== 'integer' ? 'string' : type, required: true }]];
  });
  return Object.fromEntries([...own, ...Object.entries(ofPaging)]);
}

/**
 * The operation that reads one record, if the file shows where its parameters are in a record and that it is one.
 * `columns`: each parameter with the column that holds its value.
 */
function usableGet(plan: EntityPlan, { schemas }: ServiceFile) {
  const { get, key, fields, parents } = plan;
  if (key.length === 0 || get === null) return null;
  if (get.method !== 'GET' || get.hasOwnServers || get.transform !== null) return null;
  const place = /^\$((?:\.[A-Za-z_][\w-]*)*)$/.exec(get.extractor ?? '$')?.[1];
  if (place === undefined || !/^\/[\w/.~!$'()*+,;=:@{}-]*$/.test(get.path)) return null;
  const path = place.split('.').slice(1);
  const record = schemas.at(get.answer, path);
  const own = key.filter((name) => !plan.injected.has(name));
  const sentKey = own.map((name) => fields.find((field) => field.name === name)?.sent ?? name);
  if (record === null || !sentKey.every((name) => schemas.properties(record).has(name))) return null;
  const injectedBy = new Map(parents.flatMap(({ inject }) => [...inject]));
  const isLinked = (name: string): boolean => parents.some((link) => link.params.has(name));
  const [only, ...others] = own.filter((name) => !isLinked(name));
  const required = neededParams(get);
  const columns = required.flatMap(({ name }): readonly (readonly [string, string])[] => {
    const isAbove = !getsOwnKind(plan.list, get) && plan.list.params.some((param) => param.name === name);
    const above = injectedBy.get(name) ?? (isLinked(name) && own.includes(name) ? name : undefined);
    if (above !== undefined && isAbove) return [[name, above]];
    return only !== undefined && others.length === 0 && namesKey(name, only) ? [[name, only]] : [];
  });
  if (columns.length === 0 || columns.length !== required.length) return null;
  if (!own.every((name) => columns.some(([, column]) => column === name))) return null;
  const params = required.map(
    (param) => ({ name: param.name, type: param.type === 'integer' ? param.type : 'string' }) as const,
  );
  return { operation: get, params, columns, record: path.join('.') };
}

/** Headers with a fixed value. */
function fixedHeaders({ params }: Operation): Readonly<Record<string, string>> {
  const fixed = params.filter(
    ({ place, name, fallback }) =>
      place === 'header' &&
      name.toLowerCase() !== 'content-type' &&
      (fallback ?? null) !== null &&
      !holdsTemplate(fallback),
  );
  return Object.fromEntries(fixed.map(({ name, fallback }) => [name, plainText(fallback)]));
}

/** Names of keys that direct calls fill. */
const directKeys = { token: 'next_page', more: 'has_more', done: 'is_last', total: 'total' } as const;
type KeysOf = (role: keyof typeof directKeys, told: Told | null) => readonly string[];

/**
 * Writes the paging for a mode, with the parameters that it needs. Hosted connectors use the keys of the file; direct
 * ones those that `metadata` and `paging` fill.
 */
function writePaging(paging: Paging, list: Operation, mode: ModeName, guess: (text: string) => void) {
  const { kind, size, total } = paging;
  const isDirect = mode === 'direct';
  const metadata: Record<string, JsonValue> = {};
  /** The keys of a value in the answer; none where the answer does not have it. */
  const keysOf: KeysOf = (role, told) => {
    // A `Link` header proves no next page: on the last page it still has the addresses of earlier pages.
    if (told === null || (isDirect && told.place.header === 'Link')) return [];
    if (!isDirect) return told.key === null ? [] : [told.key];
    metadata[directKeys[role]] = placeOf(told);
    return [directKeys[role]];
  };
  const isCounted = kind === 'page' || kind === 'offset';
  const name = kind === 'single' ? null : (paging.param?.name ?? freeName(list));
  const params: Record<string, JsonObject> = {};
  if (name !== null) params[name] = { type: isCounted ? 'integer' : 'string' };
  const walk: Record<string, JsonValue> = walkOf(paging, name, isDirect, keysOf);
  if (kind === 'page' && paging.isFirstGuessed) guess(`first: ${paging.first}`);
  // A token needs no size: where nothing says how large a page may be, the service decides.
  if (size !== null && kind !== 'single' && (isCounted || !size.isUnknown)) {
    params[size.param.name] = { type: 'integer', min: 1, max: size.max };
    Object.assign(walk, { sizeParam: size.param.name, maxSize: size.max });
    if (size.isGuessed) guess(`maxSize: ${size.max}`);
  } else if (kind === 'page') {
    walk['maxSize'] = 100;
    guess('maxSize: no parameter for the size of a page');
  }
  const more = 'more' in paging ? paging.more : null;
  const isDone = more?.role === 'done';
  // Direct tokens have their flag in the paging of the service.
  const keys = isDirect && kind === 'token' && !isDone ? [] : keysOf(isDone ? 'done' : 'more', more);
  const flags = { [isDone ? 'doneKeys' : 'flagKeys']: keys };
  const pagination = { ...walk, ...stated({ ...flags, totalKeys: keysOf('total', total) }) };
  return { pagination, params, metadata, paging: isDirect ? directPaging(paging) : undefined };
}

/** The parts of a kind of paging, without sizes, flags and totals. `name`: the parameter that asks for a page. */
function walkOf(paging: Paging, name: string | null, isDirect: boolean, keysOf: KeysOf): JsonObject {
  const { kind } = paging;
  switch (kind) {
    case 'single':
      return { kind };
    case 'offset':
      return { kind, offsetParam: name };
    case 'page':
      return { kind, pageParam: name, first: paging.first };
    case 'lastRecord':
      return { kind, tokenParam: name, field: 'id' };
    case 'token': {
      const tokenKeys = isDirect ? [directKeys.token] : keysOf('token', paging.token);
      const flagKeys = isDirect && paging.more?.role === 'flag' ? { flagKeys: [directKeys.more] } : {};
      return { kind: 'pageToken', tokenParam: name, tokenKeys, ...flagKeys };
    }
    case 'address': {
      // Hosted: the token is a parameter of the address. Direct: the parameters of the address are sent.
      const ofAddress = { key: paging.address.key ?? '', param: paging.param?.sent ?? name };
      return { kind: 'pageToken', tokenParam: name, tokenKeys: [isDirect ? directKeys.token : ofAddress] };
    }
  }
}

/** How the service itself pages; undefined: as the definition does. */
function directPaging(paging: Paging): JsonObject | undefined {
  if (paging.kind === 'token') {
    const more = paging.more?.role === 'flag' ? { more: placeOf(paging.more) } : {};
    return { kind: 'cursor', token: placeOf(paging.token), ...more };
  }
  if (paging.kind !== 'address') return undefined;
  // Where the file does not say which parameter of the address is the token, all are sent.
  const keep = paging.param === null ? 'any' : [paging.param.sent];
  const { path } = paging.address.place;
  return path === undefined ? { kind: 'linkHeader', keep } : { kind: 'nextUrl', path, keep };
}

function placeOf({ place }: Told): JsonValue {
  return place.header === undefined ? (place.path ?? '') : { header: place.header };
}

/** A name for the parameter of a position that the file does not name. */
function freeName({ params }: Operation): string {
  const isTaken = (name: string): boolean => params.some((param) => param.name === name);
  return ['next_page', 'next_page_of_listing'].find((name) => !isTaken(name)) ?? 'walk_position';
}

/** Writes the request of an operation. `declared`: its parameters in the definition; null: all required ones. */
function writeRequest(
  operation: Operation,
  declared: Readonly<Record<string, JsonObject>> | null,
  plan: EntityPlan | null,
): JsonObject {
  const { method, path } = operation;
  const isPost = method === 'POST';
  // The paging of the definition sends it in another form.
  const ofPaging = plan?.paging.kind === 'address' ? plan.paging.param?.name : undefined;
  const rules = operation.params.flatMap((param): readonly (readonly [string, JsonObject])[] => {
    const { name, sent, place, type, list, isRequired } = param;
    const isDeclared = declared === null ? isRequired && place !== 'header' : Object.hasOwn(declared, name);
    if (!isDeclared || name === ofPaging) return [];
    const rule: Record<string, JsonValue> = {};
    if (sent !== name && place !== 'body') rule['as'] = sent;
    if (place === 'header') rule['in'] = 'header';
    if (place === 'query' && isPost) rule['in'] = 'query';
    if (place === 'body' && sent !== name) rule['at'] = sent;
    if (place === 'query' && type === 'array') rule['list'] = list;
    return Object.keys(rule).length === 0 ? [] : [[name, rule]];
  });
  const sentAs = isPost ? { method, safe: true } : {};
  return { ...sentAs, path, ...stated({ params: Object.fromEntries(rules) }) };
}

// --- The text of the file

/** The data as YAML without aliases: short lists and maps of scalars on one line, `head` as comments at the top. */
export function writeYaml(data: JsonObject, comments: readonly Comment[], head: readonly string[]): string {
  const document = new Document(data, { aliasDuplicateObjects: false });
  document.commentBefore = head.map((line) => ` ${line}`).join('\n');
  visit(document, {
    Collection: (_, node) => {
      const values = node.items.map((item) => (isPair(item) ? item.value : item));
      node.flow = values.length <= 12 && !values.some((value) => isCollection(value));
    },
  });
  for (const { at, text } of comments) comment(document, at, text);
  return document.toString({ lineWidth: 110, flowCollectionPadding: true });
}

function comment(document: Document, at: YamlPath, text: string): void {
  let node: unknown = document.contents;
  let key: unknown = null;
  for (const step of at) {
    // Within one line there is no room for a comment: it goes above the line.
    if (!isMap(node) || node.flow === true) break;
    const found: Pair | undefined = node.items.find((one) => isScalar(one.key) && one.key.value === step);
    if (found === undefined) break;
    ({ key, value: node } = found);
  }
  if (isScalar(key)) key.commentBefore = [...(key.commentBefore?.split('\n') ?? []), ` ${text}`].join('\n');
}
