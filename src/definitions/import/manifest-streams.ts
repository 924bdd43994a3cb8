import { isJsonArray, type JsonObject, type JsonValue } from '../../core/json.ts';
import type { Outcome, Plan } from './entity-plan.ts';
import { readChanges, type Changes } from './manifest-changes.ts';
import type { Component, Manifest } from './manifest-file.ts';
import type { Need } from './manifest-language.ts';
import { fixedTexts, readPaging, type PagingFound } from './manifest-paging.ts';
import { readFilter, readPlace, readRecords, type Reached, type Records } from './manifest-records.ts';
import { placeOfOption, readRequest, type Request } from './manifest-request.ts';
import { readSigning, type Signing } from './manifest-sign-in.ts';
import { refuse, Refusal, sentBy, type Setting, type Settings, type Use } from './manifest-values.ts';
import { columnName, plainText, singular, wordsOf, type FieldType } from './schemas.ts';
import type { OpenQuestion } from './sent-values.ts';
import { stated, type Comment } from './write-definition.ts';

/** Everything that a definition says of a stream. */
export interface StreamPlan extends Plan {
  /** The member of `entities`: written when all children have named the fields that they need. */
  readonly write: () => JsonObject;
  readonly upstream: JsonObject;
  readonly comments: readonly Comment[];
  readonly needs: ReadonlySet<Need>;
  readonly used: readonly Setting[];
  readonly baseUrl: string;
  readonly host: JsonObject;
  readonly signing: Signing;
  readonly parents: readonly StreamPlan[];
  readonly records: Records;
  /** The column that holds a value of the partition, by its name. */
  readonly columns: ReadonlyMap<string, Column>;
  /** Equal for equal listings. */
  readonly listing: string;
  /** A request without values of a parent; null: there is none. */
  readonly check: JsonObject | null;
}

interface Column {
  readonly name: string;
  readonly type: FieldType;
}

export type StreamOutcome = Outcome<StreamPlan>;

/** Far more than any service has. */
const mostStreams = 2_000;
const mostParents = 8;

/** Converts the streams of a manifest, and the parents that are no streams themselves. Parents come first. */
export function judgeStreams({ top }: Manifest, settings: Settings): ReadonlyMap<string, StreamOutcome> {
  const outcomes = new Map<string, StreamOutcome>();
  const streams = top.parts('streams').slice(0, mostStreams);
  const byName = new Map(streams.map((stream) => [entityName(stream), stream]));
  const judged = new Map<string, StreamOutcome>();
  const open = new Set<string>();
  const main = mainOf(streams, settings);
  const judge = (stream: Component, name: string): StreamOutcome => {
    const known = judged.get(`${name} ${stream.id}`) ?? attempt(stream, name);
    judged.set(`${name} ${stream.id}`, known);
    return known;
  };
  const attempt = (stream: Component, name: string): StreamOutcome => {
    if (open.has(stream.id) || open.size >= mostParents) {
      return {
        kind: 'refused',
        why: `parents form a circle, or too many levels (line ${stream.line ?? '?'})`,
      };
    }
    open.add(stream.id);
    try {
      return { kind: 'converted', plan: planStream(stream, name, { settings, parentOf, main }) };
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      return { kind: 'refused', why: error.message };
    } finally {
      open.delete(stream.id);
    }
  };
  const sameAs = (plan: StreamPlan): StreamPlan | undefined =>
    [...outcomes.values()]
      .flatMap((one) => (one.kind === 'converted' ? [one.plan] : []))
      .find((one) => one.listing === plan.listing);
  /** The entity of a stream that is a parent: one with the same listing, or one of its own. */
  const parentOf = (stream: Component): StreamPlan => {
    const name = entityName(stream);
    const named = byName.get(name);
    if (named !== undefined) settle(named);
    const free = freeName(name, new Set([...byName.keys(), ...outcomes.keys()]));
    const own = judge(stream, free);
    if (own.kind === 'refused') throw new Refusal(`its parent ${name} cannot be read: ${own.why}`);
    const same = sameAs(own.plan);
    if (same === undefined) outcomes.set(free, own);
    return same ?? own.plan;
  };
  const settle = (stream: Component): void => {
    const name = entityName(stream);
    if (outcomes.has(name)) return;
    const outcome = judge(stream, name);
    const same = outcome.kind === 'converted' ? sameAs(outcome.plan) : undefined;
    const why = `its request is that of ${same?.entity}: both would have the same records (line ${stream.line ?? '?'})`;
    outcomes.set(name, same === undefined ? outcome : { kind: 'refused', why });
  };
  for (const stream of streams) settle(stream);
  for (const one of top.parts('dynamic_streams')) {
    const why = `streams that are computed from an answer (DynamicDeclarativeStream, line ${one.line ?? '?'})`;
    outcomes.set(freeName(entityName(one), new Set(outcomes.keys())), { kind: 'refused', why });
  }
  return outcomes;
}

