import { instant, type Instant } from '../../core/clock.ts';
import type { ConnectorName, EntityName } from '../../core/names.ts';
import type { Tx } from '../../sql/database.ts';
import type { DayOfEntity } from '../ledger-reader.ts';
import type { RowsOf } from '../run-report.ts';

/** More than a year, so that a day can be compared with the same one a year before. */
const keptDays = 400;
const dayMs = 24 * 60 * 60 * 1_000;

/** The day of UTC: `2026-03-01`. */
export function dayOf(at: Instant): string {
  return at.slice(0, '2026-03-01'.length);
}

const kinds = ['added', 'changed', 'deleted', 'revived'] as const;

type RowsOfDay = { readonly entity: EntityName } & Partial<Readonly<Record<(typeof kinds)[number], number>>>;

/** Adds these to the day, each entity once. Where nothing changed there is no statement. */
export function noteInDays(
  tx: Tx,
  connector: ConnectorName,
  changes: readonly RowsOfDay[],
  now: Instant,
): void {
  const noted = changes.filter((one) => kinds.some((kind) => (one[kind] ?? 0) > 0));
  if (noted.length === 0) return;
  tx.put(
    `INSERT INTO _sync_days AS d (connector, entity, day, ${kinds.join(', ')})
     SELECT CAST(:connector AS text), v.entity, CAST(:day AS text), ${kinds.map((kind) => `v.${kind}`).join(', ')}
     FROM {v: entity text, ${kinds.map((kind) => `${kind} bigint`).join(', ')}} ORDER BY v.entity
     ON CONFLICT (connector, entity, day) DO UPDATE SET ${kinds.map((kind) => `${kind} = d.${kind} + excluded.${kind}`).join(', ')}`,
    {
      connector,
      day: dayOf(now),
      v: noted.map((one) => ({ added: 0, changed: 0, deleted: 0, revived: 0, ...one })),
    },
  );
}

/** Drops days past their retention. */
export function pruneDays(tx: Tx, connector: ConnectorName, now: Instant): void {
  tx.put(`DELETE FROM _sync_days WHERE connector = :connector AND day < :day`, {
    connector,
    day: dayOf(instant(Date.parse(now) - keptDays * dayMs)),
  });
}

/**
 * Counts of changed rows on each day from `since` (`2026-03-01`, UTC) on, by connector, entity and day; days without a
 * change are left out.
 */
export async function readDays(
  tx: Tx,
  { since, only }: { readonly since: string; readonly only?: readonly ConnectorName[] },
): Promise<readonly DayOfEntity[]> {
  const which = only === undefined ? '' : 'AND connector IN {only text}';
  return await tx.rows<DayOfEntity>(
    `SELECT connector, entity, day, ${kinds.join(', ')} FROM _sync_days
     WHERE day >= :since ${which} ORDER BY connector, entity, day`,
    { since, ...(only === undefined ? {} : { only }) },
  );
}

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
  const noted = changed.filter(({ rows }) => rows > 0);
  if (noted.length === 0) return;
  tx.put(
    `INSERT INTO _sync_hours AS h (connector, entity, hour, added, deleted)
     SELECT CAST(:connector AS text), v.entity, CAST(:hour AS text), v.added, v.deleted
     FROM {v: entity text, added bigint, deleted bigint} ORDER BY v.entity
     ON CONFLICT (connector, entity, hour) DO UPDATE SET added = h.added + excluded.added, deleted = h.deleted + excluded.deleted`,
    {
      connector,
      hour: hourOf(now),
      v: noted.map(({ entity, rows }) => ({ entity, added: 0, deleted: 0, [kind]: rows })),
    },
  );
}

/** Counts within the window; entities without changes are left out. */
export async function dayChanges(
  tx: Tx,
  connector: ConnectorName,
  now: Instant,
): Promise<ReadonlyMap<EntityName, DayChanges>> {
  const rows = await tx.rows<DayChanges & { readonly entity: EntityName }>(
    `SELECT entity, CAST(sum(added) AS bigint) AS added, CAST(sum(deleted) AS bigint) AS deleted
     FROM _sync_hours WHERE connector = :connector AND hour >= :hour GROUP BY entity`,
    { connector, hour: firstHourOfDay(now) },
  );
  return new Map(rows.map(({ entity, added, deleted }) => [entity, { added, deleted }]));
}

/** Drops hours before the window. */
export function pruneDay(tx: Tx, connector: ConnectorName, now: Instant): void {
  tx.put(`DELETE FROM _sync_hours WHERE connector = :connector AND hour < :hour`, {
    connector,
    hour: firstHourOfDay(now),
  });
}
