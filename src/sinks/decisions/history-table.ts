import { historyName } from '../../core/names.ts';
import type { Column, EntityTable } from '../../core/records.ts';

/** Before the columns of the record, which may grow. */
export const historyColumns = [
  { name: '_version', type: 'integer' },
  { name: '_is_deleted', type: 'boolean' },
] as const satisfies readonly Column[];

/**
 * The versions of a table's rows as readers follow them: each once, with the number and the time of its beginning, and
 * never again. So its end is the beginning of the next version of its key.
 */
export function historyTable({ entity, columns, key }: EntityTable): EntityTable {
  return {
    entity: historyName(entity),
    columns: [...historyColumns, ...columns],
    key: [...key, historyColumns[0].name],
  };
}
