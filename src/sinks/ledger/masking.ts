import { createHash } from 'node:crypto';
import { instant, type Instant } from '../../core/clock.ts';
import {
  isJsonArray,
  isJsonObject,
  memberOf,
  type JsonObject,
  type JsonValue,
  readJson,
  readJsonIfWhole,
  writeJson,
} from '../../core/json.ts';
import type { ConnectorName, EntityName, OfEntities } from '../../core/names.ts';
import { hiddenWords, type RecordFile } from '../../core/records.ts';
import { usage, SyncError } from '../../core/errors.ts';
import { cellOf, type Cells, type Tx, quoted } from '../../sql/database.ts';
import { safeFileName } from '../files/safe-file-name.ts';
import type { EntityMasking, MaskEnd, MaskRequest, RemovedOf, RewrittenOf } from '../requests.ts';
import { columnValue } from '../records/mark-rows.ts';
import { rowsTable, selectCells, versionsTable, type RowsTable } from '../records/own-names.ts';
import { holdingFor, storedIdentity, resetEntity } from './held-connectors.ts';
import { noteAction } from './noted-actions.ts';
import { numbered, type Taken } from './driver.ts';
import { outsideRun, type Ledger } from './ledger.ts';
import { isClearPosition, transitions } from './partitions/transitions.ts';
import { completeSteps, ownSteps } from './purges/ledger-purges.ts';
import { noteSteps } from './purges/purge-notes.ts';
import { dropJournals } from './runs/run-chains.ts';
import { renewTable, storedTables, type StoredTable, countVersions, readMasks } from './tables.ts';
import type { RunPlan } from '../sink.ts';

/** Rewrites data stored before a mask under the mask, wherever it is and whether a read reaches it or not. */
export function ledgerMasking(ledger: Ledger) {
  return {
    /** Reports the changes that `rewrite` would make. Takes no lock and writes nothing. Throws USAGE as `rewrite`. */
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
  const { tables, stored, removed } = await (taken ?? ledger.db).read(async (tx) => {
    if ((await storedIdentity(tx, connector)) === undefined) {
      throw usage(`The sink at ${ledger.db.place} holds nothing of connector "${connector}".`);
    }
    const whole = await storedTables(tx, connector);
    return {
      tables: whole,
      stored: await readMasks(tx, { connector }),
      removed: await countRemoved(tx, of, whole),
    };
  });
  if (removed.length > 0) {
    const entities = removed.map(({ entity }) => entity);
    if (taken !== null) await removeEntities(of, taken, entities);
    return { removed, entities: [], texts: 0 };
  }
  const known = new Map(stored.map((one) => [one.entity, one]));
  const unused = masks.find(({ entity, mask }) => known.get(entity)?.mask !== mask);
  if (unused !== undefined) {
    throw usage(
      `The mask of ${connector}/${unused.entity} is not in use yet: the next sync begins to use it and gives its columns their types. Sync first: connector-sync sync ${connector}`,
    );
  }
  const older = maskings.flatMap((masking): readonly Masked[] => {
    const since = known.get(masking.of)?.since ?? null;
    const table = tables.find(({ entity }) => entity === masking.entity);
    return since === null || table === undefined ? [] : [{ masking, table, since }];
  });
  const rewritten: RewrittenOf[] = [];
  for (const one of older) rewritten.push(await maskEntity(of, one));
  const entities = older.map(({ masking }) => masking.entity);
  const since =
    older
      .map((one) => one.since)
      .toSorted()
      .at(-1) ?? '';
  const texts = await step(of, entities, (tx, writes) =>
    hideTexts(tx, { connector, entities, since }, writes),
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
      // Also where nothing was rewritten: published data may be from before.
      await noteSteps(tx, ledger, { connector, entities: masks.map(({ entity }) => entity), targets });
      // Reads under the masks have overwritten unmasked values, which are still in freed space.
      await noteSteps(tx, ledger, { connector, entities, targets: [] }, ['space']);
    });
  }
  return { removed: [], entities: rewritten, texts };
}

/** One transaction, which writes unless this is a look; gives how much it found to write. */
async function step(
  { ledger, connector, taken, asked }: Masking,
  entities: readonly EntityName[],
  work: (tx: Tx, writes: boolean) => Promise<number>,
): Promise<number> {
  if (taken === null) return await ledger.db.read(async (tx) => await work(tx, false));
  return await outsideRun(taken, async (tx) => {
    const count = await work(tx, true);
    if (count > 0) await noteSteps(tx, ledger, { connector, entities, targets: asked.targets }, ['space']);
    return count;
  });
}

