import type { DescribedTable, TableJoin } from '../core/described-table.ts';
import type { EntityName } from '../core/names.ts';
import type { Entity } from './definition.ts';

/** Of an entity, and of what its arrays are exploded into. `parents`: those that lead to it in this connector. */
export function describeTables(entity: Entity, parents: readonly EntityName[]): readonly DescribedTable[] {
  const { table, explodedTable, description, descriptions, derived } = entity;
  const described = (names: readonly string[]): Readonly<Record<string, string>> =>
    Object.fromEntries([...descriptions].filter(([name]) => names.includes(name)));
  const namesOf = ({ columns }: Entity['table']): readonly string[] => columns.map(({ name }) => name);
  const own = {
    entity: table.entity,
    description,
    columns: described(namesOf(table)),
    derived,
    joins: joinsOf(entity, parents),
  };
  if (explodedTable === null) return [own];
  const carries = entity.key.every((part) => entity.explode?.carry.includes(part) === true);
  const joins = carries ? [{ columns: entity.key, parent: table.entity, parentColumns: entity.key }] : [];
  return [
    own,
    {
      entity: explodedTable.entity,
      description: null,
      columns: described(namesOf(explodedTable)),
      derived: [],
      joins,
    },
  ];
}

/** Where several kinds of parents lead to an entity, no join is true of every row. */
function joinsOf(entity: Entity, chosen: readonly EntityName[]): readonly TableJoin[] {
  const joins = entity.parents
    .filter((parent) => chosen.includes(parent.entity))
    .map(({ entity: parent, inject, params }): TableJoin => {
      const pairs = [...inject].flatMap(([column, param]) => {
        const field = params.get(param);
        return field === undefined ? [] : [[column, field] as const];
      });
      return {
        columns: pairs.map(([column]) => column),
        parent,
        parentColumns: pairs.map(([, field]) => field),
      };
    });
  const [only, ...others] = joins;
  return only === undefined || others.length > 0 || only.columns.length === 0 ? [] : [only];
}
