import type { JsonObject } from '../../core/json.ts';
import type { EntityFile } from '../definition-file.ts';
import type { Operation, Parameter } from './operation.ts';
import { inferPaging, placeText, type Paging } from './paging.ts';
import {
  columnName,
  oneLine,
  singular,
  holdsTemplate,
  plainText,
  type FieldType,
  textIn,
  wordsOf,
  type Schemas,
} from './schemas.ts';
import {
  guessedValues,
  valuesSent,
  type FixedValues,
  type ModeName,
  type Comment,
  type Sources,
} from './sent-values.ts';
import type { Relationship } from './service-file.ts';

/** The result of converting one entity of the file in one mode. */
export type Outcome<Converted extends Plan = Plan> =
  | { readonly kind: 'converted'; readonly plan: Converted }
  | { readonly kind: 'refused'; readonly why: string };

export function refused(why: string) {
  return { kind: 'refused', why } as const;
}

/** A converted entity, before it is written. */
export interface Plan {
  readonly entity: string;
  /** Key, paging and parents in one line. */
  readonly summary: string;
  /** Guesses that a person has to confirm or to replace before the entity is synced. */
  readonly open: readonly Comment[];
}

/** Everything that a definition says of an entity of an OpenAPI file. */
export interface EntityPlan extends Plan {
  readonly list: Operation;
  readonly get: Operation | null;
  readonly fields: readonly Field[];
  /** Columns that parents fill, and their types. */
  readonly injected: ReadonlyMap<string, FieldType>;
  /** Fields of the key; empty: the records have none. */
  readonly key: readonly string[];
  readonly parents: readonly ParentLink[];
  readonly paging: Paging;
  readonly fixed: FixedValues;
}

/** Plans the conversion of a list operation. */
function planEntity(
  list: Operation,
  mode: ModeName,
  sources: Sources,
  parentOf: ParentOf,
): Outcome<EntityPlan> {
  const { schemas } = sources.service;
  const { entity } = list;
  const reason = refusedAlways(list) ?? (mode === 'hosted' ? refusedHosted(list) : refusedDirect(list));
  if (reason !== null) return refused(reason);
  const found = inferPaging(list, schemas);
  if (typeof found === 'string') return refused(found);
  const { paging } = found;
  const unread = mode === 'hosted' ? unreadPaging(paging) : null;
  if (unread !== null) return refused(unread);
  const fields = fieldsOf(list.records?.record ?? {}, schemas);
  const get = sources.getOf(entity);
  const key = inferKey(entity, fields, get, sources.service.isPlain);
  const sent = valuesSent(list, paging, mode, sources);
  if (sent.refused !== null) return refused(sent.refused);
  const own = new Map(fields.map(({ name, type }) => [name, type] as const));
  const links = findParents(list, sent.open, own, sources, parentOf);
  if (links.refused !== null) return refused(links.refused);
  const values = guessedValues(list, sent.asked, links.missing);
  const identity = identityOf(key, links.found, own, list, get);
  const parents = links.found.map((link) => withoutFilters(link, list, identity.key));
  const injected = injectedBy(parents);
  const missing = identity.key.filter(
    (name) => !['string', 'integer'].includes(own.get(name) ?? injected.get(name) ?? ''),
  );
  if (missing.length > 0) {
    return refused(`a key consists of string and integer fields of the record, ${missing[0]} is none`);
  }
  const open = [
    ...openPlace(list, mode),
    ...openAt(entity, 'actions', partOf(list, sources.service.isPlain)),
    ...openAt(entity, 'pagination', found.open),
    ...links.asked.flatMap((text) => openAt(entity, 'parents', text)),
    ...openAt(entity, 'key', identity.open),
    ...values.open,
  ];
  const fixed = new Map([...sent.fixed, ...values.fixed]);
  const row = { key: identity.key, fields, injected };
  const plan = { entity, list, get, ...row, parents, paging, fixed, open };
  return { kind: 'converted', plan: { ...plan, summary: summaryOf(plan) } };
}

const pagingWords: Readonly<Record<Exclude<Paging['kind'], 'single'>, string>> = {
  token: 'pages by token',
  address: 'pages by the next address',
  page: 'pages by number',
  offset: 'pages by offset',
  lastRecord: 'pages by the last record',
};

