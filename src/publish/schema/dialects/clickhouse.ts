import type { CatalogueTable } from '../catalogue.ts';
import { columnsOf } from '../own-columns.ts';
import type { CataloguePlace } from '../place.ts';
import { quoteName, quoteText } from '../quote-name.ts';
import type { DialectText } from './dialect-text.ts';
import { addedColumns, heading, keyOf, loadOften, namesOf, schemaName, tableIn, viewIn } from './sql-text.ts';

const bareTypes = {
  string: 'String',
  integer: 'Int64',
  number: 'Float64',
  boolean: 'Bool',
  json: 'String',
  time: "DateTime64(3, 'UTC')",
} as const;
const types = {
  string: 'Nullable(String)',
  integer: 'Nullable(Int64)',
  number: 'Nullable(Float64)',
  boolean: 'Nullable(Bool)',
  json: 'Nullable(String)',
  time: "Nullable(DateTime64(3, 'UTC'))",
} as const;
const formats = { parquet: 'Parquet', jsonl: 'JSONEachRow', csv: 'CSVWithNames' } as const;

/** Not run by any test. The newest `_seq` of a key wins when parts are merged, and with `final` in every question. */
export const clickhouse: DialectText = {
  tables: ({ tables }) =>
    [`create database if not exists ${schemaName};\n`, ...tables.map(makeTable)].join('\n'),
  load: ({ place, tables }) => {
    if (place.kind !== 'folder' && place.kind !== 'bucket') return null;
    const head =
      place.kind === 'folder'
        ? '-- file() reads below user_files_path of the server: copy or link the folder there as connector_sync.\n'
        : '-- Name credentials in s3() or in the configuration of the server.\n';
    return [loadOften + head, ...tables.map((table) => loadTable(table, place))].join('\n');
  },
};

/** Versions have no sign and marks of deletion are UInt8: ReplacingMergeTree wants it so. */
function typeOf({ name, type, isRequired }: ReturnType<typeof columnsOf>[number]): string {
  if (name === '_seq') return 'UInt64';
  if (name === '_deleted') return 'UInt8';
  return isRequired ? bareTypes[type] : types[type];
}

function makeTable(table: CatalogueTable): string {
  const columns = columnsOf(table).map(
    (column) => `    ${quoteName(column.name, 'clickhouse')} ${typeOf(column)}`,
  );
  const added = addedColumns(table, types, 'clickhouse').map(
    ({ name, type }) => `alter table ${tableIn(table)} add column if not exists ${name} ${type};\n`,
  );
  return `${heading(table)}create table if not exists ${tableIn(table)} (
${columns.join(',\n')}
)
engine = ReplacingMergeTree(_seq, _deleted)
order by (${keyOf(table, 'clickhouse').join(', ')});
${added.join('')}create or replace view ${viewIn(table)} as
select ${namesOf(table, 'clickhouse').join(', ')}
from ${tableIn(table)} final
where _deleted = 0;
`;
}

/**
 * All of the generation each time: loading a row twice changes nothing, and an insert that was cut short leaves no gap
 * behind.
 */
function loadTable(table: CatalogueTable, place: CataloguePlace): string {
  const structure = columnsOf(table)
    .map((column) => {
      const type = column.name === '_deleted' ? 'Bool' : typeOf(column);
      return `${quoteName(column.name, 'clickhouse')} ${type}`;
    })
    .join(', ');
  const names = namesOf(table, 'clickhouse').join(', ');
  return `${heading(table)}insert into ${tableIn(table)} (${names})
select ${names}
from ${filesOf(table, place)}, ${quoteText(structure, 'clickhouse')})
settings date_time_input_format = 'best_effort';
`;
}

function filesOf({ paths: { glob } }: CatalogueTable, place: CataloguePlace): string {
  const format = 'format' in place ? formats[place.format] : formats.parquet;
  const text = (value: string): string => quoteText(value, 'clickhouse');
  if (place.kind !== 'bucket') return `file(${text(`connector_sync/${glob}`)}, ${text(format)}`;
  const host = place.endpoint ?? `https://s3.${place.region ?? 'us-east-1'}.amazonaws.com`;
  const path = [host.replace(/\/+$/, ''), place.bucket, place.prefix, glob]
    .filter((part) => part !== '')
    .join('/');
  return `s3(${text(path)}, ${text(format)}`;
}
