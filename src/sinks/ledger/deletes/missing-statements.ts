import type Database from 'better-sqlite3';
import type { Instant } from '../../../core/clock.ts';
import type { ConnectorName, EntityName, RunId } from '../../../core/names.ts';
import type { Needs, AlikeRows } from '../../decisions/missing-rows.ts';
import type { TombstoneChoice } from '../../deletes.ts';
import { readFlags, type Flagged } from '../flags.ts';
import { standing } from '../../decisions/standing.ts';

export interface NotedRow {
  readonly row: number;
  readonly partition: number;
  readonly isVouchedFor: number;
  readonly isAllowed: number;
}

interface OfRow {
  readonly connector: ConnectorName;
  readonly entity: EntityName;
  readonly row: number;
}

interface Note extends OfRow {
  readonly partition: number;
  readonly origin: number;
  /** When the chain began whose walk missed it (the walk itself began then at the earliest); where no walk has missed it, when it was noted. */
  readonly since: Instant;
}

type OfEntity = [connector: string, entity: string];

interface ToDelete extends Omit<OfRow, 'row'> {
  readonly which: TombstoneChoice;
  readonly run: RunId;
  readonly limit: number;
}

interface ToConfirm extends Pick<NotedRow, 'row' | 'isVouchedFor'> {
  readonly since: Instant;
  readonly params: string;
  readonly inject: string;
}

