import type { CatalogueTable } from '../catalogue.ts';
import { ownColumns } from '../own-columns.ts';
import { heading, noRows, rootOf, tableIn, usualTypes, viewIn, warehouseSql } from './warehouse-sql.ts';
import type { DialectText } from './warehouse-sql.ts';

const types = { ...usualTypes, string: 'text', number: 'double precision' };

const sql = warehouseSql(types);

/** Run. A target of type postgres does all of it by itself; this is for CSV files that have to go another way. */
export const postgres: DialectText = {
  makeTable: (table) => `${sql.makeKeyed(table)}
);
${sql.addColumns(table)}drop view if exists ${viewIn(table)};
${sql.view(table)}`,
  load: ({ place, publication, tables }) => {
    if (place.format !== 'csv' || place.type !== 'files') {
      return '-- PostgreSQL reads CSV files of this machine: publish with "type: files" and "format: csv", or into a target of type postgres.\n';
    }
    return [
      `-- For psql, from publication ${publication ?? 'none'}: generate it again after each publication, or publish into a target of type postgres.\n\\set ON_ERROR_STOP on\nbegin;\n`,
      ...tables.map((table) => loadTable(table, rootOf(place))),
      'commit;\n',
    ].join('\n');
  },
};

function loadTable(table: CatalogueTable, root: string): string {
  const { files } = table;
  if (files === null || files.length === 0) return noRows(table);
  const names = sql.names(table).join(', ');
  return `${heading(table)}create temp table loaded (like ${tableIn(table)} including defaults) on commit drop;
${files.map(({ path, columns }) => copyLine(`${root}/${path}`, columns)).join('')}insert into ${tableIn(table)} as kept (${names})
select distinct on (${sql.key(table)}) ${names}
from loaded
order by ${sql.key(table)}, _seq desc
on conflict (${sql.key(table)}) do update set
    ${sql.assignments(table, 'excluded')}
where kept._seq < excluded._seq;
drop table loaded;
`;
}

/** With the names of this file: older ones have fewer columns. psql takes the whole of it from one line. */
function copyLine(file: string, columns: readonly string[]): string {
  const names = [...columns, ...ownColumns.map(({ name }) => name)].map(sql.name);
  return `\\copy loaded (${names.join(', ')}) from ${sql.text(file)} with (format csv, header)\n`;
}
