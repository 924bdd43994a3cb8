import { instant, type Instant } from '../../../core/clock.ts';
import type { ConnectorName, OfEntity } from '../../../core/names.ts';
import type { EntityTable } from '../../../core/records.ts';
import { cellOf, columnOf, type Tx, quoted } from '../../../sql/database.ts';
import type { DueOf, ExpiredOf, ExpireRequest, Retention } from '../../purges.ts';
import type { Taken, KeyedRow } from '../driver.ts';
import { outsideRun, type Ledger } from '../ledger.ts';
import {
  storedTable,
  countEndedVersions,
  countVersions,
  deleteEndedVersions,
  versionedEntities,
} from '../tables.ts';
import { noteSteps, removeNotedLines, filesOf, forgetFiles, removeForGood } from './complete-steps.ts';

const rowsAtOnce = 500;
const versionsAtOnce = 2_000;
const dayMs = 24 * 60 * 60 * 1_000;

/** What is too old now, of those entities that were not checked within a day; of all where `isAsked`. */
export async function countExpired(
  ledger: Ledger,
  connector: ConnectorName,
  { entities, isAsked }: Pick<ExpireRequest, 'entities' | 'isAsked'>,
): Promise<readonly DueOf[]> {
  const counts: DueOf[] = [];
  for (const retention of entities) {
    const { entity, quarantinedBefore } = retention;
    const found = await ledger.db.read(async (tx) => {
      const table = await storedTable(tx, { connector, entity });
      if (table === undefined) return null;
      const checkedAt = await readCheckedAt(tx, { connector, entity });
      const isFresh = checkedAt !== null && Date.parse(checkedAt) > ledger.clock.now() - dayMs;
      if (isFresh && !isAsked) return null;
      const of = { ledger, connector, retention, table };
      const quarantined =
        quarantinedBefore === null
          ? 0
          : await cellOf<number>(
              tx,
              `SELECT count(*) FROM _sync_quarantine
               WHERE connector = :connector AND entity = :entity AND last_seen_at < :before`,
              { connector, entity, before: quarantinedBefore },
            );
      const rows = await countRows(tx, of);
      const files = (await oldFiles(tx, of)).length;
      const before = await versionsBefore(tx, of);
      const versions =
        before === null ? 0 : await countEndedVersions(tx, ledger.records, { connector, entity }, before);
      const expired = { entity, rows, quarantined: quarantined ?? 0, files, versions };
      return { ...expired, of: await countAll(tx, of, expired) };
    });
    if (found !== null) counts.push(found);
  }
  return counts;
}

/** Removes it, batch by batch, each in one transaction: after a kill the next one continues. */
export async function expireRows(
  ledger: Ledger,
  taken: Taken,
  { entities, removeFile, signal }: ExpireRequest,
): Promise<readonly ExpiredOf[]> {
  const { connector } = taken;
  const expired: ExpiredOf[] = [];
  // Before its row goes, a delete becomes a line that readers of files find.
  await ledger.lines?.write(taken);
  const transact = async <Result>(work: (tx: Tx) => Promise<Result>): Promise<Result> =>
    await outsideRun(taken, work, {});
  for (const retention of entities) {
    const { entity, quarantinedBefore } = retention;
    const table = await taken.read(async (tx) => await storedTable(tx, { connector, entity }));
    if (table === undefined) continue;
    const of = { ledger, connector, retention, table };
    const counts = { entity, rows: 0, quarantined: 0, files: 0, versions: 0 };
    const removeAll = async (files: readonly string[]): Promise<void> => {
      for (const file of files) await removeFile(entity, file);
      counts.files += files.length;
    };
    for (;;) {
      signal.throwIfAborted();
      const old = await taken.read(async (tx) => await oldRows(tx, of));
      await removeAll(old.files);
      await transact(async (tx) => await removeRows(tx, of, old.rows));
      counts.rows += old.rows.length;
      if (old.rows.length < rowsAtOnce) break;
    }
    for (let deleted = -1; deleted !== 0; counts.versions += deleted) {
      signal.throwIfAborted();
      deleted = await transact(async (tx) => {
        const before = await versionsBefore(tx, of);
        if (before === null) return 0;
        // The oldest ones first.
        const what = { before, limit: versionsAtOnce };
        return await deleteEndedVersions(tx, ledger.records, { connector, entity }, what);
      });
    }
    const files = await taken.read(async (tx) => await oldFiles(tx, of));
    await removeAll(files.map(({ file }) => file));
    counts.quarantined = await transact(async (tx) => {
      await tx.run(
        `UPDATE _sync_downloads SET file = NULL, replaced = NULL, bytes = NULL, sha256 = NULL, stored_type = NULL,
           stored_version = NULL, stored_at = NULL, stored_run = NULL
         WHERE connector = :connector AND id IN {ids bigint}`,
        { connector, ids: files.map(({ id }) => id) },
      );
      const { withheld } = retention;
      await noteChecked(tx, { connector, entity }, { at: instant(ledger.clock.now()), withheld });
      if (quarantinedBefore === null) return 0;
      return await tx.run(
        `DELETE FROM _sync_quarantine
         WHERE connector = :connector AND entity = :entity AND last_seen_at < :before`,
        { connector, entity, before: quarantinedBefore },
      );
    });
    expired.push(counts);
  }
  await removeNotedLines(ledger, taken, signal);
  return expired;
}

/** Of which table what is too old. */
interface Expiring {
  readonly ledger: Ledger;
  readonly connector: ConnectorName;
  readonly retention: Retention;
  /** As it is stored. */
  readonly table: EntityTable;
}

function isOld({ ledger: { records }, connector, table }: Expiring): string {
  const name = quoted(records.tableName(connector, table.entity));
  return `FROM ${name} WHERE _deleted_at < :before AND _seq <= :through`;
}

