import { createHash } from 'node:crypto';
import { instant, type Instant } from '../../core/clock.ts';
import { SyncError } from '../../core/errors.ts';
import { isJsonArray, isJsonObject, memberOf, type JsonObject, type JsonValue } from '../../core/json.ts';
import { readJson, readJsonIfWhole, writeJson } from '../../core/json-text.ts';
import type { ConnectorName, EntityName } from '../../core/names.ts';
import { hiddenWords, type RecordFile } from '../../core/records.ts';
import { usage } from '../../core/usage-error.ts';
import { cellOf, type Tx } from '../../sql/database.ts';
import { quoted } from '../../sql/quoted.ts';
import { safeFileName } from '../files/safe-file-name.ts';
import type { EntityMasking, MaskEnd, MaskRequest, RewrittenOf } from '../masks.ts';
import { readRows, replaceRows, rowsTable, versionsTable, type ReplacedRow } from '../records/whole-rows.ts';
import type { RunPlan } from '../sink.ts';
import { holdingFor } from './acquire.ts';
import { noteAction } from './actions.ts';
import { storedIdentity } from './connectors.ts';
import { numbered, type Taken } from './driver.ts';
import { outsideRun, type Ledger } from './ledger.ts';
import { readMasks } from './masks.ts';
import { isClearPosition, transitions } from './partitions/transitions.ts';
import { completeSteps, noteSteps, ownSteps } from './purges/complete-steps.ts';
import { emptyRaw } from './raw-rows.ts';
import { resetEntity } from './repair/resets.ts';
import { renewTable, wholeTables, type WholeTable } from './tables.ts';
import { countVersions } from './versions/versions.ts';

/** Rows of a transaction. */
const rowsAtOnce = 500;

/** Brings what is stored from before a mask under it, wherever that is and whether a read reaches it or not. */
export function ledgerMasking(ledger: Ledger) {
  return {
    /** What `rewrite` would do. Takes no lock and writes nothing. Throws USAGE as `rewrite`. */
    look: async (connector: ConnectorName, asked: MaskRequest) =>
      await maskAll({ ledger, connector, taken: null, asked }),
    /**
     * Removes entities whose stored keys are not those of the masks. Where there are none, masks rows, versions,
     * quarantine, names of files, lines and reports in place, batch by batch, each in one transaction: change numbers
     * and times stay. Repeated after a kill it does the rest. Takes the connector. Throws `ConnectorBusyError`, and
     * USAGE where the sink holds nothing of the connector or no sync has used one of the masks yet.
     */
    rewrite: async (connector: ConnectorName, asked: MaskRequest): Promise<MaskEnd> =>
      await holdingFor('purge', ledger, connector, async (taken) => {
        const end = await maskAll({ ledger, connector, taken, asked });
        return { ...end, left: await completeSteps(ledger, taken) };
      }),
  };
}

interface Masking {
  readonly ledger: Ledger;
  readonly connector: ConnectorName;
  /** Null: only look. */
  readonly taken: Taken | null;
  readonly asked: MaskRequest;
}

