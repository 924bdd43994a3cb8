/**
 * Connectors that were copied into this sink from another one: `source` is that sink's id, `source_name` its name in the config and
 * `target_name` that of this one, `state` and `version` what was copied (`CopiedConnector.state`, `copyVersion`), `shift` what is added to ids of
 * partitions, `entity` and `row` how far the records are.
 * While `finished_at` is null, the connector's rows in other tables count for nothing: it has none in `_sync_connectors` and `_sync_tables`.
 */
export const copiesSql = `
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
`;
