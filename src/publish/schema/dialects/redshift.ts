import type { CatalogueTable } from '../catalogue.ts';
import { rootOf } from '../duckdb-rows.ts';
import type { CataloguePlace } from '../place.ts';
import { quoteText } from '../quote-name.ts';
import type { DialectText } from './dialect-text.ts';
import {
  addedColumns,
  definedColumns,
  heading,
  keyOf,
  loadOften,
  namesOf,
  newestRows,
  schemaName,
  tableIn,
  viewIn,
} from './sql-text.ts';

const types = {
  string: 'varchar(65535)',
  integer: 'bigint',
  number: 'double precision',
  boolean: 'boolean',
  json: 'varchar(65535)',
  // In UTC: of Parquet COPY takes no time with a zone.
  time: 'timestamp',
} as const;
const formats = {
  parquet: 'format as parquet',
  jsonl: "format as json 'auto' timeformat 'auto'",
  csv: "format as csv ignoreheader 1 timeformat 'auto'",
} as const;

/** Not run by any test. */
export const redshift: DialectText = {
  tables: ({ tables }) =>
    [`create schema if not exists ${schemaName};\n`, ...tables.map(makeTable)].join('\n'),
  load: ({ place, tables, publication }) => {
    if (place.kind !== 'folder' && place.kind !== 'bucket') return null;
    const head = [
      place.kind === 'folder'
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
      table.paths.files === null || table.paths.files.length === 0
        ? []
        : [
            {
              path: `${table.name}.manifest`,
              text: `${JSON.stringify(manifestOf(table, place), null, 2)}\n`,
            },
          ],
    ),
};

function bucketOf(place: CataloguePlace): string {
  return place.kind === 'bucket' ? (rootOf(place) ?? '') : 's3://your-bucket/your-prefix';
}

function manifestFolder(place: CataloguePlace): string {
  return `${bucketOf(place)}/redshift`;
}

/** What COPY wants of each file: without its length it refuses Parquet. */
function manifestOf({ paths: { files } }: CatalogueTable, place: CataloguePlace): object {
  return {
    entries: (files ?? []).map(({ path, bytes }) => ({
      url: `${bucketOf(place)}/${path}`,
      mandatory: true,
      meta: { content_length: bytes },
    })),
  };
}

function makeTable(table: CatalogueTable): string {
  const added = addedColumns(table, types, 'redshift').map(
    ({ name, type }) => `-- alter table ${tableIn(table)} add column ${name} ${type};\n`,
  );
  const lines =
    added.length === 0 ? '' : `-- Of these run those for columns that are not there:\n${added.join('')}`;
  return `${heading(table)}create table if not exists ${tableIn(table)} (
${definedColumns(table, types, 'redshift')},
    primary key (${keyOf(table, 'redshift').join(', ')})
);
${lines}create or replace view ${viewIn(table)} as
select ${namesOf(table, 'redshift').join(', ')}
from ${tableIn(table)}
where not _deleted
with no schema binding;
`;
}

function loadTable(table: CatalogueTable, place: CataloguePlace): string {
  if (table.paths.files?.length === 0) return `${heading(table)}-- No rows are published.\n`;
  const [names, key] = [namesOf(table, 'redshift'), keyOf(table, 'redshift')];
  const target = tableIn(table);
  const [loaded, newer] = [`${table.name}_loaded`, `${table.name}_newer`];
  const set = names.filter((name) => !key.includes(name)).map((name) => `${name} = ${newer}.${name}`);
  const same = (other: string): string =>
    key.map((name) => `${target}.${name} = ${other}.${name}`).join(' and ');
  const format = 'format' in place ? formats[place.format] : formats.parquet;
  return `${heading(table)}begin;
create temp table ${loaded} (like ${target});
copy ${loaded}
from ${quoteText(`${manifestFolder(place)}/${table.name}.manifest`, 'redshift')}
iam_role default
${format}
manifest;
create temp table ${newer} as
${newestRows(table, loaded, 'redshift')}
    and not exists (
        select 1 from ${target}
        where ${same('numbered')} and ${target}._seq >= numbered._seq
    );
merge into ${target}
using ${newer}
on ${same(newer)}
when matched then update set
    ${set.join(',\n    ')}
when not matched then insert (${names.join(', ')})
values (${names.map((name) => `${newer}.${name}`).join(', ')});
drop table ${loaded};
drop table ${newer};
commit;
`;
}
