import path from 'node:path';
import { stringify } from 'yaml';
import { usage } from '../../core/errors.ts';
import { quoted } from '../../sql/database.ts';
import type { FileFormat } from '../row-files.ts';
import { columnsOf, ownColumns, type Catalogue, type CatalogueTable, type FilesPlace } from './catalogue.ts';

/** A file of `publish schema`, before it has its first line. */
export interface GeneratedFile {
  /** Relative to the folder of the output, with `/`. */
  readonly path: string;
  /** The origin that the first line names. */
  readonly from: string;
  readonly body: string;
}

export const dialectNames: readonly string[] = ['dbt', 'duckdb', 'postgres'];

/** Throws USAGE for a dialect that is not known. */
export function generate(catalogue: Catalogue, name: string): readonly GeneratedFile[] {
  if (name === 'dbt') return dbtSources(catalogue);
  if (!dialectNames.includes(name)) {
    throw usage(`--dialect: expected one of ${dialectNames.join(', ')}, got "${name}".`);
  }
  const { place, tables, publication } = catalogue;
  const from = publication === null ? 'the definitions' : `publication ${publication}`;
  const [makeTable, load] = name === 'duckdb' ? [duckdbTable, duckdbLoad] : [postgresTable, postgresLoad];
  const making = [`create schema if not exists ${schemaName};\n`, ...tables.map(makeTable)].join('\n');
  return [
    { path: `${name}/tables.sql`, from, body: making },
    ...(place !== null && 'format' in place
      ? [{ path: `${name}/load.sql`, from, body: load({ ...catalogue, place }) }]
      : []),
  ];
}

type FilesCatalogue = Catalogue & { readonly place: FilesPlace };

/** The schema of the tables that generated statements make. */
const schemaName = 'connector_sync';

type Types = Readonly<Record<ReturnType<typeof columnsOf>[number]['type'], string>>;

const duckdbTypes: Types = {
  string: 'varchar',
  integer: 'bigint',
  number: 'double',
  boolean: 'boolean',
  json: 'json',
  time: 'timestamptz',
};
const postgresTypes: Types = { ...duckdbTypes, string: 'text', number: 'double precision' };

function textOf(value: string): string {
  return `'${value.replaceAll("'", "''")}'`;
}

function keyOf(table: CatalogueTable): string {
  return table.key.map(quoted).join(', ');
}

function namesOf(table: CatalogueTable): string {
  return columnsOf(table)
    .map(({ name }) => quoted(name))
    .join(', ');
}

/** `name type not null`, a line for each. */
function columnsSql(table: CatalogueTable, types: Types): string {
  return columnsOf(table)
    .map(({ name, type, isRequired }) => `    ${quoted(name)} ${types[type]}${isRequired ? ' not null' : ''}`)
    .join(',\n');
}

/** The text on one line, without characters that could end a comment or a line. */
function onOneLine(text: string): string {
  return text.replaceAll(/[\p{C}\u2028\u2029]+/gu, ' ').trim();
}

function heading({ connector, entity, generation, schema }: CatalogueTable): string {
  return `-- ${onOneLine(`${connector}/${entity}`)}, generation ${generation}, schema ${schema}\n`;
}

/** Absolute path or `s3://` address of a target's root, without a slash at its end. */
function rootOf(place: FilesPlace): string {
  if (place.type === 'files') return place.directory.replaceAll('\\', '/');
  return `s3://${[place.bucket, place.prefix].filter((part) => part !== '').join('/')}`;
}

// --- DuckDB: the newest publication as tables, all in one state. It follows the manifests, so it stays right when
// more is published.

function duckdbTable(table: CatalogueTable): string {
  return `${heading(table)}create table if not exists ${schemaName}.${table.name} (\n${columnsSql(table, duckdbTypes)}\n);\n`;
}

function duckdbLoad({ place, tables }: FilesCatalogue): string {
  return [prepare(rootOf(place)), ...tables.map((table) => loadTable(table, place)), 'commit;\n'].join('\n');
}

