import { copiesSql } from './copies/copies-sql.ts';
import { partitionsSql } from './partitions/partitions-sql.ts';

/** Raised with every change of the tables below, which needs a migration. */
export const schemaVersion = 7;

/**
 * `_sync_also`: rows met in partitions besides their home; `origin` is the chain that met them there last. `_sync_missing`: live rows that a full walk did not meet; `missed`: by how
 * many chains' walks in a row, `origin` the last of them, `since` when the first of them began; `gone_run`: the run in which `get` found
 * nothing. `_sync_drift`: undeclared and misfitting fields;
 * `is_refused`: only in quarantined records so far. `_sync_windows`: windows of
 * backfills that are done.
 */
export const deletesSql = `
CREATE TABLE _sync_also (
  connector TEXT NOT NULL,
  entity TEXT NOT NULL,
  row INTEGER NOT NULL,
  partition INTEGER NOT NULL,
  origin INTEGER NOT NULL,
  PRIMARY KEY (connector, entity, row, partition)
) STRICT, WITHOUT ROWID;
CREATE INDEX _sync_also_partition ON _sync_also (partition);

CREATE TABLE _sync_missing (
  connector TEXT NOT NULL,
  entity TEXT NOT NULL,
  row INTEGER NOT NULL,
  partition INTEGER NOT NULL,
  origin INTEGER NOT NULL,
  missed INTEGER NOT NULL,
  since TEXT NOT NULL,
  needs TEXT NOT NULL,
  is_allowed INTEGER NOT NULL,
  asked_run TEXT,
  asked_at TEXT,
  is_vouched_for INTEGER NOT NULL,
  gone_run TEXT,
  PRIMARY KEY (connector, entity, row)
) STRICT, WITHOUT ROWID;

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
) STRICT, WITHOUT ROWID;

CREATE TABLE _sync_windows (
  connector TEXT NOT NULL,
  backfill TEXT NOT NULL,
  window TEXT NOT NULL,
  run TEXT NOT NULL,
  finished_at TEXT NOT NULL,
  PRIMARY KEY (connector, backfill, window)
) STRICT, WITHOUT ROWID;
`;

/**
 * What came and went of an entity's rows in each hour (`2026-03-01T10`) of the last day: rows that came or came back, without those of the
 * chain that stored the entity's first ones (`_sync_tables.first_origin`), and rows that were deleted without a person's permission.
 * At most 26 rows of an entity.
 */
export const hoursSql = `
CREATE TABLE _sync_hours (
  connector TEXT NOT NULL,
  entity TEXT NOT NULL,
  hour TEXT NOT NULL,
  added INTEGER NOT NULL,
  deleted INTEGER NOT NULL,
  PRIMARY KEY (connector, entity, hour)
) STRICT, WITHOUT ROWID;
`;

/**
 * `_sync_downloads`: the files of records, one row per record that has or had one. `params` to `size` is what its record says, `version` 32 hex digits;
 * `gone`: `tombstoned` as its record is, or `unsaid` where that says of no file any more; `is_wanted`: it is not gone, and `stored_version` is another one than `version`.
 * `file` to `stored_run` is what lies in the folder; `stored_version` is null again as soon as another version is wanted. `replaced`: a name to be removed, which an earlier version had.
 */
export const downloadsSql = `
CREATE TABLE _sync_downloads (
  id INTEGER PRIMARY KEY,
  connector TEXT NOT NULL,
  entity TEXT NOT NULL,
  key TEXT NOT NULL,
  params TEXT NOT NULL,
  version TEXT NOT NULL,
  name TEXT,
  content_type TEXT,
  size INTEGER,
  gone TEXT,
  is_wanted INTEGER NOT NULL,
  file TEXT,
  bytes INTEGER,
  sha256 TEXT,
  stored_type TEXT,
  stored_version TEXT,
  stored_at TEXT,
  stored_run TEXT,
  replaced TEXT,
  failure TEXT,
  failed_at TEXT,
  failed_run TEXT,
  UNIQUE (connector, entity, key)
) STRICT;
CREATE INDEX _sync_downloads_wanted ON _sync_downloads (connector, entity, failed_at, id) WHERE is_wanted = 1;
CREATE INDEX _sync_downloads_replaced ON _sync_downloads (connector) WHERE replaced IS NOT NULL;
`;

