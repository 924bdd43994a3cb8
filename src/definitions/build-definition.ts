import { createHash } from 'node:crypto';
import { type JsonObject, type JsonValue, isJsonObject } from '../core/json.ts';
import { isDeclaredName, type EntityName } from '../core/names.ts';
import type { Column, EntityTable } from '../core/records.ts';
import { deepFreeze } from './deep-freeze.ts';
import type {
  Action,
  ActionName,
  Definition,
  Entity,
  Explode,
  Pagination,
  Param,
  Parent,
} from './definition.ts';
import type { ActionFile, DefinitionFile, EntityFile, ParamFile } from './definition-file.ts';
import { buildUpstream } from './upstream/build-upstream.ts';
import type { PagingFile } from './upstream/upstream-file.ts';

/**
 * The definition that a checked file describes, frozen with everything in it. `contentHash`: of that file, where it is
 * known.
 */
export function buildDefinition(file: DefinitionFile, contentHash = contentHashOf(file)): Definition {
  const entities = new Map(
    Object.entries(file.entities).map(([name, entity]) => [
      entityName(name),
      buildEntity(entityName(name), entity, file.upstream?.entities[name]?.list?.paging),
    ]),
  );
  return deepFreeze({
    name: file.name,
    title: file.title,
    aliases: file.aliases,
    id: file.id.toLowerCase(),
    contentHash,
    rateLimit: { ...file.rateLimit },
    errors: file.errors.map((pattern) => ({
      ...pattern,
      entity: pattern.entity === null ? null : entityName(pattern.entity),
    })),
    credentials: file.credentials.map(({ title, fields }) => ({
      title,
      fields: new Map(
        Object.entries(fields).map(([field, { secret, required }]) => [
          field,
          { isSecret: secret, isRequired: required },
        ]),
      ),
    })),
    entities,
    upstream: file.upstream === null ? null : buildUpstream(file.upstream, entities),
  });
}

function buildEntity(name: EntityName, file: EntityFile, paging: PagingFile | undefined): Entity {
  const explode = buildExplode(file);
  return {
    name,
    description: file.description,
    descriptions: new Map(Object.entries(file.descriptions)),
    derived: Object.entries(file.derived).map(([column, { from, path }]) => ({
      name: column,
      from,
      path: path.split('.'),
    })),
    fields: new Map(Object.entries(file.fields)),
    key: file.key,
    ignored: new Set(file.ignored),
    volatile: file.volatile.map((path) => path.split('.')),
    moved: new Map(Object.entries(file.moved)),
    filledFrom: new Map(Object.entries(file.filledFrom)),
    searchable: new Map(
      Object.entries(file.searchable).map(([field, { type, from = [field], shape }]) => [
        field,
        { type, from, shape },
      ]),
    ),
    actions: buildActions(file),
    pagination: buildPagination(file, paging),
    order: file.order,
    whole: file.whole,
    growsOnly: file.growsOnly,
    trustsTotal: file.totals === 'trust',
    incremental: file.incremental,
    deletes: file.deletes,
    unlisted: file.unlisted,
    window: file.window,
    fixedParams: file.fixedParams,
    only: file.only,
    parents: file.parents.map(buildParent),
    recursive:
      file.recursive === null
        ? null
        : {
            ...file.recursive,
            skipTypes: new Set(file.recursive.skipTypes),
            ownerTypes: new Set(file.recursive.ownerTypes),
          },
    explode,
    table: buildTable(name, file),
    explodedTable: explode === null ? null : buildExplodedTable(explode, file),
  };
}

function buildActions(file: EntityFile): ReadonlyMap<ActionName, Action> {
  const actions = new Map<ActionName, Action>();
  for (const name of ['list', 'get', 'context_store_search', 'download'] as const) {
    const action = file.actions[name];
    if (action !== undefined) actions.set(name, buildAction(action));
  }
  return actions;
}

/** Where the service numbers its pages, the walk does too. */
function buildPagination({ pagination }: EntityFile, paging: PagingFile | undefined): Pagination {
  if (pagination.kind !== 'offset' || paging?.kind !== 'page') return pagination;
  const { fixed = false, end } = paging;
  return { ...pagination, numbered: { isFixed: fixed, endsByRepeat: end === 'repeats' } };
}

/** An action as the other rooms know it. */
export function buildAction(file: ActionFile): Action {
  return {
    params: new Map(Object.entries(file.params).map(([name, param]) => [name, buildParam(param)])),
    key: new Map(Object.entries(file.key)),
    file: 'file' in file ? file.file : null,
    isDirectOnly: 'direct' in file && file.direct,
  };
}

function buildParam({ members, ...param }: ParamFile): Param {
  return members === null ? param : { ...param, members: new Map(Object.entries(members)) };
}

function buildParent(file: EntityFile['parents'][number]): Parent {
  return {
    entity: entityName(file.entity),
    params: new Map(Object.entries(file.params)),
    inject: new Map(Object.entries(file.inject)),
    when: file.when,
    marker: file.marker,
    byDefault: file.byDefault,
  };
}

function buildExplode(file: EntityFile): Explode | null {
  return file.explode === null
    ? null
    : {
        ...file.explode,
        into: entityName(file.explode.into),
        fields: new Map(Object.entries(file.explode.fields)),
      };
}

function buildTable(entity: EntityName, file: EntityFile): EntityTable {
  const columns = Object.entries(file.fields)
    .filter(([name]) => name !== file.explode?.field)
    .map(([name, type]): Column =>
      file.addedLater.includes(name) ? { name, type, isEvolved: true } : { name, type },
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

/** Changes with everything of a definition that decides what is read and stored. */
export function contentHashOf(file: DefinitionFile): string {
  return createHash('sha256')
    .update(sortedJson(whatReadingDependsOn(file)))
    .digest('hex');
}

/**
 * Names, descriptions, derived columns, searchable fields and credentials do not affect what is stored, a copy of
 * another field or a moved address does not change a record, a total only saves calls, who offers an action says
 * nothing about records, and what a whole record has says only what is not stored: a change of these does not cause a
 * new full read. Of `upstream` only the requests of the entities count.
 */
function whatReadingDependsOn({
  entities,
  title: _title,
  aliases: _aliases,
  credentials: _credentials,
  upstream,
  ...rest
}: DefinitionFile): object {
  const read = Object.entries(entities).map(([name, entity]) => {
    const { searchable: _searchable, filledFrom: _filledFrom, moved: _moved, ...more } = entity;
    const { addedLater: _addedLater, whole: _whole, totals: _totals, pagination, actions, ...written } = more;
    const { direct: _direct, ...get } = { direct: false, ...actions.get };
    const { description: _description, descriptions: _descriptions, derived: _derived, ...counted } = written;
    const {
      totalKeys: _totalKeys,
      totalCountsListing: _counts,
      ...paging
    } = {
      totalCountsListing: undefined,
      ...pagination,
    };
    const offered = actions.get === undefined ? actions : { ...actions, get };
    return [name, { ...counted, actions: offered, pagination: paging }] as const;
  });
  return {
    ...rest,
    entities: Object.fromEntries(read),
    ...(upstream === null ? {} : { upstream: upstream.entities }),
  };
}

/** Key order says nothing, so it is not hashed; neither are comments, anchors and layout. */
function sortedJson(value: object): string {
  const plain: JsonObject = JSON.parse(JSON.stringify(value)) as JsonObject;
  return JSON.stringify(plain, (_, value: JsonValue) =>
    isJsonObject(value)
      ? Object.fromEntries(Object.entries(value).sort(([left], [right]) => (left < right ? -1 : 1)))
      : value,
  );
}
