import { isJsonArray, type JsonObject, type JsonValue } from '../../core/json.ts';
import { refused, type Outcome, type Plan } from './entity-plan.ts';
import { readChanges } from './manifest-changes.ts';
import type { Component, Manifest } from './manifest-file.ts';
import { readPaging } from './manifest-paging.ts';
import { readFilter, readPlace, readRecords, type Records } from './manifest-records.ts';
import { placeOfOption, readRequest, urlOf, type Request } from './manifest-request.ts';
import { refuse, Refusal, unlessRefused } from './manifest-settings.ts';
import { readSigning, type Signing } from './manifest-sign-in.ts';
import { addressOf, fixedTexts, needed, sentBy } from './manifest-request.ts';
import { columnName, plainText, singular, wordsOf, type FieldType } from './schemas.ts';
import type { Comment } from './sent-values.ts';
import { guessedIn, stated } from './write-definition.ts';

/** Everything that a definition says of a stream. */
export interface StreamPlan extends Plan {
  /** The member of `entities`: written when all children have named the fields that they need. */
  readonly write: () => JsonObject;
  readonly upstream: JsonObject;
  readonly comments: readonly Comment[];
  readonly request: Request;
  readonly signing: Signing;
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

type StreamOutcome = Outcome<StreamPlan>;

/** Far more than any service has. */
const mostStreams = 2_000;
const mostParents = 8;

/** Converts the streams of a manifest, and the parents that are no streams themselves. Parents come first. */
export function judgeStreams({ top }: Manifest): ReadonlyMap<string, StreamOutcome> {
  const outcomes = new Map<string, StreamOutcome>();
  const streams = top.parts('streams').slice(0, mostStreams);
  const byName = new Map(streams.map((stream) => [entityName(stream), stream]));
  const judged = new Map<string, StreamOutcome>();
  const open = new Set<string>();
  const main = mainOf(streams);
  const judge = (stream: Component, name: string): StreamOutcome => {
    const known = judged.get(`${name} ${stream.id}`);
    if (known !== undefined) return known;
    if (open.has(stream.id) || open.size >= mostParents) {
      return refused(`parents form a circle, or too many levels (line ${stream.line ?? '?'})`);
    }
    open.add(stream.id);
    const outcome = unlessRefused(
      (): StreamOutcome => ({ kind: 'converted', plan: planOf(readStream(stream, name, main, parentOf)) }),
      refused,
    );
    open.delete(stream.id);
    judged.set(`${name} ${stream.id}`, outcome);
    return outcome;
  };
  const sameAs = (outcome: StreamOutcome): StreamPlan | undefined => {
    const plans = [...outcomes.values()].flatMap((one) => (one.kind === 'converted' ? [one.plan] : []));
    return plans.find(({ listing }) => outcome.kind === 'converted' && listing === outcome.plan.listing);
  };
  /** The entity of a parent stream: a known one with the same listing, or else a new one. */
  const parentOf = (stream: Component): StreamPlan => {
    const name = entityName(stream);
    const named = byName.get(name);
    if (named !== undefined) settle(named);
    const free = freeName(name, new Set([...byName.keys(), ...outcomes.keys()]));
    const own = judge(stream, free);
    if (own.kind === 'refused') throw new Refusal(`its parent ${name} cannot be read: ${own.why}`);
    const same = sameAs(own);
    if (same === undefined) outcomes.set(free, own);
    return same ?? own.plan;
  };
  const settle = (stream: Component): void => {
    const name = entityName(stream);
    if (outcomes.has(name)) return;
    const outcome = judge(stream, name);
    const same = sameAs(outcome)?.entity;
    const why = `its request is that of ${same}: both would have the same records (line ${stream.line ?? '?'})`;
    outcomes.set(name, same === undefined ? outcome : refused(why));
  };
  for (const stream of streams) settle(stream);
  for (const one of top.parts('dynamic_streams')) {
    const why = `streams that are computed from an answer (DynamicDeclarativeStream, line ${one.line ?? '?'})`;
    outcomes.set(freeName(entityName(one), new Set(outcomes.keys())), refused(why));
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
  let free = name;
  for (let number = 2; taken.has(free); number += 1) {
    free = `${name.slice(0, 35).replace(/_$/, '')}_${number}`;
  }
  return free;
}

/** The address and sign-in of most streams: a definition has one address, and signs all requests alike. */
function mainOf(streams: readonly Component[]) {
  const readable = <Read>(read: (requester: Component) => Read): readonly Read[] =>
    streams.flatMap((stream) =>
      unlessRefused(
        () => [read(partsOf(stream).requester)],
        () => [],
      ),
    );
  const signings = readable(readSigning).filter(({ ways }) => ways.some(({ auth }) => auth !== null));
  const signed = signings.filter(({ id }) => id !== 'none');
  return {
    baseUrl: mostOf(readable((requester) => addressOf(urlOf(requester), requester).baseUrl)),
    signing: mostOf((signed.length > 0 ? signed : signings).map(({ id }) => id)),
  };
}

function mostOf(values: readonly string[]): string {
  const counts = new Map<string, number>();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  return [...counts].toSorted((left, right) => right[1] - left[1])[0]?.[0] ?? '';
}

/** The components that read a stream. Refuses those of other types. */
function partsOf(given: Component) {
  const inner = given.type === 'StateDelegatingStream' ? given.part('full_refresh_stream') : null;
  const stream = inner ?? given;
  if (stream.kind !== 'DeclarativeStream') refuse('a stream of this type', stream);
  const retriever = needed(stream, 'retriever', 'SimpleRetriever', 'a retriever of this type');
  const selector = needed(retriever, 'record_selector', 'RecordSelector', 'a selector of this type');
  const decoder = retriever.part('decoder');
  if (decoder !== null && decoder.type !== 'JsonDecoder') refuse('answers that are no JSON', decoder);
  const requester = retriever.part('requester') ?? refuse('a retriever without a requester', retriever);
  return { stream, retriever, requester, selector };
}

/** Reads everything that a stream says, in the order in which one part needs another. */
function readStream(
  given: Component,
  entity: string,
  main: ReturnType<typeof mainOf>,
  parentOf: (stream: Component) => StreamPlan,
) {
  const { stream, retriever, requester, selector } = partsOf(given);
  const signing = readSigning(requester);
  if (signing.ways.every(({ auth }) => auth === null)) throw new Refusal(signing.ways[0]?.why);
  if (signing.id !== main.signing && signing.id !== 'none') {
    refuse('a sign-in other than that of most streams', requester);
  }
  const request = readRequest(requester, signing.place);
  if (request.baseUrl !== main.baseUrl) {
    refuse(`an address other than ${main.baseUrl}, that of most streams`, requester);
  }
  const records = readRecords(stream);
  const place = readPlace(selector);
  const filters = readFilter(selector, records, request.used);
  const sources = readPartitions(retriever, request, parentOf);
  const isRoot = place.text === '' || place.text.startsWith('[*]');
  const paging = readPaging(retriever.part('paginator'), request, records, isRoot);
  const { kind } = paging.pagination;
  const changes = readChanges(stream, request, records, kind === 'page' || kind === 'offset');
  const links = linkPartitions(entity, sources, request, records, retriever);
  const identity = keyOf(stream, records, links, changes.bounds);
  return { entity, request, records, place, filters, paging, changes, links, identity, signing };
}

// --- Partitions

/**
 * A source of values for the request: a parent, or a list of values. Sources of one `router` are several ways to the
 * same listings.
 */
interface Source {
  readonly name: string;
  readonly at: Component;
  readonly router: number;
  readonly parent: { readonly plan: StreamPlan; readonly field: readonly string[] } | null;
  readonly values: JsonValue;
}

function readPartitions(retriever: Component, request: Request, parentOf: (stream: Component) => StreamPlan) {
  const one = retriever.part('partition_router');
  const routers = one === null ? retriever.parts('partition_router') : [one];
  const sourceOf = (at: Component, router: number, member: string): Source => {
    const name = at.text(member) ?? refuse(`a ${at.type} without ${member}`, at);
    const option = at.part('request_option');
    if (option !== null) {
      const place = placeOfOption(option) ?? refuse('a value of the parent in this place', option);
      request.put(place, { kind: 'partition', name, above: 0, part: null }, option);
    }
    return { name, at, router, parent: null, values: [] };
  };
  return routers.flatMap((at, router): readonly Source[] => {
    if (at.kind === 'ListPartitionRouter') {
      const source = sourceOf(at, router, 'cursor_field');
      if (isJsonArray(at.get('values'))) return [{ ...source, values: fixedTexts(at, 'values') }];
      const sent = sentBy(at.expression('values'), at);
      if (sent.kind === 'text' && isJsonArray(sent.value)) return [{ ...source, values: sent.value }];
      if (sent.kind !== 'setting') return refuse('a list of values that is computed', at);
      request.used.push({ ...sent.setting, isRequired: sent.setting.fallback === null });
      return [{ ...source, values: { field: sent.setting.name } }];
    }
    if (at.kind !== 'SubstreamPartitionRouter') return refuse('a router of this type', at);
    return at.parts('parent_stream_configs').map((config) => {
      const key = config.text('parent_key') ?? refuse('a parent without a parent_key', config);
      const source = sourceOf(config, router, 'partition_field');
      const plan = parentOf(config.part('stream') ?? refuse('a parent without its stream', config));
      return { ...source, parent: { plan, field: key.split(/[/.]/) } };
    });
  });
}

type PartitionUse = Extract<Request['uses'][number], { kind: 'partition' }>;

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
  const columnFor = (use: PartitionUse, above: string, type: FieldType): string => {
    const plain = columnName(use.name.replace(/^extra_fields\./, '').replaceAll('.', '_'));
    const isTaken = [...records.fields.values()].some(({ name }) => name === plain);
    const named = columnName(`${singular(above)}_${plain ?? 'value'}`) ?? `${entity.slice(0, 30)}_value`;
    const own = columnName(records.nameOfPartition(use.name));
    const column = columns.get(use.name) ?? { name: own ?? (isTaken ? null : plain) ?? named, type };
    columns.set(use.name, column);
    return column.name;
  };
  const linked = sources.map((source) => {
    const params: Record<string, JsonValue> = {};
    const inject: Record<string, JsonValue> = {};
    for (const use of uses) {
      const found = valueOfSource(use, source);
      if (found === null) continue;
      const value = use.part === null ? found.name : { path: found.name, ...use.part };
      params[use.param] = source.parent === null ? source.values : value;
      const type = use.part === null ? found.type : 'string';
      inject[columnFor(use, source.parent?.plan.entity ?? 'value', type)] ??= use.param;
    }
    return Object.keys(params).length > 0
      ? { ...source, params, inject }
      : refuse(`a parent whose value the request never uses (${source.name})`, source.at);
  });
  for (const { param, name, where } of uses) {
    if (linked.some(({ params }) => Object.hasOwn(params, param))) continue;
    // The program that runs these files leaves out a parameter without a value.
    if (where !== 'query') refuse(`a value that no parent gives (${name})`, retriever);
    request.params.remove(param);
  }
  const lists = linked.filter(({ parent }) => parent === null);
  const below = linked.flatMap(({ parent, router, params, inject }) =>
    parent === null ? [] : [{ router, way: { entity: parent.plan.entity, params }, inject }],
  );
  if (new Set(below.map(({ router }) => router)).size > 1) refuse('two independent parents', retriever);
  return {
    columns,
    below: below.map(({ way, inject }) => ({ ...way, ...stated({ inject }) })),
    plans: linked.flatMap(({ parent }) => parent?.plan ?? []),
    each: merged(lists.map(({ params }) => params)),
    injected: merged(lists.map(({ inject }) => inject)),
  };
}

function merged(objects: readonly JsonObject[]): JsonObject {
  return Object.fromEntries(objects.flatMap((one) => Object.entries(one)));
}

/** The field of a parent, or the path in one, that fills a parameter; null: this source does not. */
function valueOfSource(use: PartitionUse, { parent, at, name }: Source): Column | null {
  if (parent === null) return use.name === name ? { name: '', type: 'string' } : null;
  const { plan, field } = parent;
  if (use.above > 0) return (use.above === 1 && plan.columns.get(use.name)) || null;
  const [, outer = '', inner] = /^([^.]+)(?:\.(.+))?$/.exec(use.name) ?? [];
  const isExtra = outer === 'extra_fields' && inner !== undefined;
  if (!isExtra && outer !== name) return null;
  const path = [...(isExtra ? [] : field), ...(inner?.split('.') ?? [])];
  const found = plan.records.reach(path, 'value for its children');
  if (found.kind === 'other') return refuse(found.why, found.at);
  if (found.kind === 'partition') {
    return plan.columns.get(found.name) ?? refuse(`a value of ${plan.entity} that it does not keep`, at);
  }
  if (found.kind !== 'field') return refuse(`a value of ${plan.entity} that is made up`, at);
  const place = found.path === null ? found.name : plan.records.columnAt(found.path.split('.'));
  return { name: place, type: keyType(found.type) };
}

function keyType(type: FieldType): FieldType {
  return type === 'integer' || type === 'number' ? 'integer' : 'string';
}

// --- The key

/** The key by the file's word, with everything that tells the listings apart. Empty: nothing identifies a record. */
function keyOf(
  stream: Component,
  records: Records,
  { columns }: ReturnType<typeof linkPartitions>,
  params: ReturnType<typeof readChanges>['bounds'],
) {
  const given = stream.get('primary_key') ?? [];
  const paths = (isJsonArray(given) ? given : [given])
    .map((one) => (isJsonArray(one) ? one : [one]).map(plainText))
    .filter((path) => path.join('') !== '');
  const keyless = { key: [], columnsAt: {}, types: {}, bounds: {}, open: null };
  const columnsAt: Record<string, string> = {};
  const types: Record<string, FieldType> = {};
  const bounds: Record<string, string> = {};
  const reached = paths.map((path) => ({ path, found: records.reach(path, 'key') }));
  if (paths.length === 0 || reached.some(({ found }) => found.kind === 'madeUp')) return keyless;
  const key = reached.flatMap(({ path, found }) => {
    if (found.kind === 'other') return refuse(found.why, found.at);
    if (found.kind === 'partition') {
      const why = `a key by ${found.name}, which the request never uses`;
      return columns.get(found.name)?.name ?? refuse(why, stream);
    }
    if (found.kind === 'bound') {
      const name = columnName(path.join('_')) ?? 'window';
      bounds[name] = params[found.bound] ?? refuse('a key by a time of changes that is not sent', stream);
      return name;
    }
    if (found.kind !== 'field') return [];
    const { name, type } = found;
    if (/^(?:object|array|boolean)$/.test(type)) refuse(`a key by ${name}, which is of type ${type}`, stream);
    types[name] = type === 'any' ? type : keyType(type);
    if (found.path !== null) columnsAt[name] = found.path;
    return name;
  });
  if (key.length === 0) return refuse('a key that is the same in every record', stream);
  const unknown = Object.keys(types).filter((name) => types[name] === 'any');
  for (const name of unknown) types[name] = 'string';
  const above = [...columns.values()].map(({ name }) => name).filter((name) => !key.includes(name));
  const todo = `write string or integer: the file has no type for ${unknown.join(', ')}`;
  const open = unknown.length === 0 ? null : todo;
  return { key: [...new Set([...above, ...key])], columnsAt, types, bounds, open };
}

// --- The text of an entity

type Found = ReturnType<typeof readStream>;

function planOf(found: Found): StreamPlan {
  const { entity, request, place, paging, changes, links, identity, signing, records, filters } = found;
  const at = ['entities', entity];
  const { headers } = request;
  const list = {
    ...request.sent(),
    ...stated({ params: request.params.rules() }),
    records: place.records,
    ...stated({ metadata: paging.metadata, paging: paging.paging }),
  };
  const questions: readonly (readonly [readonly string[], string | null])[] = [
    [[...at, 'pagination'], paging.open],
    [[...at, 'key'], identity.open],
    [[...at, changes.incremental === undefined ? 'fixedParams' : 'incremental'], changes.open],
    [['upstream', ...at, 'list', 'records'], place.open],
  ];
  const guesses = [
    ...paging.guesses.map((text) => ({ at: [...at, 'pagination'], text })),
    ...changes.guesses.map((text) => ({ at: [...at, 'incremental'], text })),
  ];
  const below = links.plans.map((plan) => plan.entity).join(', ');
  const isListed = Object.keys(links.each).length > 0 || links.below.length > 0;
  const isWindowed = changes.incremental?.['kind'] === 'windows';
  return {
    entity,
    open: questions.flatMap(([where, text]) => (text === null ? [] : [{ at: where, text }])),
    summary: [
      `key ${identity.key.join(', ') || 'none'}`,
      paging.summary,
      ...(below === '' ? [] : [`below ${below}`]),
    ].join('; '),
    write: () => writeEntity(found),
    upstream: { list, ...stated({ headers }) },
    comments: guesses.map((one) => ({ ...one, text: `${one.text} # guessed` })),
    request,
    signing,
    records,
    columns: links.columns,
    listing: JSON.stringify([list, headers, links.below, links.each, filters, request.fixed]),
    check: isListed || isWindowed ? null : { ...request.sent(), ...stated({ headers }) },
  };
}

function writeEntity({ request, records, filters, paging, changes, links, identity }: Found): JsonObject {
  const typed = (columns: Iterable<Column>): JsonObject =>
    Object.fromEntries([...columns].map(({ name, type }) => [name, type]));
  const isKeyless = identity.key.length === 0;
  const isClock = request.uses.some((use) => use.kind === 'clock');
  const [only, ...more] = filters;
  const ofListing = typed(links.columns.values());
  const bounds = Object.fromEntries(Object.keys(identity.bounds).map((name) => [name, 'string']));
  const entity: JsonObject = {
    fields: { ...ofListing, ...bounds, ...typed(records.fields.values()), ...identity.types, ...ofListing },
    ...stated({
      rename: Object.fromEntries(records.rename),
      at: identity.columnsAt,
      key: isKeyless ? 'none' : identity.key,
      actions: { list: stated({ params: request.params.declared() }) },
      pagination: paging.pagination,
      incremental: changes.incremental,
      deletes: isKeyless || isClock ? 'never' : 'confirm',
      fixedParams: request.fixed,
      only: more.length > 0 ? filters : only,
      each: links.each,
      inject: { ...links.injected, ...identity.bounds },
      parents: links.below,
    }),
  };
  return { ...entity, ...stated({ unproven: guessedIn(entity) }) };
}