function summaryOf({ key, paging, parents, fields, list }: Omit<EntityPlan, 'summary'>): string {
  const above = parents.map(({ parent }) => parent.entity).join(', ');
  const isNested = fields.some(({ name }) => name === 'has_children');
  return [
    `key ${key.join(', ') || 'none'}`,
    paging.kind === 'single' ? 'one page' : pagingWords[paging.kind],
    ...(above === '' ? [] : [`below ${above}`]),
    ...(list.isDeprecated ? ['deprecated by the file'] : []),
    ...(isNested ? ['listings inside its listings are not read'] : []),
  ].join('; ');
}

function openAt(entity: string, part: string, text: string | null): readonly Comment[] {
  return text === null ? [] : [{ at: ['entities', entity, part], text }];
}

/** Columns that parents fill, and their types. */
function injectedBy(parents: readonly ParentLink[]): EntityPlan['injected'] {
  return new Map(
    parents.flatMap(({ parent, params, inject }) =>
      [...inject].map(
        ([param, column]) => [column, parent.fields.get(params.get(param) ?? '') ?? 'string'] as const,
      ),
    ),
  );
}

/**
 * A record may be in the listings of several values of an optional parameter. Where it is one row all the same, a
 * column with the value would change with each of them.
 */
function withoutFilters(link: ParentLink, { params }: Operation, key: readonly string[]): ParentLink {
  const isFilter = (name: string): boolean =>
    params.some((param) => param.name === name && !param.isRequired);
  const kept = [...link.inject].filter(([name, column]) => key.includes(column) || !isFilter(name));
  return { ...link, inject: new Map(kept) };
}

/** Asks which of several lists in an answer has the records, where the file names none: the first one is taken. */
function openPlace({ entity, places }: Operation, mode: ModeName): readonly Comment[] {
  if (places.length < 2) return [];
  const named = oneLine(places.map(({ path }) => path.join('.')).join(', '));
  const at =
    mode === 'hosted' ? ['entities', entity, 'records'] : ['upstream', 'entities', entity, 'list', 'records'];
  return [{ at, text: `write which of the lists in an answer has the records: ${named}` }];
}

const partial =
  /^(?:test|preview|search|query|find|lookup|auto ?complete|complet(?:e|ions?)|suggest(?:ions?)?|type ?ahead|validat(?:e|ion)|check|dry ?run|simulat(?:e|ion)|estimate|samples?|examples?|recent|latest|top|popular|trending|featured|random|match(?:es)?)$/;

const recent =
  /\b(?:only|past|last|previous)\s+(?:\d+|one|two|three|six|seven|twelve|thirty|few)?\s*(?:hour|day|week|month|quarter|year)s?\b/i;

/**
 * A listing that may have a part of the records: recent ones, or by the end of its path (`/rules/{id}/test`) a result.
 * In a connector.yaml the author calls it a list.
 */
function partOf({ path, description }: Operation, isPlain: boolean): string | null {
  const sentence = description
    .split(/(?<=[.!?])\s+/)
    .find((one) => recent.test(one) && !/\bby default\b|\bunless\b/i.test(one));
  if (sentence !== undefined) {
    return `remove the entity, or write deletes: never: "${oneLine(sentence, 120)}"`;
  }
  const name = path.split('/').findLast((one) => /^[\w.-]+$/.test(one)) ?? '';
  const words = wordsOf(name.replace(/\.json$/, ''));
  const last = [words.slice(-2).join(' '), words.at(-1) ?? ''].find((one) => partial.test(one));
  if (!isPlain || last === undefined) return null;
  return `remove the entity, unless ${path} lists all records: it ends in ${last}`;
}

const writeKey = 'write the fields that identify a record, or none';

/**
 * The key of a row: the record's key, preceded by the values that identify its listing unless the id is known to be
 * unique. A guess has `open`, which says what to write.
 */
function identityOf(
  found: KeyFound,
  links: readonly ParentLink[],
  own: ReadonlyMap<string, FieldType>,
  list: Operation,
  get: Operation | null,
): KeyFound {
  const { key } = found;
  const [link, ...others] = links;
  if (found.open !== null || link === undefined) return found;
  const [param, ...more] = neededParams(get);
  const isAlone =
    param !== undefined &&
    more.length === 0 &&
    (!link.params.has(param.name) || getsOwnKind(list, get)) &&
    key.some((name) => namesKey(param.name, name));
  if (isAlone) return found;
  const columnsOf = ({ inject, params }: ParentLink): readonly string[] =>
    [...params.keys()].flatMap((name) => inject.get(name) ?? (own.has(name) ? [name] : []));
  const above = columnsOf(link);
  if (!others.every((other) => above.every((column) => columnsOf(other).includes(column)))) {
    const by = links.map(({ parent }) => parent.entity).join(' and ');
    const open = `${writeKey}: its listings are found by ${by}, and is ${key.join(', ')} unique among all of them?`;
    return { key, open };
  }
  // No get shows that it is unique alone.
  return { key: [...above.filter((column) => !key.includes(column)), ...key], open: null };
}