/** `_sync_missing`, whose rows `decisions/missing-rows.ts` explains. Conditions that are written here as SQL mean the same. */
export function prepareMissingRows(db: Database.Database) {
  const { live, ended, emptied } = standing;
  const ofRow = 'connector = ? AND entity = ? AND row = ?';
  const withPartition = '_sync_missing AS m JOIN _sync_partitions AS p ON p.id = m.partition';
  const columns = 'm.row, m.partition, m.is_vouched_for AS isVouchedFor, m.is_allowed AS isAllowed';
  const isMissing = `m.missed > 0 AND p.gone = ${live}`;
  const isOrphan = `m.missed > 0 AND p.gone = ${emptied}`;
  const isVouchedFor = `m.is_vouched_for = 1 AND m.asked_run IS NOT NULL AND m.needs = 'get' AND m.is_allowed = 0`;
  const insert = `INSERT INTO _sync_missing
      (connector, entity, row, partition, origin, missed, since, needs, is_allowed, is_vouched_for)
    VALUES (:connector, :entity, :row, :partition, :origin, 1, :since`;
  const alike = db.prepare<[string], Flagged<AlikeRows>>(
    `SELECT m.entity, count(*) AS rows, min(m.since) AS since, min(m.missed, 2) AS missed, m.needs, m.is_allowed AS isAllowed,
       m.is_vouched_for AS isVouchedFor, m.asked_run IS NOT NULL AS wasAsked,
       iif(p.gone = ${live}, 'live', 'emptied') AS home
     FROM ${withPartition} WHERE m.connector = ? AND (${isMissing} OR ${isOrphan})
     GROUP BY m.entity, p.gone, min(m.missed, 2), m.needs, m.is_allowed, m.is_vouched_for, m.asked_run IS NOT NULL`,
  );
  const toConfirm = db.prepare<[string, string, string, number], ToConfirm>(
    `SELECT m.row, m.since, m.is_vouched_for AS isVouchedFor, p.params, p.inject FROM ${withPartition}
     WHERE m.connector = ? AND m.entity = ? AND (${isMissing} OR ${isOrphan}) AND m.needs = 'get'
       AND m.asked_run IS NOT ?
     ORDER BY m.asked_at NULLS FIRST, m.row LIMIT ?`,
  );
  const ask = db.prepare<[string, string, string, string, number]>(
    `UPDATE _sync_missing SET asked_run = ?, asked_at = ? WHERE ${ofRow}`,
  );
  return {
    /** A full walk did not meet the row. Once a chain, however often. */
    noteMissed: db.prepare<[Note & { readonly needs: Needs }]>(
      `${insert}, :needs, 0, 0)
       ON CONFLICT (connector, entity, row) DO UPDATE SET partition = excluded.partition, origin = excluded.origin,
         since = iif(missed = 0, excluded.since, since), missed = missed + 1, needs = iif(is_vouched_for = 1, 'get', excluded.needs)
       WHERE origin <> excluded.origin`,
    ),
    /** A row below a deleted record that may be elsewhere; nothing is withdrawn where it is. */
    noteOrphan: db.prepare<[Note]>(
      `${insert}, 'get', 0, 1)
       ON CONFLICT (connector, entity, row) DO UPDATE SET partition = excluded.partition, missed = max(missed, 1),
         needs = 'get', is_vouched_for = 1`,
    ),
    /** A record whose children do not exist. Vouched for from the start: where `get` still finds it, no walk was wrong about it. */
    suspect: db.prepare<[Note]>(
      `${insert}, 'get', 0, 1) ON CONFLICT (connector, entity, row) DO UPDATE SET missed = max(missed, 1), needs = 'get'`,
    ),
    noted: db.prepare<[...OfEntity, row: number], NotedRow>(
      `SELECT ${columns} FROM _sync_missing AS m WHERE ${ofRow}`,
    ),
    alike: (connector: ConnectorName): readonly AlikeRows[] =>
      alike.all(connector).map((row) => readFlags(row, 'isAllowed', 'isVouchedFor', 'wasAsked')),
    /** Rows whose deletes a guard must judge, by row number. */
    rowsToJudge: db
      .prepare<[...OfEntity, after: number, limit: number], number>(
        `SELECT m.row FROM ${withPartition} WHERE m.connector = ? AND m.entity = ? AND ${isMissing} AND m.row > ?
           AND m.is_allowed = 0 AND NOT (${isVouchedFor}) ORDER BY m.row LIMIT ?`,
      )
      .pluck(),
    isCounted: db.prepare<[...OfEntity, row: number]>(
      `SELECT 1 FROM ${withPartition} WHERE m.connector = ? AND m.entity = ? AND m.row = ? AND ${isMissing} AND NOT (${isVouchedFor})`,
    ),
    /** How many rows below deleted records wait for a `get`. */
    countBelowDeleted: db
      .prepare<OfEntity, number>(
        `SELECT count(*) FROM ${withPartition}
         WHERE m.connector = ? AND m.entity = ? AND m.missed > 0 AND p.gone IN (${ended}, ${emptied})`,
      )
      .pluck(),
    allow: db.prepare<OfEntity>(
      'UPDATE _sync_missing SET is_allowed = 1 WHERE connector = ? AND entity = ? AND missed > 0',
    ),
    /** Rows that a `get` must judge; notes them as asked in this run. */
    toConfirm: (
      connector: ConnectorName,
      entity: EntityName,
      { run, now }: { readonly run: RunId; readonly now: Instant },
      limit: number,
    ): readonly ToConfirm[] => {
      const asked = toConfirm.all(connector, entity, run, limit);
      for (const { row } of asked) ask.run(run, now, connector, entity, row);
      return asked;
    },
    /** `get` finds the row no more: so it needs nothing else in this run, and nothing vouches for it. */
    foundGone: db.prepare<[run: string, ...OfEntity, row: number]>(
      `UPDATE _sync_missing SET gone_run = ?, is_vouched_for = 0 WHERE ${ofRow}`,
    ),
    /** Rows that may be deleted now, of those that were chosen (`goesNow`). */
    rowsToDelete: db.prepare<[ToDelete], NotedRow>(
      `SELECT ${columns} FROM ${withPartition}
       WHERE m.connector = :connector AND m.entity = :entity AND ${isMissing}
         AND (m.needs = 'nothing' OR m.needs = 'walk' AND m.missed >= 2 OR m.needs = 'get' AND m.gone_run = :run)
         AND CASE :which WHEN 'allowed' THEN m.is_allowed = 1 WHEN 'missed-twice' THEN m.missed >= 2 ELSE 1 END
       ORDER BY m.row LIMIT :limit`,
    ),
    /** Orphans of which `get` has found nothing in this run. */
    orphansGone: db.prepare<[connector: string, run: string, limit: number], Pick<OfRow, 'entity' | 'row'>>(
      `SELECT m.entity, m.row FROM ${withPartition} WHERE m.connector = ? AND m.gone_run = ? AND ${isOrphan}
       ORDER BY m.entity, m.row LIMIT ?`,
    ),
    vouchFor: db.prepare<[run: string, at: Instant, ...OfEntity, row: number]>(
      `UPDATE _sync_missing SET missed = 0, is_allowed = 0, is_vouched_for = 1, gone_run = NULL, asked_run = ?, asked_at = ?
       WHERE ${ofRow}`,
    ),
    /** Whether any row of the entity is noted: only then meeting a row can end that. */
    isAny: db.prepare<OfEntity>('SELECT 1 FROM _sync_missing WHERE connector = ? AND entity = ? LIMIT 1'),
    /** The row exists after all, or is tombstoned: whatever walks have missed it does not count any more. */
    forget: db.prepare<[...OfEntity, row: number]>(`DELETE FROM _sync_missing WHERE ${ofRow}`),
    /** Rows whose partition is pruned: nothing misses them any more. */
    dropHomeless: db.prepare<[connector: string]>(
      'DELETE FROM _sync_missing WHERE connector = ? AND partition NOT IN (SELECT id FROM _sync_partitions)',
    ),
  };
}
