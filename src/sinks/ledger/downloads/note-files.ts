import type { RecordFile } from '../../../core/records.ts';
import { writeJson } from '../../../core/json-text.ts';
import type { OfEntity } from '../../../core/names.ts';
import type { Tx } from '../../../sql/database.ts';
import { textHash } from '../../../sql/text-hash.ts';

/* Which files are wanted, noted in the transaction that stores or tombstones their records. */

export interface FileNote {
  readonly keyText: string;
  /** What the record says of its file; null: it has none. */
  readonly file: RecordFile | null;
}

interface Told extends Omit<RecordFile, 'params'> {
  readonly params: string;
}

interface Noted extends Told {
  readonly keyHash: Buffer;
  readonly gone: string | null;
}

const ofKeys = 'd.connector = :connector AND d.entity = :entity AND d.key_hash IN {keyHashes bytea}';
const isNoMore = 'is_wanted = 0, failure = NULL, failed_at = NULL, failed_run = NULL';

/**
 * The records are stored, and say this of their files. Writes nothing where that is known. A key that is noted twice is
 * noted in this order.
 */
export async function noteFiles(tx: Tx, of: OfEntity, notes: readonly FileNote[]): Promise<void> {
  for (let left = notes; left.length > 0;) {
    const first = new Map<string, FileNote>();
    const again: FileNote[] = [];
    for (const note of left) {
      if (first.has(note.keyText)) again.push(note);
      else first.set(note.keyText, note);
    }
    await noteEach(tx, of, [...first.values()]);
    left = again;
  }
}

async function noteEach(tx: Tx, of: OfEntity, notes: readonly FileNote[]): Promise<void> {
  const without = notes.filter(({ file }) => file === null);
  if (without.length > 0) {
    await tx.run(
      `UPDATE _sync_downloads AS d SET gone = 'unsaid', ${isNoMore}
       WHERE ${ofKeys} AND d.gone IS DISTINCT FROM 'unsaid'`,
      { ...of, keyHashes: without.map(({ keyText }) => textHash(keyText)) },
    );
  }
  const told = notes.flatMap(({ keyText, file }) => (file === null ? [] : [toldOf(keyText, file)]));
  if (told.length === 0) return;
  const keyHashes = told.map(({ keyHash }) => keyHash);
  const known = await tx.rows<Noted>(
    `SELECT d.key_hash, d.params, d.version, d.name, d.content_type, d.size, d.gone FROM _sync_downloads AS d WHERE ${ofKeys}`,
    { ...of, keyHashes },
  );
  const before = new Map(known.map((one) => [one.keyHash.toString('hex'), one]));
  const changed = told.filter((one) => {
    const stored = before.get(one.keyHash.toString('hex'));
    return stored === undefined || stored.gone !== null || !isSame(stored, one);
  });
  if (changed.length > 0) await write(tx, of, changed);
}

interface ToldOf extends Told {
  readonly keyText: string;
  readonly keyHash: Buffer;
}

function toldOf(keyText: string, { params, version, name, contentType, size }: RecordFile): ToldOf {
  return { keyText, keyHash: textHash(keyText), params: writeJson(params), version, name, contentType, size };
}

function isSame(before: Told, told: Told): boolean {
  const names = ['version', 'params', 'name', 'contentType', 'size'] as const;
  return names.every((name) => before[name] === told[name]);
}

/**
 * Another version has not failed yet. Once it is wanted, its bytes may be under the stored one's name, if a killed run
 * noted nothing of them.
 */
async function write(tx: Tx, of: OfEntity, told: readonly ToldOf[]): Promise<void> {
  const ifSame = (column: string): string =>
    `${column} = CASE WHEN d.version = excluded.version THEN d.${column} END`;
  await tx.run(
    `INSERT INTO _sync_downloads AS d (connector, entity, key, key_hash, params, version, name, content_type, size, is_wanted)
     SELECT CAST(:connector AS text), CAST(:entity AS text), told.key_text, told.key_hash, told.params, told.version, told.name,
       told.content_type, told.size, 1
     FROM {told: key_text text, key_hash bytea, params text, version text, name text, content_type text, size bigint, n}
     ORDER BY told.n
     ON CONFLICT (connector, entity, key_hash) DO UPDATE SET params = excluded.params, name = excluded.name,
       content_type = excluded.content_type, size = excluded.size, gone = NULL,
       is_wanted = CASE WHEN d.stored_version IS DISTINCT FROM excluded.version THEN 1 ELSE 0 END,
       stored_version = CASE WHEN d.stored_version = excluded.version THEN d.stored_version END,
       ${['failure', 'failed_at', 'failed_run'].map(ifSame).join(', ')}, version = excluded.version`,
    { ...of, told },
  );
}

/** The records are tombstoned. */
export async function endFiles(tx: Tx, of: OfEntity, keyTexts: readonly string[]): Promise<void> {
  await tx.run(
    `UPDATE _sync_downloads AS d SET gone = 'tombstoned', ${isNoMore} WHERE ${ofKeys} AND d.gone IS NULL`,
    { ...of, keyHashes: keyTexts.map(textHash) },
  );
}

/** Their tombstones are taken back. */
export async function beginFiles(tx: Tx, of: OfEntity, keyTexts: readonly string[]): Promise<void> {
  await tx.run(
    `UPDATE _sync_downloads AS d SET gone = NULL,
       is_wanted = CASE WHEN d.stored_version IS DISTINCT FROM d.version THEN 1 ELSE 0 END
     WHERE ${ofKeys} AND d.gone = 'tombstoned'`,
    { ...of, keyHashes: keyTexts.map(textHash) },
  );
}
