/** Marks a SQLite file as ours ("CSY1"); any other value in a file that has tables is a foreign database. */
export const applicationId = 0x43_53_59_31;

/**
 * Raised with every change of the tables below, which needs a migration; a file with a higher number was written by a
 * newer version.
 */
export const schemaVersion = 2;

/**
 * The ledger's tables. They live in the file that holds the records (or, for JSONL, their keys).
 *
 * Invariants of a partition: `failure` and `ready` are set only while it is due, and so is `position`, unless a fresh
 * start has kept it for when the partition is found again; `ready` says that this
 * chain of runs still has to walk the listing (not set aside, not listed to its end); `listed` says that the own
 * listing of a tree is read while inner listings (`tree`) are not; `origin` is the number of the first run of the
 * chain that found it last. `as_of` of a table is when the newest chain began that read all of it;
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
  cancel_requested TEXT
) STRICT;
CREATE INDEX _sync_runs_connector ON _sync_runs (connector, number);

CREATE TABLE _sync_pauses (
  connector TEXT PRIMARY KEY,
  since TEXT NOT NULL,
  reason TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE _sync_partitions (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  connector TEXT NOT NULL,
  entity TEXT NOT NULL,
  params TEXT NOT NULL,
  inject TEXT NOT NULL,
  rank INTEGER NOT NULL,
  tree INTEGER,
  tree_depth INTEGER,
  origin INTEGER NOT NULL,
  found_at TEXT NOT NULL,
  due_since TEXT,
  ready INTEGER NOT NULL,
  listed INTEGER NOT NULL,
  position TEXT,
  sealed_at TEXT,
  sealed_run TEXT,
  proof TEXT,
  set_aside_run TEXT,
  failure TEXT,
  failed_at TEXT,
  UNIQUE (connector, entity, params)
) STRICT;
CREATE INDEX _sync_partitions_ready ON _sync_partitions (connector, rank DESC) WHERE ready = 1;
CREATE INDEX _sync_partitions_due ON _sync_partitions (connector, entity) WHERE due_since IS NOT NULL;
CREATE INDEX _sync_partitions_set_aside ON _sync_partitions (connector) WHERE set_aside_run IS NOT NULL;
CREATE INDEX _sync_partitions_found ON _sync_partitions (connector, found_at) WHERE due_since IS NULL;
CREATE INDEX _sync_partitions_tree ON _sync_partitions (tree, due_since) WHERE tree IS NOT NULL;

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

CREATE TABLE _sync_files (
  connector TEXT NOT NULL,
  entity TEXT NOT NULL,
  epoch INTEGER NOT NULL,
  number INTEGER NOT NULL,
  length INTEGER NOT NULL,
  first_seq INTEGER NOT NULL,
  last_seq INTEGER NOT NULL,
  is_closed INTEGER NOT NULL,
  PRIMARY KEY (connector, entity, epoch, number)
) STRICT, WITHOUT ROWID;
`;
