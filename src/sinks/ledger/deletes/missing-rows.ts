import type Database from 'better-sqlite3';
import type { Instant } from '../../../core/clock.ts';
import type { ConnectorName, EntityName, RunId } from '../../../core/names.ts';
import type { EntityMissing, TombstoneChoice } from '../../deletes.ts';
import type { Needs } from './swept-partitions.ts';

export interface NotedRow {
  readonly row: number;
  readonly partition: number;
  readonly isVouchedFor: number;
}

export interface MissingNote {
  readonly connector: ConnectorName;
  readonly entity: EntityName;
  readonly row: number;
  readonly partition: number;
  readonly origin: number;
  readonly now: Instant;
  readonly needs: Needs;
}

export interface ToConfirm extends Omit<NotedRow, 'partition'> {
  readonly since: Instant;
  readonly params: string;
  readonly inject: string;
}

export interface MissingCounts extends Omit<EntityMissing, 'live' | 'isEmpty'> {
  /** 1 where a full walk of this chain has missed one of the rows. */
  readonly wasSwept: number;
}

/**
 * `_sync_missing`. `missed` 0: `get` has returned the row, and no full walk has missed it since; it is kept so that the
 * next miss withdraws nothing, and takes another `get` whatever the walk proves. Rows below vanished records (`gone`) are left to `tombstoneOrphans`.
 */
export interface MissingRows {
  /** Once a chain, however often. */
  note(note: MissingNote): void;
  /** A row below a vanished record that may be elsewhere; nothing is withdrawn where it is. */
  noteOrphan(note: Omit<MissingNote, 'needs'>): void;
  get(connector: ConnectorName, entity: EntityName, row: number): NotedRow | undefined;
  counts(connector: ConnectorName, origin: number): readonly MissingCounts[];
  allow(connector: ConnectorName, entity: EntityName): void;
  /** Notes them as asked in this run. */
  toConfirm(
    connector: ConnectorName,
    entity: EntityName,
    asking: { readonly run: RunId; readonly now: Instant },
    limit: number,
  ): readonly ToConfirm[];
  /** Rows that need nothing more. */
  ready(
    connector: ConnectorName,
    entity: EntityName,
    which: TombstoneChoice,
    limit: number,
  ): readonly NotedRow[];
  vouchFor(connector: ConnectorName, entity: EntityName, row: number, run: RunId, at: Instant): void;
  /** Rows whose partition is pruned: nothing misses them any more. */
  dropHomeless(connector: ConnectorName): void;
}

const counted = 'm.missed > 0 AND p.gone = 0';
/** `gone` 2: the partition is below a vanished record, and its rows are noted as orphans. */
const isOrphan = 'm.missed > 0 AND p.gone = 2';
const withPartition = '_sync_missing AS m JOIN _sync_partitions AS p ON p.id = m.partition';
const columns = 'm.row, m.partition, m.is_vouched_for AS isVouchedFor';

export function prepareMissingRows(db: Database.Database): MissingRows {
  const note = db.prepare<MissingNote>(
    `INSERT INTO _sync_missing
       (connector, entity, row, partition, origin, missed, since, needs, is_allowed, is_vouched_for)
     VALUES (:connector, :entity, :row, :partition, :origin, 1, :now, :needs, 0, 0)
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
     VALUES (:connector, :entity, :row, :partition, :origin, 1, :now, 'get', 0, 1)
     ON CONFLICT (connector, entity, row) DO UPDATE SET partition = excluded.partition, missed = max(missed, 1),
       needs = 'get', is_vouched_for = 1`,
  );
  const counts = db.prepare<[number, string], MissingCounts>(
    `SELECT m.entity, sum(p.gone = 0) AS missing, sum(p.gone = 0 AND m.is_allowed) AS allowed,
       sum(p.gone = 0 AND m.missed >= 2) AS missedTwice, sum(m.needs = 'get') AS toConfirm,
       sum(p.gone = 0 AND m.is_vouched_for = 1 AND m.asked_run IS NOT NULL AND m.needs = 'get' AND m.is_allowed = 0)
         AS vouchedFor,
       sum(m.needs = 'walk' AND m.missed < 2) AS toWalk, sum(p.gone = 2) AS orphans,
       max(p.gone = 0 AND m.origin = ?) AS wasSwept
     FROM ${withPartition} WHERE m.connector = ? AND (${counted} OR ${isOrphan}) GROUP BY m.entity`,
  );
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
    { connector: string; entity: string; which: TombstoneChoice; limit: number },
    NotedRow
  >(
    `SELECT ${columns} FROM ${withPartition}
     WHERE m.connector = :connector AND m.entity = :entity AND ${counted}
       AND (m.needs = 'nothing' OR m.needs = 'walk' AND m.missed >= 2)
       AND CASE :which WHEN 'allowed' THEN m.is_allowed = 1 WHEN 'missed-twice' THEN m.missed >= 2 ELSE 1 END
     ORDER BY m.row LIMIT :limit`,
  );
  const vouchFor = db.prepare<[string, string, string, string, number]>(
    `UPDATE _sync_missing SET missed = 0, is_allowed = 0, is_vouched_for = 1, asked_run = ?, asked_at = ?
     WHERE connector = ? AND entity = ? AND row = ?`,
  );
  const dropHomeless = db.prepare<[string]>(
    'DELETE FROM _sync_missing WHERE connector = ? AND partition NOT IN (SELECT id FROM _sync_partitions)',
  );
  return {
    note: (noted) => void note.run(noted),
    noteOrphan: (noted) => void noteOrphan.run(noted),
    get: (connector, entity, row) => get.get(connector, entity, row),
    counts: (connector, origin) => counts.all(origin, connector),
    allow: (connector, entity) => void allow.run(connector, entity),
    toConfirm: (connector, entity, { run, now }, limit) => {
      const asked = toConfirm.all(connector, entity, run, limit);
      for (const { row } of asked) ask.run(run, now, connector, entity, row);
      return asked;
    },
    ready: (connector, entity, which, limit) => ready.all({ connector, entity, which, limit }),
    vouchFor: (connector, entity, row, run, at) => void vouchFor.run(run, at, connector, entity, row),
    dropHomeless: (connector) => void dropHomeless.run(connector),
  };
}
