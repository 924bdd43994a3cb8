import type { Catalogue, CatalogueTable, FilesPlace } from '../catalogue.ts';
import { columnsOf } from '../own-columns.ts';
import { onOneLine, quoteName, quoteText } from '../quote-name.ts';

/** The statements of one dialect. */
export interface DialectText {
  /** Statements that make a table and its view; they can be run again. */
  readonly makeTable: (table: CatalogueTable) => string;
  /** Statements that load what is published. */
  readonly load: (catalogue: FilesCatalogue) => string;
}

export type FilesCatalogue = Catalogue & { readonly place: FilesPlace };

/** Absolute path or `s3://` address of a target's root, without a slash at its end. */
export function rootOf(place: FilesPlace): string {
  if (place.type === 'files') return place.directory.replaceAll('\\', '/');
  return `s3://${[place.bucket, place.prefix].filter((part) => part !== '').join('/')}`;
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

/** The types of columns as DuckDB calls them. */
export const usualTypes: Types = {
  string: 'varchar',
  integer: 'bigint',
  number: 'double',
  boolean: 'boolean',
  json: 'json',
  time: 'timestamptz',
};

/** The parts that the statements of both dialects have in common. */
export function warehouseSql(types: Types) {
  const name = quoteName;
  const names = (table: CatalogueTable): readonly string[] =>
    columnsOf(table).map((column) => name(column.name));
  const key = (table: CatalogueTable): string => table.key.map(name).join(', ');
  /** `name type not null`, a line for each. */
  const columns = (table: CatalogueTable): string =>
    columnsOf(table)
      .map(
        (column) => `    ${name(column.name)} ${types[column.type]}${column.isRequired ? ' not null' : ''}`,
      )
      .join(',\n');
  return {
    name,
    names,
    text: quoteText,
    key,
    columns,
    /** Without its end, where dialects differ. */
    makeKeyed: (table: CatalogueTable): string =>
      `${heading(table)}create table if not exists ${tableIn(table)} (\n${columns(table)},\n    primary key (${key(table)})`,
    /** Columns that earlier schemas of the table may lack. */
    addColumns: (table: CatalogueTable): string =>
      columnsOf(table)
        .filter((one) => table.schema > 1 && !table.key.includes(one.name) && !one.name.startsWith('_'))
        .map(
          (one) =>
            `alter table ${tableIn(table)} add column if not exists ${name(one.name)} ${types[one.type]};\n`,
        )
        .join(''),
    /** The current rows. */
    view: (table: CatalogueTable): string => `create view ${viewIn(table)} as
select ${names(table).join(', ')}
from ${tableIn(table)}
where not _deleted;
`,
    /** The newest row of each key of a relation. */
    newestRows: (table: CatalogueTable, from: string): string => {
      const all = names(table).join(', ');
      return `select ${all}
    from (
        select ${all}, row_number() over (partition by ${key(table)} order by _seq desc) as _newest
        from ${from}
    ) as numbered
    where _newest = 1`;
    },
    /** `name = <from>.name`, of all columns but the key. */
    assignments: (table: CatalogueTable, from: string): string =>
      names(table)
        .filter((one) => !table.key.map(name).includes(one))
        .map((one) => `${one} = ${from}.${one}`)
        .join(',\n    '),
  };
}

export function noRows(table: CatalogueTable): string {
  return `${heading(table)}-- No rows are published.\n`;
}
