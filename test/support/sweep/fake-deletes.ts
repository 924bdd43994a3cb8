import type { EntityName, RunId } from '../../../src/core/names.ts';
import { noCounts } from '../../../src/core/records.ts';
import type {
  Candidate,
  EndedPartition,
  EntityMissing,
  Judgement,
  TombstoneChoice,
} from '../../../src/sinks/deletes.ts';
import type { Lease } from '../../../src/sinks/lease.ts';
import type { RowsOf } from '../../../src/sinks/run-report.ts';
import type { Sink } from '../../../src/sinks/sink-access.ts';

/** One row that no full walk met. */
export interface FakeRow {
  readonly entity: EntityName;
  readonly row: number;
  readonly keyText: string;
  needs: 'nothing' | 'get' | 'walk';
  missed: number;
  isAllowed: boolean;
  wasVouchedFor: boolean;
  readonly partition?: string;
  isFoundGone?: boolean;
}

export type FakeDeletes = Sink['deletes'] & {
  /** Every call in order, with what matters of it. */
  readonly calls: string[];
  readonly rows: FakeRow[];
  readonly judged: Judgement[];
};

/** Deletes of plain objects: what is missing, of entities with so many live rows. */
export function fakeDeletes(
  rows: FakeRow[],
  live: Readonly<Record<string, number>>,
  more: {
    readonly sweeps?: number;
    readonly orphans?: readonly (readonly RowsOf[])[];
    readonly replaced?: string;
    /** Rows that would go along with an entity's missing ones. */
    readonly along?: Readonly<Record<string, readonly RowsOf[]>>;
    readonly deletedInDay?: Readonly<Record<string, number>>;
    readonly ended?: readonly EndedPartition[];
  } = {},
): FakeDeletes {
  const calls: string[] = [];
  const judged: Judgement[] = [];
  /** Rows handed out for a `get`, with the run that did so last; in that order. */
  const asked = new Map<FakeRow, RunId>();
  let sweepsLeft = more.sweeps ?? 1;
  const orphans = [...(more.orphans ?? [])];
  const of = (entity: EntityName): FakeRow[] => rows.filter((row) => row.entity === entity);
  const deleted = new Map<EntityName, number>();
  const liveOf = (entity: EntityName): number =>
    (live[entity] ?? of(entity).length) - (deleted.get(entity) ?? 0);
  const remove = (gone: readonly FakeRow[]): void => {
    for (const row of gone) rows.splice(rows.indexOf(row), 1);
  };

  return {
    calls,
    rows,
    judged,
    batchRows: 1000,
    sweep: () => {
      calls.push('sweep');
      sweepsLeft -= 1;
      return Promise.resolve({ isDone: sweepsLeft <= 0 });
    },
    suspectParents: (_lease, _run, confirmable) => {
      calls.push(`suspect ${confirmable.join(' ')}`);
      return Promise.resolve();
    },
    endedBelow: () => Promise.resolve(more.ended ?? []),
    missing: () =>
      Promise.resolve(
        [...new Set([...rows.map(({ entity }) => entity), ...(Object.keys(live) as EntityName[])])].map(
          standing,
        ),
      ),
    allow: (_lease: Lease, _run: RunId, entity: EntityName) => {
      calls.push(`allow ${entity}`);
      for (const row of of(entity)) row.isAllowed = true;
      return Promise.resolve();
    },
    toConfirm: (_lease, run, entity, limit) => {
      const open = of(entity).filter((row) => row.needs === 'get' && asked.get(row) !== run);
      const order = [...asked.keys()];
      const handedOut = open.toSorted((a, b) => order.indexOf(a) - order.indexOf(b)).slice(0, limit);
      for (const row of handedOut) {
        asked.delete(row);
        asked.set(row, run);
      }
      return Promise.resolve(handedOut.map(candidate));
    },
    judge: (_lease, _run, entity, judgements) => {
      calls.push(`judge ${entity} ${judgements.length}`);
      judged.push(...judgements);
      for (const row of of(entity).filter((one) => judgements.some((judged) => judged.row === one.row))) {
        const isGone = judgements.some((one) => one.row === row.row && one.verdict === 'gone');
        if (isGone) Object.assign(row, { isFoundGone: true, wasVouchedFor: false });
        else remove([row]);
      }
      const stored = judgements.filter((one) => one.verdict === 'there' && one.record !== null).length;
      return Promise.resolve({ ...noCounts, fetched: stored, unchanged: stored });
    },
    tombstone: (_lease, _run, entity, which, limit) => {
      const ready = of(entity)
        .filter((row) => isReady(row, which))
        .slice(0, limit);
      if (ready.length > 0) calls.push(`tombstone ${entity} ${which} ${ready.length}`);
      remove(ready);
      deleted.set(entity, (deleted.get(entity) ?? 0) + ready.length);
      return Promise.resolve(ready.length);
    },
    tombstoneBelow: () => {
      calls.push('orphans');
      return Promise.resolve(orphans.shift() ?? []);
    },
  };

  function standing(entity: EntityName): EntityMissing {
    const missing = of(entity);
    const count = (isWanted: (row: FakeRow) => boolean): number => missing.filter(isWanted).length;
    return {
      entity,
      live: liveOf(entity),
      missing: missing.length,
      allowed: count((row) => row.isAllowed),
      missedTwice: count((row) => row.missed >= 2),
      vouchedFor: count((row) => row.wasVouchedFor && !row.isAllowed),
      toConfirm: count((row) => row.needs === 'get'),
      orphans: 0,
      dayAgo: liveOf(entity) + (deleted.get(entity) ?? 0),
      deletedInDay: (more.deletedInDay?.[entity] ?? 0) + (deleted.get(entity) ?? 0),
      hasSurvivor: missing.length < liveOf(entity) && more.replaced !== entity,
      along: missing.some((row) => !row.isAllowed) ? (more.along?.[entity] ?? []) : [],
      isAdopted: false,
    };
  }
}

function isReady(row: FakeRow, which: TombstoneChoice): boolean {
  if ((row.needs === 'get' && row.isFoundGone !== true) || (row.needs === 'walk' && row.missed < 2)) {
    return false;
  }
  if (which === 'allowed') return row.isAllowed;
  return which === 'all' || row.missed >= 2;
}

function candidate({ entity, row, keyText, wasVouchedFor, partition = 'p' }: FakeRow): Candidate {
  return {
    entity,
    row,
    keyText,
    params: { partition },
    inject: {},
    wasVouchedFor,
    missingSince: '2026-01-01T00:00:00.000Z',
  };
}