/** Converts every entity with a listing, in the order of a definition: parents before their children. */
export function judgeEntities(mode: ModeName, sources: Sources): ReadonlyMap<string, Outcome<EntityPlan>> {
  const found = new Map<string, Outcome<EntityPlan>>();
  const open = new Set<string>();
  const listByEntity = new Map(sources.listings.map((list) => [list.entity, list]));
  const requestByEntity = new Map(sources.listings.map((list) => [list.entity, requestText(list)]));
  const judge = (list: Operation): Outcome<EntityPlan> => {
    const { entity } = list;
    const known = found.get(entity);
    if (known !== undefined) return known;
    open.add(entity);
    const request = requestByEntity.get(entity);
    const [other] = [...requestByEntity].find(([name, one]) => name !== entity && one === request) ?? [];
    const why = `its request is that of ${other}: both would have the same records`;
    const outcome = other === undefined ? planEntity(list, mode, sources, parentOf) : refused(why);
    open.delete(entity);
    found.set(entity, outcome);
    return outcome;
  };
  const parentOf: ParentOf = (entity) => {
    const list = listByEntity.get(entity);
    if (list === undefined) return 'has no listing in the file';
    if (open.has(entity)) return 'is found by way of it: parents form a cycle';
    const outcome = judge(list);
    return outcome.kind === 'converted'
      ? asParent(outcome.plan, sources.service.schemas)
      : `cannot be read: ${outcome.why}`;
  };
  for (const list of sources.listings) judge(list);
  return found;
}

function asParent({ entity, fields, injected, key, parents, list, fixed }: EntityPlan, schemas: Schemas) {
  const own = fields.flatMap(({ name, type, schema }): readonly (readonly [string, FieldType])[] => [
    [name, type],
    ...[...schemas.properties(schema)].map(
      ([inner, one]) => [`${name}.${inner}`, schemas.typeOf(one)] as const,
    ),
  ]);
  const columns = new Map([...injected, ...own]);
  const byParam = parents.flatMap(({ inject }) => [...inject]);
  const same = list.params
    .filter(({ name, isRequired }) => isRequired && columns.has(name) && !fixed.has(name))
    .map(({ name }): readonly [string, string] => [name, name]);
  return {
    entity,
    /** Columns and their types, injected ones and members of objects (`attributes.code`) too. */
    fields: columns as ReadonlyMap<string, FieldType>,
    columnBySent: new Map(fields.map(({ sent, name }) => [sent, name])),
    /** Column by the list parameter whose value it holds. */
    columnByParam: new Map([...same, ...byParam]),
    key,
  };
}

/** Equal for equal requests: the values that are sent with every call, and the place of the records in the answer. */
function requestText(list: Operation): string {
  const { method, path, params, records, filter } = list;
  const named = params.map(({ sent, place, fallback, isRequired }) => {
    return JSON.stringify([place, sent, fallback ?? null, isRequired]);
  });
  return JSON.stringify([method, path, named.toSorted(), records?.path, records?.wrapped, filter]);
}

/** Looks up the result of another entity; a text says why it cannot be a parent. */
type ParentOf = (entity: string) => KnownParent | string;

/**
 * The ways to find the listings of an entity whose required parameters are `open`; `missing`: no entity has values of
 * them.
 */
function findParents(
  list: Operation,
  open: readonly Parameter[],
  own: ReadonlyMap<string, FieldType>,
  { service, listings }: Sources,
  parentOf: ParentOf,
) {
  const free = open.filter(({ name }) => !service.scoped.has(name));
  const candidates = parentCandidates(list, free, service.relationships, listings).filter(
    ({ parent }) => parent !== list.entity,
  );
  const links = new Map<string, ParentLink>();
  const asked: string[] = [];
  if (candidates.length === 0) return { found: [], missing: open, asked, refused: null };
  const problems: string[] = [];
  const missing = new Set(open.filter(({ name }) => service.scoped.has(name)));
  for (const candidate of candidates) {
    if (links.has(candidate.parent)) continue;
    const parent = parentOf(candidate.parent);
    const way =
      typeof parent === 'string'
        ? `its parent ${candidate.parent} ${parent}`
        : linkParent(candidate, parent, free, candidates, own);
    if (typeof way === 'string') problems.push(way);
    else {
      links.set(candidate.parent, way.link);
      for (const param of way.unresolved) missing.add(param);
      asked.push(...way.asked);
    }
  }
  const refused = links.size === 0 ? (problems[0] ?? 'its parents cannot be read') : null;
  return { found: [...links.values()], missing: [...missing], asked, refused };
}