/** Counts the tables to remove: their keys, or those of a table with the same owner, are not those of the masks. */
async function countRemoved(
  tx: Tx,
  { ledger: { records }, connector, asked: { maskings } }: Masking,
  tables: readonly StoredTable[],
): Promise<readonly RemovedOf[]> {
  const owners = new Set(withOtherKeys(tables, maskings).map(({ masking }) => masking?.of));
  const going = new Set(maskings.filter((one) => owners.has(one.of)).map(({ entity }) => entity));
  const removed: RemovedOf[] = [];
  for (const { entity, rows, deleted, hasVersions } of tables.filter((one) => going.has(one.entity))) {
    await refusePurged(tx, connector, entity);
    const versions = hasVersions ? await countVersions(tx, records, { connector, entity }) : 0;
    removed.push({ entity, rows, deleted, versions });
  }
  return removed;
}

/** Removes all that is stored of these entities, as a reset with data does, and their files. */
async function removeEntities(
  { ledger, connector, asked }: Masking,
  taken: Taken,
  entities: readonly EntityName[],
): Promise<void> {
  const files = await taken.read((tx) =>
    tx.rows<Pick<FileRow, 'file' | 'replaced'> & { readonly entity: EntityName }>(
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
    await hideTexts(tx, { connector, entities, since: now }, true);
    noteAction(tx, ledger, { action: 'purge', connector, detail: { isUnmasked: true, rows } });
    await noteSteps(tx, ledger, { connector, entities, targets: asked.targets }, ownSteps(ledger));
  });
}

/** One table with its mask. */
interface Masked {
  readonly masking: EntityMasking;
  readonly table: StoredTable;
  /** Values stored before this may not have the mask. */
  readonly since: Instant;
}

async function maskEntity(of: Masking, masked: Masked): Promise<RewrittenOf> {
  const { ledger, connector, taken, asked } = of;
  const { masking, table } = masked;
  const { entity, stored, key, hasVersions } = table;
  const lines = {
    connector,
    table: { entity, columns: stored, key },
    signal: asked.signal,
    line: (line: JsonObject) => maskedLine(line, masking),
  };
  return {
    entity,
    rows: await maskTable(of, masked, rowsTable(ledger.records, connector, table)),
    versions: hasVersions ? await maskTable(of, masked, versionsTable(ledger.records, connector, table)) : 0,
    quarantined: await maskQuarantined(of, masked),
    files: await maskFiles(of, masked),
    lines: (await ledger.lines?.rewrite(lines, taken)) ?? 0,
  };
}

/** Gives how many rows change. Nothing else about them does, and no line is written. */
async function maskTable(of: Masking, { masking, table: { entity } }: Masked, rows: RowsTable) {
  const { ledger, connector, asked } = of;
  let count = 0;
  await using snapshot = await ledger.db.openSnapshot(asked.signal);
  for await (const batch of snapshot.batches(selectCells(rows))) {
    asked.signal.throwIfAborted();
    const changed = batch.flatMap((cells) => maskedRow(rows, masking, cells) ?? []);
    if (changed.length === 0) continue;
    count += await step(of, [entity], async (tx, writes) => {
      if (!writes) return changed.length;
      const numbers = changed.map(({ number }) => number);
      await tx.run(`DELETE FROM ${quoted(rows.name)} WHERE ${rows.number} IN {numbers bigint}`, { numbers });
      const cells = changed.map((row) => row.cells);
      await ledger.records.insertRows(tx, rows, cells);
      await renewTable(tx, { connector, entity });
      return changed.length;
    });
  }
  return count;
}

/** Null: it stays as it is. */
function maskedRow({ columns, stored, number }: RowsTable, masking: EntityMasking, row: Cells) {
  const cells = row.map(columnValue);
  const at = (name: string): number => columns.findIndex((column) => column.name === name);
  const own = columns.slice(0, columns.length - stored.length);
  // `as`: the column of this name holds texts.
  const extra = cells[at('_extra')] as string | null;
  const after = masking.cells(stored, { values: cells.slice(own.length), extra });
  if (after === null) return null;
  const changed = new Map([
    ['_extra', after.extra],
    // The next sync compares the values.
    ['_hash', ''],
  ]);
  const owned = own.map(({ name }, index) => (changed.has(name) ? changed.get(name) : cells[index]));
  return { number: Number(cells[at(number)]), cells: [...owned, ...after.values] };
}

interface QuarantinedRow {
  readonly id: number;
  readonly reason: string;
  readonly record: string;
}

