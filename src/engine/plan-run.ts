import { randomBytes, createHash } from 'node:crypto';
import { instant } from '../core/clock.ts';
import type { EntityName, RunId } from '../core/names.ts';
import type { Params } from '../core/records.ts';
import type { Definition, Entity } from '../definitions/definition.ts';
import { describeTables } from '../definitions/describe-tables.ts';
import type { FoundPartition } from '../sinks/partition.ts';
import type { EntityReading, RunPlan } from '../sinks/sink.ts';
import { entityMaskings } from './prepare/mask-row.ts';
import {
  givenFirst,
  isReadIncrementally,
  type ChosenEntities,
  type ChosenEntity,
} from './chosen-entities.ts';
import { timeParam } from '../pagination/pagination.ts';
import { listingsOf, mostWindows, startOfMonth } from './windows.ts';
import type { RunKind } from '../sinks/run-report.ts';

/**
 * A chain of runs that stored nothing for this long is not resumed: its first half would be stale beside its second.
 */
const continueWithinMs = 24 * 60 * 60 * 1000;

/** A partition that nothing has led to for this long is forgotten, if that is longer than two full reads. */
const keepPartitionsMs = 30 * 24 * 60 * 60 * 1000;

/**
 * Plan of a run: its tables, entities, and the root partitions through which all others are found. `chosen`: as
 * `withWindow` gives them. `capMs`: the time by the service's clock.
 */
export function planRun(
  definition: Definition,
  chosen: ChosenEntities,
  nowMs: number,
  run: RunOptions,
  capMs = nowMs,
): RunPlan {
  const entities = [...definition.entities.values()].filter((entity) => chosen.has(entity.name));
  return {
    run: newRunId(nowMs),
    ...(run.act === undefined ? {} : { act: run.act }),
    kind: run.kind,
    window: run.window === null ? '' : windowText(run.window),
    backfill: run.backfill ?? '',
    startedAt: instant(nowMs),
    isFull: run.isFull,
    isBudgeted: run.budgetMs !== null || run.maxCalls !== null,
    reading: new Map(
      entities.map((entity) => [entity.name, readingOf(entity, chosen.get(entity.name), nowMs)]),
    ),
    keeps: [...definition.entities.values()]
      .filter(({ deletes }) => deletes === 'never')
      .map(({ name }) => name),
    keepPartitionsSince: instant(nowMs - keepMs(chosen)),
    tables: entities.flatMap((entity) =>
      entity.explodedTable === null ? [entity.table] : [entity.table, entity.explodedTable],
    ),
    described: entities.flatMap((entity) => describeTables(entity, chosen.get(entity.name)?.parents ?? [])),
    versions: new Set(entities.flatMap((entity) => versionedOf(entity, chosen.get(entity.name)))),
    masks: entities.flatMap(({ name, mask }) =>
      mask === null ? [] : [{ entity: name, mask: mask.fingerprint, keyId: mask.keyId }],
    ),
    maskings: entities.flatMap((entity) => (entity.mask === null ? [] : entityMaskings(entity, entity.mask))),
    entities: entities.map((entity) => entity.name),
    roots: entities
      .filter((entity) => entity.parents.length === 0)
      .flatMap((entity) => rootsOf(entity, chosen.get(entity.name), run, capMs)),
    choices: JSON.stringify(
      entities.map(({ name }) => {
        const { variants, parents, bounds } = chosen.get(name) ?? {};
        const from = givenFirst(definition.entities.get(name));
        return [name, variants, parents, ...(bounds === undefined ? [] : [bounds]), ...from];
      }),
    ),
    leaves: entities.map(({ name }) => name).filter((name) => !isParent(definition, chosen, name)),
    continueAfter: instant(nowMs - continueWithinMs),
  };
}

function readingOf(entity: Entity, chosen: ChosenEntity | undefined, nowMs: number): EntityReading {
  const from = givenFirst(entity);
  return {
    isIncremental: isReadIncrementally(entity, chosen),
    fullBefore: instant(nowMs - (chosen?.fullEveryMs ?? 0)),
    ...(from.length === 0 ? {} : { from }),
    mayMove: entity.deletes === 'confirm' && entity.actions.has('get') && !isKeyedByParent(entity),
  };
}

