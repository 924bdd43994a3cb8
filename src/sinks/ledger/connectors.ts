import { randomBytes } from 'node:crypto';
import { writeJson } from '../../core/json-text.ts';
import type { ConnectorName } from '../../core/names.ts';
import { cellOf, type Tx } from '../../sql/database.ts';
import type { CopiedAway, SinkCopies, UnfinishedCopy } from '../copies.ts';
import type { ConnectorIdentity, Holder, StoredIdentity } from '../lease.ts';
import type { StoredOrigin } from '../ledger-reader.ts';
import type { UnfinishedRemoval } from '../repair.ts';
import { parseCopiedTo, parseHolder } from '../stored-json.ts';

/** False for a connector of which no run could begin so far. */
export const hasIdentity = `base_url <> ''`;

/** Undefined for an unknown connector, and for one of which no run could begin so far. */
export async function storedIdentity(tx: Tx, connector: ConnectorName): Promise<StoredIdentity | undefined> {
  return await tx.first<StoredIdentity>(
    `SELECT base_url, connector_id, definition FROM _sync_connectors WHERE connector = :connector AND ${hasIdentity}`,
    { connector },
  );
}

/** Origins of the rows under these names; names without a row are left out. */
export async function storedOrigins(
  tx: Tx,
  connectors: readonly ConnectorName[],
): Promise<readonly StoredOrigin[]> {
  return await tx.rows<StoredOrigin>(
    `SELECT connector, base_url, connector_id, definition FROM _sync_connectors AS known
     WHERE connector IN {connectors text}
       AND EXISTS (SELECT 1 FROM _sync_tables AS stored WHERE stored.connector = known.connector AND stored.rows > 0)
     ORDER BY connector`,
    { connectors },
  );
}

/** Another connector whose table names would be the same (`a-b` and `a_b`). */
export async function rivalOf(tx: Tx, connector: ConnectorName): Promise<ConnectorName | undefined> {
  return await cellOf<ConnectorName>(
    tx,
    `SELECT connector FROM _sync_connectors
     WHERE connector <> :connector AND ${hasIdentity} AND replace(connector, '-', '_') = replace(:connector, '-', '_')`,
    { connector },
  );
}

/** Writes the new holder, definition hash and epoch; of a connector that is known, its key stays. */
export async function holdConnector(
  tx: Tx,
  {
    holder,
    ...identity
  }: StoredIdentity & Pick<ConnectorIdentity, 'connector' | 'definitionHash' | 'holder'>,
  epoch: number,
): Promise<void> {
  await tx.run(
    `INSERT INTO _sync_connectors (connector, base_url, connector_id, definition, definition_hash, epoch, holder, raw_key)
     VALUES (:connector, :baseUrl, :connectorId, :definition, :definitionHash, :epoch, :holder, :rawKey)
     ON CONFLICT (connector) DO UPDATE SET base_url = excluded.base_url, connector_id = excluded.connector_id,
       definition = excluded.definition, definition_hash = excluded.definition_hash, epoch = excluded.epoch,
       holder = excluded.holder, raw_key = coalesce(_sync_connectors.raw_key, excluded.raw_key)`,
    { ...identity, epoch, holder: writeJson(holder), rawKey: randomBytes(32).toString('hex') },
  );
}

/** A row without an identity, for the runs of a connector that could not begin; nothing where it has one. */
export async function nameConnector(tx: Tx, connector: ConnectorName, holder: Holder): Promise<void> {
  await tx.run(
    `INSERT INTO _sync_connectors (connector, base_url, connector_id, definition, definition_hash, epoch, holder)
     VALUES (:connector, '', '', '', '', 0, :holder) ON CONFLICT (connector) DO NOTHING`,
    { connector, holder: writeJson(holder) },
  );
}

