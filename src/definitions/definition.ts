import { hash } from 'node:crypto';
import { SyncError } from '../core/errors.ts';
import { timeMs } from '../core/clock.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../core/json.ts';
import { isDeclaredName, type EntityName } from '../core/names.ts';
import type { DerivedColumn, RecordMask, Column, EntityTable } from '../core/records.ts';
import type { ActionFile, DefinitionFile, EntityFile, ParamFile } from './definition-file.ts';
import { guesses, type Guess } from './guesses.ts';
import { frozen, mapOf, type Frozen, type MapValue } from './frozen.ts';
import { recordsPlace } from './upstream/service-texts.ts';
import { buildUpstream } from './upstream/upstream.ts';

/**
 * A connector type, parsed and cross-checked: the content of `config/definitions/<name>.yaml` in the form that the
 * program uses. `definition-file.ts` describes each member.
 */
export type Definition = ReturnType<typeof buildDefinition>;
/** One way to sign in: an object of texts. */
export type CredentialShape = Definition['credentials'][number];

/** A text that a connector gives. */
interface GivenField {
  readonly isSecret: boolean;
  readonly isRequired: boolean;
  /** Absent: the text is one of the credentials. */
  readonly setting?: Frozen<Pick<DefinitionFile['settings'][string], 'title' | 'default' | 'values'>>;
}
/** A known upstream answer: `status` and a fragment of the message (without case) decide what happens. */
export type ErrorPattern = Definition['errors'][number];

export type Entity = Frozen<ReturnType<typeof buildEntity>>;
export type SearchableField = MapValue<Entity['searchable']>;
export type ActionName = keyof EntityFile['actions'];
export type Action = MapValue<Entity['actions']>;
export type Param = MapValue<Action['params']>;
export type Pagination = Entity['pagination'];
export type Parent = Entity['parents'][number];
/** `present`: neither absent nor null nor an empty text. */
export type ParentCondition = Parent['when'][number];
/** Listings inside listings (blocks of a page): the tree below one partition is walked as one unit. */
export type Recursive = NonNullable<Entity['recursive']>;
/** Elements of an array field become rows of `into`, insert-only; the array leaves the parent row. */
type Explode = Frozen<ReturnType<typeof buildExplode>>;

/**
 * The definition that a checked file describes, read-only with everything in it. `contentHash`: of that file, where it
 * is known.
 */
export function buildDefinition(
  file: DefinitionFile,
  contentHash = contentHashOf(file),
  todos: readonly Todo[] = [],
) {
  const files = new Map(Object.entries(file.entities).map(([name, entity]) => [entityName(name), entity]));
  const settings = mapOf(file.settings, ({ secret, required, ...setting }): GivenField => {
    return { isSecret: secret, isRequired: required && setting.default === null, setting };
  });
  return frozen({
    ...file,
    id: file.id.toLowerCase(),
    /** SHA-256 hex of the parts that determine how records are read and stored. */
    contentHash,
    todos,
    errors: file.errors.map((pattern) => ({
      ...pattern,
      entity: pattern.entity === null ? null : entityName(pattern.entity),
    })),
    /** The settings are fields of every way to sign in. */
    credentials: file.credentials.map(({ title, fields }) => ({
      title,
      fields: new Map<string, GivenField>([
        ...mapOf(fields, ({ secret, required }) => ({ isSecret: secret, isRequired: required })),
        ...settings,
      ]),
    })),
    settings,
    /** Entities in file order. Parents come before their children. */
    entities: new Map(
      [...files].map(([name, entity]) => {
        return [name, buildEntity(name, entity, file)] as const;
      }),
    ),
    /** How the third party itself is called; null: only sample accounts can be served. */
    upstream: file.upstream === null ? null : buildUpstream(file.upstream, files, file.settings),
  });
}