/** Tables that keep versions: the entity's own, and that of its exploded array. */
function versionedOf({ table, explodedTable }: Entity, chosen: ChosenEntity | undefined) {
  if ((chosen?.history ?? null) === null) return [];
  return (explodedTable === null ? [table] : [table, explodedTable]).map(({ entity }) => entity);
}

/** Part of the key comes from the parent: below another one it would be another record. */
function isKeyedByParent({ key, parents, recursive }: Entity): boolean {
  const isKeyed = parents.every(({ inject }) => key.some((name) => inject.has(name)));
  return isKeyed && recursive === null;
}

function keepMs(chosen: ChosenEntities): number {
  const longestMs = Math.max(0, ...[...chosen.values()].map(({ fullEveryMs }) => fullEveryMs));
  return Math.max(keepPartitionsMs, 2 * longestMs);
}

function isParent(definition: Definition, chosen: ChosenEntities, name: EntityName): boolean {
  const entity = definition.entities.get(name);
  return entity?.recursive !== null || [...chosen.values()].some(({ parents }) => parents.includes(name));
}

function rootsOf(
  entity: Entity,
  chosen: ChosenEntity | undefined,
  run: RunOptions,
  capMs: number,
): readonly FoundPartition[] {
  return listingsOf(entity, chosen?.variants ?? [{}], capMs).map(({ params, inject, marker }) => ({
    entity: entity.name,
    params: { ...params, ...chosen?.bounds },
    inject,
    rank: 0,
    treeDepth: entity.recursive === null ? null : 0,
    tree: null,
    parent: null,
    marker,
    base: run.window === null ? null : params,
  }));
}

/** Sorts by time, reads as a time, cannot collide: `20260131T235959123Z-9f86d081`. */
export function newRunId(nowMs: number): RunId {
  const time = instant(nowMs).replaceAll(/[-:.]/g, '');
  return `${time}-${randomBytes(4).toString('hex')}` as RunId;
}

/**
 * Restricts a backfill's entities to the window: the deepest that take bounds. Their parents and children are read in
 * full. A null window changes nothing.
 */
export function withWindow(definition: Definition, chosen: ChosenEntities, window: Window | null) {
  if (window === null) return chosen;
  return new Map(
    [...chosen].map(([name, entity]): [EntityName, ChosenEntity] => {
      const params = windowOf(definition, chosen, name);
      return params === null || isBoundedBelow(definition, chosen, name)
        ? [name, entity]
        : [name, { ...entity, bounds: boundsOf(params, window) }];
    }),
  );
}

/** Null where the entity takes no bounds, or where the settings have set one of them themselves. */
function windowOf(definition: Definition, chosen: ChosenEntities, name: EntityName) {
  const window = definition.entities.get(name)?.window ?? null;
  const isSet = chosen
    .get(name)
    ?.variants.some(
      (variant) =>
        window !== null && (Object.hasOwn(variant, window.since) || Object.hasOwn(variant, window.before)),
    );
  return isSet === true ? null : window;
}

function isBoundedBelow(definition: Definition, chosen: ChosenEntities, name: EntityName): boolean {
  return [...chosen].some(
    ([child, { parents }]) =>
      parents.includes(name) &&
      (windowOf(definition, chosen, child) !== null || isBoundedBelow(definition, chosen, child)),
  );
}

/**
 * Both a little wider than the window: whether a service includes bounds is not specified. Records that two windows
 * read are stored once.
 */
function boundsOf({ since, before }: NonNullable<Entity['window']>, { sinceMs, untilMs }: Window): Params {
  return { [since]: timeParam(sinceMs - 1000), [before]: timeParam(untilMs + 999) };
}

export interface RunOptions {
  readonly kind: Extract<RunKind, 'sync' | 'backfill'>;
  /** Window of a backfill: change values from `sinceMs` up to, not including, `untilMs`. Null in a sync. */
  readonly window: Window | null;
  /** The backfill that the window belongs to: `RunPlan.backfill`. Null in a sync. */
  readonly backfill: string | null;
  /** Reads everything in full, whatever was read before. */
  readonly isFull: boolean;
  /** Deletes rows that a guard would withhold. */
  readonly allowDeletes: boolean;
  /** Limits on time and calls: the listings that were not read for longest go first, and the run ends as `partial`. */
  readonly budgetMs: number | null;
  readonly maxCalls: number | null;
  readonly guards: Guards;
  /** The request of a person that the run carries out: `RunPlan.act`. */
  readonly act?: RunPlan['act'];
  /** `rawKey` of `startRun` of another sink, whose hashes this run's are compared with. Absent: the sink's own. */
  readonly rawKey?: string;
}

