import type { CatalogueTable } from '../catalogue.ts';
import { columnsOf } from '../own-columns.ts';
import { quoteName, quoteText } from '../quote-name.ts';
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
  string: 'string',
  integer: 'int64',
  number: 'float64',
  boolean: 'bool',
  json: 'string',
  time: 'timestamp',
} as const;
const formats = {
  parquet: "format = 'PARQUET'",
  jsonl: "format = 'NEWLINE_DELIMITED_JSON'",
  csv: "format = 'CSV', skip_leading_rows = 1, allow_quoted_newlines = true",
} as const;

/** Not run by any test. */
export const bigquery: DialectText = {
  tables: ({ tables }) =>
    [`create schema if not exists ${schemaName};\n`, ...tables.map(makeTable)].join('\n'),
  load: ({ place, tables }) => {
    if (place.kind !== 'folder' && place.kind !== 'bucket') return null;
    // Of an S3 target only Google's own storage can be read, by its address there.
    const isGoogle =
      place.kind === 'bucket' &&
      place.endpoint !== null &&
      new URL(place.endpoint).hostname === 'storage.googleapis.com';
    const root = isGoogle
      ? `gs://${[place.bucket, place.prefix].filter((part) => part !== '').join('/')}`
      : 'gs://your-bucket/your-prefix';
    const head = isGoogle
      ? ''
      : '-- BigQuery loads from Google Cloud Storage: copy the files of the target to this address.\n\n';
    const warning =
      place.format === 'jsonl'
        ? '-- Of JSON lines BigQuery refuses objects in a string column: publish Parquet.\n\n'
        : '';
    return (
      loadOften +
      head +
      warning +
      tables.map((table) => loadTable(table, root, formats[place.format])).join('\n')
    );
  },
};

function makeTable(table: CatalogueTable): string {
  const added = addedColumns(table, types, 'bigquery').map(
    ({ name, type }) => `alter table ${tableIn(table)} add column if not exists ${name} ${type};\n`,
  );
  const key = keyOf(table, 'bigquery');
  return `${heading(table)}create table if not exists ${tableIn(table)} (
${definedColumns(table, types, 'bigquery')},
    primary key (${key.join(', ')}) not enforced
)
cluster by ${key.slice(0, 4).join(', ')};
${added.join('')}create or replace view ${viewIn(table)} as
select ${namesOf(table, 'bigquery').join(', ')}
from ${tableIn(table)}
where not _deleted;
`;
}

/** All of the generation each time, which BigQuery loads for nothing; only what is newer is merged. */
function loadTable(table: CatalogueTable, root: string, format: string): string {
  if (table.paths.files?.length === 0) return `${heading(table)}-- No rows are published.\n`;
  const columns = columnsOf(table).map(
    ({ name, type }) => `    ${quoteName(name, 'bigquery')} ${types[type]}`,
  );
  const extension = table.paths.glob.slice(table.paths.glob.lastIndexOf('.'));
  return `${heading(table)}load data overwrite ${tableIn(table)}_loaded (
${columns.join(',\n')}
)
from files (${format}, uris = [${quoteText(`${root}/${folderOf(table)}*${extension}`, 'bigquery')}]);
${mergeText(table, newestRows(table, `${tableIn(table)}_loaded`, 'bigquery'), 'bigquery')}drop table ${tableIn(table)}_loaded;
`;
}