async function maskAll(of: Masking): Promise<Omit<MaskEnd, 'left'>> {
  const { ledger, connector, taken, asked } = of;
  const { masks, maskings, targets } = asked;
  const { tables, stored, removed } = await read(of, async (tx) => {
    if ((await storedIdentity(tx, connector)) === undefined) {
      throw usage(`The sink at ${ledger.db.place} holds nothing of connector "${connector}".`);
    }
    const whole = await wholeTables(tx, connector);
    const keyed = await withOtherKeys(tx, ledger, connector, whole, maskings);
    const of = new Set(keyed.flatMap(({ masking }) => (masking === undefined ? [] : [masking.of])));
    const entities = new Set(maskings.flatMap((one) => (of.has(one.of) ? [one.entity] : [])));
    const going = whole.filter(({ entity }) => entities.has(entity));
    for (const { entity } of going) await refusePurged(tx, connector, entity);
    const counts = going.map(async ({ entity, rows, deleted, hasVersions }) => ({
      entity,
      rows,
      deleted,
      versions: hasVersions ? await countVersions(tx, ledger.records, { connector, entity }) : 0,
    }));
    return { tables: whole, stored: await readMasks(tx, connector), removed: await Promise.all(counts) };
  });
  if (removed.length > 0) {
    if (taken !== null) {
      const entities = removed.map(({ entity }) => entity);
      await removeEntities(of, taken, entities);
    }
    return { removed, entities: [], texts: 0 };
  }
  const known = new Map(stored.map((one) => [one.entity, one]));
  const unused = masks.find(({ entity, mask }) => known.get(entity)?.mask !== mask);
  if (unused !== undefined) throw notInUse(connector, unused.entity);
  const older = maskings.flatMap((masking): readonly Masked[] => {
    const since = known.get(masking.of)?.since ?? null;
    const table = tables.find(({ entity }) => entity === masking.entity);
    return since === null || table === undefined ? [] : [{ masking, table, since }];
  });
  const rewritten: RewrittenOf[] = [];
  for (const one of older) rewritten.push(await maskEntity(of, one));
  const since =
    older
      .map((one) => one.since)
      .toSorted()
      .at(-1) ?? '';
  const hiding = { connector, entities: older.map(({ masking }) => masking.entity), since };
  const hiddenTexts = await step(
    of,
    hiding.entities,
    async (tx) => ({ count: await hideTexts(tx, hiding, true) }),
    async (tx) => void (await hideTexts(tx, hiding)),
  );
  if (taken !== null) {
    await outsideRun(taken, async (tx) => {
      await tx.run(
        `UPDATE _sync_masks AS m SET since = NULL FROM {v: entity text, mask text}
         WHERE m.connector = :connector AND m.entity = v.entity AND m.mask = v.mask`,
        { connector, v: masks.map(({ entity, mask }) => ({ entity, mask })) },
      );
      const rows = rewritten.reduce((sum, one) => sum + one.rows + one.versions, 0);
      noteAction(tx, ledger, { action: 'purge', connector, detail: { isUnmasked: true, rows } });
      // Also where nothing was rewritten: what was published may be from before.
      await noteSteps(tx, ledger, { connector, entities: masks.map(({ entity }) => entity), targets });
      // What reads under the masks have written over is in freed space.
      await noteSteps(tx, ledger, { connector, entities: hiding.entities, targets: [] }, ['space']);
    });
  }
  return { removed: [], entities: rewritten, texts: hiddenTexts.count };
}

async function read<Result>({ ledger, taken }: Masking, work: (tx: Tx) => Promise<Result>): Promise<Result> {
  return await (taken ?? ledger.db).read(work);
}

/** One transaction: finds what is to be rewritten, then, unless this is a look, rewrites it. */
async function step<Found extends { readonly count: number }>(
  of: Masking,
  entities: readonly EntityName[],
  find: (tx: Tx) => Promise<Found>,
  write: (tx: Tx, found: Found) => Promise<void>,
): Promise<Found> {
  const { ledger, connector, taken, asked } = of;
  if (taken === null) return await read(of, find);
  return await outsideRun(taken, async (tx) => {
    const found = await find(tx);
    if (found.count === 0) return found;
    await write(tx, found);
    await noteSteps(tx, ledger, { connector, entities, targets: asked.targets }, ['space']);
    return found;
  });
}

/**
 * Throws `SyncError` SINK_INCOMPATIBLE where rows have keys that a read under these masks would not meet: each record
 * would have two rows, and the first of them look deleted.
 */
export async function checkKeys(
  tx: Tx,
  ledger: Ledger,
  connector: ConnectorName,
  { tables, maskings = [] }: Pick<RunPlan, 'tables' | 'maskings'>,
  changed: ReadonlySet<EntityName>,
): Promise<void> {
  if (changed.size === 0) return;
  const planned = new Set(tables.map(({ entity }) => entity));
  const asked = (await wholeTables(tx, connector)).filter(({ entity }) => {
    const masking = maskings.find((one) => one.entity === entity);
    // The entity whose elements a table had is not known once its mask is gone.
    return planned.has(entity) && (masking === undefined || changed.has(masking.of));
  });
  const [found] = await withOtherKeys(tx, ledger, connector, asked, maskings);
  if (found === undefined) return;
  const { entity, name, masking } = found;
  if (masking !== undefined) await refusePurged(tx, connector, entity);
  throw keysDiffer(
    connector,
    entity,
    masking === undefined
      ? `${name} is stored as hashes that this config does not make: their mask is gone. Put the mask back, or drop what is stored and sync again: connector-sync reset ${connector}/${entity} --data --yes`
      : `${name} is stored in clear, or as hashes of another mask.key, and a key cannot be changed in place. To see what would be removed, and what of it no read brings back: connector-sync purge ${connector} --unmasked. Add --yes to remove it, then sync: what the API still has is read again`,
  );
}