export interface Window {
  readonly sinceMs: number;
  readonly untilMs: number;
}

/** Window as the ledger stores it: `2026-01-01T00:00:00.000Z/2026-02-01T00:00:00.000Z`. */
export function windowText({ sinceMs, untilMs }: Window): string {
  return `${instant(sinceMs)}/${instant(untilMs)}`;
}

/**
 * Limits on deletes in 24 hours: more than this share of an entity's rows **and** more than this many are not deleted
 * without permission.
 */
export interface Guards {
  readonly maxDeleteShare: number;
  readonly minDeleteRows: number;
}

export const ordinaryRun: RunOptions = {
  kind: 'sync',
  window: null,
  backfill: null,
  isFull: false,
  allowDeletes: false,
  budgetMs: null,
  maxCalls: null,
  guards: { maxDeleteShare: 0.2, minDeleteRows: 20 },
};

export type BackfillPlan = ReturnType<typeof planBackfill>;

/** Throws `RangeError` as `backfillWindows` does. `entities`: with all of their parents. */
export function planBackfill(entities: ChosenEntities, span: BackfillSpan) {
  const choices = [...entities]
    .map(([name, { variants, parents }]) => [name, variants, parents] as const)
    .toSorted(([left], [right]) => (left < right ? -1 : 1));
  const identity = JSON.stringify([choices, instant(span.sinceMs), span.length]);
  return {
    /**
     * Follows from the entities, how they are read, the beginning and the windows' length; not the end, so that done
     * windows stay done when the span grows.
     */
    id: createHash('sha256').update(identity).digest('hex').slice(0, 16),
    /** Newest first. */
    windows: backfillWindows(span),
  };
}

/** Whether the entity takes bounds, or something that leads to it does: alone, it can be read in windows. */
export function canBeBounded(definition: Definition, entities: ChosenEntities, name: EntityName): boolean {
  if ((definition.entities.get(name)?.window ?? null) !== null) return true;
  return (entities.get(name)?.parents ?? []).some((parent) => canBeBounded(definition, entities, parent));
}

/**
 * Entities of these that a window restricts when they are read together; parents of a restricted one are read in full
 * by each window.
 */
export function boundedTogether(definition: Definition, entities: ChosenEntities): ReadonlySet<EntityName> {
  const windowed = withWindow(definition, entities, { sinceMs: 0, untilMs: 0 });
  const isBounded = (name: EntityName): boolean =>
    windowed.get(name)?.bounds !== undefined || (windowed.get(name)?.parents ?? []).some(isBounded);
  return new Set([...windowed.keys()].filter(isBounded));
}

/** Length of a backfill's windows: calendar months in UTC, or milliseconds. */
export type WindowLength =
  { readonly kind: 'months'; readonly months: number } | { readonly kind: 'duration'; readonly ms: number };

export interface BackfillSpan {
  readonly sinceMs: number;
  /** End of the span, exclusive. */
  readonly untilMs: number;
  readonly length: WindowLength;
}

/**
 * The span cut into windows without gap or overlap, newest first: months, quarters and years at the calendar's (UTC),
 * other lengths from the beginning on, so that a span that ends later has the same ones. Throws `RangeError` for a span
 * without length, or of more than `mostWindows`.
 */
export function backfillWindows({ sinceMs, untilMs, length }: BackfillSpan): readonly Window[] {
  if (!(sinceMs < untilMs)) throw new RangeError('the beginning must be before the end');
  const windows: Window[] = [];
  for (let start = sinceMs; start < untilMs;) {
    if (windows.length === mostWindows) {
      throw new RangeError(`that would be more than ${mostWindows} windows`);
    }
    const end = Math.min(untilMs, nextBound(start, length));
    windows.push({ sinceMs: start, untilMs: end });
    start = end;
  }
  return windows.toReversed();
}

function nextBound(start: number, length: WindowLength): number {
  switch (length.kind) {
    case 'duration':
      return start + length.ms;
    case 'months': {
      const date = new Date(start);
      const month = date.getUTCFullYear() * 12 + date.getUTCMonth();
      const next = (Math.floor(month / length.months) + 1) * length.months;
      return startOfMonth(Math.floor(next / 12), next % 12);
    }
  }
}
