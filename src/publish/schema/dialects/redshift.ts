import type { CatalogueTable, FilesPlace } from '../catalogue.ts';
import {
  bucketOf,
  heading,
  loadOften,
  noRows,
  tableIn,
  usualTypes,
  warehouseSql,
  type DialectText,
} from './warehouse-sql.ts';

const types = {
  ...usualTypes,
  string: 'varchar(65535)',
  number: 'double precision',
  json: 'varchar(65535)',
  // In UTC: of Parquet COPY takes no time with a zone.
  time: 'timestamp',
};
const formats = {
  parquet: 'format as parquet',
  jsonl: "format as json 'auto' timeformat 'auto'",
  csv: "format as csv ignoreheader 1 timeformat 'auto'",
} as const;

const sql = warehouseSql('redshift', types);

/** Not run by any test. */
export const redshift: DialectText = {
  makeTable,
  load: ({ place, tables, publication }) => {
    const head = [
      place.type === 'files'
        ? '-- Copy the folder of the target to this address, or publish into a target of type s3.'
        : '',
      place.format === 'jsonl'
        ? ''
        : '-- Redshift reads Parquet and CSV by position: after a column was added, publish a snapshot, or use "format: jsonl", which it reads by name.',
      `-- Of publication ${publication ?? 'none'}: copy the manifests beside this file to ${manifestFolder(place)}/ first, and generate both again after each publication.`,
    ];
    const lines = head.filter((line) => line !== '').join('\n');
    return [`${loadOften}${lines}\n`, ...tables.map((table) => loadTable(table, place))].join('\n');
  },
  besides: ({ place, tables }) =>
    tables.flatMap((table) =>
      table.files === null || table.files.length === 0
        ? []
        : [
            {
              path: `${table.name}.manifest`,
              text: `${JSON.stringify(manifestOf(table, place), null, 2)}\n`,
            },
          ],
    ),
};

function manifestFolder(place: FilesPlace): string {
  return `${bucketOf(place)}/redshift`;
}

/** What COPY wants of each file: without its length it refuses Parquet. */
function manifestOf({ files }: CatalogueTable, place: FilesPlace): object {
  return {
    entries: (files ?? []).map(({ path, bytes }) => ({
      url: `${bucketOf(place)}/${path}`,
      mandatory: true,
      meta: { content_length: bytes },
    })),
  };
}

function makeTable(table: CatalogueTable): string {
  const added = sql
    .laterColumns(table)
    .map((column) => `-- alter table ${tableIn(table)} add column ${column};\n`);
  const lines =
    added.length === 0 ? '' : `-- Of these run those for columns that are not there:\n${added.join('')}`;
  return `${sql.makeKeyed(table)}
);
${lines}${sql.view(table, { where: '\nwhere not _deleted\nwith no schema binding' })}`;
}

function loadTable(table: CatalogueTable, place: FilesPlace): string {
  if (table.files?.length === 0) return noRows(table);
  const target = tableIn(table);
  const [loaded, newer] = [`${table.name}_loaded`, `${table.name}_newer`];
  return `${heading(table)}begin;
create temp table ${loaded} (like ${target});
copy ${loaded}
from ${sql.text(`${manifestFolder(place)}/${table.name}.manifest`)}
iam_role default
${formats[place.format]}
manifest;
create temp table ${newer} as
${sql.newestRows(table, loaded)}
    and not exists (
        select 1 from ${target}
        where ${sql.sameKey(table, target, 'numbered')} and ${target}._seq >= numbered._seq
    );
merge into ${target}
using ${newer}
on ${sql.sameKey(table, target, newer)}
when matched then update set
    ${sql.assignments(table, newer)}
${sql.insertOthers(table, newer)}drop table ${loaded};
drop table ${newer};
commit;
`;
}
