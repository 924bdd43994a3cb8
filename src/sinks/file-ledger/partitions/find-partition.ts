import type { Instant } from '../../../core/clock.ts';
import type { ConnectorName, EntityName } from '../../../core/names.ts';
import {
  decideMode,
  isUnchanged,
  neverWalked,
  standingOfParent,
  type ChainReading,
  type ParentStanding,
} from '../../decisions/becoming-due.ts';
import type { FoundPartition, WalkMode } from '../../partition.ts';
import { writeJson } from '../../../core/json-text.ts';
import type { CurrentRun, HeldConnector, Ledger } from '../ledger.ts';
import { inRun } from '../transact.ts';
import type { Leftover } from './read-partitions.ts';
import { standing } from '../../decisions/standing.ts';
import type { FoundValues } from './walking.ts';

export interface Finding {
  readonly connector: ConnectorName;
  /** '' for the living partitions. */
  readonly window: string;
  /** Number of the chain's first run. */
  readonly origin: number;
  readonly now: Instant;
  /** Undefined: the run does not read the entity; its partitions are due, but left to a run that does. */
  readonly reading: ChainReading | undefined;
}

/** Makes a partition due unless this chain already found it or nothing has changed in it; true when it became due. */
export function findPartition(ledger: Ledger, found: FoundPartition, finding: Finding): boolean {
  const { transitions, partitions } = ledger;
  const { connector, window, origin, reading } = finding;
  const params = writeJson(found.params);
  const stored = partitions.known.get(connector, found.entity, params, window);
  if (stored?.origin === origin) return false;
  const values = { ...foundValues(found, finding, params), base: baseOf(ledger, found, finding) };
  if (stored === undefined) {
    transitions.find.run(values);
    return true;
  }
  const { id } = stored;
  const isRenewed = stored.gone !== standing.live;
  if (isRenewed) transitions.renew.run({ id });
  transitions.meet.run({ ...values, id });
  const walks = isRenewed ? neverWalked : stored;
  if (isUnchanged(walks, found.marker, reading)) return false;
  beginWalk(ledger, finding, { id, entity: found.entity, mode: decideMode(walks, reading) });
  return true;
}

/** Makes a known partition ready. What an earlier chain has kept of its position counts only for a walk of the same mode. */
function beginWalk(
  { db, transitions }: Ledger,
  { connector, origin, now, reading }: Omit<Finding, 'window'>,
  { id, entity, mode }: { readonly id: number; readonly entity: EntityName; readonly mode: WalkMode },
): void {
  const begun = transitions.begin.get({ id, origin, now, mode, ready: reading === undefined ? 0 : 1 });
  if (begun?.midway !== 1) return;
  db.prepare<[number, string, string]>(
    'UPDATE _sync_tables SET taken_over = ? WHERE connector = ? AND entity = ?',
  ).run(origin, connector, entity);
}

/** The living partition that a backfill's stores rows of; made where no sync has found it yet. */
function baseOf({ transitions, partitions }: Ledger, found: FoundPartition, finding: Finding): number | null {
  if (found.base === null) return null;
  const params = writeJson(found.base);
  const stored = partitions.known.get(finding.connector, found.entity, params, '');
  if (stored !== undefined) return stored.id;
  const values = foundValues({ ...found, marker: null }, finding, params);
  const living = { ...values, window: '', origin: 0, dueSince: null, ready: 0 } as const;
  return Number(transitions.find.run(living).lastInsertRowid);
}

function foundValues(
  { entity, inject, rank, tree, treeDepth, parent, marker }: FoundPartition,
  { connector, window, origin, now, reading }: Finding,
  params: string,
): FoundValues {
  return {
    connector,
    entity,
    params,
    window,
    origin,
    now,
    dueSince: now,
    ready: reading === undefined ? 0 : 1,
    base: null,
    inject: writeJson(inject),
    rank,
    tree,
    treeDepth,
    parentEntity: parent?.entity ?? null,
    parentKey: parent?.keyText ?? null,
    marker: marker?.isSettled === true ? marker.value : null,
  };
}

/** Makes ready what is due below parents that did not have to be read; gives how many. Below a parent that seems deleted it waits; else it is dropped. */
export async function findLeftovers(ledger: Ledger, held: HeldConnector): Promise<number> {
  const { run } = held;
  if (run === null) return 0;
  return await inRun(ledger, held, run.run, ({ current, stamp: { now } }) => {
    const { connector } = held;
    const { origin, window } = current;
    let count = 0;
    for (const entity of current.entities) {
      const reading = current.reading.get(entity);
      for (let after: number | undefined = 0; after !== undefined;) {
        const batch = ledger.partitions.leftovers.all({ connector, window, entity, origin, after });
        for (const one of batch) {
          const standing = parentOf(ledger, current, one);
          if (standing === 'leads-elsewhere') ledger.transitions.release.run({ id: one.id });
          if (standing !== 'is-there') continue;
          const mode = decideMode(one, reading);
          beginWalk(ledger, { connector, origin, now, reading }, { id: one.id, entity, mode });
          count += 1;
        }
        after = batch.at(-1)?.id;
      }
    }
    return count;
  });
}

function parentOf(
  { partitions }: Ledger,
  { tables, seen, origin }: CurrentRun,
  { parentEntity, parentKey, foundOrigin }: Leftover,
): ParentStanding {
  const parent = tables.get(parentEntity)?.table.rowOf(parentKey);
  if (parent === undefined || parent.deletedAt !== null) return 'leads-elsewhere';
  const walkedBy = parent.home === null ? null : (partitions.fullOrigin.get(parent.home) ?? null);
  const isSeen = walkedBy === origin && seen.has(parentEntity, parent.row);
  return standingOfParent({ walkedBy, isSeen }, { origin, foundOrigin });
}
