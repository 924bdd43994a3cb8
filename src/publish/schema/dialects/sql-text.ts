import type { CatalogueTable } from '../catalogue.ts';
import { columnsOf, type OwnType } from '../own-columns.ts';
import { onOneLine, quoteName, type Dialect } from '../quote-name.ts';

export type Types = Readonly<Record<OwnType | 'number', string>>;

/** Where the tables are that generated statements make. */
export const schemaName = 'connector_sync';

/** Each generation has a table of its own, so that no row of an earlier one stays behind. */
export function tableIn({ name, generation }: CatalogueTable): string {
  return `${schemaName}.${name}_g${generation}`;
}

/** Stays the same: the current rows of the current generation. */
export function viewIn({ name }: CatalogueTable): string {
  return `${schemaName}.${name}`;
}

export function heading({ connector, entity, generation, schema }: CatalogueTable): string {
  return `-- ${onOneLine(`${connector}/${entity}`)}, generation ${generation}, schema ${schema}\n`;
}

export function namesOf(table: CatalogueTable, dialect: Dialect): readonly string[] {
  return columnsOf(table).map(({ name }) => quoteName(name, dialect));
}

export function keyOf({ key }: CatalogueTable, dialect: Dialect): readonly string[] {
  return key.map((name) => quoteName(name, dialect));
}

/** `  name type not null`, a line for each. */
export function definedColumns(table: CatalogueTable, types: Types, dialect: Dialect): string {
  return columnsOf(table)
    .map(
      ({ name, type, isRequired }) =>
        `    ${quoteName(name, dialect)} ${types[type]}${isRequired ? ' not null' : ''}`,
    )
    .join(',\n');
}

/** Columns that earlier schemas of the table may lack. */
export function addedColumns(
  table: CatalogueTable,
  types: Types,
  dialect: Dialect,
): readonly { readonly name: string; readonly type: string }[] {
  if (table.schema === 1) return [];
  return columnsOf(table)
    .filter(({ name }) => !table.key.includes(name) && !name.startsWith('_'))
    .map(({ name, type }) => ({ name: quoteName(name, dialect), type: types[type] }));
}

/** The newest row of each key of a relation. */
export function newestRows(table: CatalogueTable, from: string, dialect: Dialect): string {
  const names = namesOf(table, dialect).join(', ');
  return `select ${names}
    from (
        select ${names}, row_number() over (partition by ${keyOf(table, dialect).join(', ')} order by _seq desc) as _newest
        from ${from}
    ) as numbered
    where _newest = 1`;
}

/**
 * The files of a table below the root, up to the first part of the path that is not known beforehand; with a `/` at its
 * end, or empty.
 */
export function folderOf({ paths: { glob } }: CatalogueTable): string {
  const [known = ''] = glob.split('*');
  return known.slice(0, known.lastIndexOf('/') + 1);
}

/** Rows with a higher number replace those that are there; loading twice changes nothing. */
export function mergeText(table: CatalogueTable, rows: string, dialect: 'snowflake' | 'bigquery'): string {
  const names = namesOf(table, dialect);
  const key = keyOf(table, dialect);
  const set = names.filter((name) => !key.includes(name)).map((name) => `${name} = loaded.${name}`);
  return `merge into ${tableIn(table)} as kept
using (
    ${rows}
) as loaded
on ${key.map((name) => `kept.${name} = loaded.${name}`).join(' and ')}
when matched and kept._seq < loaded._seq then update set
    ${set.join(',\n    ')}
when not matched then insert (${names.join(', ')})
values (${names.map((name) => `loaded.${name}`).join(', ')});
`;
}

/** A delete that was pruned before it was loaded leaves its row behind. */
export const loadOften =
  '-- Load more often than files are pruned ("keep" of the target). After a longer pause drop the tables, make them again and load: deletes may be missing.\n';