/** Refused records from before the mask, which are kept whole. One that was cut cannot be read, and goes. */
async function maskQuarantined(of: Masking, { masking, table: { entity }, since }: Masked): Promise<number> {
  const { connector } = of;
  return await step(of, [entity], async (tx, writes) => {
    const rows = await tx.rows<QuarantinedRow>(
      `SELECT id, reason, record FROM _sync_quarantine
       WHERE connector = :connector AND entity = :entity AND last_seen_at < :since ORDER BY id`,
      { connector, entity, since },
    );
    let count = 0;
    for (const { id, reason, record } of rows) {
      const value = readJsonIfWhole(record);
      const after = value === undefined ? null : writeJson(masking.record(value));
      if (value !== undefined && after === writeJson(value)) continue;
      count += 1;
      if (!writes) continue;
      const isKept = after !== null && (await rewriteQuarantined(tx, { id, reason, record: after }));
      if (!isKept) await tx.run('DELETE FROM _sync_quarantine WHERE id = :id', { id });
    }
    return count;
  });
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
  const { ledger, connector, taken, asked } = of;
  const rows = await (taken ?? ledger.db).read((tx) =>
    tx.rows<FileRow>(
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
  return await step(of, [entity], async (tx, writes) => {
    for (const { was, said, file, version } of writes ? changed : []) {
      await tx.run(
        `UPDATE _sync_downloads SET name = :name, content_type = :contentType, file = :file, replaced = NULL,
           stored_version = CASE WHEN stored_version = version THEN :version ELSE stored_version END, version = :version
         WHERE connector = :connector AND id = :id`,
        { connector, id: was.id, ...said, file, version },
      );
    }
    return changed.length;
  });
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

const ofEntities = 'entity IN {entities text}';

/** Texts as JSON that may quote a value: of an entity, or, in reports and notifications, of any. */
const texts = [
  { table: '_sync_partitions', column: 'failure', id: 'id', at: 'failed_at', which: ofEntities },
  { table: '_sync_downloads', column: 'failure', id: 'id', at: 'failed_at', which: ofEntities },
  {
    table: '_sync_actions',
    column: 'detail',
    id: 'id',
    at: 'at',
    which: `${ofEntities} AND action = 'refetch'`,
  },
  { table: '_sync_runs', column: 'report', id: 'run', at: 'started_at', which: 'true' },
  { table: '_sync_conditions', column: 'detail', id: 'subject', at: 'since', which: `kind = 'failed'` },
  { table: '_sync_outbox', column: 'payload', id: 'id', at: 'at', which: `kind = 'failed'` },
] as const;

/** Discards positions of walks and hides words of the service from before a mask; gives how many change. */
async function hideTexts(
  tx: Tx,
  { connector, entities, since }: OfEntities & { readonly since: Instant },
  writes: boolean,
): Promise<number> {
  const clear = `SELECT count(*) FROM _sync_partitions
    WHERE connector = :connector AND ${ofEntities} AND ${isClearPosition}`;
  let count = (await cellOf<number>(tx, clear, { connector, entities })) ?? 0;
  if (writes) await transitions.forgetClear(tx, { connector, entities });
  if (writes) await dropJournals(tx, { connector, before: since });
  for (const { table, column, id, at, which } of texts) {
    const found = await tx.rows<{ readonly id: string | number; readonly text: string | null }>(
      `SELECT ${id} AS id, ${column} AS text FROM ${table}
       WHERE connector = :connector AND ${at} < :since AND ${which}`,
      { connector, since, ...(which.startsWith(ofEntities) ? { entities } : {}) },
    );
    for (const one of found) {
      const value = readJson(one.text ?? 'null');
      const text = writeJson(hidden(value));
      if (text === writeJson(value)) continue;
      count += 1;
      if (!writes) continue;
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

/** Hides texts of the service and keys of records. */
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

/**
 * Before the run's tables are made: an entity without one has nothing stored yet. Gives the entities that have other
 * masks than before.
 */
export async function noteMasks(
  tx: Tx,
  connector: ConnectorName,
  { masks = [], entities }: Pick<RunPlan, 'masks' | 'entities'>,
  now: Instant,
): Promise<ReadonlySet<EntityName>> {
  const before = new Map((await readMasks(tx, { connector })).map(({ entity, mask }) => [entity, mask]));
  const after = new Map(masks.map(({ entity, mask }) => [entity, mask]));
  const changed = new Set(entities.filter((entity) => before.get(entity) !== after.get(entity)));
  const unmasked = entities.filter((entity) => masks.every((one) => one.entity !== entity));
  const drop = `DELETE FROM _sync_masks WHERE connector = :connector AND entity IN {unmasked text}`;
  tx.put(drop, { connector, unmasked });
  if (masks.length === 0) return changed;
  await tx.run(
    `INSERT INTO _sync_masks AS m (connector, entity, mask, key_id, since)
     SELECT CAST(:connector AS text), v.entity, v.mask, v.key_id,
       CASE WHEN EXISTS (SELECT 1 FROM _sync_tables AS t WHERE t.connector = :connector AND t.entity = v.entity)
         THEN CAST(:now AS text) END
     FROM {v: entity text, mask text, key_id text} WHERE true
     ON CONFLICT (connector, entity) DO UPDATE SET mask = excluded.mask, key_id = excluded.key_id,
       since = excluded.since, read_at = NULL
     WHERE m.mask <> excluded.mask`,
    { connector, now, v: masks.map(({ entity, mask, keyId }) => ({ entity, mask, keyId })) },
  );
  return changed;
}

/**
 * Throws `SyncError` SINK_INCOMPATIBLE where rows have keys that a read under these masks would not meet: each record
 * would have two rows, and the first of them look deleted.
 */
export async function checkKeys(
  tx: Tx,
  connector: ConnectorName,
  { tables, maskings = [] }: Pick<RunPlan, 'tables' | 'maskings'>,
): Promise<void> {
  const planned = new Set(tables.map(({ entity }) => entity));
  const stored = (await storedTables(tx, connector)).filter(({ entity }) => planned.has(entity));
  const [found] = withOtherKeys(stored, maskings);
  if (found === undefined) return;
  const { entity, name, masking } = found;
  if (masking !== undefined) await refusePurged(tx, connector, entity);
  throw keysDiffer(
    connector,
    entity,
    masking === undefined
      ? `${name} is stored as hashes that this config does not make: their mask is gone. Put the mask back, or drop what is stored and sync again: connector-sync reset ${connector}/${entity} --data --yes`
      : `${name} is stored in clear, or as hashes of another mask.key or another rule, and a key cannot be changed in place. To see what would be removed, and what of it no read brings back: connector-sync purge ${connector} --unmasked. Add --yes to remove it, then sync: what the API still has is read again`,
  );
}

/** Notes by which masks the plan's tables have their keys, for the next `checkKeys`. */
export function noteKeys(
  tx: Tx,
  connector: ConnectorName,
  { tables, maskings = [] }: Pick<RunPlan, 'tables' | 'maskings'>,
): void {
  const v = tables.map(({ entity, key }) => ({
    entity,
    keyMask: maskOfKey(key, maskingOf(maskings, entity)),
  }));
  tx.put(
    `UPDATE _sync_tables AS t SET key_mask = v.key_mask FROM {v: entity text, key_mask text}
     WHERE t.connector = :connector AND t.entity = v.entity AND t.key_mask <> v.key_mask`,
    { connector, v },
  );
}

/** Tables with rows whose keys are not those that the masks make. `name`: a part of the key. */
function withOtherKeys(tables: readonly StoredTable[], maskings: readonly EntityMasking[]) {
  return tables.flatMap(({ entity, key, keyMask, rows }) => {
    const masking = maskingOf(maskings, entity);
    const now = maskOfKey(key, masking);
    if (rows === 0 || now === keyMask) return [];
    const [name = ''] = Object.keys(JSON.parse(now === noMask ? keyMask : now) as object);
    return [{ entity, name, masking }];
  });
}

function maskingOf(maskings: readonly EntityMasking[], entity: EntityName): EntityMasking | undefined {
  return maskings.find((one) => one.entity === entity);
}

/** Text that each way to hash changes in another way: as a value, a text, an address or a number. */
const probe = ' Key Probe 1 <Probe-2@Example.com>';
/** Result of `maskOfKey` where no part of the key is masked. */
const noMask = '{}';

/** Masked forms of a probe in each masked part of a key, as JSON. They differ where keys are masked in another way. */
function maskOfKey(key: readonly string[], masking: EntityMasking | undefined): string {
  if (masking === undefined) return noMask;
  const masked = masking.row(Object.fromEntries(key.map((name) => [name, probe])));
  const changed = key.filter((name) => masked[name] !== probe);
  return JSON.stringify(Object.fromEntries(changed.map((name) => [name, masked[name]])));
}

/** Throws where records of the entity were purged: their notes are by the keys that are stored. */
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
