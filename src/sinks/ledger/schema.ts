import { deletesSql, hoursSql } from './deletes/deletes-sql.ts';
import { downloadsSql } from './downloads/downloads-sql.ts';

/** Marks a SQLite file as ours ("CSY1"); any other value in a file that has tables is a foreign database. */
export const applicationId = 0x43_53_59_31;

/**
 * Raised with every change of the tables below, which needs a migration; a file with a higher number was written by a
 * newer version.
 */
export const schemaVersion = 5;

/**
 * `backfill`: the window of the backfill that the partition belongs to, '' for a living one. `base`: the living partition whose rows a
 * backfill's partition stores. `mode` is how its walk is or was made. `marker` is the parent's change value at the last seal, `found_marker`
 * at the last finding (null: not settled). `absence`: what the walks of this chain say of what they did not meet; `full_at`: when the
 * chain began whose full walk of it has been swept; `sweep_origin`: the chain whose full walk is to be swept, from row `swept_to` on;
 * `full_origin`: the chain that last walked it in full. `midway`: the walk began where one of an earlier chain had stopped.
 * `gone`: 1, the record that led to it is tombstoned; 2, so are its rows; 3, that record is one that listings leave out. `sealed_scope`: under which definition, and of what leads to
 * others under which choices, it was sealed: what was concluded then holds only for runs that read the same.
 */
export const partitionsSql = `
CREATE TABLE _sync_partitions (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  connector TEXT NOT NULL,
  entity TEXT NOT NULL,
  params TEXT NOT NULL,
  backfill TEXT NOT NULL DEFAULT '',
  base INTEGER,
  inject TEXT NOT NULL,
  rank INTEGER NOT NULL,
  tree INTEGER,
  tree_depth INTEGER,
  parent_entity TEXT,
  parent_key TEXT,
  origin INTEGER NOT NULL,
  found_at TEXT NOT NULL,
  due_since TEXT,
  ready INTEGER NOT NULL,
  listed INTEGER NOT NULL,
  mode TEXT,
  position TEXT,
  midway INTEGER NOT NULL DEFAULT 0,
  watermark TEXT,
  marker TEXT,
  found_marker TEXT,
  sealed_at TEXT,
  sealed_run TEXT,
  sealed_scope TEXT,
  proof TEXT,
  absence TEXT,
  full_at TEXT,
  full_origin INTEGER,
  sweep_origin INTEGER,
  swept_to INTEGER NOT NULL DEFAULT 0,
  gone INTEGER NOT NULL DEFAULT 0,
  set_aside_run TEXT,
  failure TEXT,
  failed_at TEXT,
  UNIQUE (connector, entity, params, backfill)
) STRICT;
CREATE INDEX _sync_partitions_ready ON _sync_partitions (connector, backfill, rank DESC) WHERE ready = 1;
CREATE INDEX _sync_partitions_overdue ON _sync_partitions (connector, backfill, sealed_at, rank DESC) WHERE ready = 1;
CREATE INDEX _sync_partitions_due ON _sync_partitions (connector, entity) WHERE due_since IS NOT NULL;
CREATE INDEX _sync_partitions_aged ON _sync_partitions (connector, entity, full_at) WHERE due_since IS NULL;
CREATE INDEX _sync_partitions_set_aside ON _sync_partitions (connector) WHERE set_aside_run IS NOT NULL;
CREATE INDEX _sync_partitions_found ON _sync_partitions (connector, found_at) WHERE due_since IS NULL;
CREATE INDEX _sync_partitions_tree ON _sync_partitions (tree, due_since) WHERE tree IS NOT NULL;
CREATE INDEX _sync_partitions_parent ON _sync_partitions (connector, parent_entity, parent_key) WHERE parent_key IS NOT NULL;
CREATE INDEX _sync_partitions_sweep ON _sync_partitions (connector, sweep_origin) WHERE sweep_origin IS NOT NULL;
CREATE INDEX _sync_partitions_window ON _sync_partitions (connector, backfill) WHERE backfill <> '';
CREATE INDEX _sync_partitions_gone ON _sync_partitions (connector, gone) WHERE gone = 1;
`;

/**
 * The ledger's tables. They live in the file that holds the records (or, for JSONL, their keys).
 *
 * Invariants of a partition: `failure` and `ready` are set only while it is due, and so is `position`, unless a fresh
 * start has kept it for when the root is found again; `ready` says that this
 * chain of runs still has to walk the listing (not set aside, not listed to its end); `listed` says that the own
 * listing of a tree is read while inner listings (`tree`) are not; `origin` is the number of the first run of the
 * chain that found it last. `as_of` of a table is when the newest chain began that read all of it;
 * `adopted_at`: since when the rows are taken for those of a new address, and no full run has agreed yet;
 * `taken_over` is the newest chain that began in the middle of a partition, where an earlier one had stopped.
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
  holder TEXT NOT NULL
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