/**
 * The ledger's tables. They live in the file that holds the records (or, for JSONL, their keys).
 * `as_of` of a table is when the newest chain began that read all of it;
 * `adopted_at`: since when the rows are taken for those of a new address, and no full run has agreed yet;
 * `taken_over` is the newest chain that began in the middle of a partition, where an earlier one had stopped;
 * `table_id` is random, and another one once the table was dropped and made anew; `described` is what the definition says of it for people, and
 * `current_view` its view of current rows, null where there is none;
 * `copied_to` of a connector says into which sink it was copied and when: it goes on there.
 */
export const schemaSql = `
CREATE TABLE _sync_meta (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  sink_id TEXT NOT NULL,
  kind TEXT NOT NULL,
  created_at TEXT NOT NULL,
  seq INTEGER NOT NULL
) STRICT;

CREATE TABLE _sync_connectors (
  connector TEXT PRIMARY KEY,
  base_url TEXT NOT NULL,
  connector_id TEXT NOT NULL,
  definition TEXT NOT NULL,
  definition_hash TEXT NOT NULL,
  epoch INTEGER NOT NULL,
  holder TEXT NOT NULL,
  copied_to TEXT
) STRICT, WITHOUT ROWID;

CREATE TABLE _sync_tables (
  connector TEXT NOT NULL,
  entity TEXT NOT NULL,
  key TEXT NOT NULL,
  stored TEXT NOT NULL,
  declared TEXT NOT NULL,
  rows INTEGER NOT NULL,
  as_of TEXT,
  taken_over INTEGER,
  deleted INTEGER NOT NULL DEFAULT 0,
  evolved TEXT NOT NULL DEFAULT '[]',
  adopted_at TEXT,
  first_origin INTEGER,
  table_id TEXT NOT NULL DEFAULT '',
  described TEXT NOT NULL DEFAULT '{}',
  current_view TEXT,
  PRIMARY KEY (connector, entity)
) STRICT, WITHOUT ROWID;

CREATE TABLE _sync_runs (
  number INTEGER PRIMARY KEY,
  run TEXT NOT NULL UNIQUE,
  connector TEXT NOT NULL,
  origin INTEGER NOT NULL,
  scope TEXT NOT NULL,
  continues TEXT,
  can_continue INTEGER NOT NULL,
  state TEXT NOT NULL,
  started_at TEXT NOT NULL,
  finished_at TEXT,
  report TEXT,
  cancel_requested TEXT,
  kind TEXT NOT NULL DEFAULT 'sync',
  chain TEXT NOT NULL DEFAULT '',
  is_full INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX _sync_runs_connector ON _sync_runs (connector, number);

CREATE TABLE _sync_pauses (
  connector TEXT PRIMARY KEY,
  since TEXT NOT NULL,
  reason TEXT NOT NULL
) STRICT, WITHOUT ROWID;

${partitionsSql}
CREATE TABLE _sync_counts (
  run TEXT NOT NULL,
  entity TEXT NOT NULL,
  fetched INTEGER NOT NULL,
  filtered INTEGER NOT NULL,
  quarantined INTEGER NOT NULL,
  inserted INTEGER NOT NULL,
  updated INTEGER NOT NULL,
  duplicate INTEGER NOT NULL,
  unchanged INTEGER NOT NULL,
  PRIMARY KEY (run, entity)
) STRICT, WITHOUT ROWID;

CREATE TABLE _sync_seen (
  connector TEXT NOT NULL,
  entity TEXT NOT NULL,
  origin INTEGER NOT NULL,
  chunk INTEGER NOT NULL,
  bits BLOB NOT NULL,
  UNIQUE (connector, entity, origin, chunk)
) STRICT;

${deletesSql}
${hoursSql}
${copiesSql}
CREATE TABLE _sync_quarantine (
  id INTEGER PRIMARY KEY,
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
) STRICT;

${downloadsSql}
CREATE TABLE _sync_files (
  connector TEXT NOT NULL,
  entity TEXT NOT NULL,
  epoch INTEGER NOT NULL,
  number INTEGER NOT NULL,
  length INTEGER NOT NULL,
  first_seq INTEGER NOT NULL,
  last_seq INTEGER NOT NULL,
  is_closed INTEGER NOT NULL,
  hash TEXT,
  PRIMARY KEY (connector, entity, epoch, number)
) STRICT, WITHOUT ROWID;
`;
