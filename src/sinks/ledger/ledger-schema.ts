/**
 * The ledger's tables, except those for change counters and holders of connectors, which belong to the database's
 * driver. The text is PostgreSQL's; `src/sinks/sqlite/sqlite-schema.ts` says it for SQLite. Texts compare by their
 * bytes, flags are 0 and 1.
 *
 * `_sync_tables`, `_sync_connectors`: `as_of` of a table is when the newest chain began that read all of it; `last_row`
 * is the newest row number, `rows` counts tombstones as well, `deleted` counts them alone; `adopted_at`: since when the
 * rows are taken for those of a new address, and no full run has agreed yet; `taken_over` is the newest chain that
 * began in the middle of a partition, where an earlier one had stopped; `first_origin`: the chain that stored the first
 * rows; `table_id` is random, and changes when the table is dropped and created again; `described` is what the
 * definition says of it for people, and `current_view` its view of current rows, null where there is none; `key_mask`
 * says how parts of its key are masked (`noteKeys`); `copied_to` of a connector says into which sink it was copied and
 * when: its syncs continue there; `raw_key` is `rawKey` of `startRun`, null until the connector is held next.
 *
 * `_sync_runs`, `_sync_counts`: `resume_at` is taken out of the report when that is written, `depth_limited` out of the
 * counts: reports are long, and read by people.
 *
 * `_sync_partitions`. What a partition is known by: `backfill`, the window of the backfill that it belongs to ('' for a
 * living one); `base`, the living partition whose rows a backfill's stores; `tree`, the partition whose tree this
 * listing lies in; `parent_*`, the record that led to it. `origin`: the chain of runs that found it last, by the number
 * of its first run.
 *
 * Its walk: `due_since` (null: not due), `mode`, `ready` (this chain of runs walks it), `listed` (its own listing is
 * read, listings inside its tree are not), `set_aside_run` (its walk failed in that run); `gone` is a `standing`.
 * `position`, `failure` and `ready` are set only while it is due; a fresh start alone keeps a position for when the
 * root is found again. `midway`: the walk began where one of an earlier chain had stopped.
 *
 * Proofs of its walks: `marker` is the parent's change value at the last seal, `found_marker` at the last finding
 * (null: not settled). `sealed_scope`: under which definition, and of what leads to others under which choices, it was
 * sealed; what was concluded then holds only for runs that read the same. `absence`: what the walks of this chain prove
 * of rows that they did not meet; `full_at`: when the chain began whose full walk has been swept; `sweep_origin`: the
 * chain whose full walk is to be swept, from row `swept_to` on; `full_origin`: the chain that last walked it in full.
 *
 * Texts that may be long are looked up by their hashes: `params_hash`, `parent_hash`. `failure_code` is taken out of
 * `failure`, `last_page_size` and `last_page_records` out of `proof`. A position is written with every commit: out of
 * line, each time would cost its length again.
 *
 * `_sync_seen`: which rows a chain of runs has met. A chunk is written with every commit: out of line, it would cost
 * more.
 *
 * `_sync_also`: rows met in partitions other than their owner; `origin` is the chain that met them there last.
 * `_sync_missing`: live rows that a full walk did not meet; `missed`: by how many chains' walks in a row, `origin` the
 * last of them, `since` when the first of them began; `gone_run`: the run in which `get` found nothing. `_sync_drift`:
 * undeclared and misfitting fields; `is_refused`: only in quarantined records so far. `_sync_windows`: windows of
 * backfills that are done.
 *
 * `_sync_journals`: the journal of a run (`run-journal.ts`), as it was at `at`; of each connector's newest runs alone.
 *
 * `_sync_hours`: how many of an entity's rows came and went in each hour (`2026-03-01T10`) of the last day: rows that
 * were stored or revived, without those of the chain that stored the entity's first ones (`_sync_tables.first_origin`),
 * and rows that were deleted without a person's permission. At most 26 rows of an entity.
 *
 * `_sync_copies`: connectors that were copied into this sink from another one: `source_name` is that sink's name in the
 * config and `target_name` that of this one, `state` stands for what was copied, `runs` and `partitions` are added to
 * numbers of the source, `done` is how many tables are copied. While `finished_at` is null, the connector's rows in
 * other tables count for nothing: it has none in `_sync_connectors` and `_sync_tables`.
 *
 * `_sync_downloads`: the files of records, one row per record that has or had one, found by the hash of its key, which
 * may be long. `params` to `size` is what its record says, `version` 32 hex digits; `gone`: `tombstoned` as its record
 * is, or `unsaid` where the record no longer names a file; `is_wanted`: `gone` is null, and `stored_version` is another
 * one than `version`. `file` to `stored_run` is what the folder has; `stored_version` is null again as soon as another
 * version is wanted. `replaced`: a name to be removed, which an earlier version had.
 *
 * `_sync_actions`: what people did to the connectors of a sink, noted in the transaction that does it. `connector` is
 * null where it concerned none alone, `run` names the run that did it or that it was about; `detail` is an object as
 * JSON.
 *
 * `_sync_conditions`: what was found to be wrong when it was last compared. `connector` is '' where a condition
 * concerns none alone, `subject` is an entity, a field or a target, or ''.
 *
 * `_sync_outbox`: messages that were not delivered yet, those of a channel in the order of their `id`. Times in
 * milliseconds are by the clock that all processes of the sink share (`LedgerDriver.alone`); `notice` is the message's
 * id for its receiver. A message that was given up has `given_up_at`, and stays for a month.
 *
 * `_sync_versions`: entities whose rows have versions. `since`: from then on every one is kept, until `ended_at` where
 * that was switched off; those that were kept stay.
 *
 * `_sync_purged`: a record that was purged, by the HMAC of its entity and key; `seq` is the newest change number at
 * that time, so that later lines of the record are not taken for purged ones; `is_asked` 0: it went as one below a
 * record that was asked for. `_sync_purge_keys`: the secret of the connector's HMACs. `_sync_purge_work`: what purges
 * have left to do, such as files to be rewritten.
 *
 * `_sync_retained`: what became of an entity's old rows. Deletes up to the change number `complete_after` may have been
 * removed: readers of later changes miss nothing. `checked_at`: when a run looked for what is too old last, `withheld`:
 * how much of that a guard kept.
 *
 * `_sync_masks`: by which mask an entity's records are stored. `mask` changes with its rules and its key, `key_id` says
 * which key that is; `since`: when the first run with it began, null where nothing was stored before it; `read_at`:
 * when the entity had been read whole with it.
 */
