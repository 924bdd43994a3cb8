import type { CatalogueTable } from '../catalogue.ts';
import { rootOf } from '../duckdb-rows.ts';
import { ownColumns } from '../own-columns.ts';
import { quoteName, quoteText } from '../quote-name.ts';
import type { DialectText } from './dialect-text.ts';
import {
  addedColumns,
  definedColumns,
  heading,
  keyOf,
  namesOf,
  schemaName,
  tableIn,
  viewIn,
} from './sql-text.ts';

const types = {
  string: 'text',
  integer: 'bigint',
  number: 'double precision',
  boolean: 'boolean',
  json: 'json',
  time: 'timestamptz',
} as const;

/** Run. A target of type postgres does all of it by itself; this is for CSV files that have to go another way. */
export const postgres: DialectText = {
  tables: ({ tables }) =>
    [`create schema if not exists ${schemaName};\n`, ...tables.map(makeTable)].join('\n'),
  load: (catalogue) => {
    const { place, publication, tables } = catalogue;
    const root = rootOf(place);
    if (root === null) return null;
    if (!('format' in place) || place.format !== 'csv' || place.kind !== 'folder') {
      return '-- PostgreSQL reads CSV files of this machine: publish with "type: files" and "format: csv", or into a target of type postgres.\n';
    }
    return [
      `-- For psql, from publication ${publication ?? 'none'}: generate it again after each publication, or publish into a target of type postgres.\n\\set ON_ERROR_STOP on\nbegin;\n`,
      ...tables.map((table) => loadTable(table, root)),
      'commit;\n',
    ].join('\n');
  },
};

function makeTable(table: CatalogueTable): string {
  const added = addedColumns(table, types, 'postgres').map(
    ({ name, type }) => `alter table ${tableIn(table)} add column if not exists ${name} ${type};\n`,
  );
  return `${heading(table)}create table if not exists ${tableIn(table)} (
${definedColumns(table, types, 'postgres')},
    primary key (${keyOf(table, 'postgres').join(', ')})
);
${added.join('')}drop view if exists ${viewIn(table)};
create view ${viewIn(table)} as
select ${namesOf(table, 'postgres').join(', ')}
from ${tableIn(table)}
where not _deleted;
`;
}

function loadTable(table: CatalogueTable, root: string): string {
  const { files } = table.paths;
  if (files === null || files.length === 0) return `${heading(table)}-- No rows are published.\n`;
  const names = namesOf(table, 'postgres');
  const key = keyOf(table, 'postgres');
  const set = names.filter((name) => !key.includes(name)).map((name) => `${name} = excluded.${name}`);
  return `${heading(table)}create temp table loaded (like ${tableIn(table)} including defaults) on commit drop;
${files.map(({ path, columns }) => copyLine(`${root}/${path}`, columns)).join('')}insert into ${tableIn(table)} as kept (${names.join(', ')})
select distinct on (${key.join(', ')}) ${names.join(', ')}
from loaded
order by ${key.map((name) => `${name}, `).join('')}_seq desc
on conflict (${key.join(', ')}) do update set
    ${set.join(',\n    ')}
where kept._seq < excluded._seq;
drop table loaded;
`;
}

/** With the names of this file: older ones have fewer columns. psql takes the whole of it from one line. */
function copyLine(file: string, columns: readonly string[]): string {
  const names = [...columns, ...ownColumns.map(({ name }) => name)].map((name) =>
    quoteName(name, 'postgres'),
  );
  return `\\copy loaded (${names.join(', ')}) from ${quoteText(file, 'postgres')} with (format csv, header)\n`;
}
