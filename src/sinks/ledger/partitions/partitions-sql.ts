/**
 * What a partition is known by: `backfill`, the window of the backfill that it belongs to ('' for a living one);
 * `base`, the living partition whose rows a backfill's stores; `tree`, the partition whose tree this listing lies in;
 * `parent_*`, the record that led to it. `origin`: the chain of runs that found it last, by the number of its first
 * run.
 *
 * Its walk: `due_since` (null: not due), `mode`, `ready` (this chain of runs walks it), `listed` (its own listing is
 * read, listings inside its tree are not), `set_aside_run` (its walk failed in that run); `gone` is a `standing`.
 * `position`, `failure` and `ready` are set only while it is due; a fresh start alone keeps a position for when the
 * root is found again. `midway`: the walk began where one of an earlier chain had stopped.
 *
 * What its walks proved: `marker` is the parent's change value at the last seal, `found_marker` at the last finding
 * (null: not settled). `sealed_scope`: under which definition, and of what leads to others under which choices, it was
 * sealed; what was concluded then holds only for runs that read the same. `absence`: what the walks of this chain prove
 * of rows that they did not meet; `full_at`: when the chain began whose full walk has been swept; `sweep_origin`: the
 * chain whose full walk is to be swept, from row `swept_to` on; `full_origin`: the chain that last walked it in full.
 *
 * Texts that may be long are looked up by their hashes: `params_hash`, `parent_hash`. `failure_code` is taken out of
 * `failure`, `last_page_size` and `last_page_records` out of `proof`. A position is written with every commit: out of
 * line, each time would cost its length again.
 */
export const partitionsSql = `
CREATE TABLE _sync_partitions (
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  connector TEXT NOT NULL,
  entity TEXT NOT NULL,
  params TEXT NOT NULL,
  params_hash BYTEA NOT NULL,
  backfill TEXT NOT NULL DEFAULT '',
  base BIGINT,
  inject TEXT NOT NULL,
  rank INTEGER NOT NULL,
  tree BIGINT,
  tree_depth INTEGER,
  parent_entity TEXT,
  parent_key TEXT,
  parent_hash BYTEA,
  origin BIGINT NOT NULL,
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
  last_page_size BIGINT,
  last_page_records BIGINT,
  absence TEXT,
  full_at TEXT,
  full_origin BIGINT,
  sweep_origin BIGINT,
  swept_to BIGINT NOT NULL DEFAULT 0,
  gone INTEGER NOT NULL DEFAULT 0,
  set_aside_run TEXT,
  failure TEXT,
  failure_code TEXT,
  failed_at TEXT,
  UNIQUE (connector, entity, params_hash, backfill)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE _sync_partitions ALTER COLUMN position SET STORAGE MAIN;
CREATE INDEX _sync_partitions_ready ON _sync_partitions (connector, backfill, rank DESC, id) WHERE ready = 1;
CREATE INDEX _sync_partitions_overdue ON _sync_partitions (connector, backfill, sealed_at NULLS FIRST, rank DESC, id) WHERE ready = 1;
CREATE INDEX _sync_partitions_due ON _sync_partitions (connector, entity, id) WHERE due_since IS NOT NULL;
CREATE INDEX _sync_partitions_aged ON _sync_partitions (connector, entity, full_at) WHERE due_since IS NULL;
CREATE INDEX _sync_partitions_set_aside ON _sync_partitions (connector) WHERE set_aside_run IS NOT NULL;
CREATE INDEX _sync_partitions_found ON _sync_partitions (connector, found_at, id) WHERE due_since IS NULL;
CREATE INDEX _sync_partitions_tree ON _sync_partitions (tree) WHERE tree IS NOT NULL;
CREATE INDEX _sync_partitions_parent ON _sync_partitions (connector, parent_entity, parent_hash) WHERE parent_hash IS NOT NULL;
CREATE INDEX _sync_partitions_sweep ON _sync_partitions (connector, sweep_origin, id) WHERE sweep_origin IS NOT NULL;
CREATE INDEX _sync_partitions_window ON _sync_partitions (connector, backfill) WHERE backfill <> '';
CREATE INDEX _sync_partitions_gone ON _sync_partitions (connector, id) WHERE gone = 1;
`;