/** Facts about a parent in the definition that its children need. */
type KnownParent = ReturnType<typeof asParent>;

/** One way to find the listings of an entity. */
interface ParentLink {
  readonly parent: KnownParent;
  /** List parameter: column of the parent. */
  readonly params: ReadonlyMap<string, string>;
  /** Parameters whose values rows do not have yet: parameter and the column it fills. */
  readonly inject: ReadonlyMap<string, string>;
  readonly when: EntityFile['parents'][number]['when'];
}

/** A place to look for the values of a parameter; `field`: null: the parent's key. */
type Candidate = Omit<Relationship, 'child' | 'field'> & { readonly field: string | null };

/** The sources that the file gives for the values of these parameters: its relationships, or the paths of listings. */
function parentCandidates(
  { entity: child, path: ownPath }: Operation,
  open: readonly Parameter[],
  relationships: readonly Relationship[],
  listings: readonly Operation[],
): readonly Candidate[] {
  return open.flatMap(({ name, place }): readonly Candidate[] => {
    const stated = relationships.filter((one) => one.child === child && one.param === name);
    if (stated.length > 0) return stated;
    const end = place === 'path' ? ownPath.indexOf(`/{${name}}`) : -1;
    const [above, ...more] = listings.filter(
      ({ path, entity }) => end >= 0 && path.replace(/\/$/, '') === ownPath.slice(0, end) && entity !== child,
    );
    if (above === undefined || more.length > 0) return [];
    return [{ parent: above.entity, param: name, field: null, when: null }];
  });
}

/**
 * Links a listing to one parent. A parameter without a relationship to that parent takes its value from the same
 * parameter of the parent's listing. A text says why no link is possible.
 */
function linkParent(
  { field, param, when }: Candidate,
  parent: KnownParent,
  open: readonly Parameter[],
  others: readonly Candidate[],
  ownFields: ReadonlyMap<string, FieldType>,
) {
  const params = new Map<string, string>();
  const fromAbove = new Set(parent.columnByParam.values());
  const [onlyKey, ...moreKeys] = parent.key.filter((part) => !fromAbove.has(part));
  const singleKey = moreKeys.length === 0 ? onlyKey : undefined;
  const unresolved: Parameter[] = [];
  const asked: string[] = [];
  for (const one of open) {
    const { name, sent } = one;
    const stated = others.find((other) => other.param === name && other.parent === parent.entity);
    const wanted = name === param ? field : stated?.field;
    const column =
      wanted === undefined
        ? parent.columnByParam.get(name)
        : wanted === null
          ? (namedIn(parent, sent) ?? singleKey)
          : parent.columnBySent.get(wanted);
    // `{user_id}` is the key `id`, or a field of that name; `{code}` may be neither.
    const isSure = singleKey === undefined || namesKey(name, singleKey) === (column === singleKey);
    if (wanted === null && !isSure && column !== undefined) {
      const fields = [...new Set([column, singleKey])].join(' or ');
      asked.push(`write which field of ${parent.entity} fills ${name}: ${fields}?`);
    }
    if (column !== undefined) params.set(name, column);
    else if (name === param) return `its parent ${parent.entity} has no field ${field ?? 'that is its key'}`;
    else if (others.every((other) => other.param !== name)) unresolved.push(one);
    else return `it has two independent parents: no record of ${parent.entity} has a value of ${name}`;
  }
  const inject = new Map<string, string>();
  for (const [name, column] of params) {
    const target = injectedColumn(name, parent.entity, parent.fields.get(column), ownFields);
    if (target === null) return `the parameter ${name} would hide a field of the record with this name`;
    if (target !== '') inject.set(name, target);
  }
  const listed = when === null ? undefined : parent.columnBySent.get(when.field);
  const conditions: ParentLink['when'] =
    when === null || listed === undefined ? [] : [{ kind: 'in', field: listed, values: [...when.values] }];
  const link: ParentLink = { parent, params, inject, when: conditions };
  return { link, unresolved, asked };
}

