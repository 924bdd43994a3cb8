import type { CatalogueTable } from '../catalogue.ts';
import {
  bucketOf,
  folderOf,
  heading,
  loadOften,
  mergeText,
  schemaName,
  tableIn,
  usualTypes,
  warehouseSql,
  type DialectText,
} from './warehouse-sql.ts';

const types = { ...usualTypes, integer: 'number(38, 0)', json: 'varchar', time: 'timestamp_tz' };
const formats = {
  parquet: 'type = parquet, use_logical_type = true',
  jsonl: 'type = json',
  csv: `type = csv, parse_header = true, field_optionally_enclosed_by = '"', empty_field_as_null = true, escape_unenclosed_field = none`,
} as const;

const sql = warehouseSql('snowflake', types);

/** Not run by any test. */
export const snowflake: DialectText = {
  makeTable: (table) => `${sql.makeKeyed(table)} not enforced
);
create table if not exists ${loadedIn(table)} (
${sql.columns(table)}
);
${sql.addColumns(table)}${sql.addColumns(table, loadedIn(table))}${sql.view(table)}`,
  load: ({ place, tables }) => {
    const head = `${place.type === 'files' ? '-- Copy the folder of the target to this address, or publish into a target of type s3.\n' : ''}-- Add storage_integration = ... as your account has it.
create stage if not exists ${schemaName}.published url = ${sql.text(`${bucketOf(place)}/`)};
create or replace file format ${schemaName}.published_files ${formats[place.format]};
`;
    return [loadOften + head, ...tables.map(loadTable)].join('\n');
  },
};

function loadedIn(table: CatalogueTable): string {
  return `${tableIn(table)}_loaded`;
}

/** COPY loads each file name once: names never repeat. DELETE keeps what it knows of them, TRUNCATE would forget it. */
function loadTable(table: CatalogueTable): string {
  const { glob } = table;
  const pattern = `.*/${glob.replaceAll(/[.+?()|[\]{}^$\\]/g, '\\$&').replaceAll('*', '[^/]*')}`;
  return `${heading(table)}begin;
copy into ${loadedIn(table)}
from @${schemaName}.published/${folderOf(table)}
pattern = ${sql.text(pattern)}
file_format = (format_name = ${schemaName}.published_files)
match_by_column_name = case_insensitive;
${mergeText(sql, table, loadedIn(table))}delete from ${loadedIn(table)};
commit;
`;
}
