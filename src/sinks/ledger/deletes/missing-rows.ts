import type Database from 'better-sqlite3';
import type { Instant } from '../../../core/clock.ts';
import type { ConnectorName, EntityName, RunId } from '../../../core/names.ts';
import type { EntityMissing, TombstoneChoice } from '../../deletes.ts';
import type { Needs } from './swept-partitions.ts';

export interface NotedRow {
  readonly row: number;
  readonly partition: number;
  readonly isVouchedFor: number;
  readonly isAllowed: number;
}

export interface MissingNote {
  readonly connector: ConnectorName;
  readonly entity: EntityName;
  readonly row: number;
  readonly partition: number;
  readonly origin: number;
  /** When the walk that missed it began, at the latest. */
  readonly since: Instant;
  readonly needs: Needs;
}

export interface ToConfirm extends Omit<NotedRow, 'partition' | 'isAllowed'> {
  readonly since: Instant;
  readonly params: string;
  readonly inject: string;
}

export interface MissingCounts extends Pick<
  EntityMissing,
  'entity' | 'missing' | 'allowed' | 'missedTwice' | 'vouchedFor' | 'toConfirm' | 'orphans' | 'toWalk'
> {
  /** Since when the one that was missed first is missing; null where none is. */
  readonly firstMissed: Instant | null;
}

export const noMissing: Omit<MissingCounts, 'entity'> = {
  missing: 0,
  allowed: 0,
  missedTwice: 0,
  vouchedFor: 0,
  toConfirm: 0,
  orphans: 0,
  toWalk: 0,
  firstMissed: null,
};

/**
 * `_sync_missing`. `missed` 0: `get` has returned the row, and no full walk has missed it since; it is kept so that the
 * next miss withdraws nothing, and takes another `get` whatever the walk proves. Rows below deleted records (`gone`) are left to `orphans.ts`.
 */
export interface MissingRows {
  /** Once a chain, however often. */
  note(note: MissingNote): void;
  /** A row below a vanished record that may be elsewhere; nothing is withdrawn where it is. */
  noteOrphan(note: Omit<MissingNote, 'needs'>): void;
  get(connector: ConnectorName, entity: EntityName, row: number): NotedRow | undefined;
  counts(connector: ConnectorName): readonly MissingCounts[];
  /** Up to `limit` rows behind row `after` whose deletes a guard must judge, by row number. */
  open(connector: ConnectorName, entity: EntityName, after: number, limit: number): readonly number[];
  /** Whether the row is missing, and `get` has not vouched for it. */
  isCounted(connector: ConnectorName, entity: EntityName, row: number): boolean;
  /** Rows below deleted records that wait for a `get`. */
  orphans(connector: ConnectorName, entity: EntityName): number;
  allow(connector: ConnectorName, entity: EntityName): void;
  /** Notes them as asked in this run. */
  toConfirm(
    connector: ConnectorName,
    entity: EntityName,
    asking: { readonly run: RunId; readonly now: Instant },
    limit: number,
  ): readonly ToConfirm[];
  /** `get` finds the row no more: so it needs nothing else in this run, and nothing vouches for it. */
  foundGone(connector: ConnectorName, entity: EntityName, row: number, run: RunId): void;
  /** Rows that need nothing more in this run. */
  ready(
    connector: ConnectorName,
    entity: EntityName,
    what: { readonly which: TombstoneChoice; readonly run: RunId; readonly limit: number },
  ): readonly NotedRow[];
  /** Up to `limit` rows below deleted records of which `get` has found nothing in this run. */
  orphansGone(
    connector: ConnectorName,
    run: RunId,
    limit: number,
  ): readonly { readonly entity: EntityName; readonly row: number }[];
  vouchFor(connector: ConnectorName, entity: EntityName, row: number, run: RunId, at: Instant): void;
  /** Rows whose partition is pruned: nothing misses them any more. */
  dropHomeless(connector: ConnectorName): void;
}

const counted = 'm.missed > 0 AND p.gone = 0';
/** `gone` 2: the partition is below a vanished record, and its rows are noted as orphans. */
const isOrphan = 'm.missed > 0 AND p.gone = 2';
const withPartition = '_sync_missing AS m JOIN _sync_partitions AS p ON p.id = m.partition';
const columns = 'm.row, m.partition, m.is_vouched_for AS isVouchedFor, m.is_allowed AS isAllowed';
/** Asked for before, and returned: each is asked for again before it goes, and no guard need count it until `get` finds it no more. */
const vouched = `m.is_vouched_for = 1 AND m.asked_run IS NOT NULL AND m.needs = 'get' AND m.is_allowed = 0`;