function entityName(stream: Component): string {
  const inner = stream.part('stream_template') ?? stream.part('full_refresh_stream');
  const name = stream.text('name') ?? inner?.text('name') ?? 'stream';
  const short = wordsOf(`${/^[a-z]/i.test(name) ? '' : 'stream '}${name}`).join('_');
  return columnName(name) ?? columnName(short.slice(0, 38).replace(/_$/, '')) ?? 'stream';
}

function freeName(name: string, taken: ReadonlySet<string>): string {
  if (!taken.has(name)) return name;
  const others = Array.from(
    { length: taken.size + 1 },
    (_, index) => `${name.slice(0, 35).replace(/_$/, '')}_${index + 2}`,
  );
  return others.find((other) => !taken.has(other)) ?? name;
}

/** The address and sign-in of most streams: a definition has one address, and signs all requests alike. */
function mainOf(streams: readonly Component[], settings: Settings) {
  const addresses: string[] = [];
  const signings: string[] = [];
  for (const stream of streams) {
    try {
      const { requester } = partsOf(stream);
      const signing = readSigning(requester, settings);
      if (signing.ways.some(({ auth }) => auth !== null)) signings.push(signing.id);
      addresses.push(readRequest(requester, settings, signing.place).baseUrl);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
    }
  }
  const signed = signings.filter((id) => id !== 'none');
  return { baseUrl: mostOf(addresses), signing: mostOf(signed.length > 0 ? signed : signings) };
}

function mostOf(values: readonly string[]): string {
  const counts = new Map<string, number>();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  return [...counts].toSorted((left, right) => right[1] - left[1])[0]?.[0] ?? '';
}

/** The components that read a stream. Refuses those of other types. */
function partsOf(given: Component) {
  const isDelegating = given.type === 'StateDelegatingStream';
  const stream = (isDelegating ? given.part('full_refresh_stream') : null) ?? given;
  const needed = (of: Component, name: string, type: string): Component => {
    const part = of.part(name) ?? refuse(`a ${of.type} without ${name}`, of);
    return part.isCustom || part.type !== type
      ? refuse(`a ${name.replace('record_', '')} of this type`, part)
      : part;
  };
  if (stream.isCustom || stream.type !== 'DeclarativeStream') refuse('a stream of this type', stream);
  const retriever = needed(stream, 'retriever', 'SimpleRetriever');
  const decoder = retriever.part('decoder');
  if (decoder !== null && decoder.type !== 'JsonDecoder') refuse('answers that are no JSON', decoder);
  const requester = retriever.part('requester') ?? refuse('a retriever without a requester', retriever);
  return { stream, retriever, requester, selector: needed(retriever, 'record_selector', 'RecordSelector') };
}

interface Context {
  readonly settings: Settings;
  readonly parentOf: (stream: Component) => StreamPlan;
  readonly main: ReturnType<typeof mainOf>;
}

