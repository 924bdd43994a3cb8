import { createHash } from 'node:crypto';
import type { ConnectorName, RunId, EntityName } from '../../core/names.ts';
import {
  type EntityCounts,
  type Quarantined,
  addsUp,
  countNames,
  noCounts,
  sumsByEntity,
  type PageCounts,
} from '../../core/records.ts';
import type { EarlierCounts, CommittedPage, PageCommit } from '../sink.ts';
import { ask, type Tx } from '../../sql/database.ts';
import type { Stamp } from './driver.ts';
import { SyncError } from '../../core/errors.ts';
import type { EntityReport, RowsOf, RunReport } from '../run-report.ts';
import { instant, type Instant } from '../../core/clock.ts';

/** `_sync_counts`: outcomes of all records of a run, per entity. Adds these counts; each entity once. */
export function addCounts(tx: Tx, run: RunId, counted: readonly EntityCounts[]): void {
  const sums = counted.map(({ entity, counts }) => ({ entity, ...counts }));
  addSums(tx, '_sync_counts', { run }, countNames, sums);
}

/** Adds numbers to those that `table` has of these entities under `key`. */
function addSums<Name extends string>(
  tx: Tx,
  table: string,
  key: Readonly<Record<string, string>>,
  names: readonly Name[],
  sums: readonly ({ readonly entity: EntityName } & Readonly<Record<Name, number>>)[],
): void {
  if (sums.length === 0) return;
  const keys = Object.keys(key);
  tx.put(
    `INSERT INTO ${table} AS c (${[...keys, 'entity', ...names].join(', ')})
     SELECT ${keys.map((name) => `CAST(:${name} AS text)`).join(', ')}, v.*
     FROM {v: entity text, ${names.map((name) => `${name} bigint`).join(', ')}} ORDER BY v.entity
     ON CONFLICT (${keys.join(', ')}, entity) DO UPDATE SET ${names.map((name) => `${name} = c.${name} + excluded.${name}`).join(', ')}`,
    { ...key, v: sums },
  );
}

/**
 * Counts of all runs so far in the chain whose first run has the number `origin`. `depth_limited` is noted when a run
 * ends.
 */
export const countsOfChain = ask<{ connector: ConnectorName; origin: number }, EarlierCounts>(
  `SELECT entity, CAST(sum(fetched) AS bigint) AS fetched, CAST(sum(quarantined) AS bigint) AS quarantined,
       CAST(sum(duplicate) AS bigint) AS duplicate, CAST(sum(depth_limited) AS bigint) AS depth_limited
     FROM _sync_counts WHERE run IN
       (SELECT run FROM _sync_runs WHERE connector = :connector AND number >= :origin AND origin = :origin)
     GROUP BY entity ORDER BY entity`,
);

/** Condition for `_sync_runs AS run`. */
export const hasWritten = `EXISTS (SELECT 1 FROM _sync_counts AS counted
  WHERE counted.run = run.run AND counted.inserted + counted.updated > 0)`;

/** Runs of a chain so far that have stored or changed records, oldest first. */
export const runsThatWrote = ask<{ connector: ConnectorName; origin: number }, { readonly run: RunId }>(
  `SELECT run FROM _sync_runs AS run WHERE connector = :connector AND origin = :origin AND ${hasWritten} ORDER BY number`,
);

/** Counts of a run's records so far, also while the run is in progress. */
export async function countsOfRun(tx: Tx, run: RunId): Promise<readonly CountsOfEntity[]> {
  return await tx.rows<CountsOfEntity>(
    `SELECT entity, ${countNames.join(', ')} FROM _sync_counts WHERE run = :run ORDER BY entity`,
    { run },
  );
}

