import type { CatalogueTable, Join } from './catalogue.ts';
import { isPlainName } from './quote-name.ts';

/** What dbt has no test for: keys and joins of several columns. */
export function singularTests(table: CatalogueTable) {
  const { key, name } = table;
  const keyColumns = key.map(column);
  const unique = {
    name: `unique_${name}`,
    description: `No two rows have the same ${key.join(', ')}.`,
    sql: `select
${keyColumns.map((part) => `    ${part},\n`).join('')}    count(*) as times
from {{ ref('${modelName(name)}') }}
group by ${keyColumns.join(', ')}
having count(*) > 1
`,
    isWarning: false,
  };
  return [
    ...(hasGenericUnique(table) ? [] : [unique]),
    ...table.joins
      .filter((join) => !join.outlivesParent && !isGenericJoin(join))
      .map((join) => orphansTest(table, join)),
  ];
}

function orphansTest({ name: table }: CatalogueTable, join: Join) {
  const own = join.columns.map(column);
  const theirs = join.parentColumns.map(column);
  return {
    name: `orphans_${table}`,
    description: `Each row's ${join.columns.join(', ')} is the ${join.parentColumns.join(', ')} of a row of ${join.parentName}.`,
    // No outer join: ClickHouse gives it default values in place of nulls.
    sql: `select ${own.map((_, index) => `part_${index + 1}`).join(', ')}
from (
    select ${own.map((name, index) => `${name} as part_${index + 1}, `).join('')}0 as is_parent
    from {{ ref('${modelName(table)}') }}
    where ${own.map((name) => `${name} is not null`).join(' and ')}
    union all
    select ${theirs.map((name, index) => `${name} as part_${index + 1}, `).join('')}1 as is_parent
    from {{ ref('${modelName(join.parentName)}') }}
) as both_sides
group by ${own.map((_, index) => `part_${index + 1}`).join(', ')}
having max(is_parent) = 0
`,
    // A child may be stored before its parent, and a parent be found deleted before its children.
    isWarning: true,
  };
}

export function hasGenericUnique({ key: [first = '', ...others] }: CatalogueTable): boolean {
  return others.length === 0 && isPlainName(first);
}

export function isGenericJoin({ columns, parentColumns }: Join): boolean {
  return columns.length === 1 && [...columns, ...parentColumns].every(isPlainName);
}

export function sourceName(connector: string): string {
  return connector.replaceAll('-', '_');
}

export function modelName(table: string): string {
  return `stg_${table}`;
}

/** In dbt a name that is no plain one is quoted by the adapter, each in its own way. */
export function column(name: string): string {
  return isPlainName(name) ? name : `{{ adapter.quote(${jinjaText(name)}) }}`;
}

export function jinjaText(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
}
