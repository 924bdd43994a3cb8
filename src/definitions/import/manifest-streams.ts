import { isJsonArray, type JsonObject, type JsonValue } from '../../core/json.ts';
import type { Outcome, Plan } from './entity-plan.ts';
import type { Component, Manifest } from './manifest-file.ts';
import type { Need } from './manifest-language.ts';
import { readChanges, type Changes } from './manifest-changes.ts';
import { fixedTexts, readPaging, type PagingFound } from './manifest-paging.ts';
import { readFilter, readPlace, readRecords, type Reached, type Records } from './manifest-records.ts';
import { placeOfOption, readRequest, type Request, type Use } from './manifest-request.ts';
import { readSigning, type Signing } from './manifest-sign-in.ts';
import { refuse, Refusal, sentBy, type Setting, type Settings } from './manifest-values.ts';
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
  readonly columns: ReadonlyMap<string, { readonly name: string; readonly type: FieldType }>;
  /** Equal for equal listings. */
  readonly listing: string;
  /** A request without values of a parent; null: there is none. */
  readonly check: JsonObject | null;
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
    const known = judged.get(stream.id);
    if (known !== undefined) return known;
    if (open.has(stream.id) || open.size >= mostParents) {
      return {
        kind: 'refused',
        why: `parents form a circle, or too many levels (line ${stream.line ?? '?'})`,
      };
    }
    open.add(stream.id);
    const outcome = attempted(() => planStream(stream, name, { settings, parentOf, main }));
    open.delete(stream.id);
    judged.set(stream.id, outcome);
    return outcome;
  };
  /** The entity of a stream that is a parent: the one of this name, if it has the same listing. */
  const parentOf = (stream: Component): StreamPlan => {
    const name = entityName(stream);
    const same = byName.get(name);
    const own = judge(stream, name);
    if (own.kind === 'refused') throw new Refusal(`its parent ${name} cannot be read: ${own.why}`);
    const { listing } = own.plan;
    const others = [...outcomes.values(), ...(same === undefined ? [] : [settle(same)])];
    for (const one of others) if (one.kind === 'converted' && one.plan.listing === listing) return one.plan;
    const free = freeName(name, new Set([...byName.keys(), ...outcomes.keys()]));
    const plan = free === name ? own.plan : renamedPlan(judge, stream, free, judged);
    outcomes.set(free, { kind: 'converted', plan });
    return plan;
  };
  const settle = (stream: Component): StreamOutcome => {
    const name = entityName(stream);
    const known = outcomes.get(name);
    if (known !== undefined) return known;
    const outcome = judge(stream, name);
    if (outcome.kind === 'converted') {
      for (const [other, one] of outcomes) {
        if (one.kind !== 'converted' || one.plan.listing !== outcome.plan.listing) continue;
        const why = `its request is that of ${other}: both would have the same records (line ${stream.line ?? '?'})`;
        outcomes.set(name, { kind: 'refused', why });
        return { kind: 'refused', why };
      }
    }
    outcomes.set(name, outcome);
    return outcome;
  };
  for (const stream of streams) settle(stream);
  for (const one of top.parts('dynamic_streams')) {
    const name = freeName(entityName(one), new Set(outcomes.keys()));
    const why = `streams that are computed from an answer (${one.type || 'DynamicDeclarativeStream'}, line ${one.line ?? '?'})`;
    outcomes.set(name, { kind: 'refused', why });
  }
  return outcomes;
}

function renamedPlan(
  judge: (stream: Component, name: string) => StreamOutcome,
  stream: Component,
  name: string,
  judged: Map<string, StreamOutcome>,
): StreamPlan {
  judged.delete(stream.id);
  const outcome = judge(stream, name);
  return outcome.kind === 'converted' ? outcome.plan : refuse(outcome.why, stream);
}

function attempted(convert: () => StreamPlan): StreamOutcome {
  try {
    return { kind: 'converted', plan: convert() };
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return { kind: 'refused', why: error.message };
  }
}

function entityName(stream: Component): string {
  const name =
    stream.text('name') ??
    stream.part('stream_template')?.text('name') ??
    stream.part('full_refresh_stream')?.text('name') ??
    'stream';
  return (
    columnName(name) ??
    columnName(wordsOf(name).join('_').slice(0, 38).replace(/_$/, '')) ??
    columnName(`stream_${name}`) ??
    'stream'
  );
}

