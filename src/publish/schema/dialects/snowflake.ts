import type { CatalogueTable } from '../catalogue.ts';
import { rootOf } from '../duckdb-rows.ts';
import { quoteText } from '../quote-name.ts';
import type { DialectText } from './dialect-text.ts';
import {
  addedColumns,
  definedColumns,
  folderOf,
  heading,
  keyOf,
  loadOften,
  mergeText,
  namesOf,
  newestRows,
  schemaName,
  tableIn,
  viewIn,
} from './sql-text.ts';

const types = {
  string: 'varchar',
  integer: 'number(38, 0)',
  number: 'double',
  boolean: 'boolean',
  json: 'varchar',
  time: 'timestamp_tz',
} as const;
const formats = {
  parquet: 'type = parquet, use_logical_type = true',
  jsonl: 'type = json',
  csv: `type = csv, parse_header = true, field_optionally_enclosed_by = '"', empty_field_as_null = true, escape_unenclosed_field = none`,
} as const;

/** Not run by any test. */
export const snowflake: DialectText = {
  tables: ({ tables }) =>
    [`create schema if not exists ${schemaName};\n`, ...tables.map(makeTables)].join('\n'),
  load: ({ place, tables }) => {
    if (place.kind !== 'folder' && place.kind !== 'bucket') return null;
    const url = place.kind === 'bucket' ? (rootOf(place) ?? '') : 's3://your-bucket/your-prefix';
    const head = `${place.kind === 'folder' ? '-- Copy the folder of the target to this address, or publish into a target of type s3.\n' : ''}-- Add storage_integration = ... as your account has it.
create stage if not exists ${schemaName}.published url = ${quoteText(`${url}/`, 'snowflake')};
create or replace file format ${schemaName}.published_files ${formats[place.format]};
`;
    return [loadOften + head, ...tables.map(loadTable)].join('\n');
  },
};

function loadedIn(table: CatalogueTable): string {
  return `${tableIn(table)}_loaded`;
}

function makeTables(table: CatalogueTable): string {
  const added = [tableIn(table), loadedIn(table)].flatMap((name) =>
    addedColumns(table, types, 'snowflake').map(
      (column) => `alter table ${name} add column if not exists ${column.name} ${column.type};\n`,
    ),
  );
  const defined = definedColumns(table, types, 'snowflake');
  return `${heading(table)}create table if not exists ${tableIn(table)} (
${defined},
    primary key (${keyOf(table, 'snowflake').join(', ')}) not enforced
);
create table if not exists ${loadedIn(table)} (
${defined}
);
${added.join('')}create or replace view ${viewIn(table)} as
select ${namesOf(table, 'snowflake').join(', ')}
from ${tableIn(table)}
where not _deleted;
`;
}

/** COPY loads each file name once: names never repeat. DELETE keeps what it knows of them, TRUNCATE would forget it. */
function loadTable(table: CatalogueTable): string {
  const { glob } = table.paths;
  const pattern = `.*/${glob.replaceAll(/[.+?()|[\]{}^$\\]/g, '\\$&').replaceAll('*', '[^/]*')}`;
  return `${heading(table)}begin;
copy into ${loadedIn(table)}
from @${schemaName}.published/${folderOf(table)}
pattern = ${quoteText(pattern, 'snowflake')}
file_format = (format_name = ${schemaName}.published_files)
match_by_column_name = case_insensitive;
${mergeText(table, newestRows(table, loadedIn(table), 'snowflake'), 'snowflake')}delete from ${loadedIn(table)};
commit;
`;
}
