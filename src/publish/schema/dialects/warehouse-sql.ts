import type { Catalogue, CatalogueTable, FilesPlace } from '../catalogue.ts';
import { columnsOf } from '../own-columns.ts';
import { onOneLine, quoteName, quoteText, type Dialect } from '../quote-name.ts';

/** What one kind of warehouse is given. */
export interface DialectText {
  /** What it calls a schema, where that is another word. */
  readonly database?: 'database';
  /** Statements that make a table and its view; they can be run again. */
  readonly makeTable: (table: CatalogueTable) => string;
  /** Statements that load what is published. */
  readonly load: (catalogue: FilesCatalogue) => string;
  /** Further files that the statements read. */
  readonly besides?: (
    catalogue: FilesCatalogue,
  ) => readonly { readonly path: string; readonly text: string }[];
}

export type FilesCatalogue = Catalogue & { readonly place: FilesPlace };

/** Absolute path or `s3://` address of a target's root, without a slash at its end. */
export function rootOf(place: FilesPlace): string {
  if (place.type === 'files') return place.directory.replaceAll('\\', '/');
  return `s3://${[place.bucket, place.prefix].filter((part) => part !== '').join('/')}`;
}

/** The same of a bucket; of a folder an address to copy it to. */
export function bucketOf(place: FilesPlace): string {
  return place.type === 's3' ? rootOf(place) : 's3://your-bucket/your-prefix';
}

/** Where the tables are that generated statements make. */
export const schemaName = 'connector_sync';

/** Each generation has a separate table, so that no row of an earlier one stays behind. */
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

type Column = ReturnType<typeof columnsOf>[number];

type Types = Readonly<Record<Column['type'], string>>;

/** The types of columns as most dialects call them. */
export const usualTypes: Types = {
  string: 'varchar',
  integer: 'bigint',
  number: 'double',
  boolean: 'boolean',
  json: 'json',
  time: 'timestamptz',
};

/** The parts that the statements of a dialect have in common. `nullable`: its word for a type that takes nulls. */
export function warehouseSql(dialect: Dialect, types: Types, nullable = (type: string): string => type) {
  const name = (one: string): string => quoteName(one, dialect);
  const names = (table: CatalogueTable): readonly string[] =>
    columnsOf(table).map((column) => name(column.name));
  const key = (table: CatalogueTable): readonly string[] => table.key.map(name);
  const typed = ({ type, isRequired }: Column): string => `${types[type]}${isRequired ? ' not null' : ''}`;
  /** Columns that earlier schemas of the table may lack, with their types. */
  const laterColumns = (table: CatalogueTable): readonly string[] =>
    columnsOf(table)
      .filter((one) => table.schema > 1 && !table.key.includes(one.name) && !one.name.startsWith('_'))
      .map((one) => `${name(one.name)} ${nullable(types[one.type])}`);
  /** `name type not null`, a line for each. */
  const columns = (table: CatalogueTable, typeOf = typed): string =>
    columnsOf(table)
      .map((column) => `    ${name(column.name)} ${typeOf(column)}`)
      .join(',\n');
  return {
    name,
    names,
    laterColumns,
    text: (value: string): string => quoteText(value, dialect),
    key: (table: CatalogueTable): string => key(table).join(', '),
    columns,
    /** Without its end, where dialects differ. */
    makeKeyed: (table: CatalogueTable): string =>
      `${heading(table)}create table if not exists ${tableIn(table)} (\n${columns(table)},\n    primary key (${key(table).join(', ')})`,
    addColumns: (table: CatalogueTable, to = tableIn(table)): string =>
      laterColumns(table)
        .map((column) => `alter table ${to} add column if not exists ${column};\n`)
        .join(''),
    /** The current rows. */
    view: (
      table: CatalogueTable,
      { create = 'create or replace view', where = '\nwhere not _deleted' } = {},
    ): string => `${create} ${viewIn(table)} as
select ${names(table).join(', ')}
from ${tableIn(table)}${where};
`,
    /** The newest row of each key of a relation. */
    newestRows: (table: CatalogueTable, from: string): string => {
      const all = names(table).join(', ');
      return `select ${all}
    from (
        select ${all}, row_number() over (partition by ${key(table).join(', ')} order by _seq desc) as _newest
        from ${from}
    ) as numbered
    where _newest = 1`;
    },
    /** `name = <from>.name`, of all columns but the key. */
    assignments: (table: CatalogueTable, from: string): string =>
      names(table)
        .filter((one) => !key(table).includes(one))
        .map((one) => `${one} = ${from}.${one}`)
        .join(',\n    '),
    sameKey: (table: CatalogueTable, one: string, other: string): string =>
      key(table)
        .map((part) => `${one}.${part} = ${other}.${part}`)
        .join(' and '),
    /** Ends a `merge` with the rows that `from` has and the table has not. */
    insertOthers: (table: CatalogueTable, from: string): string =>
      `when not matched then insert (${names(table).join(', ')})
values (${names(table)
        .map((one) => `${from}.${one}`)
        .join(', ')});
`,
  };
}

type WarehouseSql = ReturnType<typeof warehouseSql>;

/**
 * The files of a table below the root, up to the first part of the path that is not known beforehand; with a `/` at its
 * end, or empty.
 */
export function folderOf({ glob }: CatalogueTable): string {
  const [known = ''] = glob.split('*');
  return known.slice(0, known.lastIndexOf('/') + 1);
}

/** Rows with a higher number replace those that exist; loading twice changes nothing. */
export function mergeText(sql: WarehouseSql, table: CatalogueTable, from: string): string {
  return `merge into ${tableIn(table)} as kept
using (
    ${sql.newestRows(table, from)}
) as loaded
on ${sql.sameKey(table, 'kept', 'loaded')}
when matched and kept._seq < loaded._seq then update set
    ${sql.assignments(table, 'loaded')}
${sql.insertOthers(table, 'loaded')}`;
}

/** A delete that was pruned before it was loaded leaves its row behind. */
export const loadOften =
  '-- Load more often than files are pruned ("keep" of the target). After a longer pause drop the tables, make them again and load: deletes may be missing.\n';

export function noRows(table: CatalogueTable): string {
  return `${heading(table)}-- No rows are published.\n`;
}
