import { quoted } from '../database.ts';
import { keepalives } from './connections.ts';
import { settingSql, type Settings } from './session.ts';

/*
 * Settings that each transaction makes first, for itself alone: a server, a database or a role may have any value, and
 * a pooler keeps nothing of a session.
 */

/**
 * Settings that decide the meaning of statements and the format of values in transit. With another
 * `extra_float_digits`, numbers come back rounded; without `array_nulls`, a NULL is a text; without
 * `standard_conforming_strings`, a backslash does not end a literal.
 */
export const valueSettings: Settings = {
  search_path: '',
  client_encoding: 'UTF8',
  standard_conforming_strings: 'on',
  array_nulls: 'on',
  transform_null_equals: 'off',
  extra_float_digits: '1',
  bytea_output: 'hex',
  xmloption: 'content',
  quote_all_identifiers: 'off',
  TimeZone: 'UTC',
  DateStyle: 'ISO',
  IntervalStyle: 'postgres',
  lc_monetary: 'C',
  lc_numeric: 'C',
  lc_time: 'C',
  jit: 'off',
};
/**
 * Settings that correct the planner's wrong guesses: pages look up few rows in large tables (each wrong plan cost half
 * the speed), and parallel workers scan a whole index although only its first rows are needed.
 */
const writeSettings = {
  ...valueSettings,
  enable_indexscan: 'on',
  enable_nestloop: 'on',
  enable_hashjoin: 'off',
  enable_mergejoin: 'off',
  enable_seqscan: 'off',
  max_parallel_workers_per_gather: '0',
  lock_timeout: '10s',
  statement_timeout: '120s',
  idle_in_transaction_session_timeout: '30s',
  ...keepalives,
};

/** Names in statements are those of this schema; null: each has its schema in front. */
function pathOf(schema: string | null): Settings {
  return schema === null ? {} : { search_path: `${quoted(schema)}, pg_temp` };
}

export function readSettingsIn(schema: string | null): string {
  return settingSql({ ...valueSettings, ...pathOf(schema) }, 'transaction');
}

/** A COMMIT does not wait for the server's disk. */
export function normalSettingsIn(schema: string | null): string {
  return settingSql({ ...writeSettings, ...pathOf(schema), synchronous_commit: 'off' }, 'transaction');
}

/**
 * Settings for durable commits, also where the server has `synchronous_commit` off; values that wait for standbys too
 * stay.
 */
export function durableSettingsIn(schema: string | null): string {
  const settings = settingSql({ ...writeSettings, ...pathOf(schema) }, 'transaction');
  return `${settings}, set_config('synchronous_commit', replace(current_setting('synchronous_commit'), 'off', 'on'), true)`;
}