/** The column with the name that the service gives a field, or the member of an object with that name. */
function namedIn({ columnBySent, fields }: KnownParent, sent: string): string | undefined {
  return columnBySent.get(sent) ?? [...fields.keys()].find((path) => path.endsWith(`.${sent}`));
}

/** An empty text: the record has the value under this name already. */
function injectedColumn(
  param: string,
  parent: string,
  type: FieldType | undefined,
  own: ReadonlyMap<string, FieldType>,
): string | null {
  const plain = columnName(param);
  if (plain !== null && !own.has(plain)) return plain;
  // The record's own id is another one than that of its parent.
  if (plain !== null && plain !== 'id' && own.get(plain) === type) return '';
  const named = columnName(`${singular(parent)}_${param === 'id' ? 'id' : param}`);
  return named === null || own.has(named) ? null : named;
}

/** The reason why an operation cannot be a listing of a definition, whatever a person writes. */
function refusedAlways(list: Operation): string | null {
  const { entity, method, hasOwnServers, needsCookie, path, extractor, records, description } = list;
  if (columnName(entity) !== entity) {
    return 'its name cannot be that of a table: lower-case words joined by _';
  }
  if (method !== 'GET' && method !== 'POST') return `it is a ${oneLine(method, 20)}, not a GET or POST`;
  if (hasOwnServers) return 'it has an address apart from that of the service';
  if (needsCookie) return 'it needs a cookie: none is ever sent';
  if (/\breturns a sample of\b/i.test(description)) {
    return `it lists a sample only: "${oneLine(description, 200)}"`;
  }
  if (holdsTemplate(path)) return 'its path holds a template';
  if (records !== null) return null;
  return extractor === null
    ? 'the file does not say where in the answer its records are'
    : `the place of its records is of a form that is not known: ${oneLine(extractor, 80)}`;
}

/** The reason why only the first page can be requested from an API; null: all pages can. */
function unreadPaging(paging: Paging): string | null {
  if (paging.kind === 'token' && paging.token.key === null) {
    return `page 1 only: the token in ${placeText(paging.token)} is in no key of connector_metadata`;
  }
  if (paging.kind === 'address' && (paging.param === null || paging.address.key === null)) {
    return `page 1 only: the API takes no parameter of the next address in ${placeText(paging.address)}`;
  }
  return null;
}

function refusedHosted({ action, params }: Operation): string | null {
  if (action !== 'list') return 'the API offers no list of it, only a search of the service';
  const unnamed = params.find(({ sent, name, isRequired }) => isRequired && sent !== name) ?? null;
  return unnamed && `its parameter ${oneLine(unnamed.sent, 60)} cannot be declared`;
}

const ownHeaders = new Set(['content-type', 'authorization', 'host', 'cookie', 'content-length']);