function buildEntity(name: EntityName, file: EntityFile, whole: DefinitionFile) {
  const { addedLater, totals, recursive, unpack, ...rest } = file;
  const explode = file.explode && buildExplode(file.explode);
  return {
    ...rest,
    name,
    /** Guesses of an import; null: there are none. */
    draft: draftOf(whole, name, file),
    descriptions: mapOf(file.descriptions),
    derived: [
      ...Object.entries(file.derived).map(([column, { from, path }]): DerivedColumn => ({
        name: column,
        from,
        path: path.split('.'),
        as: 'texts',
      })),
      ...Object.entries(unpack).map(([column, { from, as }]): DerivedColumn => {
        const [field = '', ...path] = from.split('.');
        return { name: column, from: [field], path, as };
      }),
    ],
    fields: mapOf(file.fields),
    rename: mapOf(file.rename ?? {}),
    at: mapOf(file.at ?? {}),
    /** The place of the records in an API's answer; null: its result is their array. */
    records: file.records === undefined ? null : recordsPlace(file.records),
    /** Forms that stand for an empty array in an API's answer; null: the definition names none. */
    empty: file.empty ?? whole.upstream?.entities[name]?.list?.empty ?? null,
    ignored: new Set(file.ignored),
    volatile: file.volatile.map((path) => path.split('.')),
    filledFrom: mapOf(file.filledFrom),
    reveals: mapOf(file.reveals),
    references: mapOf(file.references, referenceOf),
    searchable: mapOf(file.searchable, ({ from, ...field }, column) => ({
      ...field,
      from: from ?? [column],
    })),
    actions: buildActions(file),
    pagination: buildPagination(file),
    ...buildIncremental(file, whole.settings),
    /** How the service cuts listings; null: it does not. */
    cut: file.cut ?? null,
    /** False: the totals in answers are wrong and are not used. */
    trustsTotal: totals === 'trust',
    ...buildListings(file),
    recursive: recursive && {
      ...recursive,
      skipTypes: new Set(recursive.skipTypes),
      ownerTypes: new Set(recursive.ownerTypes),
    },
    explode,
    /** The tables of the entity's records and of exploded elements (or null). */
    table: buildTable(name, file, addedLater),
    explodedTable: explode && buildExplodedTable(explode, file),
    /** Keeps values out of storage as the config says; null: nothing is masked. */
    mask: noMask,
  };
}

/** The listings of an entity, and which of their records are its own. */
function buildListings(file: EntityFile) {
  return {
    only: [file.only ?? []].flat().map(({ field, value, values, setting = null, not = false }) => {
      const fixed: readonly Scalar[] | null = values ?? (value === undefined ? null : [value]);
      return { field, values: fixed, setting, isNot: not };
    }),
    /** By list parameter. The values of a setting are null before `withSettings`. */
    each: mapOf(file.each ?? {}, (given) => {
      const values: readonly Scalar[] | null = Array.isArray(given) ? given : null;
      return { values, setting: Array.isArray(given) ? null : given.field };
    }),
    /** Fields and the list parameters that fill them, whatever leads to the listing. */
    inject: mapOf(file.inject ?? {}),
    parents: file.parents.map((parent) => ({
      ...parent,
      entity: entityName(parent.entity),
      params: mapOf(parent.params, parentPath),
      /** By list parameter: the part of the parent's text that fills it. */
      parts: new Map(
        Object.entries(parent.params).flatMap(([name, value]) =>
          typeof value === 'string' ? [] : [[name, value] as const],
        ),
      ),
      inject: mapOf(parent.inject),
    })),
  };
}

/** The place of the value, or of the text that has it, in the record of a parent. */
export function parentPath(value: EntityFile['parents'][number]['params'][string]): string {
  return typeof value === 'string' ? value : value.path;
}

type Scalar = string | number | boolean;
interface FirstTime {
  /** Null: the connector does not give it. */
  readonly ms: number | null;
  /** The setting that gives it; null: the definition does. */
  readonly setting: string | null;
}

function buildIncremental({ incremental }: EntityFile, settings: DefinitionFile['settings']) {
  const given = incremental !== null && 'first' in incremental ? (incremental.first ?? null) : null;
  const setting = given === null || typeof given === 'string' ? null : given.field;
  const text = typeof given === 'string' ? given : (settings[setting ?? '']?.default ?? null);
  const first: FirstTime | null = given === null ? null : { ms: timeMs(text), setting };
  return {
    /** How changes are requested of one listing; null: it is read in full. */
    incremental: incremental?.kind === 'windows' ? null : incremental,
    /** Each window of the calendar is a listing; null: there is one listing. */
    windows: incremental?.kind === 'windows' ? incremental : null,
    /** Where reading begins where nothing is known; null: nowhere. */
    first,
  };
}

