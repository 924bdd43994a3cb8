import { usage } from '../../core/usage-error.ts';
import type { Catalogue } from './catalogue.ts';
import { dbtFiles } from './dbt.ts';
import { bigquery } from './dialects/bigquery.ts';
import { clickhouse } from './dialects/clickhouse.ts';
import { duckdb } from './dialects/duckdb.ts';
import { postgres } from './dialects/postgres.ts';
import { redshift } from './dialects/redshift.ts';
import { snowflake } from './dialects/snowflake.ts';
import { schemaName, type DialectText, type FilesCatalogue } from './dialects/warehouse-sql.ts';
import type { GeneratedFile } from './generated-file.ts';
import type { Dialect } from './quote-name.ts';

const dialects: Readonly<Record<Dialect, DialectText>> = {
  duckdb,
  postgres,
  clickhouse,
  snowflake,
  bigquery,
  redshift,
};

export const dialectNames: readonly string[] = ['dbt', ...Object.keys(dialects)];

/** Throws USAGE for a dialect that is not known. */
export function generate(catalogue: Catalogue, name: string): readonly GeneratedFile[] {
  if (name === 'dbt') return dbtFiles(catalogue);
  if (!isDialect(name)) throw usage(`--dialect: expected one of ${dialectNames.join(', ')}, got "${name}".`);
  const { database = 'schema', makeTable } = dialects[name];
  const { place, tables } = catalogue;
  const from = catalogue.publication === null ? 'the definitions' : `publication ${catalogue.publication}`;
  const making = [`create ${database} if not exists ${schemaName};\n`, ...tables.map(makeTable)].join('\n');
  return [
    { path: `${name}/tables.sql`, from, body: making },
    ...(place !== null && 'format' in place ? loadingFiles(name, { ...catalogue, place }, from) : []),
  ];
}

function loadingFiles(name: Dialect, catalogue: FilesCatalogue, from: string): readonly GeneratedFile[] {
  const { load, besides = () => [] } = dialects[name];
  return [
    { path: `${name}/load.sql`, from, body: load(catalogue) },
    ...besides(catalogue).map(({ path, text }) => ({ path: `${name}/${path}`, from: null, body: text })),
  ];
}

function isDialect(name: string): name is Dialect {
  return Object.hasOwn(dialects, name);
}
