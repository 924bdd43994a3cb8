import { randomUUID } from 'node:crypto';
import type { Connection } from '../../sql/sqlite/open-sqlite.ts';
import type { Instant } from '../../core/clock.ts';

/**
 * Marks a SQLite file as the data of a service ("CSV2"); any other value in a file that has tables is a foreign
 * database, or of a development version.
 */
export const stateApplicationId = 0x43_53_56_32;

/** The only version that is read. After the first release, a change of the tables raises it and needs a migration. */
export const stateVersion = 1;

/**
 * `sequence` is the order of creation and is never used again. `folded_name`: for look-ups in any case. `tokens.hash`,
 * `applications.secret`: SHA-256; `expires_at`: milliseconds. `connectors.account`: which account at the third party
 * the connector belongs to; NULL: a sample account. `connectors.address`: where its credentials go. `gone_workspaces`
 * keeps the places of deleted workspaces for pages that begin behind them.
 */
export function createState(db: Connection, now: Instant): void {
  db.exec(`
CREATE TABLE service (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  id TEXT NOT NULL,
  created_at TEXT NOT NULL
) STRICT;

CREATE TABLE organizations (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  created_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE applications (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT,
  client_id TEXT NOT NULL UNIQUE,
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  secret BLOB NOT NULL,
  created_at TEXT NOT NULL
) STRICT;

CREATE TABLE workspaces (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  name TEXT NOT NULL,
  folded_name TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('active', 'inactive')),
  is_cache_enabled INTEGER NOT NULL CHECK (is_cache_enabled IN (0, 1)),
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL,
  UNIQUE (organization_id, name),
  UNIQUE (id, organization_id)
) STRICT;
CREATE INDEX workspaces_in_order ON workspaces (organization_id, sequence);

CREATE TABLE gone_workspaces (
  id TEXT PRIMARY KEY,
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  sequence INTEGER NOT NULL,
  deleted_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX gone_workspaces_by_age ON gone_workspaces (deleted_at);

CREATE TABLE connectors (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  organization_id TEXT NOT NULL,
  workspace_id TEXT NOT NULL,
  definition TEXT NOT NULL,
  name TEXT NOT NULL,
  replication_config TEXT NOT NULL,
  credentials BLOB,
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL,
  account TEXT,
  address TEXT,
  FOREIGN KEY (workspace_id, organization_id) REFERENCES workspaces (id, organization_id)
) STRICT;
CREATE INDEX connectors_in_order ON connectors (organization_id, sequence);
CREATE INDEX connectors_by_workspace ON connectors (workspace_id, organization_id);

CREATE TABLE tokens (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT,
  hash BLOB NOT NULL UNIQUE,
  kind TEXT NOT NULL CHECK (kind IN ('application', 'scoped')),
  client_id TEXT NOT NULL REFERENCES applications (client_id) ON DELETE CASCADE,
  workspace_id TEXT REFERENCES workspaces (id) ON DELETE CASCADE,
  expires_at INTEGER NOT NULL,
  CHECK ((kind = 'scoped') = (workspace_id IS NOT NULL))
) STRICT;
CREATE INDEX tokens_by_client ON tokens (client_id, sequence);
CREATE INDEX tokens_by_workspace ON tokens (workspace_id);
CREATE INDEX tokens_by_expiry ON tokens (expires_at);

CREATE TABLE audit (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT,
  at TEXT NOT NULL,
  organization_id TEXT NOT NULL,
  actor TEXT NOT NULL,
  token_kind TEXT,
  action TEXT NOT NULL,
  target TEXT NOT NULL,
  fields TEXT NOT NULL
) STRICT;
CREATE INDEX audit_in_order ON audit (organization_id, sequence);
CREATE INDEX audit_by_age ON audit (at);
`);
  db.prepare('INSERT INTO service (one, id, created_at) VALUES (1, ?, ?)').run(randomUUID(), now);
}
