import type { EntityTable } from '../core/records.ts';
import { describeTables } from '../definitions/describe-tables.ts';
import { columnsOf, type ShownEntity } from './shown-entities.ts';

/** What an entity is, for those who read it. `stored`: its table as the sink has it; null: nothing is stored. */
export function describeEntity(shown: ShownEntity, stored: EntityTable | null) {
  const { connector, entity, table } = shown.target;
  const parents = entity.parents
    .map((parent) => parent.entity)
    .filter((parent) => connector.entities.has(parent));
  const described = describeTables(entity, parents).find((one) => one.entity === table.entity);
  const columns = columnsOf(shown, stored ?? table);
  const isShown = (name: string): boolean => columns.some((column) => column.name === name);
  return {
    about:
      described?.description ??
      (shown.target.isExploded ? `elements of ${entity.explode?.field ?? ''} of ${entity.name}` : null),
    key: table.key,
    /** `list_id is lists.id`: which record of another entity a row belongs to. */
    joins: (described?.joins ?? [])
      .filter((join) => join.columns.every(isShown))
      .map((join) =>
        join.columns
          .map((column, index) => `${column} is ${join.parent}.${join.parentColumns[index] ?? ''}`)
          .join(', '),
      ),
    fields: columns.map(({ name, type }) => ({ name, type, about: described?.columns[name] ?? '' })),
  };
}
