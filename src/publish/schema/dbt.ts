import path from 'node:path';
import { stringify } from 'yaml';
import type { Catalogue, CatalogueTable } from './catalogue.ts';
import { filesAsRelation } from './dialects/duckdb.ts';
import type { GeneratedFile } from './generated-file.ts';
import { columnsOf, ownColumns } from './own-columns.ts';
import { isPlainName, onOneLine } from './quote-name.ts';

/** The sources of a dbt project, a file for each connector: dbt 1.10.5 or later. */
export function dbtSources(catalogue: Catalogue): readonly GeneratedFile[] {
  return [...new Set(catalogue.tables.map(({ connector }) => connector))].map((connector) => ({
    path: `models/connector_sync/${sourceName(connector)}/_sources.yml`,
    from: `the tables of ${connector}`,
    body: sourcesYaml(
      catalogue,
      catalogue.tables.filter((table) => table.connector === connector),
    ),
  }));
}

function sourceName(connector: string): string {
  return connector.replaceAll('-', '_');
}

function sourcesYaml(catalogue: Catalogue, tables: readonly CatalogueTable[]): string {
  const [first] = tables;
  const { place } = catalogue;
  const connector = first?.connector ?? '';
  const isDuckdb = place?.type === 'duckdb';
  const sources = {
    version: 2,
    sources: [
      {
        name: sourceName(connector),
        description: described(`${first?.title ?? connector}, as connector ${connector} publishes it`),
        // DuckDB calls a file that is opened or attached by its own name.
        ...(isDuckdb ? { database: path.parse(place.path).name } : {}),
        schema: isDuckdb ? connector : place?.type === 'postgres' ? place.schema : 'connector_sync',
        loader: 'connector-sync',
        config: { loaded_at_field: '_changed_at' },
        tables: tables.map((table) => ({
          name: table.entity,
          identifier: isDuckdb ? table.entity : table.name,
          description: described(
            `${table.description ?? `Rows of ${table.connector}/${table.entity}`}. ${table.deletes}`,
          ),
          config: {
            freshness: table.staleAfterMs === null ? null : { warn_after: inPeriods(table.staleAfterMs) },
            ...externalLocation(table, catalogue),
          },
          columns: columnsYaml(table),
        })),
      },
    ],
  };
  return stringify(sources, { lineWidth: 0, aliasDuplicateObjects: false });
}

/**
 * Of dbt-duckdb; other adapters leave it alone. Both dbt and it take braces for names to fill in: a folder with some in
 * its path is left out.
 */
function externalLocation(table: CatalogueTable, catalogue: Catalogue): object {
  const relation = filesAsRelation(table, catalogue);
  return relation === null || /[{}]/.test(relation) ? {} : { meta: { external_location: relation } };
}

function inPeriods(ms: number): { readonly count: number; readonly period: 'minute' | 'hour' | 'day' } {
  const minutes = Math.max(1, Math.ceil(ms / 60_000));
  if (minutes % 1440 === 0) return { count: minutes / 1440, period: 'day' };
  return minutes % 60 === 0 ? { count: minutes / 60, period: 'hour' } : { count: minutes, period: 'minute' };
}

function columnsYaml(table: CatalogueTable): readonly object[] {
  return columnsOf(table).map(({ name }) => {
    const description = describedColumn(name, table);
    return {
      name,
      ...(isPlainName(name) ? {} : { quote: true }),
      ...(description === '' ? {} : { description: described(description) }),
      ...(table.key.includes(name) ? { data_tests: ['not_null'] } : {}),
    };
  });
}

function describedColumn(name: string, { columns, key, joins }: CatalogueTable): string {
  const own = ownColumns.find((one) => one.name === name);
  if (own !== undefined) return own.description;
  const column = columns.find((one) => one.name === name);
  const inKey = key.includes(name) ? ['Part of the key'] : [];
  const { type, description } = column ?? { type: null, description: null };
  if (description !== null) return [description, ...inKey].join('. ');
  const isJson = type === 'object' || type === 'array' || type === 'any';
  return [
    ...inKey,
    ...(isJson ? [`JSON as it came${type === 'any' ? '' : `: an ${type}`}`] : []),
    ...joins.flatMap(({ columns: own, parent, parentColumns }) =>
      own.flatMap((one, index) => (one === name ? [`Leads to ${parent}.${parentColumns[index] ?? ''}`] : [])),
    ),
  ].join('. ');
}

/** dbt renders descriptions too: nothing in them may begin an expression. */
function described(text: string): string {
  return onOneLine(text).replaceAll(/([{}%#])(?=[{}%#])/g, '$1 ');
}
