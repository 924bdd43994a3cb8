import type Database from 'better-sqlite3';

/**
 * What a partition is known by: `backfill`, the window of the backfill that it belongs to ('' for a living one); `base`, the living
 * partition whose rows a backfill's stores; `tree`, the partition whose tree this listing lies in; `parent_*`, the record that led to it.
 * `origin`: the chain of runs that found it last, by the number of its first run.
 *
 * Its walk: `due_since` (null: not due), `mode`, and `ready`, `listed`, `set_aside_run` and `gone` as in `stateSql`. `position`, `failure` and `ready`
 * are set only while it is due; a fresh start alone keeps a position for when the root is found again. `midway`: the
 * walk began where one of an earlier chain had stopped.
 *
 * What its walks proved: `marker` is the parent's change value at the last seal, `found_marker` at the last finding (null: not settled).
 * `sealed_scope`: under which definition, and of what leads to others under which choices, it was sealed; what was concluded then holds
 * only for runs that read the same. `absence`: what the walks of this chain say of what they did not meet; `full_at`: when the chain
 * began whose full walk has been swept; `sweep_origin`: the chain whose full walk is to be swept, from row `swept_to` on;
 * `full_origin`: the chain that last walked it in full.
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

/** No partition has, or ever had, a higher id. */
export function highestId(db: Database.Database): number {
  const sql = "SELECT seq FROM sqlite_sequence WHERE name = '_sync_partitions'";
  return db.prepare<[], number>(sql).pluck().get() ?? 0;
}

/** The next `count` ids are given to no partition that is found; gives the id before them. Inside a transaction. */
export function reserveIds(db: Database.Database, count: number): number {
  const last = highestId(db);
  db.exec("DELETE FROM sqlite_sequence WHERE name = '_sync_partitions'");
  db.prepare("INSERT INTO sqlite_sequence (name, seq) VALUES ('_sync_partitions', ?)").run(last + count);
  return last;
}
