import type { CatalogueTable, FilesPlace } from '../catalogue.ts';
import type { columnsOf } from '../own-columns.ts';
import { heading, loadOften, tableIn, warehouseSql, type DialectText } from './warehouse-sql.ts';

const types = {
  string: 'String',
  integer: 'Int64',
  number: 'Float64',
  boolean: 'Bool',
  json: 'String',
  time: "DateTime64(3, 'UTC')",
} as const;
const nullable = (type: string): string => `Nullable(${type})`;
const formats = { parquet: 'Parquet', jsonl: 'JSONEachRow', csv: 'CSVWithNames' } as const;

const sql = warehouseSql('clickhouse', types, nullable);

/** Not run by any test. The newest `_seq` of a key wins when parts are merged, and with `final` in every question. */
export const clickhouse: DialectText = {
  database: 'database',
  makeTable: (table) => `${heading(table)}create table if not exists ${tableIn(table)} (
${sql.columns(table, typeOf)}
)
engine = ReplacingMergeTree(_seq, _deleted)
order by (${sql.key(table)});
${sql.addColumns(table)}${sql.view(table, { where: ' final\nwhere _deleted = 0' })}`,
  load: ({ place, tables }) => {
    const head =
      place.type === 'files'
        ? '-- file() reads below user_files_path of the server: copy or link the folder there as connector_sync.\n'
        : '-- Name credentials in s3() or in the configuration of the server.\n';
    return [loadOften + head, ...tables.map((table) => loadTable(table, place))].join('\n');
  },
};

/** Versions have no sign and marks of deletion are UInt8: ReplacingMergeTree wants it so. */
function typeOf({ name, type, isRequired }: ReturnType<typeof columnsOf>[number]): string {
  if (name === '_seq') return 'UInt64';
  if (name === '_deleted') return 'UInt8';
  return isRequired ? types[type] : nullable(types[type]);
}

/**
 * All of the generation each time: loading a row twice changes nothing, and an insert that was cut short leaves no gap
 * behind.
 */
function loadTable(table: CatalogueTable, place: FilesPlace): string {
  const structure = sql
    .columns(table, (column) => (column.name === '_deleted' ? 'Bool' : typeOf(column)))
    .replaceAll(/^ {4}/gm, '')
    .replaceAll(',\n', ', ');
  const names = sql.names(table).join(', ');
  return `${heading(table)}insert into ${tableIn(table)} (${names})
select ${names}
from ${filesOf(table, place)}, ${sql.text(structure)})
settings date_time_input_format = 'best_effort';
`;
}

function filesOf({ glob }: CatalogueTable, place: FilesPlace): string {
  const format = formats[place.format];
  if (place.type !== 's3') return `file(${sql.text(`connector_sync/${glob}`)}, ${sql.text(format)}`;
  const host = place.endpoint ?? `https://s3.${place.region ?? 'us-east-1'}.amazonaws.com`;
  const path = [host.replace(/\/+$/, ''), place.bucket, place.prefix, glob]
    .filter((part) => part !== '')
    .join('/');
  return `s3(${sql.text(path)}, ${sql.text(format)}`;
}
