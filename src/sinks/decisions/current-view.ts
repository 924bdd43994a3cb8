import type { DerivedColumn } from '../../core/described-table.ts';
import type { Column } from '../../core/records.ts';

/**
 * The name of a table's view of current rows: `<table>_current`, or `<table>__current` where another entity's table has
 * that name. No table has two underscores there, and both names are short enough for every server.
 */
export function viewNames(table: string, tables: ReadonlySet<string>): readonly string[] {
  return [`${table}_current`, `${table}__current`].filter((name) => !tables.has(name));
}

/** Those that no stored column hides, and that can be made of columns that are there. */
export function shownDerived(
  derived: readonly DerivedColumn[],
  stored: readonly Column[],
): readonly DerivedColumn[] {
  const jsonNames = new Set(
    stored
      .filter(({ type }) => type === 'object' || type === 'array' || type === 'any')
      .map(({ name }) => name),
  );
  const names = new Set(stored.map(({ name }) => name));
  return derived
    .filter(({ name }) => !names.has(name))
    .map((column) => ({ ...column, from: column.from.filter((name) => jsonNames.has(name)) }))
    .filter(({ from }) => from.length > 0);
}
