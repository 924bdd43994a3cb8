import { SyncError } from '../../core/errors.ts';
import type { JsonValue } from '../../core/json.ts';
import type { ConnectorName, EntityName } from '../../core/names.ts';
import type { Column, EntityTable, FieldDrift, JsonType } from '../../core/records.ts';
import type { Definition, Entity } from '../../definitions/definition.ts';
import type { KnownDrift } from '../../sinks/readings.ts';
import type { Sink } from '../../sinks/sink-access.ts';
import type { ChosenEntities, ChosenEntity } from '../chosen-entities.ts';

/** Longer names are cut in notes. */
const maxNameChars = 200;
/** Names distinguished in a run; a service that makes up a name for every record fills no memory. */
const maxNames = 1_000;

/** Treatment of a record with a new field, or a new type of a field. */
export interface SchemaPolicy {
  readonly onNews: 'accept' | 'quarantine' | 'fail';
  readonly isKnown: (drift: FieldDrift) => boolean;
}

/** Table (also one of exploded elements) -> treatment of changes of its records. */
export type SchemaPolicies = ReadonlyMap<EntityName, SchemaPolicy>;

/** Stands in for a table's names that are no longer distinguished, and for all of them once it is known itself. */
const otherFields = '*';

export const acceptEverything: SchemaPolicy = { onNews: 'accept', isKnown: () => true };

/** The same for a single record, which can be left out: nothing fails because of it. */
export function refusing({ onNews, isKnown }: SchemaPolicy): SchemaPolicy {
  return { onNews: onNews === 'accept' ? 'accept' : 'quarantine', isKnown };
}

/** Nothing counts as new while the entity has not been read whole: the fields of its records are not known yet. */
export function schemaPolicyOf(
  { onSchemaChange }: Pick<ChosenEntity, 'onSchemaChange'>,
  known: KnownDrift,
): SchemaPolicy {
  if (onSchemaChange === 'keepExtra' || onSchemaChange === 'evolve' || !known.isEstablished) {
    return acceptEverything;
  }
  const evolved = new Set(known.evolved.map(({ name }) => name));
  return {
    onNews: onSchemaChange,
    isKnown: ({ field, kind, type }) =>
      kind === 'misfit'
        ? [field, otherFields].some((name) => known.misfits.get(name)?.has(type) === true)
        : known.fields.has(field) || evolved.has(field) || known.fields.has(otherFields),
  };
}

/** Describes a change for a person, without a value and with a name that moves no cursor. */
export function describeNews({ field, kind, type }: FieldDrift): string {
  const name = JSON.stringify(field);
  const article = /^[aio]/.test(type) ? 'an' : 'a';
  const value = type === 'null' ? 'null' : `${article} ${type}`;
  return kind === 'undeclared'
    ? `the new field ${name} (${value}), which the definition does not declare`
    : `${value} in ${name}, which its column cannot hold`;
}

/** Nothing of the page is stored; other entities continue. */
export function schemaChanged(news: FieldDrift): SyncError {
  return new SyncError(
    `records of ${news.entity} came with ${describeNews(news)}; declare it in the definition, or let it in with ` +
      'onSchemaChange: keepExtra, and sync again',
    {
      code: 'SCHEMA_CHANGED',
      recovery: 'skip-entity',
      context: { entity: news.entity, field: news.field, type: news.type },
    },
  );
}

/** The table with the columns that were added for undeclared fields, behind the declared ones. */
export function withEvolved(table: EntityTable, known: Pick<KnownDrift, 'evolved'>): EntityTable {
  const declared = new Set(table.columns.map(({ name }) => name));
  const evolved = known.evolved.filter(({ name }) => !declared.has(name));
  const added = evolved.map((column): Column => ({ ...column, isEvolved: true }));
  return added.length === 0 ? table : { ...table, columns: [...table.columns, ...added] };
}

/**
 * Schema for a run's records, given the sink's knowledge of the chosen entities' fields: the definition, its tables
 * with the added columns, and the policies. Other entities are not read.
 */
export async function knownSchema(
  definition: Definition,
  chosen: ChosenEntities,
  drift: Pick<Sink['drift'], 'known'>,
  connector: ConnectorName,
): Promise<{ readonly definition: Definition; readonly policies: SchemaPolicies }> {
  const tables = [...chosen.keys()].flatMap((name) => tablesOf(definition, name));
  const knownByTable = await drift.known(connector, tables);
  const policies = new Map<EntityName, SchemaPolicy>();
  const evolve = (table: EntityTable, one: ChosenEntity): EntityTable => {
    const known = knownByTable.get(table.entity);
    if (known === undefined) return table;
    policies.set(table.entity, schemaPolicyOf(one, known));
    return withEvolved(table, known);
  };
  const entities = [...definition.entities].map(([name, entity]): [EntityName, Entity] => {
    const one = chosen.get(name);
    if (one === undefined) return [name, entity];
    const { table, explodedTable } = entity;
    const exploded = explodedTable === null ? null : evolve(explodedTable, one);
    return [name, { ...entity, table: evolve(table, one), explodedTable: exploded }];
  });
  return { definition: { ...definition, entities: new Map(entities) }, policies };
}

/** The tables whose undeclared fields are to become columns. */
export function evolvingTables(definition: Definition, chosen: ChosenEntities): readonly EntityName[] {
  return [...chosen].flatMap(([name, { onSchemaChange }]) =>
    onSchemaChange === 'evolve' ? tablesOf(definition, name) : [],
  );
}

function tablesOf({ entities }: Definition, name: EntityName): readonly EntityName[] {
  const entity = entities.get(name);
  if (entity === undefined) return [];
  return entity.explodedTable === null ? [name] : [name, entity.explodedTable.entity];
}

/** Makes notes of a field. The same field and type give the very same object: a page's notes are keyed by identity. */
export function driftNotes(entity: EntityName, { onNews, isKnown }: SchemaPolicy) {
  type NoteByType = Partial<Record<JsonType, FieldDrift>>;
  const notesByName = new Map<string, NoteByType>();
  const others: Readonly<Record<FieldDrift['kind'], NoteByType>> = { undeclared: {}, misfit: {} };

  function notesOf(name: string, kind: FieldDrift['kind']): NoteByType {
    const known = notesByName.get(name);
    if (known !== undefined) return known;
    if (notesByName.size >= maxNames) return others[kind];
    const notes: NoteByType = {};
    notesByName.set(name, notes);
    return notes;
  }

  return (name: string, kind: FieldDrift['kind'], value: JsonValue): FieldDrift => {
    const type = jsonTypeOf(value);
    const notes = notesOf(name, kind);
    const note = notes[type];
    if (note !== undefined) return note;
    const field = notes === others[kind] ? otherFields : noteName(name);
    const drift: FieldDrift = { entity, field, kind, type };
    return (notes[type] = onNews === 'accept' || isKnown(drift) ? drift : { ...drift, isRefused: true });
  };
}

/** A ledger holds no lone surrogate: noted as it is, the name would come back as another one. */
function noteName(name: string): string {
  return name.slice(0, maxNameChars).toWellFormed();
}

/** Type as in the value's JSON text: a number of more than 21 digits is written with an exponent. */
function jsonTypeOf(value: JsonValue): JsonType {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  if (typeof value === 'object') return 'object';
  if (typeof value === 'bigint') return 'integer';
  if (typeof value !== 'number') return typeof value === 'string' ? 'string' : 'boolean';
  return Number.isInteger(value) && Math.abs(value) < 1e21 && !Object.is(value, -0) ? 'integer' : 'number';
}
