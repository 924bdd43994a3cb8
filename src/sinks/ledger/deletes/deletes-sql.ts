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