function planStream(given: Component, entity: string, context: Context): StreamPlan {
  const { settings, main } = context;
  const { stream, retriever, requester, selector } = partsOf(given);
  const signing = readSigning(requester, settings);
  if (signing.ways.every(({ auth }) => auth === null)) throw new Refusal(signing.ways[0]?.why);
  if (signing.id !== main.signing && signing.id !== 'none') {
    refuse('a sign-in other than that of most streams', requester);
  }
  const request = readRequest(requester, settings, signing.place);
  if (request.baseUrl !== main.baseUrl) {
    refuse(`an address other than ${main.baseUrl}, that of most streams`, requester);
  }
  const records = readRecords(stream, settings);
  const place = readPlace(selector);
  const filters = readFilter(selector, records, settings);
  const sources = readPartitions(retriever, request, context);
  const isRoot = place.text === '' || place.text.startsWith('[*]');
  const paging = readPaging(retriever.part('paginator'), request, isRoot, settings);
  const { kind, field } = paging.pagination;
  if (kind === 'lastRecord') records.columnOf(plainText(field).split('.')[0] ?? '');
  const changes = readChanges(stream, request, records, kind === 'page' || kind === 'offset', settings);
  if (request.method === 'GET' && request.hasBody()) refuse('a GET with a body', requester);
  const links = linkPartitions(entity, sources, request, records, retriever);
  const identity = keyOf(stream, records, links, changes);
  return planOf({ entity, request, records, place, filters, paging, changes, links, identity, signing });
}

// --- Partitions

/** A source of values for the request. Sources of one `router` are several ways to the same listings. */
type Source = { readonly name: string; readonly at: Component; readonly router: number } & (
  | { readonly kind: 'list'; readonly values: JsonValue; readonly used: readonly Setting[] }
  | { readonly kind: 'parent'; readonly plan: StreamPlan; readonly field: readonly string[] }
);

function readPartitions(
  retriever: Component,
  request: Request,
  { settings, parentOf }: Context,
): readonly Source[] {
  const nameOf = (of: Component, member: string): string => {
    const name = of.text(member) ?? refuse(`a ${of.type} without ${member}`, of);
    const option = of.part('request_option');
    if (option !== null) {
      const place = placeOfOption(option, settings) ?? refuse('a value of the parent in this place', option);
      request.put(place, { kind: 'partition', name, above: 0, part: null }, option);
    }
    return name;
  };
  const one = retriever.part('partition_router');
  const routers = one === null ? retriever.parts('partition_router') : [one];
  return routers.flatMap((at, router): readonly Source[] => {
    if (!at.isCustom && at.type === 'ListPartitionRouter') {
      const name = nameOf(at, 'cursor_field');
      if (isJsonArray(at.get('values'))) {
        return [{ kind: 'list', name, at, router, values: fixedTexts(at, 'values'), used: [] }];
      }
      const sent = sentBy(at.expression('values'), settings, at);
      if (sent.kind !== 'setting') return refuse('a list of values that is computed', at);
      return [{ kind: 'list', name, at, router, values: { field: sent.setting.name }, used: [sent.setting] }];
    }
    if (at.isCustom || at.type !== 'SubstreamPartitionRouter') return refuse('a router of this type', at);
    return at.parts('parent_stream_configs').map((config) => {
      const field = (config.text('parent_key') ?? refuse('a parent without a parent_key', config)).split(
        /[/.]/,
      );
      const name = nameOf(config, 'partition_field');
      const plan = parentOf(config.part('stream') ?? refuse('a parent without its stream', config));
      return { kind: 'parent', name, at: config, router, plan, field };
    });
  });
}

type Links = ReturnType<typeof linkPartitions>;
type PartitionUse = Extract<Use, { kind: 'partition' }> & { readonly param: string };

