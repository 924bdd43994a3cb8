import path from 'node:path';
import { stringify } from 'yaml';
import { derivedType } from '../../core/described-table.ts';
import type { Catalogue, CatalogueTable, UnpackedColumn } from './catalogue.ts';
import {
  column,
  hasGenericUnique,
  isGenericJoin,
  modelName,
  singularTests,
  sourceName,
} from './dbt-tests.ts';
import { unpackedColumn, unpackMacro, unpackMacroPath } from './dbt-unpack.ts';
import { filesAsRelation } from './dialects/duckdb.ts';
import type { GeneratedFile } from './generated-file.ts';
import { columnsOf, ownColumns } from './own-columns.ts';
import { isPlainName, onOneLine } from './quote-name.ts';

/** A dbt project's models, sources and tests: dbt 1.10.5 or later. The SQL is what all dialects have in common. */
export function dbtFiles(catalogue: Catalogue): readonly GeneratedFile[] {
  const sources = [...new Set(catalogue.tables.map(({ connector }) => connector))];
  const unpacks = catalogue.tables.some(({ unpacked }) => unpacked.length > 0);
  const macros = unpacks ? [{ path: unpackMacroPath, from: 'the definitions', body: unpackMacro }] : [];
  const models = sources.flatMap((connector) => {
    const tables = catalogue.tables.filter((table) => table.connector === connector);
    const folder = sourceName(connector);
    const from = `the tables of ${connector}`;
    return [
      { path: `models/connector_sync/${folder}/_sources.yml`, from, body: sourcesYaml(catalogue, tables) },
      { path: `models/connector_sync/${folder}/_models.yml`, from, body: modelsYaml(tables) },
      ...tables.map((table) => ({
        path: `models/connector_sync/${folder}/${modelName(table.name)}.sql`,
        from: originOf(table),
        body: table.versionsOf === null ? stagingSql(table) : snapshotSql(table),
      })),
      ...tables.flatMap((table) =>
        singularTests(table).map(({ name, sql }) => ({
          path: `tests/connector_sync/${folder}/${name}.sql`,
          from: originOf(table),
          body: sql,
        })),
      ),
    ];
  });
  return [...macros, ...models];
}

function originOf({ connector, entity, schema }: CatalogueTable): string {
  return `${connector}/${entity}, schema ${schema}`;
}

function stagingSql(table: CatalogueTable): string {
  const { connector, entity, key, columns, unpacked } = table;
  const kept = [...columns.map(({ name }) => name), '_extra', '_seq', '_changed_at', '_run_id'];
  const lines = (names: readonly string[]): string => names.map((name) => `        ${name},\n`).join('');
  return `with numbered as (
    select
${lines([...kept, '_deleted'].map(column))}        row_number() over (
            partition by ${key.map(column).join(', ')}
            order by _seq desc
        ) as _newest
    from {{ source('${sourceName(connector)}', '${entity}') }}
)

select
${[...kept.map(column), ...unpacked.map(unpackedColumn)].map((one) => `    ${one}`).join(',\n')}
from numbered
where _newest = 1
    and not _deleted
`;
}

/** The versions in the shape of a snapshot of dbt: each ends where the next one of its key begins. */
function snapshotSql(table: CatalogueTable): string {
  const { connector, entity, key, columns } = table;
  const kept = columns.filter(({ field }) => field !== '_is_deleted').map(({ name }) => name);
  const shown = [...kept, '_extra', '_seq', '_changed_at', '_run_id'].map(column);
  const recordKey = key.filter((name) => name !== '_version').map(column);
  return `with numbered as (
    select
${[...shown, '_is_deleted'].map((name) => `        ${name},\n`).join('')}        row_number() over (
            partition by ${key.map(column).join(', ')}
            order by _seq desc
        ) as _newest
    from {{ source('${sourceName(connector)}', '${entity}') }}
)

select
${shown.map((name) => `    ${name},\n`).join('')}    _version as dbt_scd_id,
    _changed_at as dbt_updated_at,
    _changed_at as dbt_valid_from,
    lead(_changed_at) over (
        partition by ${recordKey.join(', ')}
        order by _version
    ) as dbt_valid_to,
    _is_deleted as dbt_is_deleted
from numbered
where _newest = 1
`;
}

