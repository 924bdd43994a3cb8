import { createHmac, randomBytes } from 'node:crypto';
import type { Instant } from '../../../core/clock.ts';
import type { ConnectorName, EntityName } from '../../../core/names.ts';
import type { Tx } from '../../../sql/database.ts';
import type { PurgeNote, PurgeNotes } from '../../purges.ts';

/**
 * `_sync_purged`: a record that was purged, by the HMAC of its entity and key; `seq` is the newest change number at
 * that time, so that later lines of the record are not taken for purged ones; `is_asked` 0: it went as one below a
 * record that was asked for. `_sync_purge_keys`: the secret of the
 * connector's HMACs. `_sync_purge_work`: what purges have left to do, such as files to be rewritten.
 */
export const purgesSql = `
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
`;

/** Gives the HMAC-SHA-256 of a record's entity and key, in hex. Without the secret it does not give the key away. */
export type RecordMac = (entity: EntityName, keyText: string) => string;

/** Null where nothing of the connector was ever purged. */
async function readMac(tx: Tx, connector: ConnectorName): Promise<RecordMac | null> {
  const sql = 'SELECT secret FROM _sync_purge_keys WHERE connector = :connector';
  const found = await tx.first<{ readonly secret: string }>(sql, { connector });
  return found === undefined ? null : macWith(found.secret);
}

/** Makes the secret with the first purge of the connector. */
export async function ensureMac(tx: Tx, connector: ConnectorName): Promise<RecordMac> {
  const found = await readMac(tx, connector);
  if (found !== null) return found;
  const secret = randomBytes(32).toString('hex');
  const sql = 'INSERT INTO _sync_purge_keys (connector, secret) VALUES (:connector, :secret)';
  await tx.run(sql, { connector, secret });
  return macWith(secret);
}

function macWith(secret: string): RecordMac {
  const key = Buffer.from(secret, 'hex');
  return (entity, keyText) => createHmac('sha256', key).update(`${entity}\n${keyText}`).digest('hex');
}

export interface NoteRow extends PurgeNote {
  readonly entity: EntityName;
  readonly mac: Buffer;
  readonly seq: number;
}

/** Which records of the connector were purged; null where none ever was. All notes are held in memory. */
export async function readPurgeNotes(tx: Tx, connector: ConnectorName): Promise<PurgeNotes | null> {
  const mac = await readMac(tx, connector);
  return mac === null ? null : notesOf(mac, await readNotes(tx, connector));
}

export async function readNotes(tx: Tx, connector: ConnectorName): Promise<readonly NoteRow[]> {
  return await tx.rows<NoteRow>(
    `SELECT entity, mac, seq, at, who, can_return FROM _sync_purged WHERE connector = :connector`,
    { connector },
  );
}

function notesOf(macOf: RecordMac, rows: readonly NoteRow[]): PurgeNotes {
  const byEntity = new Map<EntityName, Map<string, PurgeNote>>();
  for (const { entity, mac, at, who, canReturn } of rows) {
    const notes = byEntity.get(entity) ?? new Map<string, PurgeNote>();
    byEntity.set(entity, notes.set(mac.toString('hex'), { at, who, canReturn }));
  }
  return {
    count: rows.length,
    noteOf: (entity, keyText) => byEntity.get(entity)?.get(macOf(entity, keyText)) ?? null,
  };
}

export interface NewNote extends Pick<NoteRow, 'entity' | 'mac'> {
  /** Not one below a record that was asked for. */
  readonly asked: number;
}

/** Where records may return, so may what was purged with them. */
export async function writeNotes(
  tx: Tx,
  given: {
    readonly connector: ConnectorName;
    readonly notes: readonly NewNote[];
    readonly seq: number;
    readonly at: Instant;
    readonly who: string;
    readonly canReturn: boolean;
  },
): Promise<void> {
  const { notes, canReturn, ...of } = given;
  if (notes.length === 0) return;
  if (canReturn) {
    await tx.run(
      `UPDATE _sync_purged SET can_return = 1 WHERE connector = :connector AND is_asked = 0 AND at IN
         (SELECT at FROM _sync_purged WHERE connector = :connector AND mac IN {macs bytea})`,
      { connector: of.connector, macs: notes.map(({ mac }) => mac) },
    );
  }
  await tx.run(
    `INSERT INTO _sync_purged (connector, entity, mac, seq, at, who, can_return, is_asked)
     SELECT CAST(:connector AS text), v.entity, v.mac, CAST(:seq AS bigint), CAST(:at AS text), CAST(:who AS text),
       CAST(:canReturn AS integer), v.asked
     FROM {v: entity text, mac bytea, asked integer, n} ORDER BY v.n
     ON CONFLICT (connector, entity, mac) DO UPDATE SET seq = excluded.seq, at = excluded.at, who = excluded.who,
       can_return = excluded.can_return, is_asked = excluded.is_asked`,
    { ...of, canReturn: Number(canReturn), v: notes },
  );
}