/** `_sync_quarantine`: records that cannot be stored as they are, kept whole, once per content. */
export function keepQuarantined(
  tx: Tx,
  connector: ConnectorName,
  refused: readonly Quarantined[],
  { now, run }: Stamp,
): void {
  if (refused.length === 0) return;
  const byContent = new Map<string, Quarantined & { readonly hash: string }>();
  for (const one of refused) {
    const hash = createHash('sha256').update(one.record).digest('hex');
    byContent.set(`${one.entity} ${hash}`, { ...one, hash });
  }
  tx.put(
    `INSERT INTO _sync_quarantine
       (connector, entity, content_hash, reason, detail, record, first_seen_at, last_seen_at, last_run)
     SELECT CAST(:connector AS text), v.entity, v.hash, v.reason, v.detail, v.record, CAST(:now AS text), CAST(:now AS text),
       CAST(:run AS text)
     FROM {v: entity text, hash text, reason text, detail text, record text, n} ORDER BY v.n
     ON CONFLICT (connector, entity, content_hash) DO UPDATE SET reason = excluded.reason, detail = excluded.detail,
       last_seen_at = excluded.last_seen_at, last_run = excluded.last_run`,
    { connector, now, run, v: [...byContent.values()] },
  );
}

type CountsOfEntity = PageCounts & { readonly entity: EntityName };

/** `quarantined`: records that came only in part; nothing of them is stored. */
export type StoredCounts = Pick<
  PageCounts,
  'quarantined' | 'inserted' | 'updated' | 'duplicate' | 'unchanged'
>;

/**
 * Counts a page's records by outcome, the walk's own entity first. `stored`: outcome of each of `page.rows`. Throws
 * `SyncError` ACCOUNTING unless all records are accounted for.
 */
export function countPage(
  page: Pick<PageCommit, 'fetched' | 'filtered' | 'foreign' | 'refused' | 'rows'> & {
    /** Purged records that it would have stored again. */
    readonly withheld?: readonly RowsOf[];
  },
  walked: EntityName,
  stored: readonly StoredCounts[],
): CommittedPage['counts'] {
  const parts: EntityCounts[] = [];
  const add = (entity: EntityName, counts: Partial<PageCounts>): void =>
    void parts.push({ entity, counts: { ...noCounts, ...counts } });
  add(walked, { fetched: page.fetched, filtered: page.filtered, duplicate: page.foreign });
  for (const { entity, rows } of page.withheld ?? []) {
    add(entity, { fetched: entity === walked ? 0 : rows, filtered: rows });
  }
  for (const { entity } of page.refused) add(entity, { fetched: entity === walked ? 0 : 1, quarantined: 1 });
  for (const [index, { entity, records }] of page.rows.entries()) {
    add(entity, { fetched: entity === walked ? 0 : records.length, ...stored[index] });
  }
  const sums = sumsByEntity(parts);
  for (const { entity, counts } of sums) checkCounts(entity, counts);
  return sums;
}

/** The page's records that came in part and whose rows stay as they are; nothing where there are none. */
export function countPartial({ rows }: Pick<PageCommit, 'rows'>, stored: readonly StoredCounts[]) {
  const came = rows.flatMap(({ records }) => records).filter((record) => record.partial !== undefined).length;
  const partial = stored.reduce((left, { quarantined }) => left - quarantined, came);
  return partial === 0 ? {} : { partial };
}

/** Throws `SyncError` ACCOUNTING unless every fetched record is accounted for. */
export function checkCounts(entity: EntityName, counts: PageCounts): void {
  if (addsUp(counts)) return;
  throw new SyncError(
    `A page of "${entity}" does not add up: ${names} is ${numbersOf(counts).join('/')}. Nothing of it was stored. ` +
      "This is a defect: report it with the run's log.",
    { code: 'ACCOUNTING', recovery: 'stop', context: { entity, ...counts } },
  );
}