/** Finds the files of the newest publication: for each entity those of its base, then those of all later ones. */
function prepare(root: string): string {
  return `set variable connector_sync_root = ${textOf(root)};

begin transaction;
create schema if not exists ${schemaName};

create or replace temp table connector_sync_entities as
select
    publication,
    entity ->> '$.connector' as connector,
    entity ->> '$.entity' as entity,
    cast(entity ->> '$.generation' as bigint) as generation,
    cast(entity ->> '$.base' as bigint) as base,
    cast(entity -> '$.files' as json[]) as files,
    cast(entity -> '$.snapshot.files' as json[]) as snapshot_files
from (
    select publication, unnest(entities) as entity
    from read_json(
        getvariable('connector_sync_root') || '/_publications/[0-9]*.json',
        format = 'auto',
        maximum_object_size = 268435456,
        columns = {publication: 'bigint', entities: 'json[]'}
    )
);

create or replace temp table connector_sync_files as
with newest as (
    select * from connector_sync_entities
    where publication = (select max(publication) from connector_sync_entities)
)
select
    files.connector,
    files.entity,
    getvariable('connector_sync_root') || '/' || (file ->> '$.path') as path
from (
    select
        published.connector,
        published.entity,
        unnest(
            case
                when published.publication = newest.base then coalesce(published.snapshot_files, published.files)
                else published.files
            end
        ) as file
    from newest
    join connector_sync_entities as published
        on published.connector = newest.connector
        and published.entity = newest.entity
        and published.generation = newest.generation
        and published.publication between newest.base and newest.publication
) as files;
`;
}

/** Reads files only if there are some: `read_parquet([])` is an error. */
function loadTable(table: CatalogueTable, place: FilesPlace): string {
  const read = readFiles("getvariable('connector_sync_list')", table, place.format);
  const names = namesOf(table);
  return `${heading(table)}create or replace temp table connector_sync_rows (
${columnsSql(table, duckdbTypes)}
);
set variable connector_sync_list = (
    select coalesce(list(path), []) from connector_sync_files
    where connector = ${textOf(table.connector)} and entity = ${textOf(table.entity)}
);
set variable connector_sync_read = 'select * from connector_sync_rows where false' || case
    when len(getvariable('connector_sync_list')) = 0 then ''
    else ${textOf(` union all by name select * from ${read}`)}
end;
insert into connector_sync_rows by name
select ${names}
from query(getvariable('connector_sync_read'));
create or replace table ${schemaName}.${table.name} as
select ${names}
from (
    select *, row_number() over (partition by ${keyOf(table)} order by _seq desc) as _newest
    from connector_sync_rows
)
where _newest = 1 and not _deleted;
drop table connector_sync_rows;
`;
}

/**
 * An expression of DuckDB for the rows of files. `files`: SQL of a path with `*`, or of a list. Files of earlier
 * columns lack the later ones.
 */
function readFiles(files: string, table: CatalogueTable, format: FileFormat): string {
  switch (format) {
    case 'parquet':
      return `read_parquet(${files}, union_by_name = true)`;
    case 'jsonl': {
      const typed = columnsOf(table).map(({ name, type }) => `${quoted(name)} := '${duckdbTypes[type]}'`);
      return `read_json(${files}, format = 'newline_delimited', maximum_object_size = 268435456, columns = struct_pack(${typed.join(', ')}))`;
    }
    case 'csv':
      return `read_csv(${files}, header = true, union_by_name = true, all_varchar = true, allow_quoted_nulls = false, max_line_size = 16777216, delim = ',', quote = '"', escape = '"')`;
  }
}

/**
 * All files of a table as a relation with every column in its type, including columns that no file has yet, for readers
 * that cannot make a table first. Null: the target has no files. A table without rows gives no rows.
 */
