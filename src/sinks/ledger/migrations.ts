/**
 * When the newest chain of runs began that ended `ok`, per row of `_sync_tables`: as version 1 can tell. It did not
 * say which entities a `degraded` run read whole.
 */
export const asOfByReports = `(
  SELECT max(first.started_at) FROM _sync_runs AS run JOIN _sync_runs AS first ON first.number = run.origin,
    json_each(run.report, '$.entities') AS reported
  WHERE run.connector = _sync_tables.connector AND run.state = 'ok'
    AND json_extract(reported.value, '$.entity') = _sync_tables.entity
)`;

/** What leads from each version to the next: the first one from 1 to 2. Files of any older version may be met. */
export const migrations: readonly string[] = [
  `
ALTER TABLE _sync_tables ADD COLUMN as_of TEXT;
ALTER TABLE _sync_tables ADD COLUMN taken_over INTEGER;
UPDATE _sync_tables SET as_of = ${asOfByReports};
ALTER TABLE _sync_runs ADD COLUMN cancel_requested TEXT;
CREATE TABLE _sync_pauses (
  connector TEXT PRIMARY KEY,
  since TEXT NOT NULL,
  reason TEXT NOT NULL
) STRICT, WITHOUT ROWID;
`,
];
