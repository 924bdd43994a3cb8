import { createHash } from 'node:crypto';
import type { JsonValue } from '../../../core/json.ts';
import { readJsonIfWhole, writeJson } from '../../../core/json-text.ts';
import { hiddenWords } from '../../../core/record-mask.ts';
import type { Tx } from '../../../sql/database.ts';
import { safeFileName } from '../../files/safe-file-name.ts';
import type { Masked, Rewriting } from './rewriting.ts';

interface QuarantinedRow {
  readonly id: number;
  readonly reason: string;
  readonly record: string;
}

/** Refused records from before the mask, which are kept whole. */
export async function maskQuarantined(
  { connector, step }: Rewriting,
  { masking, table: { entity }, since }: Masked,
): Promise<number> {
  const { count } = await step(
    async (tx) => {
      const rows = await tx.rows<QuarantinedRow>(
        `SELECT id, reason, record FROM _sync_quarantine
         WHERE connector = :connector AND entity = :entity AND last_seen_at < :since ORDER BY id`,
        { connector, entity, since },
      );
      const changed = rows.flatMap((row) => {
        const record = maskedText(row.record, masking.record);
        return record === row.record ? [] : [{ ...row, record }];
      });
      return { changed, count: changed.length };
    },
    async (tx, { changed }) => {
      for (const { id, reason, record } of changed) {
        const isNew = record !== null && (await rewriteQuarantined(tx, { id, reason, record }));
        if (!isNew) await tx.run('DELETE FROM _sync_quarantine WHERE id = :id', { id });
      }
    },
    entity,
  );
  return count;
}

/** Null where it was cut, so that it cannot be read. */
function maskedText(text: string, masked: (value: JsonValue) => JsonValue): string | null {
  const value = readJsonIfWhole(text);
  if (value === undefined) return null;
  const after = writeJson(masked(value));
  return after === writeJson(value) ? text : after;
}

/** False where another one says the same by now. */
async function rewriteQuarantined(tx: Tx, { id, reason, record }: QuarantinedRow): Promise<boolean> {
  const written = await tx.run(
    `UPDATE _sync_quarantine AS q SET record = :record, content_hash = :hash,
       detail = CASE WHEN :isOfKey = 1 THEN :hidden ELSE detail END
     WHERE id = :id AND NOT EXISTS (SELECT 1 FROM _sync_quarantine AS other
       WHERE other.connector = q.connector AND other.entity = q.entity AND other.content_hash = :hash AND other.id <> q.id)`,
    {
      id,
      record,
      hash: createHash('sha256').update(record).digest('hex'),
      // The detail quotes the value.
      isOfKey: Number(reason === 'key-type'),
      hidden: hiddenWords,
    },
  );
  return written > 0;
}

interface FileRow {
  readonly id: number;
  readonly key: string;
  readonly name: string | null;
  readonly contentType: string | null;
  readonly version: string;
  readonly file: string | null;
  readonly replaced: string | null;
}

/** Names of files, in the ledger and in their folder; gives how many change. */
export async function maskFiles(
  { connector, read, step, renameFile }: Rewriting,
  { masking, table: { entity } }: Masked,
): Promise<number> {
  const rows = await read(
    async (tx) =>
      await tx.rows<FileRow>(
        `SELECT id, key, name, content_type, version, file, replaced FROM _sync_downloads
         WHERE connector = :connector AND entity = :entity ORDER BY id`,
        { connector, entity },
      ),
  );
  const changed = rows.flatMap((row) => {
    const said = masking.file(row);
    const file = row.file === null ? null : safeFileName(row.key, said.name);
    const version = masking.hidesVersions ? noVersion : row.version;
    const isSame = said.name === row.name && said.contentType === row.contentType && file === row.file;
    return isSame && version === row.version && row.replaced === null
      ? []
      : [{ was: row, ...said, file, version }];
  });
  // Not in the transaction, and before it: a rewrite that is repeated finds which files have their new names already.
  for (const { was, file } of changed) {
    if (was.replaced !== null && was.replaced !== file) await renameFile(entity, was.replaced, null);
    if (was.file !== null && file !== null && was.file !== file) await renameFile(entity, was.file, file);
  }
  await step(
    async () => Promise.resolve({ count: changed.length }),
    async (tx) => {
      for (const { was, name, contentType, file, version } of changed) {
        await tx.run(
          `UPDATE _sync_downloads SET name = :name, content_type = :contentType, file = :file, replaced = NULL,
             stored_version = CASE WHEN stored_version = version THEN :version ELSE stored_version END, version = :version
           WHERE connector = :connector AND id = :id`,
          { connector, id: was.id, name, contentType, file, version },
        );
      }
    },
    entity,
  );
  return changed.length;
}

/** No file has it: where the record is read again, so is its file. */
const noVersion = '0'.repeat(32);