/** Where each value of the request comes from, and the columns that keep it. */
function linkPartitions(
  entity: string,
  sources: readonly Source[],
  request: Request,
  records: Records,
  retriever: Component,
) {
  const uses = request.uses.filter((use): use is PartitionUse => use.kind === 'partition');
  const columns = new Map<string, Column>();
  const needs = new Set<Need>();
  const columnFor = (use: PartitionUse, above: string, type: FieldType): string => {
    const plain = columnName(use.name.replace(/^extra_fields\./, '').replaceAll('.', '_'));
    const isTaken = [...records.fields.values()].some(({ name }) => name === plain);
    const named = columnName(`${singular(above)}_${plain ?? 'value'}`) ?? `${entity.slice(0, 30)}_value`;
    const own = columnName(records.nameOfPartition(use.name) ?? '');
    const column = columns.get(use.name) ?? { name: own ?? (isTaken ? null : plain) ?? named, type };
    columns.set(use.name, column);
    return column.name;
  };
  const linked = sources.map((source) => {
    const params: Record<string, JsonValue> = {};
    const inject: Record<string, JsonValue> = {};
    for (const use of uses) {
      const found =
        source.kind === 'parent'
          ? valueOfParent(use, source)
          : use.name === source.name
            ? { field: '', type: 'string' as const }
            : null;
      if (found === null) continue;
      if (use.part !== null) needs.add('partOfValue');
      const value = use.part === null ? found.field : { path: found.field, ...use.part };
      params[use.param] = source.kind === 'list' ? source.values : value;
      const above = source.kind === 'list' ? 'value' : source.plan.entity;
      inject[columnFor(use, above, use.part === null ? found.type : 'string')] ??= use.param;
    }
    const isUsed = Object.keys(params).length > 0;
    return isUsed
      ? { source, params, inject }
      : refuse(`a parent whose value the request never uses (${source.name})`, source.at);
  });
  const unfilled = uses.find(({ param }) => !linked.some(({ params }) => Object.hasOwn(params, param)));
  if (unfilled !== undefined) refuse(`a value that no parent gives (${unfilled.name})`, retriever);
  const [lists, parents] = (['list', 'parent'] as const).map((kind) =>
    linked.filter(({ source }) => source.kind === kind),
  );
  if (lists === undefined || parents === undefined) throw new TypeError('expected two kinds of sources');
  if (lists.length > 0) needs.add('valueLists');
  const isProduct = new Set(parents.map(({ source }) => source.router)).size > 1;
  if (isProduct) needs.add('twoParents');
  const plans = parents.flatMap(({ source }) => (source.kind === 'parent' ? [source.plan] : []));
  const ways = parents.map(({ params, inject }, index) => ({
    entity: plans[index]?.entity ?? '',
    params,
    ...stated({ inject: isProduct ? undefined : inject }),
  }));
  const all = parents.flatMap(({ inject }) => Object.entries(inject));
  const below: readonly JsonObject[] = isProduct ? [{ all: ways, inject: Object.fromEntries(all) }] : ways;
  const each: JsonObject = Object.fromEntries(lists.flatMap(({ params }) => Object.entries(params)));
  const injected: JsonObject = Object.fromEntries(lists.flatMap(({ inject }) => Object.entries(inject)));
  const used = sources.flatMap((source) => (source.kind === 'list' ? source.used : []));
  return { columns, needs, below, plans, each, injected, used };
}

/** The field of a parent, or the path in one, that fills a parameter; null: this parent does not. */
function valueOfParent(use: PartitionUse, { plan, at, name, field }: Extract<Source, { kind: 'parent' }>) {
  const kept = (partition: string) => {
    const column = plan.columns.get(partition);
    return column === undefined ? null : { field: column.name, type: column.type };
  };
  if (use.above > 0) return use.above === 1 ? kept(use.name) : null;
  const extra = /^extra_fields\.(.+)$/.exec(use.name)?.[1];
  if (extra === undefined && use.name !== name) return null;
  const found = plan.records.reach(extra === undefined ? field : extra.split('.'), 'value for its children');
  if (found.kind === 'partition') {
    return kept(found.name) ?? refuse(`a value of ${plan.entity} that it does not keep`, at);
  }
  if (found.kind !== 'field') {
    return found.kind === 'other'
      ? refuse(found.why, found.at)
      : refuse(`a value of ${plan.entity} that is made up`, at);
  }
  const type: FieldType = found.type === 'integer' || found.type === 'number' ? 'integer' : 'string';
  const [first = '', ...rest] = found.path?.split('.') ?? [];
  return {
    field: found.path === null ? found.name : [plan.records.columnOf(first), ...rest].join('.'),
    type,
  };
}

