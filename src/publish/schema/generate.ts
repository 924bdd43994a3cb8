import { usage } from '../../core/usage-error.ts';
import type { Catalogue } from './catalogue.ts';
import { dbtSources } from './dbt.ts';
import { duckdb } from './dialects/duckdb.ts';
import { postgres } from './dialects/postgres.ts';
import { schemaName, type DialectText } from './dialects/warehouse-sql.ts';
import type { GeneratedFile } from './generated-file.ts';

const dialects: Readonly<Record<string, DialectText>> = { duckdb, postgres };

export const dialectNames: readonly string[] = ['dbt', ...Object.keys(dialects)];

/** Throws USAGE for a dialect that is not known. */
export function generate(catalogue: Catalogue, name: string): readonly GeneratedFile[] {
  if (name === 'dbt') return dbtSources(catalogue);
  const dialect = Object.hasOwn(dialects, name) ? dialects[name] : undefined;
  if (dialect === undefined) {
    throw usage(`--dialect: expected one of ${dialectNames.join(', ')}, got "${name}".`);
  }
  const { place, tables } = catalogue;
  const from = catalogue.publication === null ? 'the definitions' : `publication ${catalogue.publication}`;
  const making = [`create schema if not exists ${schemaName};\n`, ...tables.map(dialect.makeTable)].join(
    '\n',
  );
  return [
    { path: `${name}/tables.sql`, from, body: making },
    ...(place !== null && 'format' in place
      ? [{ path: `${name}/load.sql`, from, body: dialect.load({ ...catalogue, place }) }]
      : []),
  ];
}
