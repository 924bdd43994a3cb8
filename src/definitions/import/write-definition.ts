import { basename } from 'node:path';
import { Document, isCollection, isMap, isPair, isScalar, isSeq, type Node, type Pair } from 'yaml';
import { withValueAt, type JsonObject, type JsonValue } from '../../core/json.ts';
import type { YamlPath } from '../read-yaml.ts';
import { type EntityPlan, getsOwnKind, namesKey, neededParams } from './entity-plan.ts';
import { type Operation, type Parameter } from './operation.ts';
import type { Paging, Told } from './paging.ts';
import { holdsTemplate, oneLine, plainText } from './schemas.ts';
import type { ModeName } from './sent-values.ts';
import { uuidOf, type Server, type ServiceFile } from './service-file.ts';
import type { SignIn } from './sign-in-ways.ts';

/** Comments above places of the written file. */
type NoteAt = (at: YamlPath, text: string) => void;

/** The text of a definition file of these entities, each inference with its evidence above it. */
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
  note(['rateLimit'], 'rateLimit # guessed: the file says nothing about limits');
  const used = mode === 'hosted' ? ways : ways.filter(({ auth }) => auth !== null);
  const hostFields = server.kind === 'found' ? Object.keys(server.host) : [];
  const data: Record<string, JsonValue> = {
    name,
    title: isOnly ? service.title : `${service.title} (direct)`,
    // Direct mode needs a type other than the one of the API's catalog, and the same one in every import.
    id: mode === 'hosted' ? service.id : uuidOf(`${service.id} direct`),
    rateLimit: { requestsPerSecond: 2, concurrency: 2 },
    ...stated({ credentials: used.map((way) => credentialsOf(way, hostFields)) }),
    entities: Object.fromEntries(written.map(([entity, { entity: part }]) => [entity, part])),
  };
  if (mode === 'direct' && server.kind === 'found') {
    const requests = written.flatMap(([entity, { upstream }]) =>
      upstream === null ? [] : [[entity, upstream] as const],
    );
    if (server.open !== null) note(['upstream', 'baseUrl'], `TODO ${server.open}`);
    data['upstream'] = upstreamOf(service, used, server, plans, Object.fromEntries(requests), note);
  }
  for (const { at, text } of plans.flatMap(({ open }) => open)) note(at, `TODO ${text}`);
  return { name, text: writeYaml(data, comments, headOf(service, mode)) };
}

function headOf(
  { name, version, sha256, title, file, licenseNote }: ServiceFile,
  mode: ModeName,
): readonly string[] {
  return [
    `${title}: imported for ${mode} connectors from ${name} ${version} (${oneLine(basename(file), 80)}, SHA-256 ${sha256}).`,
    ...licenseNote,
    'Written by "connector-sync definitions import". Comments name the evidence; what is guessed is marked.',
  ];
}

function credentialsOf({ title, fields }: SignIn, hostFields: readonly string[]): JsonObject {
  const entries = Object.entries(fields).map(([name, { secret, required }]) => [
    name,
    { ...(secret ? {} : { secret }), ...(required ? {} : { required }) },
  ]);
  const host = hostFields.filter((name) => !Object.hasOwn(fields, name));
  return {
    title,
    fields: Object.fromEntries([...entries, ...host.map((name) => [name, { secret: false }])]),
  };
}