function filesAsRelation(table: CatalogueTable, { place }: Catalogue): string | null {
  if (place === null || !('format' in place)) return null;
  const columns = columnsOf(table);
  const { files, glob } = table;
  const read = readFiles(textOf(`${rootOf(place)}/${glob}`), table, place.format);
  const nulls = columns.map(({ name }) => `null as ${quoted(name)}`).join(', ');
  const typed = columns.map(
    ({ name, type }) => `cast(${quoted(name)} as ${duckdbTypes[type]}) as ${quoted(name)}`,
  );
  const from = (rows: string): string => `(select ${typed.join(', ')} from (${rows}))`;
  if (files?.length === 0) return from(`select ${nulls} where false`);
  const isWhole = table.columns.every(
    ({ name }) => files === null || files.some((file) => file.columns.includes(name)),
  );
  if (place.format === 'jsonl' || (place.format === 'parquet' && isWhole)) return read;
  return from(`select ${nulls} where false union all by name select * from ${read}`);
}

// --- PostgreSQL: for CSV files that have to go another way; a target of type postgres does all of it by itself.

/** Each generation has a separate table, so that no row of an earlier one stays behind; the view stays the same. */
function postgresTable(table: CatalogueTable): string {
  const [made, view] = [generationOf(table), `${schemaName}.${table.name}`];
  // Columns that earlier schemas of the table may lack.
  const added = columnsOf(table).filter(
    ({ name }) => table.schema > 1 && !table.key.includes(name) && !name.startsWith('_'),
  );
  return `${heading(table)}create table if not exists ${made} (
${columnsSql(table, postgresTypes)},
    primary key (${keyOf(table)})
);
${added.map(({ name, type }) => `alter table ${made} add column if not exists ${quoted(name)} ${postgresTypes[type]};\n`).join('')}drop view if exists ${view};
create view ${view} as
select ${namesOf(table)}
from ${made}
where not _deleted;
`;
}

function generationOf({ name, generation }: CatalogueTable): string {
  return `${schemaName}.${name}_g${generation}`;
}

function postgresLoad({ place, publication, tables }: FilesCatalogue): string {
  if (place.format !== 'csv' || place.type !== 'files') {
    return '-- PostgreSQL reads CSV files of this machine: publish with "type: files" and "format: csv", or into a target of type postgres.\n';
  }
  return [
    `-- For psql, from publication ${publication ?? 'none'}: generate it again after each publication, or publish into a target of type postgres.\n\\set ON_ERROR_STOP on\nbegin;\n`,
    ...tables.map((table) => copyTable(table, rootOf(place))),
    'commit;\n',
  ].join('\n');
}

function copyTable(table: CatalogueTable, root: string): string {
  const files = table.files ?? [];
  if (files.length === 0) return `${heading(table)}-- No rows are published.\n`;
  const [names, key, made] = [namesOf(table), keyOf(table), generationOf(table)];
  const changed = columnsOf(table).filter(({ name }) => !table.key.includes(name));
  // With the names of each file: older ones have fewer columns. psql takes the whole of it from one line.
  const copies = files.map(({ path: file, columns }) => {
    const own = [...columns, ...ownColumns.map(({ name }) => name)].map(quoted);
    return `\\copy loaded (${own.join(', ')}) from ${textOf(`${root}/${file}`)} with (format csv, header)\n`;
  });
  return `${heading(table)}create temp table loaded (like ${made} including defaults) on commit drop;
${copies.join('')}insert into ${made} as kept (${names})
select distinct on (${key}) ${names}
from loaded
order by ${key}, _seq desc
on conflict (${key}) do update set
    ${changed.map(({ name }) => `${quoted(name)} = excluded.${quoted(name)}`).join(',\n    ')}
where kept._seq < excluded._seq;
drop table loaded;
`;
}

// --- dbt: the sources of a project

/** The sources of a dbt project, a file for each connector: dbt 1.10.5 or later. */
function dbtSources(catalogue: Catalogue): readonly GeneratedFile[] {
  return [...new Set(catalogue.tables.map(({ connector }) => connector))].map((connector) => ({
    path: `models/connector_sync/${sourceName(connector)}/_sources.yml`,
    from: `the tables of ${connector}`,
    body: sourcesYaml(
      catalogue,
      catalogue.tables.filter((table) => table.connector === connector),
    ),
  }));
}

