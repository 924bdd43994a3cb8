import type { EntityName } from '../core/names.ts';
import { count } from './format.ts';
import type { EntityProgress, Progress } from './progress.ts';
import { rates, rateWindowMs } from './rates.ts';

/** How many records of an entity a run will have read at its end. */
export interface ExpectedRecords {
  readonly records: number;
  /** False: the service has counted all of them. */
  readonly isEstimate: boolean;
}

/**
 * By what the service says of the listings that are read, and of others by what their parents state, or else by what
 * those read so far had; by the sink where all is read again. Null where none of these is known. It is shown to people,
 * and nothing else depends on it.
 */
export function expectedRecords(progress: Progress, name: EntityName): ExpectedRecords | null {
  const entity = progress.entities.get(name);
  if (entity === undefined) return null;
  const { found, begun, endedRows, rows, earlierRows, isIncremental, expected } = entity;
  const open = openListings(progress, name);
  const mean = meanOf(entity, open.length);
  const isCounted = open.every(({ total }) => total !== null);
  if (found !== null && (found > 0 || begun > 0) && (isCounted || mean !== null)) {
    const waiting = Math.max(0, found - begun);
    if (waiting === 0 || mean !== null) {
      const ofOpen = open.map(({ total, rows: read }) => Math.max(read, total ?? mean ?? 0));
      const records = ofOpen.reduce((sum, one) => sum + one, endedRows + waiting * (mean ?? 0));
      return {
        records: Math.round(records),
        isEstimate: waiting > 0 || !isCounted || isGrowing(progress, entity) || mayWait(progress, entity),
      };
    }
  }
  const all = isIncremental ? null : expected.rows;
  // After a resume the sink may hold no more than the runs before have read.
  return all === null || all < rows || all <= earlierRows ? null : { records: all, isEstimate: true };
}

/** Fewer are read too quickly for an estimate to matter. */
const leastExpected = 100;

/** `12,000`, or `~12,000` for an estimate; null where it says no more than the number that was read. */
export function expectedText(all: ExpectedRecords | null, read: number): string | null {
  if (all === null || all.records <= read || all.records < leastExpected) return null;
  return `${all.isEstimate ? '~' : ''}${count(all.records)}`;
}

/** How long the listings still take. */
export interface Remaining {
  readonly ms: number;
  /** An entity has begun that has no estimate: this is the time of the others. */
  readonly isAtLeast: boolean;
}

/** At the present rate. Null where that is not known: at the start, and while nothing comes. */
export function remaining(progress: Progress, nowMs: number): Remaining | null {
  const { entities, run, isSweeping, startedAtMs, throttledUntilMs } = progress;
  const isTooEarly = run === null || nowMs - startedAtMs < rateWindowMs;
  if (isTooEarly || isSweeping || throttledUntilMs > nowMs) return null;
  const left = [...entities].map(([name, entity]) => pagesLeft(progress, name, entity));
  const pages = left.reduce<number>((sum, one) => sum + (one ?? 0), 0);
  const perSecond = rates(progress, nowMs).pages;
  if (pages === 0 || perSecond === 0) return null;
  return { ms: (pages / perSecond) * 1000, isAtLeast: left.includes(null) };
}

function pagesLeft(progress: Progress, name: EntityName, entity: EntityProgress): number | null {
  const { expected, rows, earlierRows, pages, found, begun, open } = entity;
  const waiting = Math.max(0, (found ?? 0) - begun);
  const total = expectedRecords(progress, name);
  if (total !== null && pages > 0 && (total.records !== expected.rows || expected.pages === null)) {
    const left = Math.max(0, total.records - rows);
    const perPage = (rows - earlierRows) / pages;
    return Math.max(waiting, perPage === 0 ? 0 : left / perPage);
  }
  if (expected.pages !== null) return Math.max(0, expected.pages - pages);
  // One that has not begun may stay so: nothing may lead to it.
  return pages === 0 && open === 0 && waiting === 0 ? 0 : null;
}

/** Of a listing that has not been counted: as its parents state, else as those that have ended had. */
function meanOf({ stated, found, begun, endedRows }: EntityProgress, open: number): number | null {
  if (stated !== null && found !== null && found > 0) return stated / found;
  const ended = begun - open;
  return ended > 0 ? endedRows / ended : null;
}

/** More listings may be found. */
function isGrowing(progress: Progress, { parent }: EntityProgress): boolean {
  const above = parent === null ? undefined : progress.entities.get(parent);
  return above !== undefined && (above.open > 0 || (above.found ?? 0) > above.begun);
}

/** Listings wait that were not found in this run: some of them may be of the entity, where others were. */
function mayWait({ entities, walksKnown, walksEnded }: Progress, { found, begun }: EntityProgress): boolean {
  if (begun <= (found ?? 0)) return false;
  const known = [...entities.values()].reduce(
    (sum, one) => sum + one.open + Math.max(0, (one.found ?? 0) - one.begun),
    walksEnded,
  );
  return walksKnown > known;
}

function openListings({ listings }: Progress, name: EntityName) {
  return [...listings.values()].filter(({ entity }) => entity === name);
}