export const ledgerSql = `
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
  key_mask TEXT NOT NULL DEFAULT '{}',
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

CREATE TABLE _sync_journals (
  connector TEXT NOT NULL,
  run TEXT NOT NULL,
  at TEXT NOT NULL,
  journal TEXT NOT NULL,
  UNIQUE (run)
);
CREATE INDEX _sync_journals_connector ON _sync_journals (connector);

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
  source_name TEXT NOT NULL,
  target_name TEXT NOT NULL,
  state TEXT NOT NULL,
  entities TEXT NOT NULL,
  runs BIGINT NOT NULL,
  partitions BIGINT NOT NULL,
  done BIGINT NOT NULL,
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

CREATE TABLE _sync_actions (
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at TEXT NOT NULL,
  who TEXT NOT NULL,
  action TEXT NOT NULL,
  connector TEXT,
  entity TEXT,
  detail TEXT NOT NULL,
  run TEXT
);
CREATE INDEX _sync_actions_connector ON _sync_actions (connector, id);

CREATE TABLE _sync_conditions (
  connector TEXT NOT NULL,
  kind TEXT NOT NULL,
  subject TEXT NOT NULL,
  since TEXT NOT NULL,
  detail TEXT NOT NULL,
  PRIMARY KEY (connector, kind, subject)
);

CREATE TABLE _sync_outbox (
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  notice TEXT NOT NULL,
  channel TEXT NOT NULL,
  connector TEXT,
  kind TEXT NOT NULL,
  at TEXT NOT NULL,
  payload TEXT NOT NULL,
  attempts INTEGER NOT NULL,
  next_ms BIGINT NOT NULL,
  claimed_until_ms BIGINT NOT NULL,
  claim TEXT,
  last_error TEXT,
  given_up_at TEXT
);
CREATE INDEX _sync_outbox_channel ON _sync_outbox (channel, id) WHERE given_up_at IS NULL;

CREATE TABLE _sync_versions (
  connector TEXT NOT NULL,
  entity TEXT NOT NULL,
  since TEXT NOT NULL,
  ended_at TEXT,
  PRIMARY KEY (connector, entity)
);

CREATE TABLE _sync_purged (
  connector TEXT NOT NULL,
  entity TEXT NOT NULL,
  mac BYTEA NOT NULL,
  seq BIGINT NOT NULL,
  at TEXT NOT NULL,
  who TEXT NOT NULL,
  can_return INTEGER NOT NULL,
  is_asked INTEGER NOT NULL,
  PRIMARY KEY (connector, entity, mac)
);

CREATE TABLE _sync_purge_keys (
  connector TEXT NOT NULL,
  secret TEXT NOT NULL,
  PRIMARY KEY (connector)
);

CREATE TABLE _sync_purge_work (
  connector TEXT NOT NULL,
  step TEXT NOT NULL,
  entity TEXT NOT NULL,
  since TEXT NOT NULL,
  PRIMARY KEY (connector, step, entity)
);

CREATE TABLE _sync_retained (
  connector TEXT NOT NULL,
  entity TEXT NOT NULL,
  complete_after BIGINT NOT NULL,
  checked_at TEXT,
  withheld BIGINT NOT NULL DEFAULT 0,
  PRIMARY KEY (connector, entity)
);

CREATE TABLE _sync_masks (
  connector TEXT NOT NULL,
  entity TEXT NOT NULL,
  mask TEXT NOT NULL,
  key_id TEXT NOT NULL,
  since TEXT,
  read_at TEXT,
  PRIMARY KEY (connector, entity)
);
`;

