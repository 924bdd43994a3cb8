import { catalogSql } from './catalog-sql.ts';
import { partitionsSql } from '../ledger/partitions/partitions-sql.ts';

/** Raised with every change of the tables below, which needs a migration. */
export const schemaVersion = 2;

/**
 * The ledger's tables, as the file sinks have them (`src/sinks/file-ledger/schema.ts` says what the columns mean), with these differences:
 * `_sync_counters` is the change counter of each connector and its fence, with a token of the last transaction (`stored-token.ts`), and stays
 * when the connector is forgotten; `_sync_leases` says who holds a connector, by the server's clock; `last_row` of a table is the newest row number; `resume_at` and `depth_limited` are taken out
 * of reports and counts when these are written, `failure_code`, `last_page_size` and `last_page_records` out of failures and proofs.
 * Texts are compared byte by byte, whatever the server's locale. Flags are 0 and 1.
 */
export const schemaSql = `
CREATE TABLE _sync_meta (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  sink_id TEXT NOT NULL,
  kind TEXT NOT NULL,
  version INTEGER NOT NULL,
  created_at TEXT NOT NULL,
  system_identifier TEXT,
  timeline INTEGER
);

CREATE TABLE _sync_counters (
  connector TEXT PRIMARY KEY,
  epoch BIGINT NOT NULL,
  seq BIGINT NOT NULL,
  last_commit UUID
) WITH (fillfactor = 50);

CREATE TABLE _sync_leases (
  connector TEXT PRIMARY KEY,
  epoch BIGINT NOT NULL,
  holder TEXT NOT NULL,
  until TIMESTAMPTZ NOT NULL,
  backend_pid INTEGER
) WITH (fillfactor = 50);

CREATE TABLE _sync_connectors (
  connector TEXT PRIMARY KEY,
  base_url TEXT NOT NULL,
  connector_id TEXT NOT NULL,
  definition TEXT NOT NULL,
  definition_hash TEXT NOT NULL,
  epoch BIGINT NOT NULL,
  holder TEXT NOT NULL,
  copied_to TEXT
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

${partitionsSql}

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

CREATE TABLE _sync_seen (
  connector TEXT NOT NULL,
  entity TEXT NOT NULL,
  origin BIGINT NOT NULL,
  chunk BIGINT NOT NULL,
  bits BYTEA NOT NULL,
  UNIQUE (connector, entity, origin, chunk)
) WITH (fillfactor = 50);
ALTER TABLE _sync_seen ALTER COLUMN bits SET STORAGE PLAIN;

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

CREATE TABLE _sync_hours (
  connector TEXT NOT NULL,
  entity TEXT NOT NULL,
  hour TEXT NOT NULL,
  added BIGINT NOT NULL,
  deleted BIGINT NOT NULL,
  PRIMARY KEY (connector, entity, hour)
);

CREATE TABLE _sync_copies (
  connector TEXT PRIMARY KEY,
  version INTEGER NOT NULL,
  source TEXT NOT NULL,
  source_name TEXT NOT NULL,
  target_name TEXT NOT NULL,
  state TEXT NOT NULL,
  entities TEXT NOT NULL,
  shift BIGINT NOT NULL,
  entity TEXT,
  row BIGINT NOT NULL,
  holder TEXT NOT NULL,
  since TEXT NOT NULL,
  finished_at TEXT
);

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

CREATE TABLE _sync_downloads (
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  connector TEXT NOT NULL,
  entity TEXT NOT NULL,
  key TEXT NOT NULL,
  key_hash BYTEA NOT NULL,
  params TEXT NOT NULL,
  version TEXT NOT NULL,
  name TEXT,
  content_type TEXT,
  size BIGINT,
  gone TEXT,
  is_wanted INTEGER NOT NULL,
  file TEXT,
  bytes BIGINT,
  sha256 TEXT,
  stored_type TEXT,
  stored_version TEXT,
  stored_at TEXT,
  stored_run TEXT,
  replaced TEXT,
  failure TEXT,
  failed_at TEXT,
  failed_run TEXT,
  UNIQUE (connector, entity, key_hash)
);
CREATE INDEX _sync_downloads_wanted ON _sync_downloads (connector, entity, failed_at NULLS FIRST, id) WHERE is_wanted = 1;
CREATE INDEX _sync_downloads_replaced ON _sync_downloads (connector) WHERE replaced IS NOT NULL;
${catalogSql}
`;
