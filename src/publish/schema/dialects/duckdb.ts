import type { FileFormat } from '../../open-row-file-writers.ts';
import type { Catalogue, CatalogueTable, FilesPlace } from '../catalogue.ts';
import { columnsOf } from '../own-columns.ts';
import { heading, rootOf, schemaName, usualTypes, viewIn, warehouseSql } from './warehouse-sql.ts';
import type { DialectText } from './warehouse-sql.ts';

const sql = warehouseSql(usualTypes);

/**
 * Run: the newest publication as tables, all in one state. It follows the manifests, so it stays right when more is
 * published.
 */
export const duckdb: DialectText = {
  makeTable: (table) =>
    `${heading(table)}create table if not exists ${viewIn(table)} (\n${sql.columns(table)}\n);\n`,
  load: ({ place, tables }) =>
    [prepare(rootOf(place)), ...tables.map((table) => loadTable(table, place)), 'commit;\n'].join('\n'),
};

/** Which files the newest publication consists of: for each entity those of its base, then those of all later ones. */
function prepare(root: string): string {
  return `set variable connector_sync_root = ${sql.text(root)};

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

/** What reads no file is asked for by name only where there are some: \`read_parquet([])\` is an error. */
function loadTable(table: CatalogueTable, place: FilesPlace): string {
  const read = readFiles("getvariable('connector_sync_list')", table, place.format);
  return `${heading(table)}create or replace temp table connector_sync_rows (
${sql.columns(table)}
);
set variable connector_sync_list = (
    select coalesce(list(path), []) from connector_sync_files
    where connector = ${sql.text(table.connector)} and entity = ${sql.text(table.entity)}
);
set variable connector_sync_read = 'select * from connector_sync_rows where false' || case
    when len(getvariable('connector_sync_list')) = 0 then ''
    else ${sql.text(` union all by name select * from ${read}`)}
end;
insert into connector_sync_rows by name
select ${sql.names(table).join(', ')}
from query(getvariable('connector_sync_read'));
create or replace table ${viewIn(table)} as
${sql.newestRows(table, 'connector_sync_rows')}
    and not ${sql.name('_deleted')};
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
      const typed = columnsOf(table).map(({ name, type }) => `${sql.name(name)} := '${usualTypes[type]}'`);
      return `read_json(${files}, format = 'newline_delimited', maximum_object_size = 268435456, columns = struct_pack(${typed.join(', ')}))`;
    }
    case 'csv':
      return `read_csv(${files}, header = true, union_by_name = true, all_varchar = true, allow_quoted_nulls = false, max_line_size = 16777216, delim = ',', quote = '"', escape = '"')`;
  }
}

/**
 * All files of a table as a relation with every column in its type, for where no table can be made before: also of
 * columns that no file has yet. Null: the target has no files; those of a table without rows give no rows.
 */
export function filesAsRelation(table: CatalogueTable, { place }: Catalogue): string | null {
  if (place === null || !('format' in place)) return null;
  const columns = columnsOf(table);
  const { files, glob } = table;
  const read = readFiles(sql.text(`${rootOf(place)}/${glob}`), table, place.format);
  const nulls = columns.map(({ name }) => `null as ${sql.name(name)}`).join(', ');
  const typed = columns.map(({ name, type }) => {
    const quoted = sql.name(name);
    return `cast(${quoted} as ${usualTypes[type]}) as ${quoted}`;
  });
  const from = (rows: string): string => `(select ${typed.join(', ')} from (${rows}))`;
  if (files?.length === 0) return from(`select ${nulls} where false`);
  const isWhole = table.columns.every(
    ({ name }) => files === null || files.some((file) => file.columns.includes(name)),
  );
  if (place.format === 'jsonl' || (place.format === 'parquet' && isWhole)) return read;
  return from(`select ${nulls} where false union all by name select * from ${read}`);
}
