import { createHmac, randomBytes } from 'node:crypto';
import type { Instant } from '../../../core/clock.ts';
import type { ConnectorName, EntityName } from '../../../core/names.ts';
import type { Tx } from '../../../sql/database.ts';
import { purgedName, type PurgeNote, type PurgeNotes, type PurgeSeal } from '../../purges.ts';
import { hasTable } from '../has-table.ts';

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
  key_id TEXT NOT NULL,
  secret TEXT NOT NULL,
  PRIMARY KEY (connector, key_id)
);

CREATE TABLE _sync_purge_work (
  connector TEXT NOT NULL,
  step TEXT NOT NULL,
  entity TEXT NOT NULL,
  since TEXT NOT NULL,
  PRIMARY KEY (connector, step, entity)
);
`;

interface StoredKey {
  readonly keyId: string;
  readonly secret: string;
}

/** Null where nothing of the connector was ever purged. */
async function readSeal(tx: Tx, connector: ConnectorName): Promise<PurgeSeal | null> {
  const sql = 'SELECT key_id, secret FROM _sync_purge_keys WHERE connector = :connector ORDER BY key_id';
  const found = await tx.first<StoredKey>(sql, { connector });
  return found === undefined ? null : sealOf(found);
}

/** Makes the secret with the first purge of the connector. */
export async function ensureSeal(tx: Tx, connector: ConnectorName): Promise<PurgeSeal> {
  const found = await readSeal(tx, connector);
  if (found !== null) return found;
  const made = { keyId: randomBytes(4).toString('hex'), secret: randomBytes(32).toString('hex') };
  await tx.run(
    'INSERT INTO _sync_purge_keys (connector, key_id, secret) VALUES (:connector, :keyId, :secret)',
    {
      connector,
      ...made,
    },
  );
  return sealOf(made);
}

function sealOf({ keyId, secret }: StoredKey): PurgeSeal {
  const key = Buffer.from(secret, 'hex');
  return { keyId, sign: (text) => createHmac('sha256', key).update(text).digest('hex') };
}

export interface NoteRow extends PurgeNote {
  readonly entity: EntityName;
  readonly mac: Buffer;
  readonly seq: number;
}

/** Null where nothing of the connector was ever purged. All notes are held in memory. */
export async function readPurgeNotes(tx: Tx, connector: ConnectorName): Promise<PurgeNotes | null> {
  if (!(await hasTable(tx, '_sync_purge_keys'))) return null;
  const seal = await readSeal(tx, connector);
  return seal === null ? null : notesOf(seal, await readNotes(tx, connector));
}

export async function readNotes(tx: Tx, connector: ConnectorName): Promise<readonly NoteRow[]> {
  return await tx.rows<NoteRow>(
    `SELECT entity, mac, seq, at, who, can_return FROM _sync_purged WHERE connector = :connector`,
    { connector },
  );
}

function notesOf(seal: PurgeSeal, rows: readonly NoteRow[]): PurgeNotes {
  const byEntity = new Map<EntityName, Map<string, PurgeNote>>();
  for (const { entity, mac, at, who, canReturn } of rows) {
    const notes = byEntity.get(entity) ?? new Map<string, PurgeNote>();
    byEntity.set(entity, notes.set(mac.toString('hex'), { at, who, canReturn }));
  }
  return {
    seal,
    count: rows.length,
    noteOf: (entity, keyText) => byEntity.get(entity)?.get(seal.sign(purgedName(entity, keyText))) ?? null,
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
