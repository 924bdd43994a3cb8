import type { EntityTable } from '../core/records.ts';
import type { PublishedColumn } from './manifest.ts';
import { ownColumns } from './row-text.ts';

/** Those that every table of PostgreSQL has. */
const systemColumns = ['ctid', 'xmin', 'xmax', 'cmin', 'cmax', 'tableoid'];

/**
 * The sink's names; a suffix where two would be the same to a warehouse that ignores case. A name that was published
 * stays.
 */
export function nameColumns(
  { columns }: EntityTable,
  published: readonly PublishedColumn[],
): readonly PublishedColumn[] {
  const nameByField = new Map(published.map(({ field, name }) => [field, name]));
  const taken = new Set<string>([...ownColumns, ...systemColumns]);
  for (const { name } of columns) {
    const known = nameByField.get(name);
    if (known !== undefined) taken.add(known.toLowerCase());
  }
  return columns.map(({ name: field, type }) => {
    const known = nameByField.get(field);
    if (known !== undefined) return { name: known, field, type };
    let name = field;
    for (let suffix = 2; taken.has(name.toLowerCase()); suffix += 1) name = `${field}_${suffix}`;
    taken.add(name.toLowerCase());
    return { name, field, type };
  });
}
