import type { CatalogueTable } from '../catalogue.ts';
import {
  folderOf,
  heading,
  loadOften,
  mergeText,
  noRows,
  tableIn,
  warehouseSql,
  type DialectText,
} from './warehouse-sql.ts';

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

const sql = warehouseSql('bigquery', types);

/** Not run by any test. */
export const bigquery: DialectText = {
  makeTable: (table) => `${sql.makeKeyed(table)} not enforced
)
cluster by ${table.key.slice(0, 4).map(sql.name).join(', ')};
${sql.addColumns(table)}${sql.view(table)}`,
  load: ({ place, tables }) => {
    // Of an S3 target only Google's own storage can be read, by its address there.
    const isGoogle =
      place.type === 's3' &&
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
    const loading = tables.map((table) => loadTable(table, root, formats[place.format]));
    return loadOften + head + warning + loading.join('\n');
  },
};

/** All of the generation each time, which BigQuery loads for nothing; only what is newer is merged. */
function loadTable(table: CatalogueTable, root: string, format: string): string {
  if (table.files?.length === 0) return noRows(table);
  const extension = table.glob.slice(table.glob.lastIndexOf('.'));
  const loaded = `${tableIn(table)}_loaded`;
  return `${heading(table)}load data overwrite ${loaded} (
${sql.columns(table, ({ type }) => types[type])}
)
from files (${format}, uris = [${sql.text(`${root}/${folderOf(table)}*${extension}`)}]);
${mergeText(sql, table, loaded)}drop table ${loaded};
`;
}