/** Its tables, in the order in which they are made. */
export const ledgerTables = [...ledgerSql.matchAll(/^CREATE TABLE (\w+)/gm)].map(([, name = '']) => name);

/** A table that every ledger of version 1 has, and no ledger of a development version before it. */
export const newestTable = '_sync_journals';

/**
 * Migrations of the ledger's tables for sinks of released versions: the first one leads from version 1 to 2, and each
 * further one to the next. Written like `ledgerSql`, which always makes the newest version. All migrations that a sink
 * needs run in one transaction. Released migrations never change; new ones are added. Processes of the older version
 * may continue to write until they end, so no migration may depend on columns or rules that they do not know.
 */
export const migrations: readonly string[] = [];

/**
 * Views that describe the sink to a reader, with texts of the definitions: its tables, their columns, and which columns
 * lead from table to table. They are made of `_sync_tables` alone, so they are never out of date. In the words of
 * PostgreSQL.
 */
export const postgresCatalogSql = `
CREATE VIEW _catalog_tables AS
SELECT t.connector, t.entity, t.name AS table_name, t.current_view AS view_name, c.definition AS connector_type,
  t.described::json ->> 'description' AS description,
  (SELECT string_agg(k.value, ', ' ORDER BY k.n) FROM json_array_elements_text(t.key::json) WITH ORDINALITY AS k(value, n)) AS key_columns,
  t.rows - t.deleted AS current_rows, t.as_of
FROM _sync_tables AS t LEFT JOIN _sync_connectors AS c ON c.connector = t.connector;

CREATE VIEW _catalog_columns AS
SELECT t.connector, t.entity, t.name AS table_name, t.current_view AS view_name, col.n AS position,
  col.value ->> 'name' AS column_name, col.value ->> 'type' AS type,
  (SELECT d.value FROM json_each_text(t.described::json -> 'columns') AS d(key, value) WHERE d.key = col.value ->> 'name') AS description,
  (col.value ->> 'name') IN (SELECT k.value FROM json_array_elements_text(t.key::json) AS k(value)) AS is_key, false AS is_derived
FROM _sync_tables AS t CROSS JOIN LATERAL json_array_elements(t.stored::json) WITH ORDINALITY AS col(value, n)
UNION ALL
SELECT t.connector, t.entity, t.name, t.current_view, json_array_length(t.stored::json) + col.n,
  col.value ->> 'name',
  col.value ->> 'type',
  'Made of ' || (SELECT string_agg(f.value, ', ' ORDER BY f.n) FROM json_array_elements_text(col.value -> 'from') WITH ORDINALITY AS f(value, n))
    || CASE WHEN col.value ->> 'as' = 'texts' THEN '' ELSE
    (SELECT coalesce(string_agg('.' || f.value, '' ORDER BY f.n), '') FROM json_array_elements_text(col.value -> 'path') WITH ORDINALITY AS f(value, n)) END
    || ' (in the view alone)', false, true
FROM _sync_tables AS t CROSS JOIN LATERAL json_array_elements(t.described::json -> 'derived') WITH ORDINALITY AS col(value, n)
WHERE t.current_view IS NOT NULL AND EXISTS (
  SELECT 1 FROM json_array_elements(t.stored::json) AS s(value), json_array_elements_text(col.value -> 'from') AS f(value)
  WHERE s.value ->> 'name' = f.value
) AND NOT EXISTS (
  SELECT 1 FROM json_array_elements(t.stored::json) AS s(value) WHERE s.value ->> 'name' = col.value ->> 'name'
);

CREATE VIEW _catalog_joins AS
SELECT t.connector, t.entity AS from_entity, t.name AS from_table, col.value AS from_column,
  j.value ->> 'parent' AS to_entity, p.name AS to_table,
  (SELECT o.value FROM json_array_elements_text(j.value -> 'parentColumns') WITH ORDINALITY AS o(value, n) WHERE o.n = col.n) AS to_column
FROM _sync_tables AS t CROSS JOIN LATERAL json_array_elements(t.described::json -> 'joins') AS j(value)
  CROSS JOIN LATERAL json_array_elements_text(j.value -> 'columns') WITH ORDINALITY AS col(value, n)
  JOIN _sync_tables AS p ON p.connector = t.connector AND p.entity = j.value ->> 'parent';
`;

/**
 * The same views for SQLite, whose JSON is text and is read by two functions. Older versions that can read the file
 * know no JSON operators and no order in an aggregate: they would find the schema malformed.
 */
export const sqliteCatalogSql = postgresCatalogSql
  .replaceAll(/json_(?:array_elements|each)(?:_text)?\(/g, 'json_each(')
  .replaceAll(/(?: WITH ORDINALITY)? AS (\w+)\((?:key, )?value(?:, n)?\)/g, ' AS $1')
  .replaceAll(/string_agg\((.*?) ORDER BY \w+\.n\)/g, 'group_concat($1)')
  .replaceAll(/\b(\w+)\.n\b/g, '($1.key + 1)')
  .replaceAll(/::json\b| LATERAL\b/g, '')
  .replaceAll(/([\w.]+) ->>? '(\w+)'/g, "json_extract($1, '$$.$2')");