/** The settings that say where reading begins. */
export function firstSettings({ entities }: Pick<Definition, 'entities'>): ReadonlySet<string> {
  return new Set([...entities.values()].flatMap(({ first }) => first?.setting ?? []));
}

interface Address {
  readonly kind: string;
  /** With the settings; absent: it has none. */
  readonly credentials?: ReadonlyMap<string, { readonly reveal: () => string }>;
}

function referenceOf(target: string): { readonly entity: EntityName; readonly field: string } {
  const [entity = '', field = ''] = target.split('.');
  return { entity: entityName(entity), field };
}

const noMask: RecordMask | null = null as RecordMask | null;

function buildExplode(file: NonNullable<EntityFile['explode']>) {
  return { ...file, into: entityName(file.into), fields: mapOf(file.fields) };
}

function buildActions({ actions }: EntityFile): Map<ActionName, ReturnType<typeof buildAction>> {
  const built = new Map<ActionName, ReturnType<typeof buildAction>>();
  for (const name of ['list', 'get', 'context_store_search', 'download'] as const) {
    const action = actions[name];
    if (action !== undefined) built.set(name, buildAction(action));
  }
  return built;
}

/** An action in the form that other rooms use. */
export function buildAction(file: ActionFile) {
  return {
    params: mapOf(file.params, ({ members, ...param }: ParamFile) => ({
      ...param,
      ...(members === null ? {} : { members: mapOf(members) }),
    })),
    /** `get` and `download`: parameter -> field of the record that holds its value. */
    key: mapOf(file.key),
    /** `download` only: the fields of a record that describe its file. */
    file: 'file' in file ? file.file : null,
    /** The service itself has the action, and a Connector Execution API does not: see `servedDefinition`. */
    isDirectOnly: 'direct' in file && file.direct,
  };
}

function buildTable(entity: EntityName, file: EntityFile, addedLater: readonly string[]): EntityTable {
  const columns = Object.entries(file.fields)
    .filter(([name]) => name !== file.explode?.field)
    .map(([name, type]): Column =>
      addedLater.includes(name) ? { name, type, isEvolved: true } : { name, type },
    );
  return { entity, columns, key: file.key };
}

function buildExplodedTable(explode: Explode, file: EntityFile): EntityTable {
  const carried = explode.carry.map((name): Column => ({ name, type: file.fields[name] ?? 'any' }));
  const own = [...explode.fields].map(([name, type]): Column => ({ name, type }));
  return { entity: explode.into, columns: [...carried, ...own], key: explode.key };
}

function entityName(text: string): EntityName {
  if (!isDeclaredName(text)) {
    throw new TypeError(`expected a checked entity name, got ${JSON.stringify(text)}`);
  }
  return text;
}

/** Hashes the parts of a definition that decide which records are read and how they are stored. */
export function contentHashOf(file: DefinitionFile): string {
  return hash('sha256', sortedJson(whatReadingDependsOn(file)), 'hex');
}

/**
 * Leaves out parts whose change must not cause a new full read. Names, descriptions, columns of views, searchable
 * fields, credentials and settings do not affect stored data; a copy of another field does not change a record; totals
 * and documented page sizes only save calls; `direct` does not affect records; `whole` only says which records are not
 * stored. In `upstream` only the requests of the entities count.
 */
function whatReadingDependsOn({ entities, upstream, ...file }: DefinitionFile): object {
  const read = mapOf(entities, ({ actions, pagination, ...entity }) => ({
    ...without(entity, [
      'searchable',
      'filledFrom',
      'addedLater',
      'whole',
      'totals',
      ...ofDraft,
      ...forPeople,
    ]),
    actions: actions.get === undefined ? actions : { ...actions, get: without(actions.get, ['direct']) },
    pagination: without(pagination, ['totalKeys', 'totalCountsListing', 'honoursSize', 'gaps']),
  }));
  return {
    ...without(file, ['title', 'aliases', 'credentials', 'settings']),
    entities: Object.fromEntries(read),
    ...(upstream === null ? {} : { upstream: upstream.entities }),
  };
}

/** Guesses change what is concluded from a listing, not its records. */
const ofDraft = ['unproven', 'accept', 'proven'];
const forPeople = ['description', 'descriptions', 'derived', 'unpack', 'reveals', 'references'];