/** Error of a run whose report does not agree with the stored counts; null where it agrees. */
export function accountingError(
  run: RunId,
  stored: readonly CountsOfEntity[],
  reported: readonly Pick<EntityReport, 'entity' | 'counts'>[],
): NonNullable<RunReport['error']> | null {
  const report = new Map(sumsByEntity(reported).map(({ entity, counts }) => [entity, counts]));
  const ledger = new Map<EntityName, PageCounts>(stored.map((counts) => [counts.entity, counts]));
  const differences = [...new Set([...ledger.keys(), ...report.keys()])].flatMap((entity) => {
    const left = numbersOf(ledger.get(entity) ?? noCounts).join('/');
    const right = numbersOf(report.get(entity) ?? noCounts).join('/');
    return left === right ? [] : [`${entity}: the ledger has ${left}, the report ${right}`];
  });
  if (differences.length === 0) return null;
  const message =
    `The report of run ${run} does not agree with what was stored (${names}): ${differences.join('; ')}. ` +
    "This is a defect: report it with the run's log.";
  return { code: 'ACCOUNTING', recovery: 'stop', message };
}

const names = countNames.join('/');

function numbersOf(counts: PageCounts): number[] {
  return countNames.map((name) => counts[name]);
}

/** Row counts of an entity's table. */
interface RowAccount {
  /** Rows without a tombstone. */
  readonly stored: number;
  /** Rows below deleted records. The guards judged them with these records. */
  readonly judged: number;
  readonly addedInDay: number;
  readonly deletedInDay: number;
}

/**
 * Live rows now, including missing ones, and 24 hours ago: the base of the share that a guard limits. On an entity's
 * first day, `dayAgo` is the number of rows that it began with. Rows whose deletion a person has allowed since are not
 * counted.
 */
export function weighRows({ stored, judged, addedInDay, deletedInDay }: RowAccount) {
  const live = stored - judged;
  return { live, dayAgo: Math.max(0, live - addedInDay + deletedInDay), deletedInDay };
}

const dayMs = 24 * 60 * 60 * 1_000;

/** The hour in which rows come and go: `2026-03-01T10`. */
export function hourOf(at: Instant): string {
  return at.slice(0, '2026-03-01T10'.length);
}

/** The first hour of the last day. It is counted whole: a limit for up to 25 hours holds for every 24 hours. */
export function firstHourOfDay(now: Instant): string {
  return hourOf(instant(Date.parse(now) - dayMs));
}

interface DayChanges {
  readonly added: number;
  readonly deleted: number;
}

/**
 * `_sync_hours`: rows of an entity added and deleted in the last 24 hours, by hour. The number of its rows 24 hours ago
 * follows from the present number without reading them. The window begins with a whole hour and is up to 25 hours long:
 * a limit for it holds for every 24 hours.
 *
 * `added`: rows that were inserted or revived (`noteStored` leaves those of an entity's first chain out). `deleted`:
 * rows whose delete a guard passed. Deletes that a person allowed are left out: their rows count neither as deleted nor
 * as stored before. Each entity once.
 */
export function noteInDay(
  tx: Tx,
  connector: ConnectorName,
  kind: keyof DayChanges,
  changed: readonly RowsOf[],
  now: Instant,
): void {
  const sums = changed
    .filter(({ rows }) => rows > 0)
    .map(({ entity, rows }) => ({ entity, added: 0, deleted: 0, [kind]: rows }));
  addSums(tx, '_sync_hours', { connector, hour: hourOf(now) }, ['added', 'deleted'], sums);
}

/** Counts within the window; entities without changes are left out. */
export async function dayChanges(tx: Tx, connector: ConnectorName, now: Instant) {
  const rows = await tx.rows<DayChanges & { readonly entity: EntityName }>(
    `SELECT entity, CAST(sum(added) AS bigint) AS added, CAST(sum(deleted) AS bigint) AS deleted
     FROM _sync_hours WHERE connector = :connector AND hour >= :hour GROUP BY entity`,
    { connector, hour: firstHourOfDay(now) },
  );
  return new Map(rows.map(({ entity, added, deleted }) => [entity, { added, deleted }]));
}

/** Drops hours before the window. */
export function pruneHours(tx: Tx, connector: ConnectorName, now: Instant): void {
  const hour = firstHourOfDay(now);
  tx.put(`DELETE FROM _sync_hours WHERE connector = :connector AND hour < :hour`, { connector, hour });
}
