import { instant } from '../core/clock.ts';
import { SyncError } from '../core/errors.ts';
import type { Params } from '../core/records.ts';
import { timeFormat } from '../core/time-format.ts';
import type { Entity } from '../definitions/definition.ts';
import type { ChangeSpan } from '../pagination/pagination.ts';
import type { FoundPartition } from '../sinks/partition.ts';
import { dividedListings, injectedFrom } from './chosen-entities.ts';

/** More would be a slip of the finger: a window costs calls even where nothing is in it. */
export const mostWindows = 10_000;

type Windows = NonNullable<Entity['windows']>;
type Step = Windows['step'];

/** A listing that an entity has below each parent, or without one. */
type OwnListing = Pick<FoundPartition, 'params' | 'inject' | 'marker'>;

/**
 * The listings of an entity for each variant of its parameters and each value of `each`, with the values that are
 * filled into their records: one, or one for each window of the calendar, oldest first, so that a record that moves to
 * a later window is met there. A window that ended more than `lookbackMs` ago is final, and its marker
 * says so. Throws `SyncError` where windows have no beginning, or are too many.
 */
export function listingsOf(entity: Entity, variants: readonly Params[], nowMs: number) {
  const { windows } = entity;
  const own = windows === null ? [noWindow] : windowListings(entity, windows, nowMs);
  return dividedListings(entity, variants).flatMap((listing) =>
    own.map(({ params: bounds, marker }): OwnListing => {
      const params = { ...listing, ...bounds };
      return { params, inject: injectedFrom(entity, entity.inject, params), marker };
    }),
  );
}

type OfWindow = Pick<OwnListing, 'params' | 'marker'>;
const noWindow: OfWindow = { params: {}, marker: null };

function windowListings(entity: Entity, windows: Windows, nowMs: number): readonly OfWindow[] {
  const { step, lookbackMs } = windows;
  const last = indexAt(nowMs, step);
  const first = indexAt(firstMs(entity), step);
  const count = Math.max(1, last - first + 1);
  if (count > mostWindows) {
    const why = `${entity.name}: from ${instant(firstMs(entity))} on there are ${count} windows, at most ${mostWindows} are read: begin later, or take longer steps`;
    throw new SyncError(why, {
      code: 'DEFINITION_INVALID',
      recovery: 'stop',
      context: { entity: entity.name },
    });
  }
  return Array.from({ length: count }, (_, index) => {
    const at = last - count + 1 + index;
    const isOver = startAt(at + 1, step) + lookbackMs <= nowMs;
    const marker = isOver ? { value: 'over', isSettled: true } : { value: 'open', isSettled: false };
    return { params: paramsAt(entity, windows, at), marker };
  });
}

function firstMs({ name, first }: Entity): number {
  const ms = first?.ms ?? null;
  if (ms !== null) return ms;
  const setting = first?.setting ?? '';
  const why = `${name}: expected the setting ${setting}, which says where its windows begin; an API has no settings: give it a default in the definition`;
  throw new SyncError(why, { code: 'DEFINITION_INVALID', recovery: 'stop', context: { entity: name } });
}

/** Parameters of the window that contains a time; none where the entity has no windows. */
export function windowParams(entity: Entity, ms: number): Params {
  const { windows } = entity;
  return windows === null ? {} : paramsAt(entity, windows, indexAt(ms, windows.step));
}

function paramsAt(entity: Entity, windows: Windows, index: number): Params {
  const { fromParam, toParam, isToIncluded, step } = windows;
  const end = startAt(index + 1, step) - (isToIncluded ? 1 : 0);
  return {
    [fromParam]: written(entity, windows, fromParam, startAt(index, step)),
    ...(toParam === null ? {} : { [toParam]: written(entity, windows, toParam, end) }),
  };
}

function written({ actions }: Entity, { format }: Windows, param: string, ms: number): string | number {
  const text = timeFormat(format).write(ms);
  return actions.get('list')?.params.get(param)?.type === 'integer' ? Number(text) : text;
}

/** The parameters of a listing as they are sent by a walk that began at this time: some services refuse later times. */
export function sentParams(entity: Entity, params: Params, ms: number): Params {
  const { windows } = entity;
  if (windows === null || windows.last !== 'now' || windows.toParam === null) return params;
  const endMs = timeFormat(windows.format).readMs(params[windows.toParam] ?? null);
  if (endMs === null || endMs <= ms) return params;
  return { ...params, [windows.toParam]: written(entity, windows, windows.toParam, ms) };
}

/** Dates of a service may be those of another time zone. */
const zoneMs = 86_400_000;

/**
 * Throws `SyncError` PAGING_BROKEN for a record far outside of the window: the service ignores the parameters, and each
 * window would show the same.
 */
export function checkInWindow({ windows }: Entity, params: Params, changes: readonly (ChangeSpan | null)[]) {
  if (windows === null || windows.field === null) return;
  const { fromParam, format, step, field } = windows;
  const fromMs = timeFormat(format).readMs(params[fromParam] ?? null);
  if (fromMs === null) return;
  const toMs = startAt(indexAt(fromMs, step) + 1, step);
  for (const change of changes) {
    if (change === null || (change.highestMs >= fromMs - zoneMs && change.lowestMs <= toMs + zoneMs)) {
      continue;
    }
    const [from, to, time] = [fromMs, toMs, change.highestMs].map(instant);
    const why = `asked for the window from ${from} to ${to}, got a record with ${field} ${time}: the service seems to ignore ${fromParam}`;
    throw new SyncError(why, { code: 'PAGING_BROKEN', recovery: 'skip-partition' });
  }
}

const dayMs = 86_400_000;
/** 1970-01-05, the first Monday: windows of 7 days are weeks. */
const mondayMs = 4 * dayMs;

/*
 * Windows are numbered from 1970 on, so that they stay the same wherever reading begins. All is in UTC, which has no
 * summer time.
 */

function indexAt(ms: number, step: Step): number {
  if ('days' in step) return Math.floor((ms - mondayMs) / (step.days * dayMs));
  const date = new Date(ms);
  return Math.floor((date.getUTCFullYear() * 12 + date.getUTCMonth()) / step.months);
}

function startAt(index: number, step: Step): number {
  if ('days' in step) return index * step.days * dayMs + mondayMs;
  const months = index * step.months;
  return startOfMonth(Math.floor(months / 12), months % 12);
}

/** `Date.UTC` takes the years 0 to 99 for 1900 to 1999. */
export function startOfMonth(year: number, month: number): number {
  const date = new Date(0);
  date.setUTCFullYear(year, month, 1);
  return date.getTime();
}