function without(members: object, names: readonly string[]): object {
  return Object.fromEntries(Object.entries(members).filter(([name]) => !names.includes(name)));
}

/** A guess that nothing confirms. `provenOn`: it was proven for a request that has been edited since. */
export interface OpenGuess {
  readonly guess: Guess;
  readonly provenOn: string | null;
}

/** The guesses of an entity that nothing confirms, and what stands for their request; null: its file names none. */
function draftOf({ upstream }: DefinitionFile, name: string, entity: EntityFile) {
  const { unproven = [], accept = [], proven = {} } = entity;
  if (unproven.length === 0) return null;
  const { key, rename, at, records, only, each, inject, actions, pagination, order, fixedParams, parents } =
    entity;
  const read = { key, rename, at, records, only, each, inject, list: actions.list, pagination, order };
  const ofService = [upstream?.baseUrl, upstream?.entities[name]?.list];
  const text = sortedJson([ofService, read, fixedParams, parents]);
  /** 16 hex digits that stand for all that a proof depends on: an edit of it voids the proof. */
  const request = hash('sha256', text, 'hex').slice(0, 16);
  const open = guesses.flatMap((guess): readonly OpenGuess[] => {
    const proof = proven[guess];
    const isOpen = unproven.includes(guess) && !accept.includes(guess) && proof?.request !== request;
    return isOpen ? [{ guess, provenOn: proof?.on ?? null }] : [];
  });
  return { request, open };
}

/** Sorts keys, because their order has no meaning; comments, anchors and layout are not hashed either. */
function sortedJson(value: object): string {
  const plain: JsonObject = JSON.parse(JSON.stringify(value)) as JsonObject;
  return JSON.stringify(plain, (_, value: JsonValue) =>
    isJsonObject(value)
      ? Object.fromEntries(Object.entries(value).sort(([left], [right]) => (left < right ? -1 : 1)))
      : value,
  );
}

/** The definition as a connector of this address reads it: with the values of its settings. */
export function withSettings(definition: Definition, { credentials }: Address): Definition {
  const textOf = (name: string | null): string | null =>
    name === null
      ? null
      : (credentials?.get(name)?.reveal() ?? definition.settings.get(name)?.setting?.default ?? null);
  const named = <Rule extends { readonly setting: string | null }>(
    rule: Rule,
    read: (text: string) => readonly string[],
  ) => {
    const text = textOf(rule.setting);
    return text === null ? rule : { ...rule, values: read(text) };
  };
  const listed = (text: string): readonly string[] => [...new Set(text.split(',').map((one) => one.trim()))];
  const isNamed = ({ only, each, first }: Entity): boolean =>
    [...only, ...each.values(), ...(first === null ? [] : [first])].some(({ setting }) => setting !== null);
  if (![...definition.entities.values()].some(isNamed)) return definition;
  const entities = new Map(
    [...definition.entities].map(([name, entity]): [EntityName, Entity] => {
      if (!isNamed(entity)) return [name, entity];
      const each = new Map([...entity.each].map(([param, rule]) => [param, named(rule, listed)] as const));
      const only = entity.only.map((rule) => named(rule, (text) => [text]));
      const from = textOf(entity.first?.setting ?? null);
      const first =
        entity.first === null || from === null ? entity.first : { ...entity.first, ms: timeMs(from) };
      return [name, { ...entity, each, only, first }];
    }),
  );
  return frozen({ ...definition, entities });
}

/** The values of a filter or a list of values. Throws DEFINITION_INVALID for those of a setting without one. */
export function valuesOf(
  entity: EntityName,
  { values, setting }: Pick<Entity['only'][number], 'values' | 'setting'>,
): readonly Scalar[] {
  if (values !== null) return values;
  throw new SyncError(
    `${entity} needs the setting ${setting ?? ''}, which has no value: give the setting a default in the definition, or read the service directly, by a connector that has settings.`,
    { code: 'DEFINITION_INVALID', recovery: 'stop' },
  );
}