function sourceName(connector: string): string {
  return connector.replaceAll('-', '_');
}

function sourcesYaml(catalogue: Catalogue, tables: readonly CatalogueTable[]): string {
  const [first] = tables;
  const { place } = catalogue;
  const connector = first?.connector ?? '';
  const isDuckdb = place?.type === 'duckdb';
  const sources = {
    version: 2,
    sources: [
      {
        name: sourceName(connector),
        description: described(`${first?.title ?? connector}, as connector ${connector} publishes it`),
        // DuckDB calls a file that is opened or attached by its own name.
        ...(isDuckdb ? { database: path.parse(place.path).name } : {}),
        schema: isDuckdb ? connector : place?.type === 'postgres' ? place.schema : 'connector_sync',
        loader: 'connector-sync',
        config: { loaded_at_field: '_changed_at' },
        tables: tables.map((table) => ({
          name: table.entity,
          identifier: isDuckdb ? table.entity : table.name,
          description: described(
            `${table.description ?? `Rows of ${table.connector}/${table.entity}`}. ${table.deletes}`,
          ),
          config: {
            freshness: table.freshWithinMs === null ? null : { warn_after: inPeriods(table.freshWithinMs) },
            ...externalLocation(table, catalogue),
          },
          columns: columnsYaml(table),
        })),
      },
    ],
  };
  return stringify(sources, { lineWidth: 0, aliasDuplicateObjects: false });
}

/**
 * Settings for dbt-duckdb; other adapters ignore them. Both treat braces as names to fill in, so a folder with braces
 * in its path is left out.
 */
function externalLocation(table: CatalogueTable, catalogue: Catalogue): object {
  const relation = filesAsRelation(table, catalogue);
  return relation === null || /[{}]/.test(relation) ? {} : { meta: { external_location: relation } };
}

function inPeriods(ms: number): { readonly count: number; readonly period: 'minute' | 'hour' | 'day' } {
  const minutes = Math.max(1, Math.ceil(ms / 60_000));
  if (minutes % 1440 === 0) return { count: minutes / 1440, period: 'day' };
  return minutes % 60 === 0 ? { count: minutes / 60, period: 'hour' } : { count: minutes, period: 'minute' };
}

function columnsYaml(table: CatalogueTable): readonly object[] {
  return columnsOf(table).map(({ name }) => {
    const description = describedColumn(name, table);
    return {
      name,
      ...(/^[a-z_][a-z0-9_]*$/.test(name) && !table.key.includes(name) ? {} : { quote: true }),
      ...(description === '' ? {} : { description: described(description) }),
      ...(table.key.includes(name) ? { data_tests: ['not_null'] } : {}),
    };
  });
}

function describedColumn(name: string, { columns, key, joins }: CatalogueTable): string {
  const own = ownColumns.find((one) => one.name === name);
  if (own !== undefined) return own.description;
  const column = columns.find((one) => one.name === name);
  const inKey = key.includes(name) ? ['Part of the key'] : [];
  const { type, description } = column ?? { type: null, description: null };
  if (description !== null) return [description, ...inKey].join('. ');
  const isJson = type === 'object' || type === 'array' || type === 'any';
  return [
    ...inKey,
    ...(isJson ? [`JSON as it came${type === 'any' ? '' : `: an ${type}`}`] : []),
    ...joins.flatMap(({ columns: own, parent, parentColumns }) =>
      own.flatMap((one, index) => (one === name ? [`Leads to ${parent}.${parentColumns[index] ?? ''}`] : [])),
    ),
  ].join('. ');
}

/** dbt renders descriptions too: nothing in them may begin an expression. */
function described(text: string): string {
  return onOneLine(text).replaceAll(/([{}%#])(?=[{}%#])/g, '$1 ');
}
