import { instant, type Instant } from '../../core/clock.ts';
import type { ConnectorName, EntityName } from '../../core/names.ts';
import type { Tx } from '../../sql/database.ts';
import type { DayOfEntity } from '../ledger-reader.ts';

/**
 * `_sync_days`: what became of an entity's rows on each day of UTC (`2026-03-01`), in runs of every kind. `added`:
 * rows that were stored for the first time, those of the first load included. `changed`: rows whose content is another
 * one. `deleted` and `revived`: tombstones that were set and taken back.
 */
export const daysSql = `
CREATE TABLE _sync_days (
  connector TEXT NOT NULL,
  entity TEXT NOT NULL,
  day TEXT NOT NULL,
  added BIGINT NOT NULL,
  changed BIGINT NOT NULL,
  deleted BIGINT NOT NULL,
  revived BIGINT NOT NULL,
  PRIMARY KEY (connector, entity, day)
) WITH (fillfactor = 50);
`;

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
 * What became of rows on each day from `since` (`2026-03-01`, UTC) on, by connector, entity and day; days without a
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