function upstreamOf(
  service: ServiceFile,
  ways: readonly SignIn[],
  { baseUrl, host }: Extract<Server, { kind: 'found' }>,
  plans: readonly EntityPlan[],
  entities: JsonObject,
  note: NoteAt,
): JsonObject {
  const at = ['upstream'];
  for (const { title, guesses, evidence } of ways) {
    for (const text of evidence) note([...at, 'auth', title], text);
    if (guesses.length > 0) note([...at, 'auth', title], `${guesses.join(', ')} # guessed`);
  }
  note([...at, 'limits'], 'limits # guessed');
  note([...at, 'message'], 'message # guessed: common places of an error text');
  note(
    [...at, 'check'],
    'check: without an identity; an answer with the id of the account would notice another one',
  );
  const fromCredentials = new Map(ways.flatMap(({ headers }) => [...headers]));
  const headers = [...fromCredentials].map(([name, field]) => [name, { field }] as const);
  const isGraphql = plans.some(({ list }) => list.body.isGraphql);
  if (isGraphql) note([...at, 'failed'], 'failed: GraphQL answers an error with status 200');
  return {
    baseUrl,
    ...stated({ host }),
    auth: Object.fromEntries(ways.map(({ title, auth }) => [title, auth])),
    ...stated({ headers: Object.fromEntries(headers) }),
    check: checkOf(service, plans),
    limits: { concurrency: 2, requestsPerSecond: 2, timeoutMs: 60_000, maxBodyBytes: 67_108_864 },
    message: ['message', 'error.message', 'error_description', 'error', 'errors.0.message', 'detail'],
    ...stated({ failed: isGraphql ? { path: 'errors' } : failedOf(service) }),
    entities,
  };
}

/** An answer with status 200 that says in a field that it is none. */
function failedOf({ failed }: ServiceFile): JsonObject | undefined {
  if (failed === null) return undefined;
  const { field, is, message } = failed;
  return { path: field, is, ...(message === null ? {} : { code: message }) };
}

/** The listing that the file prefers for it, or the first one, as a request without parameters. */
function checkOf({ operations }: ServiceFile, plans: readonly EntityPlan[]): JsonObject {
  const roots = plans.filter(({ parents }) => parents.length === 0);
  const preferred = operations.filter(({ isPreferred }) => isPreferred).map(({ entity }) => entity);
  const plan = roots.find(({ entity }) => preferred.includes(entity)) ?? roots[0] ?? plans[0];
  if (plan === undefined) throw new TypeError('expected at least one entity');
  const { list, fixed, paging } = plan;
  const query: Record<string, string> = {};
  let body: JsonObject = list.body.fixed;
  const headers: Record<string, string> = fixedHeaders(list);
  let path = list.path;
  for (const [name, { value }] of fixed) {
    const param = list.params.find((one) => one.name === name);
    if (param?.place === 'path') path = path.replace(`{${name}}`, () => encodeURIComponent(plainText(value)));
    else if (param?.place === 'query' && typeof value !== 'object') query[name] = plainText(value);
    else if (param?.place === 'header') headers[param.sent] = plainText(value);
    else if (param?.place === 'body') body = withValueAt(body, (param.at ?? name).split('.'), value);
  }
  const size = paging.size?.param;
  if (size?.place === 'body') body = withValueAt(body, (size.at ?? size.name).split('.'), 1);
  const isPost = list.method === 'POST';
  const sentAs = isPost ? { method: 'POST', safe: true } : {};
  return { ...sentAs, path, ...stated({ query, body: isPost ? body : undefined, headers }) };
}