function refusedDirect(list: Operation): string | null {
  const { body, filter, transform, path, params } = list;
  if (transform !== null) return 'its records are made by a template';
  if (filter !== null) return `its records are filtered by a template: ${oneLine(filter, 80)}`;
  if (body.problem !== null) return body.problem;
  if (!/^\/[\w/.~!$'()*+,;=:@{}-]*$/.test(path)) {
    return `its path has signs that are not sent: ${oneLine(path, 80)}`;
  }
  const header = params.find(({ place, name }) => place === 'header' && ownHeaders.has(name.toLowerCase()));
  if (header !== undefined && plainText(header.fallback) !== 'application/json') {
    return `its header ${header.name} is set by this program, the service expects another value`;
  }
  return null;
}

/** A field of a record, as the service names it and as a column can. */
type Field = ReturnType<typeof fieldsOf>[number];

/** A file that declares more is a mistake, or hostile. */
const mostFields = 1_000;

/** The fields that the file gives a record, as far as a column can be named after them. */
export function fieldsOf(record: JsonObject, schemas: Schemas) {
  const required = schemas.required(record);
  const properties = new Map([...schemas.properties(record)].slice(0, mostFields));
  const taken = new Set<string>();
  return [...properties].flatMap(([sent, schema]) => {
    const name = columnName(sent);
    // A field that has its name already keeps it.
    if (name === null || taken.has(name) || (name !== sent && properties.has(name))) return [];
    taken.add(name);
    // Required: the file says that every record has it.
    const [isRequired, isNullable] = [required.has(sent), schemas.kinds(schema).has('null')];
    return [{ sent, name, type: schemas.typeOf(schema), schema, isRequired, isNullable }];
  });
}

/** `open`: the key is a guess, and this says what a person has to write; null: the file shows it. */
type KeyFound = ReturnType<typeof inferKey>;

const names = ['id', 'gid', 'sid', 'uuid', 'guid', 'uid'];

/**
 * The field that identifies a record, as far as the file shows it. In a plain file, which was not written for imports,
 * only a field is a key that every record has, or that reads one record.
 */
export function inferKey(entity: string, fields: readonly Field[], get: Operation | null, isPlain: boolean) {
  const asked = neededParams(get);
  const declared = fields.filter(({ type }) => type === 'string' || type === 'integer');
  const isProven = ({ isRequired, isNullable, name }: Field): boolean =>
    !isPlain || (isRequired && !isNullable) || asked.some((param) => namesKey(param.sent, name));
  const usable = declared.filter(isProven);
  const plain = singular(entity).replaceAll('_', '');
  const usual = names.flatMap((name) => usable.find((field) => field.name === name) ?? [])[0];
  const found =
    usual ??
    usable.find(({ sent }) => asked.some((param) => param.sent === sent)) ??
    usable.find(({ name }) => ['id', 'gid'].some((end) => name.replaceAll('_', '') === plain + end));
  const isOther = usual !== undefined && speaksOfAnother(usual, entity);
  if (found !== undefined && !isOther) return { key: [found.name], open: null };
  const unsure = declared.find((field) => names.includes(field.name) && !isProven(field));
  const why = isOther
    ? `its field ${usual.sent} seems to be the id of something else: "${textIn(usual.schema, 'description')}"`
    : unsure === undefined
      ? 'no field of its records is known to identify them'
      : `its field ${unsure.sent} may be ${unsure.isNullable ? 'null' : 'absent'}, by the file`;
  const likely = declared.filter(
    ({ isRequired, name }) => isRequired || /(?:^|_)(?:id|key|code|date|name)$/.test(name),
  );
  const candidates = (likely.length > 0 ? likely : declared).map(({ name }) => name);
  const perhaps = candidates.length === 0 ? '' : ` (perhaps ${oneLine(candidates.join(', '), 100)})`;
  return { key: candidates.slice(0, 1), open: `${writeKey}${perhaps}: ${why}` };
}

const isShared = /\bnot unique\b|\bunique (?:only )?(?:within|per|in|inside|for)\b|\bparent\b/i;
const idOf =
  /\bid(?:entifier)?s? of (?:the|an?) ([a-z][a-z ]{2,60}?)(?: (?:that|who|which|this|to)\b|[.,;(]|$)/i;

/** `id: The id of the user who wrote it`, in an entity of comments; or one that is unique within its order only. */
function speaksOfAnother({ schema }: Field, entity: string): boolean {
  const description = textIn(schema, 'description') ?? '';
  if (isShared.test(description)) return true;
  const of = idOf.exec(description)?.[1];
  if (of === undefined || !/\b(?:that|who|which|this|to)\b/i.test(description)) return false;
  const words = new Set([...wordsOf(entity), ...wordsOf(singular(entity))]);
  return !wordsOf(of).some((word) => words.has(word) || words.has(singular(word)));
}

/**
 * `/blocks/{block_id}` for the listing `/blocks/{block_id}/children` of blocks: records are listed below one of their
 * own kind, so `get` takes the id of the record that it reads, and not that of its parent.
 */
export function getsOwnKind(list: Operation, get: Operation | null): boolean {
  const [param, ...more] = neededParams(get);
  if (get === null || param === undefined || more.length > 0) return false;
  const isBelow = get.path.endsWith(`/{${param.name}}`) && list.path.startsWith(`${get.path}/`);
  return isBelow && wordsOf(param.name).join('_') === `${singular(list.entity)}_id`;
}

/** Parameters that a request for one record requires. */
export function neededParams(get: Operation | null): Operation['params'] {
  return get?.params.filter(({ isRequired, place }) => isRequired && place !== 'header') ?? [];
}

/** `note_id` and `idOrKey` name an `id`; `slug` does not. */
export function namesKey(param: string, key: string): boolean {
  const words = wordsOf(param);
  return words.join('_') === key || words.includes(key) || (key.endsWith('id') && words.at(-1) === 'id');
}