/** `StartedRun.rawKey`. Every holder finds one. */
export async function storedRawKey(tx: Tx, connector: ConnectorName): Promise<string> {
  const sql = 'SELECT raw_key FROM _sync_connectors WHERE connector = :connector';
  const found = await cellOf<string | null>(tx, sql, { connector });
  if (typeof found === 'string') return found;
  throw new TypeError(`${connector} is held and has no key`);
}

/** For the message that the next one gets; the epoch stays. */
export async function noteHolder(tx: Tx, connector: ConnectorName, holder: Holder): Promise<void> {
  await tx.run('UPDATE _sync_connectors SET holder = :holder WHERE connector = :connector', {
    connector,
    holder: writeJson(holder),
  });
}

/**
 * The sink in which the connector's syncs continue (`parseCopiedTo`), or null: in this one. False where that was
 * already stored.
 */
export async function noteCopiedTo(
  tx: Tx,
  connector: ConnectorName,
  copiedTo: string | null,
): Promise<boolean> {
  const changed = await tx.run(
    `UPDATE _sync_connectors SET copied_to = :copiedTo
     WHERE connector = :connector AND copied_to IS DISTINCT FROM :copiedTo`,
    { connector, copiedTo },
  );
  return changed > 0;
}

/** Of the connector's last holder; 0 for an unknown connector. */
export async function storedEpoch(tx: Tx, connector: ConnectorName): Promise<number> {
  const sql = 'SELECT epoch FROM _sync_connectors WHERE connector = :connector';
  return (await cellOf<number>(tx, sql, { connector })) ?? 0;
}

/** The connector's present or last holder. An unfinished copy has no other row with one yet. */
export async function holderOf(tx: Tx, connector: ConnectorName): Promise<Holder | null> {
  const found = await cellOf<string>(
    tx,
    `SELECT holder FROM _sync_connectors WHERE connector = :connector
     UNION ALL SELECT holder FROM _sync_copies WHERE connector = :connector AND finished_at IS NULL`,
    { connector },
  );
  return found === undefined ? null : parseHolder(found);
}

const unfinishedSql = (): string =>
  `SELECT connector, source_name AS "from", target_name AS "to", since FROM _sync_copies WHERE finished_at IS NULL`;
const awaySql = (): string => `SELECT connector, copied_to FROM _sync_connectors WHERE copied_to IS NOT NULL`;

interface AwayRow {
  readonly connector: ConnectorName;
  readonly copiedTo: string;
}

/** The copy that would have to be completed before the connector may be used; null where there is none. */
export async function readUnfinishedCopy(tx: Tx, connector: ConnectorName): Promise<UnfinishedCopy | null> {
  const sql = `${unfinishedSql()} AND connector = :connector`;
  return (await tx.first<UnfinishedCopy>(sql, { connector })) ?? null;
}

/** The sink that the connector was copied to, where its syncs continue; null where they continue in this one. */
export async function readCopiedAway(tx: Tx, connector: ConnectorName): Promise<CopiedAway | null> {
  const row = await tx.first<AwayRow>(`${awaySql()} AND connector = :connector`, { connector });
  return row === undefined ? null : copiedAway(row);
}

export async function readCopies(tx: Tx): Promise<SinkCopies> {
  const unfinished = await tx.rows<UnfinishedCopy>(unfinishedSql());
  const away = (await tx.rows<AwayRow>(awaySql())).map(copiedAway);
  return {
    unfinished: new Map(unfinished.map((one) => [one.connector, one])),
    away: new Map(away.map((one) => [one.connector, one])),
  };
}

function copiedAway({ connector, copiedTo }: AwayRow): CopiedAway {
  return { connector, ...parseCopiedTo(copiedTo) };
}

/** A removal of the connector that is not complete; null where there is none. */
export async function readRemoval(tx: Tx, connector: ConnectorName): Promise<UnfinishedRemoval | null> {
  const sql = `SELECT connector, since, rows FROM _sync_removals WHERE connector = :connector`;
  return (await tx.first<UnfinishedRemoval>(sql, { connector })) ?? null;
}