// --- The key

/** The key by the file's word, with everything that tells the listings apart. Empty: nothing identifies a record. */
function keyOf(stream: Component, records: Records, links: Links, changes: Changes) {
  const given = stream.get('primary_key') ?? [];
  const paths = (isJsonArray(given) ? given : [given])
    .map((one) => (isJsonArray(one) ? one : [one]).map(plainText))
    .filter((path) => path.join('') !== '');
  const key: string[] = [];
  const columnsAt: Record<string, string> = {};
  const types: Record<string, FieldType> = {};
  const bounds: Record<string, string> = {};
  const unknown: string[] = [];
  const keyless = { key: [], columnsAt: {}, types: {}, bounds: {}, open: null };
  for (const path of paths) {
    const found: Reached = records.reach(path, 'key');
    switch (found.kind) {
      case 'madeUp':
        return keyless;
      case 'constant':
        break;
      case 'other':
        return refuse(found.why, found.at);
      case 'partition': {
        const column = links.columns.get(found.name);
        key.push((column ?? refuse(`a key by ${found.name}, which the request never uses`, stream)).name);
        break;
      }
      case 'bound': {
        const name = columnName(path.join('_')) ?? 'window';
        bounds[name] =
          changes.bounds.get(found.bound) ?? refuse('a key by a time of changes that is not sent', stream);
        key.push(name);
        break;
      }
      case 'field': {
        const { name, type } = found;
        if (['object', 'array', 'boolean'].includes(type)) {
          refuse(`a key by ${name}, which is of type ${type}`, stream);
        }
        if (type === 'any') unknown.push(name);
        types[name] = type === 'number' || type === 'integer' ? 'integer' : 'string';
        if (found.path !== null) columnsAt[name] = found.path;
        key.push(name);
      }
    }
  }
  if (paths.length === 0) return keyless;
  if (key.length === 0) return refuse('a key that is the same in every record', stream);
  const above = [...links.columns.values()].map(({ name }) => name);
  const todo = `write string or integer: the file has no type for ${unknown.join(', ')}`;
  return {
    key: [...new Set([...above.filter((name) => !key.includes(name)), ...key])],
    columnsAt,
    types,
    bounds,
    open: unknown.length === 0 ? null : todo,
  };
}

// --- The text of an entity

interface Found {
  readonly entity: string;
  readonly request: Request;
  readonly records: Records;
  readonly place: ReturnType<typeof readPlace>;
  readonly filters: ReturnType<typeof readFilter>;
  readonly paging: PagingFound;
  readonly changes: Changes;
  readonly links: Links;
  readonly identity: ReturnType<typeof keyOf>;
  readonly signing: Signing;
}