interface OtherKeys {
  readonly entity: EntityName;
  /** The part of the key. */
  readonly name: string;
  /** Undefined: the table has no mask, and the key is hashed. */
  readonly masking: EntityMasking | undefined;
}

const probe = 'connector-sync key probe';
const hexDigits = 64;
/** In LIKE, where each _ stands for one character. */
const hashPattern = `hmac-${'_'.repeat(8)}-${'_'.repeat(hexDigits)}`;

/** Tables of which any row has a key that the masks do not make. An empty text stays as it is. */
async function withOtherKeys(
  tx: Tx,
  { records }: Pick<Ledger, 'records'>,
  connector: ConnectorName,
  tables: readonly WholeTable[],
  maskings: readonly EntityMasking[],
): Promise<readonly OtherKeys[]> {
  const found: OtherKeys[] = [];
  for (const { entity, key, stored } of tables.filter((one) => one.rows > 0)) {
    const masking = maskings.find((one) => one.entity === entity);
    for (const name of key) {
      const after = masking?.row({ [name]: probe })[name];
      const own = typeof after === 'string' && after !== probe ? after.slice(0, -hexDigits) : null;
      const isText = stored.some((column) => column.name === name && column.type === 'string');
      if (!isText && own === null) continue;
      const column = quoted(name);
      const isOther = own === null ? `${column} LIKE :hash` : `${column} NOT LIKE :hash AND ${column} <> ''`;
      const sql = `SELECT 1 FROM ${quoted(records.tableName(connector, entity))} WHERE ${isOther} LIMIT 1`;
      const values = { hash: own === null ? hashPattern : `${own}%` };
      if (isText && (await cellOf<number>(tx, sql, values)) === undefined) continue;
      found.push({ entity, name, masking });
      break;
    }
  }
  return found;
}

async function refusePurged(tx: Tx, connector: ConnectorName, entity: EntityName): Promise<void> {
  const sql = `SELECT count(*) FROM _sync_purged
    WHERE connector = :connector AND entity = :entity AND can_return = 0`;
  const count = (await cellOf<number>(tx, sql, { connector, entity })) ?? 0;
  if (count === 0) return;
  throw keysDiffer(
    connector,
    entity,
    `${count} of its records were purged, and notes of their keys keep them away. Under a mask of the key they would be stored again. Leave the key as it was stored`,
  );
}

function keysDiffer(connector: ConnectorName, entity: EntityName, found: string): SyncError {
  return new SyncError(`The mask of ${connector}/${entity} does not fit what is stored: ${found}`, {
    code: 'SINK_INCOMPATIBLE',
    recovery: 'stop',
    context: { connector, entity },
  });
}

function notInUse(connector: ConnectorName, entity: EntityName) {
  return usage(
    `The mask of ${connector}/${entity} is not in use yet: the next sync begins to use it and gives its columns their types. Sync first: connector-sync sync ${connector}`,
  );
}

/** Removes all that is stored of these entities, as a reset with data does, and their files. */
async function removeEntities(
  { ledger, connector, asked }: Masking,
  taken: Taken,
  entities: readonly EntityName[],
): Promise<void> {
  const files = await taken.read(
    async (tx) =>
      await tx.rows<Pick<FileRow, 'file' | 'replaced'> & { readonly entity: EntityName }>(
        `SELECT entity, file, replaced FROM _sync_downloads
         WHERE connector = :connector AND entity IN {entities text}`,
        { connector, entities },
      ),
  );
  for (const { entity, ...one } of files) {
    for (const file of [one.file, one.replaced]) {
      if (file !== null) await asked.renameFile(entity, file, null);
    }
  }
  await outsideRun(taken, async (tx) => {
    const now = instant(ledger.clock.now());
    const what = { withData: true, now };
    const { rows } = await resetEntity({ tx, records: ledger.records, connector, what }, entities);
    await hideTexts(tx, { connector, entities, since: now });
    noteAction(tx, ledger, { action: 'purge', connector, detail: { isUnmasked: true, rows } });
    await noteSteps(tx, ledger, { connector, entities, targets: asked.targets }, ownSteps(ledger));
  });
}

/** One table with its mask. */
interface Masked {
  readonly masking: EntityMasking;
  readonly table: WholeTable;
  /** What was stored before may not have the mask. */
  readonly since: Instant;
}