const snapshotColumns: readonly (readonly [name: string, description: string])[] = [
  ['dbt_scd_id', 'Number of the change with which the version began; unique in a connector'],
  ['dbt_updated_at', 'When the sync stored the version'],
  ['dbt_valid_from', 'The same'],
  ['dbt_valid_to', 'When the sync stored the next version of the record; null: it is the current one'],
  ['dbt_is_deleted', 'The record was deleted from this version on'],
];

function sourcesYaml(catalogue: Catalogue, tables: readonly CatalogueTable[]): string {
  const [first] = tables;
  const { place } = catalogue;
  const connector = first?.connector ?? '';
  const isDuckdb = place?.type === 'duckdb';
  return yamlText({
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
          columns: columnsYaml(table, 'source'),
        })),
      },
    ],
  });
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

function modelsYaml(tables: readonly CatalogueTable[]): string {
  const tests = tables.flatMap(singularTests);
  return yamlText({
    version: 2,
    models: tables.map((table) => ({
      name: modelName(table.name),
      description: described(
        [
          ...(table.description === null ? [] : [table.description]),
          table.versionsOf === null
            ? `Current rows of ${table.connector}/${table.entity}: the newest of each ${table.key.join(', ')}, without deleted ones.`
            : `Each version of ${table.connector}/${table.versionsOf} that a sync saw, as a snapshot of dbt has them; dbt_valid_to is null for the current one.`,
        ].join('. '),
      ),
      columns: columnsYaml(table, 'model'),
    })),
    ...(tests.length === 0
      ? {}
      : {
          data_tests: tests.map(({ name, description, isWarning }) => ({
            name,
            description: described(description),
            ...(isWarning ? { config: { severity: 'warn' } } : {}),
          })),
        }),
  });
}

function columnsYaml(table: CatalogueTable, of: 'source' | 'model'): readonly object[] {
  const names = columnsOf(table).map(({ name }) => name);
  const hidden = ['_deleted', '_deleted_at', ...(table.versionsOf === null ? [] : ['_is_deleted'])];
  const shown = of === 'source' ? names : names.filter((name) => !hidden.includes(name));
  const snapshot =
    of === 'source' || table.versionsOf === null
      ? []
      : snapshotColumns.map(([name, description]) => ({ name, description: described(description) }));
  const columns = shown.map((name) => {
    const description = describedColumn(name, table);
    const tests = testsOf(name, table, of);
    return {
      name,
      ...(isPlainName(name) ? {} : { quote: true }),
      ...(description === '' ? {} : { description: described(description) }),
      ...(tests.length === 0 ? {} : { data_tests: tests }),
    };
  });
  const unpacked = of === 'source' ? [] : table.unpacked.map(unpackedYaml);
  return [...columns, ...snapshot, ...unpacked];
}

function unpackedYaml({ name, source, path, as }: UnpackedColumn): object {
  const description = `${[source, ...(path ?? [])].join('.')} as ${derivedType(as)}; null where it is none`;
  return { name, ...(isPlainName(name) ? {} : { quote: true }), description: described(description) };
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

function testsOf(name: string, table: CatalogueTable, of: 'source' | 'model'): readonly (string | object)[] {
  if (of === 'source') return table.key.includes(name) ? ['not_null'] : [];
  const joins = table.joins.filter(
    (join) => isGenericJoin(join) && !join.outlivesParent && join.columns.includes(name),
  );
  return [
    ...(table.key.includes(name) ? ['not_null'] : []),
    ...(table.key.includes(name) && hasGenericUnique(table) ? ['unique'] : []),
    ...joins.map(({ parentName, parentColumns }) => {
      const to = { to: `ref('${modelName(parentName)}')`, field: parentColumns[0] ?? '' };
      return { relationships: { arguments: to, config: { severity: 'warn' } } };
    }),
  ];
}

/** dbt renders descriptions too: nothing in them may begin an expression. */
function described(text: string): string {
  return onOneLine(text).replaceAll(/([{}%#])(?=[{}%#])/g, '$1 ');
}

function yamlText(value: object): string {
  return stringify(value, { lineWidth: 0, aliasDuplicateObjects: false });
}
