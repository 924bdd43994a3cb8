/**
 * `_sync_downloads`: the files of records, one row per record that has or had one, found by the hash of its key, which may be long. `params` to `size` is
 * what its record says, `version` 32 hex digits; `gone`: `tombstoned` as its record is, or `unsaid` where that says of no file any more; `is_wanted`: it is not
 * gone, and `stored_version` is another one than `version`. `file` to `stored_run` is what lies in the folder; `stored_version` is null again as soon as another
 * version is wanted. `replaced`: a name to be removed, which an earlier version had.
 */
export const downloadsSql = `
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
`;
