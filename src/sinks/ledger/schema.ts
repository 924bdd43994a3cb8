import { actionsSql } from './actions.ts';
import { copiesSql } from './copies/read-copies.ts';
import { daysSql } from './days.ts';
import { downloadsSql } from './downloads/ledger-files.ts';
import { masksSql } from './masks.ts';
import { noticesSql } from './notices/ledger-notices.ts';
import { rawSql } from './raw-rows.ts';
import { removalsSql } from './repair/read-removal.ts';
import { partitionsSql } from './partitions/partitions-sql.ts';
import { retainedSql } from './purges/retained.ts';
import { purgesSql } from './purges/purge-notes.ts';
import { versionsSql } from './versions/versions.ts';
import { seenSql } from './seen-rows.ts';
import { progressSql } from './shown-progress.ts';

/**
 * `as_of` of a table is when the newest chain began that read all of it; `last_row` is the newest row number, `rows`
 * counts tombstones as well, `deleted` counts them alone; `adopted_at`: since when the rows are taken for those of a
 * new address, and no full run has agreed yet; `taken_over` is the newest chain that began in the middle of a
 * partition, where an earlier one had stopped; `first_origin`: the chain that stored the first rows; `table_id` is
 * random, and changes when the table is dropped and created again; `described` is what the definition says of it for
 * people, and `current_view` its view of current rows, null where there is none; `copied_to` of a connector says into
 * which sink it was copied and when: its syncs continue there; `raw_key` is
 * `StartedRun.rawKey`, null until the connector is held next.
 */
const tablesSql = `
CREATE TABLE _sync_connectors (
  connector TEXT PRIMARY KEY,
  base_url TEXT NOT NULL,
  connector_id TEXT NOT NULL,
  definition TEXT NOT NULL,
  definition_hash TEXT NOT NULL,
  epoch BIGINT NOT NULL,
  holder TEXT NOT NULL,
  copied_to TEXT,
  raw_key TEXT
);

CREATE TABLE _sync_tables (
  connector TEXT NOT NULL,
  entity TEXT NOT NULL,
  name TEXT NOT NULL,
  key TEXT NOT NULL,
  stored TEXT NOT NULL,
  declared TEXT NOT NULL,
  rows BIGINT NOT NULL,
  last_row BIGINT NOT NULL DEFAULT 0,
  as_of TEXT,
  taken_over BIGINT,
  deleted BIGINT NOT NULL DEFAULT 0,
  evolved TEXT NOT NULL DEFAULT '[]',
  adopted_at TEXT,
  first_origin BIGINT,
  table_id TEXT NOT NULL DEFAULT gen_random_uuid()::text,
  described TEXT NOT NULL DEFAULT '{}',
  current_view TEXT,
  PRIMARY KEY (connector, entity)
) WITH (fillfactor = 50);
`;

/**
 * `resume_at` is taken out of the report when that is written, `depth_limited` out of the counts: reports are long, and
 * read by people.
 */
const runsSql = `
CREATE TABLE _sync_runs (
  number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  run TEXT NOT NULL UNIQUE,
  connector TEXT NOT NULL,
  origin BIGINT NOT NULL,
  scope TEXT NOT NULL,
  continues TEXT,
  can_continue INTEGER NOT NULL,
  state TEXT NOT NULL,
  started_at TEXT NOT NULL,
  finished_at TEXT,
  report TEXT,
  resume_at TEXT,
  cancel_requested TEXT,
  kind TEXT NOT NULL DEFAULT 'sync',
  chain TEXT NOT NULL DEFAULT '',
  is_full INTEGER NOT NULL DEFAULT 0
) WITH (fillfactor = 70);
CREATE INDEX _sync_runs_connector ON _sync_runs (connector, number);

CREATE TABLE _sync_pauses (
  connector TEXT PRIMARY KEY,
  since TEXT NOT NULL,
  reason TEXT NOT NULL
);

CREATE TABLE _sync_counts (
  run TEXT NOT NULL,
  entity TEXT NOT NULL,
  fetched BIGINT NOT NULL,
  filtered BIGINT NOT NULL,
  quarantined BIGINT NOT NULL,
  inserted BIGINT NOT NULL,
  updated BIGINT NOT NULL,
  duplicate BIGINT NOT NULL,
  unchanged BIGINT NOT NULL,
  depth_limited BIGINT NOT NULL DEFAULT 0,
  PRIMARY KEY (run, entity)
) WITH (fillfactor = 50);
`;

