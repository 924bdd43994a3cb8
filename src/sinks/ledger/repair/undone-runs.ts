import { grouped } from '../../../core/grouped.ts';
import type { EntityName, OfEntity, RunId } from '../../../core/names.ts';
import type { Instant } from '../../../core/clock.ts';
import { columnOf, type Tx } from '../../../sql/database.ts';
import { textHash } from '../../../sql/text-hash.ts';
import { misfitError } from '../../decisions/meet-record.ts';
import type { NamedRows, UndonePlace, UndoneRows } from '../../repair.ts';
import { deleteRows } from '../deletes/delete-rows.ts';
import { beginFiles } from '../downloads/note-files.ts';
import type { Commit } from '../ledger.ts';
import { transitions } from '../partitions/transitions.ts';
import type { ChangedRow, RecordTable } from '../record-table.ts';
import { noteStored, tableNumbers } from '../stored-rows.ts';
import { readAgain } from './resets.ts';

/** Keys of each kind, entity and batch. */
const mostNamed = 100;

/**
 * Takes back what the run `of` has done to up to `limit` rows of the entity, after row `after`: what it has stored is
 * tombstoned, what it has tombstoned is live again, and what it has changed holds what a version of before says. Where
 * the run has stored or changed anything of the entity, its listings are read again in full. Called again, it finds the
 * rest.
 */
export async function undo(
  commit: Commit,
  of: RunId,
  { entity, after, limit }: UndonePlace,
): Promise<UndoneRows> {
  const { ledger, current, stamp, tx } = commit;
  const { connector } = commit.held;
  const table = current.tables.get(entity);
  if (table === undefined) throw misfitError(entity, 'the plan has no table for it');
  const run = await undoneRun(tx, { connector, entity }, of);
  if (after === 0 && run.written > 0) {
    const what = { withData: false, now: stamp.now };
    await readAgain({ tx, records: ledger.records, connector, what }, [entity]);
  }
  const changed = await table.changedBy(tx, run, after, limit);
  const keyed = await table.rows(
    tx,
    changed.map(({ row }) => row),
  );
  const rows = changed.map((one) => ({ ...one, keyText: keyed.get(one.row)?.keyText ?? '' }));
  const ways = grouped(rows, (one) => undoOf(one, run));
  const going = ways.get('delete') ?? [];
  await deleteRows(
    commit,
    entity,
    going.map(({ row, keyText }) => ({ row, keyText, permission: 'allowed' })),
  );
  const revived = ways.get('revive') ?? [];
  const restored = ways.get('restore') ?? [];
  await putBack(commit, { entity, table }, { revived, restored });
  const kept = ways.get('keep') ?? [];
  const isLast = changed.length < limit;
  return {
    deleted: going.length,
    revived: revived.length,
    restored: restored.length,
    kept: { rows: kept.length, keys: kept.slice(0, mostNamed).map(({ keyText }) => keyText) },
    changedSince: isLast ? await changedSince(commit, table, run) : { rows: 0, keys: [] },
    next: isLast ? null : (changed.at(-1)?.row ?? null),
  };
}

/** What is done with a row that the run has changed last. */
function undoOf(
  { row, deletedAt, version = null, wasDeletedAt = null, isSame }: ChangedRow,
  { from, through }: UndoneRun,
): 'delete' | 'revive' | 'restore' | 'keep' | 'nothing' {
  const isNew = row > from && row <= through;
  if (isNew || wasDeletedAt !== null) return deletedAt === null ? 'delete' : 'nothing';
  if (version !== null && isSame === false) return 'restore';
  if (deletedAt !== null) return 'revive';
  return version === null ? 'keep' : 'nothing';
}

type Rows = readonly (ChangedRow & { readonly keyText: string })[];

async function putBack(
  commit: Commit,
  { entity, table }: { readonly entity: EntityName; readonly table: RecordTable },
  { revived, restored }: { readonly revived: Rows; readonly restored: Rows },
): Promise<void> {
  if (revived.length + restored.length === 0) return;
  const { current, stamp, tx } = commit;
  const { connector } = commit.held;
  await table.revive(
    tx,
    revived.map(({ row }) => row),
    stamp,
  );
  await table.restore(tx, restored, stamp);
  const back = [...revived, ...restored].filter(({ deletedAt }) => deletedAt !== null);
  const keyTexts = back.map(({ keyText }) => keyText);
  await giveBackBelow(commit, entity, keyTexts);
  await beginFiles(tx, { connector, entity }, keyTexts);
  const changed = revived.length + restored.length - back.length;
  const numbers = await tableNumbers(tx, { connector, entities: [entity] });
  const chain = { origin: current.origin, now: stamp.now, numbers };
  noteStored(tx, connector, [{ entity, inserted: 0, revived: back.length, changed }], chain);
}

/** Walks what lies below records that are live again. */
export async function giveBackBelow(
  { held: { connector }, current, stamp, tx }: Commit,
  entity: EntityName,
  keyTexts: readonly string[],
): Promise<void> {
  const below = { connector, entity, keyHashes: keyTexts.map(textHash) };
  await transitions.giveBack(tx, { ...below, origin: current.origin, now: stamp.now });
}

async function changedSince(
  { held: { connector }, tx }: Commit,
  table: RecordTable,
  run: UndoneRun,
): Promise<NamedRows> {
  const sql = `SELECT run FROM _sync_runs WHERE connector = :connector AND kind = 'undo'`;
  const undone = await columnOf<RunId>(tx, sql, { connector });
  const { rows, total } = await table.changedSince(tx, { ...run, undone }, mostNamed);
  return { rows: total, keys: [...(await table.rows(tx, rows)).values()].map(({ keyText }) => keyText) };
}

type UndoneRun = Awaited<ReturnType<typeof undoneRun>>;

/**
 * Row numbers are never given twice, and one run at a time gives them: those of the rows that the run has stored, after
 * `from` up to `through`, stand before those of the runs after it. `_sync_counts` is written with the rows. `written`:
 * records that it has stored or changed.
 */
async function undoneRun(tx: Tx, of: OfEntity, run: RunId) {
  const found = await tx.first<
    Readonly<Record<'inserted' | 'updated' | 'through', number>> & { readonly startedAt: Instant }
  >(
    `SELECT own.started_at, coalesce(counted.inserted, 0) AS inserted, coalesce(counted.updated, 0) AS updated,
       stored.last_row - coalesce((
         SELECT CAST(sum(later.inserted) AS bigint)
         FROM _sync_runs AS newer JOIN _sync_counts AS later ON later.run = newer.run
         WHERE newer.connector = own.connector AND newer.number > own.number AND later.entity = stored.entity), 0) AS through
     FROM _sync_runs AS own JOIN _sync_tables AS stored ON stored.connector = own.connector
       LEFT JOIN _sync_counts AS counted ON counted.run = own.run AND counted.entity = stored.entity
     WHERE own.run = :run AND own.connector = :connector AND stored.entity = :entity`,
    { ...of, run },
  );
  const { startedAt = '', inserted = 0, updated = 0, through = 0 } = found ?? {};
  return { run, startedAt, from: through - inserted, through, written: inserted + updated };
}