function planOf(found: Found): StreamPlan {
  const { entity, request, place, paging, changes, links, identity, signing, records, filters } = found;
  const at = ['entities', entity];
  const { query, headers, body, fill } = request.parts();
  const sent = {
    ...(request.method === 'POST' ? { method: 'POST', safe: true } : {}),
    path: request.path,
    ...stated({ query, body, fill }),
    ...(request.form ? { bodyAs: 'form' } : {}),
  };
  const list = {
    ...sent,
    ...stated({ params: request.params.rules() }),
    records: place.records,
    ...stated({ metadata: paging.metadata, paging: paging.paging ?? undefined }),
  };
  const questions: readonly (readonly [readonly string[], string | null])[] = [
    [[...at, 'pagination'], paging.open],
    [[...at, 'key'], identity.open],
    [[...at, changes.incremental === null ? 'fixedParams' : 'incremental'], changes.open],
    [['upstream', ...at, 'list', 'records'], place.open],
  ];
  const open = questions.flatMap(([where, text]): readonly OpenQuestion[] =>
    text === null ? [] : [{ at: where, text }],
  );
  const comments = [
    ...paging.guesses.map((text) => ({ at: [...at, 'pagination'], text: `${text} # guessed` })),
    ...changes.guesses.map((text) => ({ at: [...at, 'incremental'], text: `${text} # guessed` })),
  ];
  const below = links.plans.map((plan) => plan.entity).join(', ');
  const key = identity.key.join(', ') || 'none';
  const isListed = Object.keys(links.each).length > 0 || links.below.length > 0;
  return {
    entity,
    open,
    summary: [`key ${key}`, paging.summary, ...(below === '' ? [] : [`below ${below}`])].join('; '),
    write: () => writeEntity(found),
    upstream: { list, ...stated({ headers }) },
    comments,
    needs: needsOf(found),
    used: [...request.used, ...filters.used, ...changes.used, ...links.used],
    baseUrl: request.baseUrl,
    host: request.host,
    signing,
    parents: links.plans,
    records,
    columns: links.columns,
    listing: JSON.stringify([list, headers, links.below, links.each, filters.only, [...request.fixed]]),
    check:
      isListed || changes.incremental?.['kind'] === 'windows' ? null : { ...sent, ...stated({ headers }) },
  };
}

function writeEntity({ request, records, filters, paging, changes, links, identity }: Found): JsonObject {
  const typed = (columns: Iterable<Column>): JsonObject =>
    Object.fromEntries([...columns].map(({ name, type }) => [name, type]));
  const isKeyless = identity.key.length === 0;
  const isClock = request.uses.some((use) => use.kind === 'clock');
  const [only, ...more] = filters.only;
  const ofListing = typed(links.columns.values());
  const bounds = Object.fromEntries(Object.keys(identity.bounds).map((name) => [name, 'string']));
  return {
    fields: { ...ofListing, ...bounds, ...typed(records.fields.values()), ...identity.types, ...ofListing },
    ...stated({
      rename: Object.fromEntries(records.rename),
      at: identity.columnsAt,
      key: isKeyless ? 'none' : identity.key,
      actions: { list: stated({ params: request.params.declared() }) },
      pagination: paging.pagination,
      incremental: changes.incremental ?? undefined,
      deletes: isKeyless || isClock ? 'never' : 'confirm',
      fixedParams: { ...Object.fromEntries(request.fixed), ...changes.fixed },
      only: more.length > 0 ? filters.only : only,
      each: links.each,
      inject: { ...links.injected, ...identity.bounds },
      parents: links.below,
    }),
  };
}

/** The parts of the format that the entity needs. */
function needsOf({
  request,
  place,
  filters,
  paging,
  changes,
  links,
  identity,
  signing,
}: Found): ReadonlySet<Need> {
  const needs = new Set<Need>([
    ...place.needs,
    ...paging.needs,
    ...changes.needs,
    ...links.needs,
    ...signing.needs,
  ]);
  const isPlain = ({ field, value, not }: JsonObject): boolean =>
    typeof value === 'string' && not === undefined && !plainText(field).includes('.');
  if (filters.only.length > 1 || !filters.only.every(isPlain)) needs.add('filters');
  const used = [...request.used, ...filters.used, ...changes.used, ...links.used, ...signing.used];
  const isOfSignIn = ({ name }: Setting): boolean =>
    signing.ways.every(({ fields }) => Object.hasOwn(fields, name));
  if (used.length > 0 && !used.every(isOfSignIn)) needs.add('settings');
  if (Object.keys(request.parts().fill).length > 0) needs.add('settings');
  if (request.form) needs.add('formBody');
  if (Object.keys(identity.columnsAt).length > 0) needs.add('columnsAtPaths');
  if (JSON.stringify(request.host).includes('"map"')) needs.add('hostTable');
  return needs;
}