/**
 * `_sync_also`: rows met in partitions besides their owner; `origin` is the chain that met them there last.
 * `_sync_missing`: live rows that a full walk did not meet; `missed`: by how many chains' walks in a row, `origin` the
 * last of them, `since` when the first of them began; `gone_run`: the run in which `get` found nothing. `_sync_drift`:
 * undeclared and misfitting fields; `is_refused`: only in quarantined records so far. `_sync_windows`: windows of
 * backfills that are done.
 */
const deletesSql = `
CREATE TABLE _sync_also (
  connector TEXT NOT NULL,
  entity TEXT NOT NULL,
  row BIGINT NOT NULL,
  partition BIGINT NOT NULL,
  origin BIGINT NOT NULL,
  PRIMARY KEY (connector, entity, row, partition)
);
CREATE INDEX _sync_also_partition ON _sync_also (partition, connector, entity, row);

CREATE TABLE _sync_missing (
  connector TEXT NOT NULL,
  entity TEXT NOT NULL,
  row BIGINT NOT NULL,
  partition BIGINT NOT NULL,
  origin BIGINT NOT NULL,
  missed INTEGER NOT NULL,
  since TEXT NOT NULL,
  needs TEXT NOT NULL,
  is_allowed INTEGER NOT NULL,
  asked_run TEXT,
  asked_at TEXT,
  is_vouched_for INTEGER NOT NULL,
  gone_run TEXT,
  PRIMARY KEY (connector, entity, row)
);
CREATE INDEX _sync_missing_asked ON _sync_missing (connector, entity, asked_at NULLS FIRST, row) WHERE needs = 'get';
CREATE INDEX _sync_missing_newly ON _sync_missing (partition) WHERE needs = 'walk' AND missed = 1;
CREATE INDEX _sync_missing_gone ON _sync_missing (connector, gone_run, entity, row) WHERE gone_run IS NOT NULL;

CREATE TABLE _sync_drift (
  connector TEXT NOT NULL,
  entity TEXT NOT NULL,
  field TEXT NOT NULL,
  kind TEXT NOT NULL,
  type TEXT NOT NULL,
  first_seen_at TEXT NOT NULL,
  first_run TEXT NOT NULL,
  is_refused INTEGER NOT NULL,
  PRIMARY KEY (connector, entity, field, kind, type)
);

CREATE TABLE _sync_windows (
  connector TEXT NOT NULL,
  backfill TEXT NOT NULL,
  "window" TEXT NOT NULL,
  run TEXT NOT NULL,
  finished_at TEXT NOT NULL,
  PRIMARY KEY (connector, backfill, "window")
);
`;

/**
 * How many of an entity's rows came and went in each hour (`2026-03-01T10`) of the last day: rows that were stored or
 * revived, without those of the chain that stored the entity's first ones (`_sync_tables.first_origin`), and rows that
 * were deleted without a person's permission. At most 26 rows of an entity.
 */
const hoursSql = `
CREATE TABLE _sync_hours (
  connector TEXT NOT NULL,
  entity TEXT NOT NULL,
  hour TEXT NOT NULL,
  added BIGINT NOT NULL,
  deleted BIGINT NOT NULL,
  PRIMARY KEY (connector, entity, hour)
);
`;

const quarantineSql = `
CREATE TABLE _sync_quarantine (
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  connector TEXT NOT NULL,
  entity TEXT NOT NULL,
  content_hash TEXT NOT NULL,
  reason TEXT NOT NULL,
  detail TEXT NOT NULL,
  record TEXT NOT NULL,
  first_seen_at TEXT NOT NULL,
  last_seen_at TEXT NOT NULL,
  last_run TEXT NOT NULL,
  UNIQUE (connector, entity, content_hash)
);
`;

/**
 * The ledger's tables, but for those in which a database counts changes and says who holds a connector: those are its
 * driver's. The text is PostgreSQL's; `src/sinks/sqlite/schema.ts` says it for SQLite. Texts compare by their bytes,
 * flags are 0 and 1.
 */
export const ledgerSql = [
  tablesSql,
  runsSql,
  partitionsSql,
  seenSql,
  rawSql,
  deletesSql,
  hoursSql,
  copiesSql,
  quarantineSql,
  downloadsSql,
  daysSql,
  actionsSql,
  noticesSql,
  versionsSql,
  progressSql,
  removalsSql,
  purgesSql,
  retainedSql,
  masksSql,
].join('');

/**
 * Migrations of the ledger's tables for sinks of released versions: the first one leads from version 1 to 2, and each
 * further one to the next. Written as `ledgerSql`, which always makes the newest version. All migrations that a sink
 * needs run in one transaction. They are never changed once released, only added to. Processes of the older version may
 * continue to write until they end, so no migration may require of them what they do not know.
 */
export const migrations: readonly string[] = [];