async function maskEntity(of: Masking, masked: Masked): Promise<RewrittenOf> {
  const { ledger, connector } = of;
  const { masking, table } = masked;
  const { entity } = table;
  const { records } = ledger;
  return {
    entity,
    rows: await maskTable(of, masked, rowsTable(records, connector, table)),
    versions: table.hasVersions ? await maskTable(of, masked, versionsTable(records, connector, table)) : 0,
    quarantined: await maskQuarantined(of, masked),
    files: await maskFiles(of, masked),
    lines:
      (await ledger.lines?.rewrite(
        {
          connector,
          table: { entity, columns: table.stored, key: table.key },
          signal: of.asked.signal,
          line: (line) => maskedLine(line, masking),
        },
        of.taken,
      )) ?? 0,
  };
}

/** Gives how many rows change. */
async function maskTable(
  of: Masking,
  { masking, table: { entity, stored } }: Masked,
  rows: ReturnType<typeof rowsTable>,
): Promise<number> {
  const { ledger, connector, asked } = of;
  let count = 0;
  for (let after: number | undefined = 0; after !== undefined;) {
    asked.signal.throwIfAborted();
    const span = { after, limit: rowsAtOnce };
    const found = await step(
      of,
      [entity],
      async (tx) => {
        const page = await readRows(tx, rows, span);
        const changed = page.flatMap((was): readonly ReplacedRow[] => {
          const now = masking.cells(stored, was);
          return now === null ? [] : [{ was, now }];
        });
        return { changed, count: changed.length, last: page.at(-1)?.number };
      },
      async (tx, { changed }) => {
        await replaceRows(tx, ledger.records, rows, changed);
        const numbers = changed.map(({ was }) => was.number);
        if (rows.number === '_row') await emptyRaw(tx, { connector, entity }, numbers);
        await renewTable(tx, { connector, entity });
      },
    );
    count += found.count;
    after = found.last;
  }
  return count;
}

interface QuarantinedRow {
  readonly id: number;
  readonly reason: string;
  readonly record: string;
}

