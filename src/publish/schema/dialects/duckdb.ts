import type { Catalogue, CatalogueTable } from '../catalogue.ts';
import { duckdbTypes, readFiles, rootOf } from '../duckdb-rows.ts';
import { quoteName, quoteText } from '../quote-name.ts';
import type { DialectText } from './dialect-text.ts';
import { definedColumns, heading, namesOf, newestRows, schemaName, viewIn } from './sql-text.ts';

const own = (text: string): string => quoteText(text, 'duckdb');

/**
 * Run: the newest publication as tables, all in one state. It follows the manifests, so it stays right when more is
 * published.
 */
export const duckdb: DialectText = {
  tables: ({ tables }) =>
    [
      `create schema if not exists ${schemaName};\n`,
      ...tables.map(
        (table) =>
          `${heading(table)}create table if not exists ${viewIn(table)} (\n${definedColumns(table, duckdbTypes, 'duckdb')}\n);\n`,
      ),
    ].join('\n'),
  load: (catalogue) => {
    const root = rootOf(catalogue.place);
    if (root === null) return null;
    return [prepare(root), ...catalogue.tables.map((table) => loadTable(table, catalogue)), 'commit;\n'].join(
      '\n',
    );
  },
};

/** Which files the newest publication consists of: for each entity those of its base, then those of all later ones. */
function prepare(root: string): string {
  return `set variable connector_sync_root = ${own(root)};

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
function loadTable(table: CatalogueTable, { place }: Catalogue): string {
  const format = 'format' in place ? place.format : 'parquet';
  const read = readFiles("getvariable('connector_sync_list')", table, format);
  return `${heading(table)}create or replace temp table connector_sync_rows (
${definedColumns(table, duckdbTypes, 'duckdb')}
);
set variable connector_sync_list = (
    select coalesce(list(path), []) from connector_sync_files
    where connector = ${own(table.connector)} and entity = ${own(table.entity)}
);
set variable connector_sync_read = 'select * from connector_sync_rows where false' || case
    when len(getvariable('connector_sync_list')) = 0 then ''
    else ${own(` union all by name select * from ${read}`)}
end;
insert into connector_sync_rows by name
select ${namesOf(table, 'duckdb').join(', ')}
from query(getvariable('connector_sync_read'));
create or replace table ${viewIn(table)} as
${newestRows(table, 'connector_sync_rows', 'duckdb')}
    and not ${quoteName('_deleted', 'duckdb')};
drop table connector_sync_rows;
`;
}
