import type { PostgresConnection } from '../../src/sql/postgres/place.ts';
import { askPostgres, type PrivatePostgres } from './postgres.ts';

/** Each changes what a statement means or what a value looks like, or how many rows it takes to be slow. */
const oddSettings = {
  array_nulls: 'off',
  backslash_quote: 'off',
  bytea_output: 'escape',
  client_encoding: 'LATIN1',
  DateStyle: 'German, DMY',
  default_transaction_deferrable: 'on',
  default_transaction_isolation: 'serializable',
  enable_indexscan: 'off',
  enable_nestloop: 'off',
  extra_float_digits: '-15',
  IntervalStyle: 'sql_standard',
  quote_all_identifiers: 'on',
  search_path: 'odd, pg_catalog',
  standard_conforming_strings: 'off',
  synchronous_commit: 'off',
  TimeZone: 'Asia/Kathmandu',
  transform_null_equals: 'on',
  xmlbinary: 'hex',
  xmloption: 'document',
};

/** The connection of a role of the server that has all of them. */
export async function oddConnection({ url, connection }: PrivatePostgres): Promise<PostgresConnection> {
  const set = Object.entries(oddSettings).map(
    ([name, value]) => `ALTER ROLE odd SET ${name} = ${name === 'search_path' ? value : `'${value}'`}`,
  );
  await askPostgres(url, 'CREATE ROLE odd LOGIN SUPERUSER', ...set);
  return { ...connection, user: 'odd' };
}