function freeName(name: string, taken: ReadonlySet<string>): string {
  if (!taken.has(name)) return name;
  for (let number = 2; ; number += 1) {
    const other = `${name.slice(0, 36).replace(/_$/, '')}_${number}`;
    if (!taken.has(other)) return other;
  }
}

/** What most streams have: a definition has one address, and signs all requests alike. */
interface Main {
  readonly baseUrl: string;
  readonly signing: string;
}

function mainOf(streams: readonly Component[], settings: Settings): Main {
  const addresses: string[] = [];
  const signings: string[] = [];
  for (const stream of streams) {
    try {
      const requester = partsOf(stream).requester;
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
  const stream = isDelegating ? (given.part('full_refresh_stream') ?? given) : given;
  if (stream.isCustom || stream.type !== 'DeclarativeStream') return refuse('a stream of this type', stream);
  const retriever = stream.part('retriever') ?? refuse('a stream without a retriever', stream);
  if (retriever.isCustom || retriever.type !== 'SimpleRetriever')
    return refuse('a retriever of this type', retriever);
  const decoder = retriever.part('decoder');
  if (decoder !== null && decoder.type !== 'JsonDecoder') return refuse('answers that are no JSON', decoder);
  const requester = retriever.part('requester') ?? refuse('a retriever without a requester', retriever);
  const selector = retriever.part('record_selector') ?? refuse('a retriever without a selector', retriever);
  if (selector.isCustom || selector.type !== 'RecordSelector')
    return refuse('a selector of this type', selector);
  return { stream, retriever, requester, selector };
}

interface Context {
  readonly settings: Settings;
  readonly parentOf: (stream: Component) => StreamPlan;
  readonly main: Main;
}

function planStream(given: Component, entity: string, context: Context): StreamPlan {
  const { settings, main } = context;
  const { stream, retriever, requester, selector } = partsOf(given);
  const signing = readSigning(requester, settings);
  const [way] = signing.ways;
  if (signing.ways.every(({ auth }) => auth === null)) throw new Refusal(way?.why);
  if (signing.id !== main.signing && signing.id !== 'none')
    refuse('a sign-in other than that of most streams', requester);
  const request = readRequest(requester, settings, signing.place);
  if (request.baseUrl !== main.baseUrl) {
    refuse(`an address other than ${main.baseUrl}, that of most streams`, requester);
  }
  const records = readRecords(stream, settings);
  const place = readPlace(selector);
  const filters = readFilter(selector, records, settings);
  const sources = readPartitions(retriever, request, context);
  const paginator = retriever.part('paginator');
  const paging = readPaging(paginator, request, place.text, settings);
  const isCounted = ['page', 'offset'].includes(plainText(paging.pagination['kind']));
  const changes = readChanges(stream, request, records, isCounted, settings);
  if (request.method === 'GET' && request.hasBody()) refuse('a GET with a body', requester);
  if (paging.recordPath !== null) records.reach(paging.recordPath.split('.').slice(0, 1), 'paging');
  const links = linkPartitions(entity, sources, request, records, retriever);
  const identity = keyOf(stream, records, links, changes);
  return written({
    entity,
    stream,
    request,
    records,
    place,
    filters,
    paging,
    changes,
    links,
    identity,
    signing,
  });
}

// --- Partitions

type Source =
  | {
      readonly kind: 'list';
      readonly name: string;
      readonly values: JsonValue;
      readonly used: Setting | null;
      readonly at: Component;
    }
  | {
      readonly kind: 'parent';
      readonly name: string;
      readonly plan: StreamPlan;
      readonly field: readonly string[];
      readonly at: Component;
      /** Sources of one router are several ways to the same listings. */
      readonly router: number;
    };

function routersOf(retriever: Component): readonly Component[] {
  const one = retriever.part('partition_router');
  return one === null ? retriever.parts('partition_router') : [one];
}

function readPartitions(
  retriever: Component,
  request: Request,
  { settings, parentOf }: Context,
): readonly Source[] {
  const option = (of: Component, name: string): void => {
    const stated = of.part('request_option');
    if (stated === null) return;
    const place = placeOfOption(stated, settings) ?? refuse('a value of the parent in this place', stated);
    request.put(place, { kind: 'partition', name, above: 0, part: null }, stated);
  };
  return routersOf(retriever).flatMap((router, index): readonly Source[] => {
    if (!router.isCustom && router.type === 'ListPartitionRouter') {
      const name = router.text('cursor_field') ?? refuse('a list of values without a name', router);
      option(router, name);
      const values = router.get('values');
      if (isJsonArray(values)) {
        return [{ kind: 'list', name, values: fixedTexts(router, 'values'), used: null, at: router }];
      }
      const sent = sentBy(
        router.expression('values') ?? refuse('an empty list of values', router),
        settings,
        router,
      );
      if (sent.kind !== 'setting') return refuse('a list of values that is computed', router);
      return [{ kind: 'list', name, values: { field: sent.setting.name }, used: sent.setting, at: router }];
    }
    if (router.isCustom || router.type !== 'SubstreamPartitionRouter')
      return refuse('a router of this type', router);
    return router.parts('parent_stream_configs').map((config) => {
      const name = config.text('partition_field') ?? refuse('a parent without a partition_field', config);
      const key = config.text('parent_key') ?? refuse('a parent without a parent_key', config);
      option(config, name);
      const plan = parentOf(config.part('stream') ?? refuse('a parent without its stream', config));
      return { kind: 'parent', name, plan, field: key.split(/[/.]/), at: config, router: index };
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
  const columns = new Map<string, { name: string; type: FieldType }>();
  const needs = new Set<Need>();
  const parents: { source: Extract<Source, { kind: 'parent' }>; params: JsonObject; inject: JsonObject }[] =
    [];
  const each: Record<string, JsonValue> = {};
  const injected: Record<string, JsonValue> = {};
  const filled = new Set<string>();
  const columnFor = (use: PartitionUse, above: string, type: FieldType): string => {
    const known = columns.get(use.name);
    if (known !== undefined) return known.name;
    const own = records.nameOfPartition(use.name);
    const plain = columnName(use.name.replace(/^extra_fields\./, '').replaceAll('.', '_'));
    const isOwn = [...records.fields.values()].some(({ name }) => name === plain);
    const named = columnName(`${singular(above)}_${plain ?? 'value'}`) ?? `${entity.slice(0, 30)}_value`;
    const name =
      own !== null && columnName(own) !== null
        ? (columnName(own) ?? named)
        : plain !== null && !isOwn
          ? plain
          : named;
    columns.set(use.name, { name, type });
    return name;
  };
  for (const source of sources) {
    if (source.kind === 'list') {
      const own = uses.filter(({ name, above }) => name === source.name && above === 0);
      if (own.length === 0)
        refuse(`a list of values that the request never uses (${source.name})`, source.at);
      for (const use of own) {
        if (use.part !== null) refuse('a part of a value of a list', source.at);
        each[use.param] = source.values;
        injected[columnFor(use, 'value', 'string')] ??= use.param;
        filled.add(use.param);
      }
      needs.add('valueLists');
      continue;
    }
    const params: Record<string, JsonValue> = {};
    const inject: Record<string, JsonValue> = {};
    for (const use of uses) {
      const found = valueOfParent(use, source);
      if (found === null) continue;
      if (use.part !== null) needs.add('partOfValue');
      params[use.param] = use.part === null ? found.field : { path: found.field, ...use.part };
      const column = columnFor(use, source.plan.entity, use.part === null ? found.type : 'string');
      if (inject[column] === undefined) inject[column] = use.param;
      filled.add(use.param);
    }
    if (Object.keys(params).length === 0) {
      refuse(
        `a parent whose value the request never uses (${source.name} of ${source.plan.entity})`,
        source.at,
      );
    }
    parents.push({ source, params, inject });
  }
  const unfilled = uses.find(({ param }) => !filled.has(param));
  if (unfilled !== undefined) refuse(`a value that no parent gives (${unfilled.name})`, retriever);
  const routers = new Set(parents.map(({ source }) => source.router));
  if (routers.size > 1) needs.add('twoParents');
  const links = parents.map(({ source, params, inject }) => ({
    entity: source.plan.entity,
    params,
    ...stated({ inject: routers.size > 1 ? undefined : inject }),
  }));
  const all = Object.assign({}, ...parents.map(({ inject }) => inject)) as JsonObject;
  const below: readonly JsonObject[] = routers.size > 1 ? [{ all: links, inject: all }] : links;
  const plans = parents.map(({ source }) => source.plan);
  const used = sources.flatMap((source) =>
    source.kind === 'list' && source.used !== null ? [source.used] : [],
  );
  return { columns, needs, below, plans, each, injected, used };
}

/** The field of a parent, or the path in one, that fills a parameter; null: this parent does not. */
function valueOfParent(use: PartitionUse, source: Extract<Source, { kind: 'parent' }>) {
  const { plan, at } = source;
  if (use.above > 0) {
    const above = use.above === 1 ? plan.columns.get(use.name) : undefined;
    if (above === undefined) return null;
    return { field: above.name, type: above.type };
  }
  const extra = /^extra_fields\.(.+)$/.exec(use.name)?.[1];
  if (extra === undefined && use.name !== source.name) return null;
  const path = extra === undefined ? source.field : extra.split('.');
  const found = plan.records.reach(path, 'value for its children');
  if (found.kind === 'partition') {
    const column = plan.columns.get(found.name);
    return column === undefined
      ? refuse(`a value of ${plan.entity} that it does not keep`, at)
      : { field: column.name, type: column.type };
  }
  if (found.kind !== 'field') {
    return found.kind === 'other'
      ? refuse(found.why, found.at)
      : refuse(`a value of ${plan.entity} that is made up`, at);
  }
  const type: FieldType = found.type === 'integer' || found.type === 'number' ? 'integer' : 'string';
  if (found.path === null) return { field: found.name, type };
  const [first = '', ...rest] = found.path.split('.');
  const inner = plan.records.reach([first], 'value for its children');
  return { field: [inner.kind === 'field' ? inner.name : first, ...rest].join('.'), type };
}

// --- The key

interface Identity {
  readonly key: readonly string[];
  readonly columnsAt: JsonObject;
  readonly types: Readonly<Record<string, FieldType>>;
  readonly bounds: Readonly<Record<string, string>>;
  readonly open: string | null;
}

const keyless: Identity = { key: [], columnsAt: {}, types: {}, bounds: {}, open: null };

/** The key by the file's word, with everything that tells the listings apart. Empty: nothing identifies a record. */
function keyOf(stream: Component, records: Records, links: Links, changes: Changes): Identity {
  const stated = stream.get('primary_key');
  const list = isJsonArray(stated)
    ? stated
    : stated === undefined || stated === null || stated === ''
      ? []
      : [stated];
  const paths = list
    .map((one) => (isJsonArray(one) ? one.map(plainText) : [plainText(one)]))
    .filter((path) => path.join('') !== '');
  const key: string[] = [];
  const columnsAt: Record<string, JsonValue> = {};
  const types: Record<string, FieldType> = {};
  const bounds: Record<string, string> = {};
  const unknown: string[] = [];
  for (const path of paths) {
    const found: Reached = records.reach(path, 'key');
    switch (found.kind) {
      case 'madeUp':
        return keyless;
      case 'constant':
        continue;
      case 'other':
        return refuse(found.why, found.at);
      case 'partition': {
        const column =
          links.columns.get(found.name) ??
          refuse(`a key by ${found.name}, which the request never uses`, stream);
        key.push(column.name);
        continue;
      }
      case 'bound': {
        const param =
          changes.bounds.get(found.bound) ?? refuse('a key by a time of changes that is not sent', stream);
        const name = columnName(path.join('_')) ?? 'window';
        bounds[name] = param;
        key.push(name);
        continue;
      }
      case 'field':
        break;
    }
    const { name, type, path: at } = found;
    if (['object', 'array', 'boolean'].includes(type))
      refuse(`a key by ${name}, which is of type ${type}`, stream);
    if (type === 'any') unknown.push(name);
    types[name] = type === 'number' || type === 'integer' ? 'integer' : 'string';
    if (at !== null) columnsAt[name] = at;
    key.push(name);
  }
  if (key.length === 0)
    return paths.length > 0 ? refuse('a key that is the same in every record', stream) : keyless;
  const above = [...links.columns.values()].map(({ name }) => name).filter((name) => !key.includes(name));
  const open =
    unknown.length === 0 ? null : `write string or integer: the file has no type for ${unknown.join(', ')}`;
  return { key: [...new Set([...above, ...key])], columnsAt, types, bounds, open };
}

// --- The text of an entity

interface Found {
  readonly entity: string;
  readonly stream: Component;
  readonly request: Request;
  readonly records: Records;
  readonly place: ReturnType<typeof readPlace>;
  readonly filters: ReturnType<typeof readFilter>;
  readonly paging: PagingFound;
  readonly changes: Changes;
  readonly links: Links;
  readonly identity: Identity;
  readonly signing: Signing;
}

function written(found: Found): StreamPlan {
  const { entity, request, records, place, filters, paging, changes, links, identity, signing } = found;
  const at = ['entities', entity];
  const { query, headers, body, fill } = request.parts();
  const fixed = { ...Object.fromEntries(request.fixed), ...changes.fixed };
  const isClock = request.uses.some((use) => use.kind === 'clock');
  const injected = { ...links.injected, ...identity.bounds };
  const fields = (): JsonObject => ({
    ...Object.fromEntries([...links.columns.values()].map(({ name, type }) => [name, type])),
    ...Object.fromEntries(Object.keys(identity.bounds).map((name) => [name, 'string'])),
    ...Object.fromEntries([...records.fields.values()].map(({ name, type }) => [name, type])),
    ...identity.types,
    ...Object.fromEntries([...links.columns.values()].map(({ name, type }) => [name, type])),
  });
  const [only = null, ...more] = filters.only;
  const list = {
    ...(request.method === 'POST' ? { method: 'POST', safe: true } : {}),
    path: request.path,
    ...stated({ query, body, fill, params: request.params.rules() }),
    ...(request.form ? { bodyAs: 'form' } : {}),
    records: place.records,
    ...stated({ metadata: paging.metadata, paging: paging.paging ?? undefined }),
  };
  const isKeyless = identity.key.length === 0;
  const write = (): JsonObject => ({
    fields: fields(),
    ...stated({
      rename: Object.fromEntries(records.rename),
      at: identity.columnsAt,
      key: isKeyless ? 'none' : identity.key,
      actions: { list: stated({ params: request.params.declared() }) },
      pagination: paging.pagination,
      incremental: changes.incremental ?? undefined,
      deletes: isKeyless || isClock ? 'never' : 'confirm',
      fixedParams: fixed,
      only: more.length > 0 ? filters.only : (only ?? undefined),
      each: links.each,
      inject: injected,
      parents: links.below,
    }),
  });
  const questions: readonly (readonly [string, string | null])[] = [
    ['pagination', paging.open],
    ['key', identity.open],
    ['incremental', changes.open],
  ];
  const open: OpenQuestion[] = questions.flatMap(([part, text]) =>
    text === null ? [] : [{ at: [...at, part], text }],
  );
  if (place.open !== null)
    open.push({ at: ['upstream', 'entities', entity, 'list', 'records'], text: place.open });
  const guesses = [
    ...paging.guesses.map((text) => ({ at: [...at, 'pagination'], text: `${text} # guessed` })),
    ...changes.guesses.map((text) => ({ at: [...at, 'incremental'], text: `${text} # guessed` })),
  ];
  const summary = [
    `key ${identity.key.join(', ') || 'none'}`,
    paging.summary,
    ...(links.plans.length === 0 ? [] : [`below ${links.plans.map((plan) => plan.entity).join(', ')}`]),
  ].join('; ');
  const isPlainOnly =
    only === null ||
    (more.length === 0 &&
      typeof only['value'] === 'string' &&
      only['not'] === undefined &&
      !plainText(only['field']).includes('.'));
  const used = [...request.used, ...filters.used, ...changes.used, ...links.used];
  const needs = new Set<Need>([
    ...place.needs,
    ...paging.needs,
    ...changes.needs,
    ...links.needs,
    ...signing.needs,
    ...(isPlainOnly ? [] : (['filters'] as const)),
    ...(used.some(({ name }) => !signing.ways.every(({ fields }) => Object.hasOwn(fields, name)))
      ? (['settings'] as const)
      : []),
    ...(request.form ? (['formBody'] as const) : []),
    ...(Object.keys(identity.columnsAt).length > 0 ? (['columnsAtPaths'] as const) : []),
    ...(JSON.stringify(request.host).includes('"map"') ? (['hostTable'] as const) : []),
  ]);
  const isOpen =
    Object.keys(links.each).length > 0 ||
    links.below.length > 0 ||
    changes.incremental?.['kind'] === 'windows';
  const method = request.method === 'POST' ? { method: 'POST', safe: true } : {};
  return {
    entity,
    open,
    summary,
    write,
    upstream: { list, ...stated({ headers }) },
    comments: guesses,
    needs,
    used,
    baseUrl: request.baseUrl,
    host: request.host,
    signing,
    parents: links.plans,
    records,
    columns: links.columns,
    listing: JSON.stringify([list, headers, links.below, links.each, filters.only, fixed]),
    check: isOpen ? null : { ...method, path: request.path, ...stated({ query, body, fill, headers }) },
  };
}