async function countRows(tx: Tx, of: Expiring): Promise<number> {
  const { deletedBefore: before, publishedThrough: through } = of.retention;
  if (before === null) return 0;
  return (await cellOf<number>(tx, `SELECT count(*) ${isOld(of)}`, { before, through })) ?? 0;
}

/** What the guards compare it with: rows with deleted ones, versions with current ones. */
async function countAll(tx: Tx, of: Expiring, expired: ExpiredOf): Promise<DueOf['of']> {
  const { ledger, connector, table } = of;
  const { entity } = table;
  const isAny = expired.rows + expired.files + expired.versions > 0;
  if (!isAny) return { rows: 0, files: 0, versions: 0 };
  const where = 'WHERE connector = :connector AND entity = :entity';
  const rows =
    (await cellOf<number>(tx, `SELECT rows FROM _sync_tables ${where}`, { connector, entity })) ?? 0;
  const files = await cellOf<number>(tx, `SELECT count(file) FROM _sync_downloads ${where}`, {
    connector,
    entity,
  });
  const closed = expired.versions === 0 ? 0 : await countVersions(tx, ledger.records, { connector, entity });
  return { rows, files: files ?? 0, versions: rows + closed };
}

interface OldRows {
  readonly rows: readonly KeyedRow[];
  readonly files: readonly string[];
}

/** Tombstones that are old enough and published everywhere. */
async function oldRows(tx: Tx, expiring: Expiring): Promise<OldRows> {
  const { ledger, connector, table, retention } = expiring;
  const { deletedBefore: before, publishedThrough: through } = retention;
  if (before === null) return { rows: [], files: [] };
  const numbers = await columnOf<number>(tx, `SELECT _row ${isOld(expiring)} ORDER BY _row LIMIT :limit`, {
    before,
    through,
    limit: rowsAtOnce,
  });
  const rows = [
    ...(await ledger.records.open({ connector, table, stored: table.columns }).rows(tx, numbers)).values(),
  ];
  const of = { connector, entity: table.entity };
  return {
    rows,
    files: await filesOf(
      tx,
      of,
      rows.map(({ keyText }) => keyText),
    ),
  };
}

async function removeRows(tx: Tx, of: Expiring, rows: readonly KeyedRow[]): Promise<void> {
  if (rows.length === 0) return;
  const { ledger, connector, table } = of;
  const { entity } = table;
  const name = quoted(ledger.records.tableName(connector, entity));
  const numbers = rows.map(({ row }) => row);
  const highest = await cellOf<number>(tx, `SELECT max(_seq) FROM ${name} WHERE _row IN {numbers bigint}`, {
    numbers,
  });
  await removeForGood({ tx, records: ledger.records, connector }, entity, rows);
  await forgetFiles(
    tx,
    { connector, entity },
    rows.map(({ keyText }) => keyText),
  );
  await noteCompleteAfter(tx, { connector, entity }, highest ?? 0);
  const steps = { connector, entities: [entity], targets: [] };
  await noteSteps(tx, ledger, steps, ledger.lines === undefined ? [] : ['lines']);
}

interface OldFile {
  readonly id: number;
  readonly key: string;
  readonly file: string;
}

/** Files of records that were deleted long enough ago. */
async function oldFiles(tx: Tx, of: Expiring): Promise<readonly OldFile[]> {
  const { ledger, connector, table, retention } = of;
  const { filesBefore } = retention;
  if (filesBefore === null) return [];
  const kept = await tx.rows<OldFile>(
    `SELECT id, key, file FROM _sync_downloads
     WHERE connector = :connector AND entity = :entity AND gone = 'tombstoned' AND file IS NOT NULL ORDER BY id`,
    { connector, entity: table.entity },
  );
  const stored = await ledger.records.open({ connector, table, stored: table.columns }).rowsOf(
    tx,
    kept.map(({ key }) => key),
  );
  return kept.filter(({ key }) => {
    const deletedAt = stored.get(key)?.deletedAt ?? null;
    return deletedAt !== null && deletedAt < filesBefore;
  });
}

/** Null where there are none, and where they were switched off: then they stay. */
async function versionsBefore(tx: Tx, { connector, table, retention }: Expiring): Promise<Instant | null> {
  if (retention.versionsBefore === null) return null;
  const known = (await versionedEntities(tx, connector)).get(table.entity);
  return known?.endedAt === null ? retention.versionsBefore : null;
}

/** Null: never. */
async function readCheckedAt(tx: Tx, of: OfEntity): Promise<Instant | null> {
  const sql = `SELECT checked_at FROM _sync_retained WHERE connector = :connector AND entity = :entity`;
  return (await cellOf<Instant | null>(tx, sql, { ...of })) ?? null;
}

async function noteCompleteAfter(tx: Tx, of: OfEntity, completeAfter: number): Promise<void> {
  await tx.run(
    `INSERT INTO _sync_retained AS r (connector, entity, complete_after)
     VALUES (:connector, :entity, :completeAfter)
     ON CONFLICT (connector, entity) DO UPDATE SET complete_after = excluded.complete_after
     WHERE r.complete_after < excluded.complete_after`,
    { ...of, completeAfter },
  );
}

async function noteChecked(
  tx: Tx,
  of: OfEntity,
  checked: { readonly at: Instant; readonly withheld: number },
): Promise<void> {
  await tx.run(
    `INSERT INTO _sync_retained (connector, entity, complete_after, checked_at, withheld)
     VALUES (:connector, :entity, 0, :at, :withheld)
     ON CONFLICT (connector, entity) DO UPDATE SET checked_at = excluded.checked_at, withheld = excluded.withheld`,
    { ...of, ...checked },
  );
}
