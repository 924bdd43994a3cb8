import type { JsonObject, JsonValue } from '../../core/json.ts';
import type { YamlPath } from '../read-yaml.ts';
import { getsOwnKind, namesKey, neededParams } from './keys.ts';
import type { ModeName } from './modes.ts';
import type { Operation } from './operation.ts';
import { declarable, type Parameter } from './parameter.ts';
import { writePaging } from './write-paging.ts';
import type { EntityPlan } from './plan-entity.ts';
import { oneLine, plainText } from './parts.ts';
import type { ServiceFile } from './service-file.ts';
import { suggestionsFor } from './suggestions.ts';
import { writeRequest } from './write-request.ts';

/** Comments above places of the written file. */
export type NoteAt = (at: YamlPath, text: string) => void;

/**
 * A plan as a member of `entities`, and of `upstream.entities` where the service itself is called. `shared`: headers
 * that every request has.
 */
export function writeEntity(
  plan: EntityPlan,
  mode: ModeName,
  service: ServiceFile,
  note: NoteAt,
  shared: Readonly<Record<string, string>>,
) {
  const at = ['entities', plan.entity];
  const { fields, injected, key, list } = plan;
  const get = usableGet(plan, service);
  const pagination = writePaging(plan.paging, list, mode);
  const types = [
    ...[...injected].map(([name, type]) => [name, type] as const),
    ...fields.declared.map(({ name, type }) => [name, type] as const),
  ];
  const changed = fields.declared
    .filter(({ name, sent }) => name !== sent)
    .map(({ name, sent }) => [sent, name]);
  noteEntity(plan, note, at);
  for (const text of pagination.notes) note([...at, 'pagination'], text);
  for (const text of suggestionsFor(plan)) note([...at, 'deletes'], `suggestion: ${text}`);
  const params = listParams(plan, mode, pagination.params);
  const actions: Record<string, JsonObject> = { list: { params } };
  if (get !== null) {
    const required = get.params.map(({ name, type }) => [name, { type, required: true }]);
    actions['get'] = { params: Object.fromEntries(required), key: Object.fromEntries(get.columns) };
  }
  const searchable = mode === 'hosted' ? searchableFields(plan, service) : {};
  if (Object.keys(searchable).length > 0) actions['context_store_search'] = { params: searchParams };
  const fixed = [...plan.fixed].filter(([name]) => Object.hasOwn(params, name));
  for (const [name, { evidence }] of fixed) note([...at, 'fixedParams', name], `${name}: ${evidence}`);
  const entity: JsonObject = {
    fields: Object.fromEntries(types),
    ...(changed.length === 0 ? {} : { rename: Object.fromEntries(changed) }),
    key: key.length === 0 ? 'none' : key,
    ...(mode === 'hosted' ? { ...hostedRecords(list), ...emptyRecords(list, service) } : {}),
    ...(Object.keys(searchable).length > 0 ? { searchable } : {}),
    actions,
    pagination: pagination.pagination,
    deletes: key.length === 0 || (movesWithClock(plan) && get === null) ? 'never' : 'confirm',
    ...(fixed.length === 0
      ? {}
      : { fixedParams: Object.fromEntries(fixed.map(([name, { value }]) => [name, value])) }),
    ...(plan.parents.length === 0 ? {} : { parents: plan.parents.map(writeParent) }),
  };
  const own = Object.entries(fixedHeaders(list)).filter(([name]) => !Object.hasOwn(shared, name));
  const upstream =
    mode === 'hosted'
      ? null
      : {
          list: {
            ...writeRequest(list, params, plan),
            records: directRecords(list),
            ...emptyRecords(list, service),
            ...(Object.keys(pagination.metadata).length === 0 ? {} : { metadata: pagination.metadata }),
            ...(pagination.paging === null ? {} : { paging: pagination.paging }),
          },
          ...(get === null
            ? {}
            : { get: { ...writeRequest(get.operation, null, null), record: get.record } }),
          ...(own.length === 0 ? {} : { headers: Object.fromEntries(own) }),
        };
  return { entity, upstream };
}

/** Records leave such a listing without being deleted. */
function movesWithClock({ fixed }: EntityPlan): boolean {
  return [...fixed.values()].some(({ isClock }) => isClock === true);
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
  const columns = [...inject].map(([param, column]) => [column, param]);
  return {
    entity: parent.entity,
    params: Object.fromEntries(params),
    ...(columns.length === 0 ? {} : { inject: Object.fromEntries(columns) }),
    ...(when.length === 0 ? {} : { when: when }),
  };
}

/** Where a result of the API has the records: the API has applied what the file extracts. */
function hostedRecords({ records }: Operation): JsonObject {
  if (records === null || (!records.isFound && !records.isOne)) return {};
  const path = records.isFound ? records.path.join('.') : '';
  return { records: records.isOne ? { path, one: true } : path };
}

/** Where the file says that null may stand in the place of the records. A status of 204 needs no word. */
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
  if (
    key.length === 0 ||
    get === null ||
    get.body.problem !== null ||
    get.hasOwnServers ||
    get.transform !== null
  ) {
    return null;
  }
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
  const isOwnKind = getsOwnKind(plan.list, get);
  const required = neededParams(get);
  const columns = required.flatMap(({ name, place: where }): readonly (readonly [string, string])[] => {
    if (where === 'query' && get.body.isGraphql) return [];
    const isAbove = !isOwnKind && plan.list.params.some((param) => param.name === name);
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

const searchParams: JsonObject = {
  query: { type: 'object', required: true, members: { filter: 'object', sort: 'array' } },
  limit: { type: 'integer', min: 1, default: 1000 },
  cursor: 'string',
  fields: 'array',
};

/** What the indexed store has of an entity, by the file. */
function searchableFields({ entity, fields }: EntityPlan, { searchable, schemas }: ServiceFile): JsonObject {
  const columnBySent = new Map(fields.declared.map(({ sent, name }) => [sent, name]));
  const known = searchable.get(entity) ?? [];
  return Object.fromEntries(
    known.flatMap(([name, schema]): readonly [string, JsonValue][] => {
      if (declarable(name) !== name) return [];
      const type = schemas.typeOf(schema);
      const column = columnBySent.get(name);
      return [[name, column === undefined || column === name ? type : { type, from: [column] }]];
    }),
  );
}

/** Headers with a fixed value. */
export function fixedHeaders({ params }: Operation): Readonly<Record<string, string>> {
  const fixed = params.filter(
    ({ place, name, fallback }) =>
      place === 'header' &&
      name.toLowerCase() !== 'content-type' &&
      fallback !== undefined &&
      fallback !== null,
  );
  return Object.fromEntries(fixed.map(({ name, fallback }) => [name, plainText(fallback)]));
}
