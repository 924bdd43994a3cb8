import type { Catalogue, CatalogueTable } from './catalogue.ts';
import { column, modelName, singularTests, sourceName } from './dbt-tests.ts';
import { modelsYaml, sourcesYaml } from './dbt-yaml.ts';
import type { GeneratedFile } from './generated-file.ts';

/** A dbt project's models, sources and tests: dbt 1.10.5 or later. The SQL is what all dialects have in common. */
export function dbtFiles(catalogue: Catalogue): readonly GeneratedFile[] {
  const sources = [...new Set(catalogue.tables.map(({ connector }) => connector))];
  return sources.flatMap((connector) => {
    const tables = catalogue.tables.filter((table) => table.connector === connector);
    const folder = sourceName(connector);
    const from = `the tables of ${connector}`;
    return [
      { path: `models/connector_sync/${folder}/_sources.yml`, from, body: sourcesYaml(catalogue, tables) },
      { path: `models/connector_sync/${folder}/_models.yml`, from, body: modelsYaml(tables) },
      ...tables.map((table) => ({
        path: `models/connector_sync/${folder}/${modelName(table)}.sql`,
        from: originOf(table),
        body: stagingSql(table),
      })),
      ...tables.flatMap((table) =>
        singularTests(table, tables).map(({ name, sql }) => ({
          path: `tests/connector_sync/${folder}/${name}.sql`,
          from: originOf(table),
          body: sql,
        })),
      ),
    ];
  });
}

function originOf({ connector, entity, schema }: CatalogueTable): string {
  return `${connector}/${entity}, schema ${schema}`;
}

function stagingSql(table: CatalogueTable): string {
  const { connector, entity, key, columns } = table;
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
${kept.map((name) => `    ${column(name)}`).join(',\n')}
from numbered
where _newest = 1
    and not _deleted
`;
}