/** A plan as a member of `entities`, and of `upstream.entities` where the service itself is called. */
function writeEntity(plan: EntityPlan, mode: ModeName, service: ServiceFile, note: NoteAt) {
  const at = ['entities', plan.entity];
  const { fields, key, list } = plan;
  const get = usableGet(plan, service);
  const pagination = writePaging(plan.paging, list, mode);
  const changed = fields.declared.filter(({ name, sent }) => name !== sent);
  noteEntity(plan, note, at);
  for (const text of pagination.notes) note([...at, 'pagination'], text);
  const params = listParams(plan, mode, pagination.params);
  const actions: Record<string, JsonObject> = { list: { params } };
  if (get !== null) {
    const required = get.params.map(({ name, type }) => [name, { type, required: true }]);
    actions['get'] = { params: Object.fromEntries(required), key: Object.fromEntries(get.columns) };
  }
  const fixed = [...plan.fixed].filter(([name]) => Object.hasOwn(params, name));
  for (const [name, { evidence }] of fixed) note([...at, 'fixedParams', name], `${name}: ${evidence}`);
  const entity: JsonObject = {
    fields: Object.fromEntries([
      ...plan.injected,
      ...fields.declared.map(({ name, type }) => [name, type] as const),
    ]),
    ...stated({
      rename: Object.fromEntries(changed.map(({ name, sent }) => [sent, name])),
      key: key.length === 0 ? 'none' : key,
      ...(mode === 'hosted' ? { ...hostedRecords(list), ...emptyRecords(list, service) } : {}),
      actions,
      pagination: pagination.pagination,
      deletes: key.length === 0 ? 'never' : 'confirm',
      fixedParams: Object.fromEntries(fixed.map(([name, { value }]) => [name, value])),
      parents: plan.parents.map(writeParent),
    }),
  };
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

function noteEntity({ key, keyEvidence, parents, fields }: EntityPlan, note: NoteAt, at: YamlPath): void {
  note([...at, 'key'], `key: ${keyEvidence}`);
  if (fields.declared.length === 0) note([...at, 'fields'], 'the file describes no field of its records');
  if (fields.others.length > 0) {
    note([...at, 'fields'], `undeclared, kept in _extra: ${oneLine(fields.others.join(', '), 200)}`);
  }
  parents.forEach(({ evidence, parent }, index) =>
    note([...at, 'parents', index, 'entity'], `${parent.entity}: ${evidence}`),
  );
  if (key.length > 1) note([...at, 'key'], 'a record may appear under several parents: one row for each');
}

function writeParent({ parent, params, inject, when }: EntityPlan['parents'][number]): JsonObject {
  const columns = Object.fromEntries([...inject].map(([param, column]) => [column, param]));
  return { entity: parent.entity, params: Object.fromEntries(params), ...stated({ inject: columns, when }) };
}

/** Leaves out members without content: absent ones, empty lists and empty objects. */
function stated(members: Readonly<Record<string, JsonValue | undefined>>): JsonObject {
  return Object.fromEntries(
    Object.entries(members).filter((one): one is [string, JsonValue] => {
      const [, value] = one;
      return (
        value !== undefined &&
        !(typeof value === 'object' && value !== null && Object.keys(value).length === 0)
      );
    }),
  );
}

/** The place of the records in a result of the API: the API has applied the extractor of the file. */
function hostedRecords({ records }: Operation): JsonObject {
  if (records === null || (!records.isFound && !records.isOne)) return {};
  const path = records.isFound ? records.path.join('.') : '';
  return { records: records.isOne ? { path, one: true } : path };
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
function listParams(
  plan: EntityPlan,
  mode: ModeName,
  ofPaging: Readonly<Record<string, JsonObject>>,
): Readonly<Record<string, JsonObject>> {
  const filled = new Set(plan.parents.flatMap(({ params }) => [...params.keys()]));
  const counted = 'param' in plan.paging ? plan.paging.param?.name : undefined;
  const own = plan.list.params.flatMap((param): readonly [string, JsonObject][] => {
    const { name, place, type } = param;
    if (name === counted || Object.hasOwn(ofPaging, name) || type === 'number') return [];
    const isNeeded = filled.has(name) || plan.fixed.has(name);
    if (!isNeeded && (param.isRequired || place === 'header' || place === 'body')) return [];
    if (mode === 'direct' && !isNeeded && (type === 'object' || isDropped(plan.list, param))) return [];
    const isRequired = isNeeded && (filled.has(name) || place === 'path');
    return [[name, isRequired ? { type: pathType(param), required: true } : { type }]];
  });
  return Object.fromEntries([...own, ...Object.entries(ofPaging)]);
}

function pathType({ type, place }: Parameter): JsonValue {
  return place === 'path' && type !== 'integer' ? 'string' : type;
}

/** A parameter of a GraphQL request that is no variable of it. */
function isDropped({ body }: Operation, { place }: Parameter): boolean {
  return body.isGraphql && place === 'query';
}

interface UsableGet {
  readonly operation: Operation;
  readonly params: readonly { readonly name: string; readonly type: 'string' | 'integer' }[];
  /** Parameter: column that holds its value. */
  readonly columns: readonly (readonly [string, string])[];
  readonly record: string;
}

/** The operation that reads one record, if the file shows where its parameters are in a record and that it is one. */
function usableGet(plan: EntityPlan, { schemas }: ServiceFile): UsableGet | null {
  const { get, key, fields, parents } = plan;
  if (key.length === 0 || get === null) return null;
  if (get.body.problem !== null || get.hasOwnServers || get.transform !== null) return null;
  if (get.method !== 'GET' && !(get.method === 'POST' && get.body.isGraphql)) return null;
  const place = /^\$((?:\.[A-Za-z_][\w-]*)*)$/.exec(get.extractor ?? '$')?.[1];
  if (place === undefined || !/^\/[\w/.~!$'()*+,;=:@{}-]*$/.test(get.path)) return null;
  const path = place.split('.').slice(1);
  const record = schemas.at(get.answer, path);
  const own = key.filter((name) => !plan.injected.has(name));
  const sentKey = own.map((name) => fields.declared.find((field) => field.name === name)?.sent ?? name);
  if (record === null || !sentKey.every((name) => schemas.properties(record).has(name))) return null;
  const injectedBy = new Map(parents.flatMap(({ inject }) => [...inject]));
  const isLinked = (name: string): boolean => parents.some((link) => link.params.has(name));
  const [only, ...others] = own.filter((name) => !isLinked(name));
  const required = neededParams(get);
  const columns = required.flatMap(({ name, place: where }): readonly (readonly [string, string])[] => {
    if (where === 'query' && get.body.isGraphql) return [];
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
      fallback !== undefined &&
      fallback !== null &&
      !holdsTemplate(fallback),
  );
  return Object.fromEntries(fixed.map(({ name, fallback }) => [name, plainText(fallback)]));
}

/** Paging as a definition says it. */
interface WrittenPaging {
  readonly pagination: JsonObject;
  /** Parameters that it needs, as they must be declared. */
  readonly params: Readonly<Record<string, JsonObject>>;
  /** Keys of `connector_metadata` that direct calls fill; empty for hosted ones. */
  readonly metadata: Readonly<Record<string, JsonValue>>;
  /** How the service itself pages; absent: as the definition does. */
  readonly paging?: JsonObject | undefined;
  readonly notes: readonly string[];
}

/** Names of keys that direct calls fill. */
const directKeys = { token: 'next_page', more: 'has_more', total: 'total' } as const;

/** Writes the paging for a mode. Hosted connectors use the keys of the file, direct ones those that are filled. */
function writePaging(paging: Paging, list: Operation, mode: ModeName): WrittenPaging {
  const { parts, params: sizeParams, notes: sizeNotes } = sizeParts(paging);
  const isDirect = mode === 'direct';
  const metadata: Record<string, JsonValue> = {};
  /** The keys of a value in the answer; none where the answer does not have it. */
  const keysOf = (role: keyof typeof directKeys, told: Told | null): readonly string[] => {
    // A `Link` header proves no next page: on the last page it still has the addresses of earlier pages.
    if (told === null || (isDirect && told.place.header === 'Link')) return [];
    if (!isDirect) return told.key === null ? [] : [told.key];
    metadata[directKeys[role]] = placeOf(told);
    return [directKeys[role]];
  };
  const keys = stated({
    // Direct tokens have their flag in the paging of the service.
    flagKeys: 'more' in paging && !(isDirect && paging.kind === 'token') ? keysOf('more', paging.more) : [],
    totalKeys: keysOf('total', paging.total),
  });
  const { pagination, params, direct, notes = [] } = kindParts(paging, list, isDirect, keysOf);
  return {
    pagination: { ...pagination, ...parts, ...keys },
    params: { ...params, ...sizeParams },
    metadata,
    paging: isDirect ? direct : undefined,
    notes: [`paging: ${paging.evidence}`, ...sizeNotes, ...notes],
  };
}

interface KindParts {
  readonly pagination: JsonObject;
  readonly params: WrittenPaging['params'];
  /** The paging of a service that is called directly, where it differs. */
  readonly direct?: JsonObject;
  readonly notes?: readonly string[];
}

/** Parts of a definition for a kind of paging, without sizes, flags and totals. */
function kindParts(
  paging: Paging,
  list: Operation,
  isDirect: boolean,
  keysOf: (role: 'token', told: Told | null) => readonly string[],
): KindParts {
  switch (paging.kind) {
    case 'single':
      return { pagination: { kind: 'single' }, params: {} };
    case 'offset': {
      const { name } = paging.param;
      return { pagination: { kind: 'offset', offsetParam: name }, params: { [name]: { type: 'integer' } } };
    }
    case 'page': {
      const { param, first, isFirstGuessed, size } = paging;
      const pagination = {
        kind: 'page',
        pageParam: param.name,
        first,
        ...(size === null && { maxSize: 100 }),
      };
      const notes = [
        ...(isFirstGuessed ? [`first: ${first} # guessed`] : []),
        ...(size === null ? ['maxSize: 100 # guessed; no parameter for the size of a page'] : []),
      ];
      return { pagination, params: { [param.name]: { type: 'integer' } }, notes };
    }
    case 'lastRecord': {
      const { name } = paging.param;
      const pagination = { kind: 'lastRecord', tokenParam: name, field: 'id' };
      return { pagination, params: { [name]: { type: 'string' } } };
    }
    case 'token': {
      const { param, token, more } = paging;
      const tokenKeys = isDirect ? [directKeys.token] : keysOf('token', token);
      const flagKeys = isDirect && more !== null ? [directKeys.more] : [];
      return {
        pagination: { kind: 'pageToken', tokenParam: param.name, tokenKeys, ...stated({ flagKeys }) },
        params: { [param.name]: { type: 'string' } },
        direct: {
          kind: 'cursor',
          token: placeOf(token),
          ...stated({ more: more === null ? undefined : placeOf(more) }),
        },
      };
    }
    case 'address':
      return addressParts(paging, list, isDirect);
  }
}

function addressParts(
  { param, address }: Extract<Paging, { readonly kind: 'address' }>,
  list: Operation,
  isDirect: boolean,
): KindParts {
  // Hosted: the token is a parameter of the address. Direct: the parameters of the address are sent.
  const name = param?.name ?? freeName(list, ['next_page', 'next_page_of_listing']);
  const sent = param?.sent ?? name;
  const tokenKeys = isDirect ? [directKeys.token] : [{ key: address.key ?? '', param: sent }];
  // The file does not say which parameter of the address is the token.
  const keep = param === null ? 'any' : [sent];
  const { path } = address.place;
  const direct = path === undefined ? { kind: 'linkHeader', keep } : { kind: 'nextUrl', path, keep };
  return {
    pagination: { kind: 'pageToken', tokenParam: name, tokenKeys },
    params: { [name]: { type: 'string' } },
    direct,
  };
}

/** A token needs no size: where nothing says how large a page may be, the service decides. */
function sizeParts({ kind, size }: Paging) {
  const isOpen = size?.evidence === 'guessed' && kind !== 'page' && kind !== 'offset';
  if (size === null || isOpen || kind === 'single') return { params: {}, parts: {}, notes: [] };
  const { param, max, evidence } = size;
  const from = evidence === 'guessed' ? '100' : evidence;
  return {
    params: { [param.name]: { type: 'integer', min: 1, max } },
    parts: { sizeParam: param.name, maxSize: max },
    notes: [`maxSize: ${from} of ${param.name}${evidence === 'maximum' ? '' : ' # guessed'}`],
  };
}

function placeOf({ place }: Told): JsonValue {
  return place.header === undefined ? (place.path ?? '') : { header: place.header };
}

function freeName({ params }: Operation, names: readonly string[]): string {
  return names.find((name) => !params.some((param) => param.name === name)) ?? 'walk_position';
}

/** Writes the request of an operation. `declared`: its parameters in the definition; null: all required ones. */
function writeRequest(
  operation: Operation,
  declared: Readonly<Record<string, JsonObject>> | null,
  plan: EntityPlan | null,
): JsonObject {
  const { method, path, body } = operation;
  const isPost = method === 'POST';
  const ofPaging = plan === null ? new Set<string>() : sentByPaging(plan);
  const rules = operation.params.flatMap((param): readonly (readonly [string, JsonObject])[] => {
    const { name, sent, place, at, type, list, isRequired } = param;
    const isDeclared = declared === null ? isRequired && place !== 'header' : Object.hasOwn(declared, name);
    if (!isDeclared || ofPaging.has(name)) return [];
    const rule: Record<string, JsonValue> = {};
    if (sent !== name && place !== 'body') rule['as'] = sent;
    if (place === 'header') rule['in'] = 'header';
    if (place === 'query' && isPost) rule['in'] = 'query';
    if (place === 'body' && at !== null) rule['at'] = at;
    if (place === 'query' && type === 'array') rule['list'] = list;
    return Object.keys(rule).length === 0 ? [] : [[name, rule]];
  });
  const sentAs = isPost ? { method, safe: true } : {};
  return { ...sentAs, path, ...stated({ body: body.fixed, params: Object.fromEntries(rules) }) };
}

/** Parameters that the paging of the definition sends in another form. */
function sentByPaging({ paging }: EntityPlan): ReadonlySet<string> {
  return new Set(paging.kind === 'address' && paging.param !== null ? [paging.param.name] : []);
}

// --- The text of the file

/** A comment above a place of the file. */
interface Comment {
  readonly at: YamlPath;
  readonly text: string;
}

/** The data as YAML without aliases: short lists and maps on one line, `head` as comments at the top. */
function writeYaml(data: JsonObject, comments: readonly Comment[], head: readonly string[]): string {
  const document = new Document(data, { aliasDuplicateObjects: false });
  document.commentBefore = head.map((line) => ` ${line}`).join('\n');
  flow(document.contents);
  for (const { at, text } of comments) comment(document, at, text);
  return document.toString({ lineWidth: 110, flowCollectionPadding: true });
}

const longestFlow = 90;

/** Collections of scalars stand on one line, if they fit there. */
function flow(node: unknown): number {
  if (isPair(node)) return flow(node.key) + flow(node.value) + 4;
  if (isScalar(node)) {
    // A text of several lines is written as one.
    return typeof node.value === 'string' && /\n/.test(node.value) ? 1_000 : String(node.value).length;
  }
  if (!isCollection(node)) return 4;
  const width = node.items.reduce<number>((sum, item) => sum + flow(item), 2);
  const isShallow = node.items.every((item) => {
    const value: unknown = isPair(item) ? item.value : item;
    return !isCollection(value) || value.flow === true;
  });
  if (isShallow && (isSeq(node) || width <= longestFlow) && node.items.length <= 12) node.flow = true;
  return node.flow === true ? width : 1_000;
}

function comment(document: Document, at: YamlPath, text: string): void {
  let node: unknown = document.contents;
  let pair: Pair | null = null;
  for (const step of at) {
    if (isMap(node)) {
      const found: Pair | undefined = node.items.find(({ key }) => isScalar(key) && key.value === step);
      if (found === undefined) break;
      // Within one line there is no room for a comment: it goes above the line.
      if (node.flow === true) break;
      pair = found;
      node = found.value;
    } else if (isSeq(node)) {
      if (node.flow === true) break;
      node = node.items[Number(step)];
    } else break;
  }
  const key = pair?.key;
  if (isScalar(key)) key.commentBefore = added(key, text);
}

function added({ commentBefore }: Node, text: string): string {
  return commentBefore === null || commentBefore === undefined ? ` ${text}` : `${commentBefore}\n ${text}`;
}
