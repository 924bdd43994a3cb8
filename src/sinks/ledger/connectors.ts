import type Database from 'better-sqlite3';
import type { ConnectorName } from '../../core/names.ts';
import type { ConnectorIdentity, Holder } from '../lease.ts';
import { writeJson } from '../../core/json-text.ts';
import { parseHolder } from '../stored-json.ts';

/** `_sync_connectors`: who each connector is and who held it last. */
export function prepareConnectors(db: Database.Database) {
  const identity = db.prepare<[string], Pick<ConnectorIdentity, 'baseUrl' | 'connectorId' | 'definition'>>(
    'SELECT base_url AS baseUrl, connector_id AS connectorId, definition FROM _sync_connectors WHERE connector = ?',
  );
  const one = (what: string): string => `SELECT ${what} FROM _sync_connectors WHERE connector = ?`;
  const epoch = db.prepare<[string], number>(one('epoch')).pluck();
  const holder = db.prepare<[string], string>(one('holder')).pluck();
  const rival = db
    .prepare<[string, string], string>(
      "SELECT connector FROM _sync_connectors WHERE connector <> ? AND replace(connector, '-', '_') = replace(?, '-', '_')",
    )
    .pluck();
  const hold = db
    .prepare<[Omit<ConnectorIdentity, 'holder'> & { readonly holder: string }], number>(
      `INSERT INTO _sync_connectors (connector, base_url, connector_id, definition, definition_hash, epoch, holder)
       VALUES (:connector, :baseUrl, :connectorId, :definition, :definitionHash, 1, :holder)
       ON CONFLICT (connector) DO UPDATE SET definition_hash = excluded.definition_hash, epoch = epoch + 1,
         holder = excluded.holder
       RETURNING epoch`,
    )
    .pluck();
  return {
    identity,
    /** 0 for an unknown connector. */
    epoch: (connector: ConnectorName): number => epoch.get(connector) ?? 0,
    holder: (connector: ConnectorName): Holder | null => {
      const text = holder.get(connector);
      return text === undefined ? null : parseHolder(text);
    },
    /** Another connector whose table names would be the same (`a-b` and `a_b`). */
    rival: (connector: ConnectorName): string | undefined => rival.get(connector, connector),
    /** Writes the new holder and definition hash and raises the epoch; gives the new one. */
    hold: (given: ConnectorIdentity): number => hold.get({ ...given, holder: writeJson(given.holder) }) ?? 0,
  };
}
