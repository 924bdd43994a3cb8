import type { EntityName } from '../../core/names.ts';
import type { Column, EntityTable } from '../../core/records.ts';
import type { Definition, Entity } from '../../definitions/definition.ts';
import type { KnownDrift } from '../../sinks/drift.ts';
import type { ChosenEntities, ChosenEntity } from '../chosen-entities.ts';
import { schemaPolicyOf, type SchemaPolicies, type SchemaPolicy } from './schema-policy.ts';

/** The table with the columns that were added for undeclared fields, behind the declared ones. */
export function withEvolved(table: EntityTable, known: Pick<KnownDrift, 'evolved'>): EntityTable {
  const declared = new Set(table.columns.map(({ name }) => name));
  const evolved = known.evolved.filter(({ name }) => !declared.has(name));
  const added = evolved.map(({ name, type }): Column => ({ name, type, isEvolved: true }));
  return added.length === 0 ? table : { ...table, columns: [...table.columns, ...added] };
}

/** How a run is to prepare records, after what the sink knows of their fields. */
export interface KnownSchema {
  /** The same, its tables with the added columns. */
  readonly definition: Definition;
  readonly policies: SchemaPolicies;
}

/** What has become of the tables of the chosen entities. Of the others nothing is asked. */
export function knownSchema(
  definition: Definition,
  chosen: ChosenEntities,
  knownOf: (table: EntityName) => KnownDrift,
): KnownSchema {
  const policies = new Map<EntityName, SchemaPolicy>();
  const evolve = (table: EntityTable, one: ChosenEntity): EntityTable => {
    const known = knownOf(table.entity);
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
  return [...chosen].flatMap(([name, { onSchemaChange }]) => {
    const entity = onSchemaChange === 'evolve' ? definition.entities.get(name) : undefined;
    if (entity === undefined) return [];
    return entity.explodedTable === null ? [name] : [name, entity.explodedTable.entity];
  });
}