/** Refused records from before the mask, which are kept whole. One that was cut cannot be read, and goes. */
async function maskQuarantined(of: Masking, { masking, table: { entity }, since }: Masked): Promise<number> {
  const { connector } = of;
  const { count } = await step(
    of,
    [entity],
    async (tx) => {
      const rows = await tx.rows<QuarantinedRow>(
        `SELECT id, reason, record FROM _sync_quarantine
         WHERE connector = :connector AND entity = :entity AND last_seen_at < :since ORDER BY id`,
        { connector, entity, since },
      );
      const changed = rows.flatMap(({ id, reason, record }) => {
        const value = readJsonIfWhole(record);
        const after = value === undefined ? null : writeJson(masking.record(value));
        return value !== undefined && after === writeJson(value) ? [] : [{ id, reason, after }];
      });
      return { changed, count: changed.length };
    },
    async (tx, { changed }) => {
      for (const { id, reason, after } of changed) {
        const isKept = after !== null && (await rewriteQuarantined(tx, { id, reason, record: after }));
        if (!isKept) await tx.run('DELETE FROM _sync_quarantine WHERE id = :id', { id });
      }
    },
  );
  return count;
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

interface FileRow extends Pick<RecordFile, 'name' | 'contentType'> {
  readonly id: number;
  readonly key: string;
  readonly version: string;
  readonly file: string | null;
  readonly replaced: string | null;
}

/** No file has it: where the record is read again, so is its file. */
const noVersion = '0'.repeat(32);

/** Names of files, in the ledger and in their folder; gives how many change. */
async function maskFiles(of: Masking, { masking, table: { entity } }: Masked): Promise<number> {
  const { connector, taken, asked } = of;
  const rows = await read(
    of,
    async (tx) =>
      await tx.rows<FileRow>(
        `SELECT id, key, name, content_type, version, file, replaced FROM _sync_downloads
         WHERE connector = :connector AND entity = :entity ORDER BY id`,
        { connector, entity },
      ),
  );
  const changed = rows.flatMap((was) => {
    const said = masking.file(was);
    const file = was.file === null ? null : safeFileName(was.key, said.name);
    const version = masking.hidesVersions ? noVersion : was.version;
    const isSame = said.name === was.name && said.contentType === was.contentType && file === was.file;
    return isSame && version === was.version && was.replaced === null ? [] : [{ was, said, file, version }];
  });
  // Before the transaction: a rewrite that is repeated finds which files have their new names already.
  for (const { was, file } of taken === null ? [] : changed) {
    if (was.replaced !== null && was.replaced !== file) await asked.renameFile(entity, was.replaced, null);
    if (was.file !== null && file !== null && was.file !== file) {
      await asked.renameFile(entity, was.file, file);
    }
  }
  await step(
    of,
    [entity],
    () => Promise.resolve({ count: changed.length }),
    async (tx) => {
      for (const { was, said, file, version } of changed) {
        await tx.run(
          `UPDATE _sync_downloads SET name = :name, content_type = :contentType, file = :file, replaced = NULL,
             stored_version = CASE WHEN stored_version = version THEN :version ELSE stored_version END, version = :version
           WHERE connector = :connector AND id = :id`,
          { connector, id: was.id, ...said, file, version },
        );
      }
    },
  );
  return changed.length;
}

/** A line of a JSONL sink; itself where nothing changes. Names with `_` in front are of the sink. */
function maskedLine(line: JsonObject, { row, record }: EntityMasking): JsonObject {
  const members = Object.entries(line).filter(([name]) => !name.startsWith('_'));
  const masked = row(Object.fromEntries(members));
  const extra = memberOf(line, '_extra');
  const others = isJsonObject(extra) ? record(extra) : null;
  const after = Object.entries(line).flatMap(([name, value]): readonly (readonly [string, JsonValue])[] => {
    if (name !== '_extra') return [[name, name.startsWith('_') ? value : (memberOf(masked, name) ?? null)]];
    return isJsonObject(others) && Object.keys(others).length > 0 ? [[name, others]] : [];
  });
  const isSame =
    after.length === Object.keys(line).length && after.every(([name, value]) => value === line[name]);
  return isSame ? line : Object.fromEntries(after);
}

/** Texts as JSON that may quote a value: of an entity, or, in reports and notifications, of any. */
const texts = [
  { table: '_sync_partitions', column: 'failure', id: 'id', at: 'failed_at', which: ofEntities() },
  { table: '_sync_downloads', column: 'failure', id: 'id', at: 'failed_at', which: ofEntities() },
  {
    table: '_sync_actions',
    column: 'detail',
    id: 'id',
    at: 'at',
    which: `${ofEntities()} AND action = 'refetch'`,
  },
  { table: '_sync_runs', column: 'report', id: 'run', at: 'started_at', which: 'true' },
  { table: '_sync_conditions', column: 'detail', id: 'subject', at: 'since', which: `kind = 'failed'` },
  { table: '_sync_outbox', column: 'payload', id: 'id', at: 'at', which: `kind = 'failed'` },
] as const;

function ofEntities() {
  return 'entity IN {entities text}' as const;
}

interface Hiding {
  readonly connector: ConnectorName;
  readonly entities: readonly EntityName[];
  readonly since: Instant;
}

/** Discards positions of walks and hides words of the service from before a mask; gives how many change. */
async function hideTexts(tx: Tx, { connector, entities, since }: Hiding, isLook = false): Promise<number> {
  const clear = `SELECT count(*) FROM _sync_partitions
    WHERE connector = :connector AND entity IN {entities text} AND ${isClearPosition}`;
  let count = (await cellOf<number>(tx, clear, { connector, entities })) ?? 0;
  if (!isLook) await transitions.forgetClear(tx, { connector, entities });
  for (const { table, column, id, at, which } of texts) {
    const where = `connector = :connector AND ${at} < :since AND ${which}`;
    const found = await tx.rows<{ readonly id: string | number; readonly text: string | null }>(
      `SELECT ${id} AS id, ${column} AS text FROM ${table} WHERE ${where}`,
      { connector, since, ...(which.startsWith(ofEntities()) ? { entities } : {}) },
    );
    for (const one of found) {
      const value = readJson(one.text ?? 'null');
      const text = writeJson(hidden(value));
      if (text === writeJson(value)) continue;
      count += 1;
      if (isLook) continue;
      if (table === numbered.partitions.table) {
        await transitions.hideFailure(tx, { id: Number(one.id), failure: text });
      } else {
        const kind = table === '_sync_conditions' ? `AND ${which}` : '';
        const sql = `UPDATE ${table} SET ${column} = :text WHERE connector = :connector AND ${id} = :id ${kind}`;
        await tx.run(sql, { connector, id: one.id, text });
      }
    }
  }
  return count;
}

/** Without the words of a service, and keys of records. */
function hidden(value: JsonValue): JsonValue {
  if (isJsonArray(value)) return value.map(hidden);
  if (!isJsonObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [
      name,
      ['message', 'text', 'key'].includes(name) && typeof inner === 'string' ? hiddenWords : hidden(inner),
    ]),
  );
}