/** `kind is card and state is not closed`. */
export function onlyText(only: Entity['only']): string {
  return only
    .map(({ field, values, setting, isNot }) => {
      const wanted = values?.join(' or ') ?? `the setting ${setting ?? ''}`;
      return `${field} is ${isNot ? 'not ' : ''}${wanted}`;
    })
    .join(' and ');
}

const served = new WeakMap<Definition, Definition>();

/** The definition as a Connector Execution API offers it: without the actions that only the service itself has. */
export function servedDefinition(definition: Definition): Definition {
  const known = served.get(definition);
  if (known !== undefined) return known;
  const entities = new Map(
    [...definition.entities].map(([name, entity]) => {
      const actions = new Map([...entity.actions].filter(([, { isDirectOnly }]) => !isDirectOnly));
      return [name, actions.size === entity.actions.size ? entity : { ...entity, actions }] as const;
    }),
  );
  const found = frozen({ ...definition, entities });
  served.set(definition, found);
  return found;
}

/** Builds the pagination of an entity, with conclusions from its other parts. */
function buildPagination(entity: EntityFile) {
  const { pagination } = entity;
  switch (pagination.kind) {
    case 'offset':
    case 'page':
    case 'pageToken':
      return pagination;
    case 'single':
      // If the listing is one object, names of the answer are members of the record.
      return entity.records !== undefined && recordsPlace(entity.records).isOne
        ? { flagKeys: [], ...pagination }
        : pagination;
    case 'lastRecord':
      return {
        ...pagination,
        tokenType:
          entity.actions.list?.params[pagination.tokenParam]?.type === 'integer' ? 'integer' : 'string',
        /** No two records of a listing have the same token. */
        isUnique: isUniqueInListing(pagination.field, entity),
      } as const;
  }
}

/** The field is all of the key that the way to the listing does not fill. */
export function isUniqueInListing(field: string, { key, parents, inject: own = {} }: EntityFile): boolean {
  const isFilled = (part: string): boolean =>
    Object.hasOwn(own, part) ||
    (parents.length > 0 && parents.every(({ inject }) => Object.hasOwn(inject, part)));
  return key.includes(field) && key.every((part) => part === field || isFilled(part));
}

/** A window of such an entity that was read to its end replaces its rows: there is no other way to recognize them. */
export function replacesRows({ windows, isKeyless, deletes }: Entity): boolean {
  return windows !== null && isKeyless === true && deletes !== 'never';
}

/**
 * The list parameters that the walk itself sets: neither a person nor a definition chooses their values. `role`: the
 * name that the definition gives the parameter by; one of the `types` must be declared.
 */
export function pagingParams(pagination: Frozen<EntityFile['pagination']>) {
  const tokenTypes = pagination.kind === 'lastRecord' ? ['string', 'integer'] : ['string'];
  const given = { offsetParam: null, pageParam: null, tokenParam: null, sizeParam: null, ...pagination };
  return (['offsetParam', 'pageParam', 'tokenParam', 'sizeParam'] as const).flatMap((role) => {
    const name: string | null = given[role];
    return name === null ? [] : [{ role, name, types: role === 'tokenParam' ? tokenTypes : ['integer'] }];
  });
}

/** A line of a definition file that begins with `# TODO`: the entity is not synced before a person has removed it. */
export interface Todo {
  /** Null: the line is outside of all entities, and applies to each of them. */
  readonly entity: string | null;
  readonly line: number;
  readonly text: string;
}

/** Throws DEFINITION_INVALID where an entity, or a parent of one, still has a guess in its definition. */
export function refuseTodos(
  connector: string,
  definition: { readonly name: string; readonly todos: readonly Todo[] },
  entities: ReadonlyMap<EntityName, { readonly parents: readonly EntityName[] }>,
): void {
  const read = new Set<string>([...entities].flatMap(([entity, { parents }]) => [entity, ...parents]));
  const todo = definition.todos.find(({ entity }) => entity === null || read.has(entity));
  if (todo === undefined) return;
  const { entity, line, text } = todo;
  const without = entity === null ? '' : `, or leave ${entity} out (exclude in the config)`;
  throw new SyncError(
    `${connector} cannot sync ${entity ?? 'any entity'}: line ${line} of the definition ${definition.name} is a TODO: ${text}. Write it below that line and remove the line${without}.`,
    { code: 'DEFINITION_INVALID', recovery: 'stop', context: { line } },
  );
}
