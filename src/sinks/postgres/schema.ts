import { ledgerSql } from '../ledger/schema.ts';
import { postgresCatalogSql } from '../ledger/catalog-sql.ts';

/** Raised with every change of the tables below, which needs a migration. */
export const schemaVersion = 2;

/**
 * `_sync_counters` is the change counter of each connector and its fence, with a token of the last transaction
 * (`lease/lease-rows.ts`), and stays when the connector is forgotten; `_sync_leases` says who holds a connector, by the
 * server's clock.
 */
const driverSql = `
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
`;

export const schemaSql = `${driverSql}${ledgerSql}${postgresCatalogSql}`;