export function prepareMissingRows(db: Database.Database): MissingRows {
  const note = db.prepare<MissingNote>(
    `INSERT INTO _sync_missing
       (connector, entity, row, partition, origin, missed, since, needs, is_allowed, is_vouched_for)
     VALUES (:connector, :entity, :row, :partition, :origin, 1, :since, :needs, 0, 0)
     ON CONFLICT (connector, entity, row) DO UPDATE SET partition = excluded.partition, origin = excluded.origin,
       since = iif(missed = 0, excluded.since, since), missed = missed + 1, needs = iif(is_vouched_for = 1, 'get', excluded.needs)
     WHERE origin <> excluded.origin`,
  );
  const get = db.prepare<[string, string, number], NotedRow>(
    `SELECT ${columns} FROM _sync_missing AS m WHERE connector = ? AND entity = ? AND row = ?`,
  );
  const noteOrphan = db.prepare<Omit<MissingNote, 'needs'>>(
    `INSERT INTO _sync_missing
       (connector, entity, row, partition, origin, missed, since, needs, is_allowed, is_vouched_for)
     VALUES (:connector, :entity, :row, :partition, :origin, 1, :since, 'get', 0, 1)
     ON CONFLICT (connector, entity, row) DO UPDATE SET partition = excluded.partition, missed = max(missed, 1),
       needs = 'get', is_vouched_for = 1`,
  );
  const counts = db.prepare<[string], MissingCounts>(
    `SELECT m.entity, sum(p.gone = 0) AS missing, sum(p.gone = 0 AND m.is_allowed) AS allowed,
       sum(p.gone = 0 AND m.missed >= 2) AS missedTwice, sum(m.needs = 'get') AS toConfirm,
       sum(p.gone = 0 AND ${vouched}) AS vouchedFor,
       sum(m.needs = 'walk' AND m.missed < 2) AS toWalk, sum(p.gone = 2) AS orphans,
       min(m.since) FILTER (WHERE p.gone = 0 AND NOT (${vouched})) AS firstMissed
     FROM ${withPartition} WHERE m.connector = ? AND (${counted} OR ${isOrphan}) GROUP BY m.entity`,
  );
  const open = db
    .prepare<[string, string, number, number], number>(
      `SELECT m.row FROM ${withPartition} WHERE m.connector = ? AND m.entity = ? AND ${counted} AND m.row > ?
         AND m.is_allowed = 0 AND NOT (${vouched}) ORDER BY m.row LIMIT ?`,
    )
    .pluck();
  const isCounted = db.prepare<[string, string, number]>(
    `SELECT 1 FROM ${withPartition} WHERE m.connector = ? AND m.entity = ? AND m.row = ? AND ${counted} AND NOT (${vouched})`,
  );
  const orphans = db
    .prepare<[string, string], number>(
      `SELECT count(*) FROM ${withPartition} WHERE m.connector = ? AND m.entity = ? AND m.missed > 0 AND p.gone IN (1, 2)`,
    )
    .pluck();
  const allow = db.prepare<[string, string]>(
    'UPDATE _sync_missing SET is_allowed = 1 WHERE connector = ? AND entity = ? AND missed > 0',
  );
  const toConfirm = db.prepare<[string, string, string, number], ToConfirm>(
    `SELECT m.row, m.since, m.is_vouched_for AS isVouchedFor, p.params, p.inject FROM ${withPartition}
     WHERE m.connector = ? AND m.entity = ? AND (${counted} OR ${isOrphan}) AND m.needs = 'get'
       AND m.asked_run IS NOT ?
     ORDER BY m.asked_at NULLS FIRST, m.row LIMIT ?`,
  );
  const ask = db.prepare<[string, string, string, string, number]>(
    'UPDATE _sync_missing SET asked_run = ?, asked_at = ? WHERE connector = ? AND entity = ? AND row = ?',
  );
  const ready = db.prepare<
    { connector: string; entity: string; which: TombstoneChoice; run: RunId; limit: number },
    NotedRow
  >(
    `SELECT ${columns} FROM ${withPartition}
     WHERE m.connector = :connector AND m.entity = :entity AND ${counted}
       AND (m.needs = 'nothing' OR m.needs = 'walk' AND m.missed >= 2 OR m.needs = 'get' AND m.gone_run = :run)
       AND CASE :which WHEN 'allowed' THEN m.is_allowed = 1 WHEN 'missed-twice' THEN m.missed >= 2 ELSE 1 END
     ORDER BY m.row LIMIT :limit`,
  );
  const foundGone = db.prepare<[string, string, string, number]>(
    'UPDATE _sync_missing SET gone_run = ?, is_vouched_for = 0 WHERE connector = ? AND entity = ? AND row = ?',
  );
  const orphansGone = db.prepare<[string, string, number], { entity: EntityName; row: number }>(
    `SELECT m.entity, m.row FROM ${withPartition} WHERE m.connector = ? AND m.gone_run = ? AND ${isOrphan}
     ORDER BY m.entity, m.row LIMIT ?`,
  );
  const vouchFor = db.prepare<[string, string, string, string, number]>(
    `UPDATE _sync_missing SET missed = 0, is_allowed = 0, is_vouched_for = 1, gone_run = NULL, asked_run = ?, asked_at = ?
     WHERE connector = ? AND entity = ? AND row = ?`,
  );
  const dropHomeless = db.prepare<[string]>(
    'DELETE FROM _sync_missing WHERE connector = ? AND partition NOT IN (SELECT id FROM _sync_partitions)',
  );
  return {
    note: (noted) => void note.run(noted),
    noteOrphan: (noted) => void noteOrphan.run(noted),
    get: (connector, entity, row) => get.get(connector, entity, row),
    counts: (connector) => counts.all(connector),
    open: (connector, entity, after, limit) => open.all(connector, entity, after, limit),
    isCounted: (connector, entity, row) => isCounted.get(connector, entity, row) !== undefined,
    orphans: (connector, entity) => orphans.get(connector, entity) ?? 0,
    allow: (connector, entity) => void allow.run(connector, entity),
    toConfirm: (connector, entity, { run, now }, limit) => {
      const asked = toConfirm.all(connector, entity, run, limit);
      for (const { row } of asked) ask.run(run, now, connector, entity, row);
      return asked;
    },
    foundGone: (connector, entity, row, run) => void foundGone.run(run, connector, entity, row),
    ready: (connector, entity, what) => ready.all({ connector, entity, ...what }),
    orphansGone: (connector, run, limit) => orphansGone.all(connector, run, limit),
    vouchFor: (connector, entity, row, run, at) => void vouchFor.run(run, at, connector, entity, row),
    dropHomeless: (connector) => void dropHomeless.run(connector),
  };
}
