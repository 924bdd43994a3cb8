import { randomBytes } from 'node:crypto';
import { instant } from '../core/clock.ts';
import type { EntityName, RunId } from '../core/names.ts';
import type { Params } from '../core/records.ts';
import type { Definition, Entity } from '../definitions/definition.ts';
import { describeTables } from '../definitions/describe-tables.ts';
import type { FoundPartition } from '../sinks/partition.ts';
import type { EntityReading, RunPlan } from '../sinks/sink.ts';
import { entityMaskings } from './prepare/mask-row.ts';
import { isReadIncrementally, type ChosenEntities, type ChosenEntity } from './chosen-entities.ts';
import { timeParam } from '../pagination/pagination.ts';
import { windowText, type RunOptions, type Window } from './run-options.ts';

/**
 * A chain of runs that stored nothing for this long is not resumed: its first half would be stale beside its second.
 */
const continueWithinMs = 24 * 60 * 60 * 1000;

/** A partition that nothing has led to for this long is forgotten, if that is longer than two full reads. */
const keepPartitionsMs = 30 * 24 * 60 * 60 * 1000;

/**
 * What a run is going to read: tables, entities, and the root partitions that everything else is found from. `chosen`:
 * as `withWindow` gives them.
 */
export function planRun(
  definition: Definition,
  chosen: ChosenEntities,
  nowMs: number,
  run: RunOptions,
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
      .flatMap((entity) => rootsOf(entity, chosen.get(entity.name), run)),
    choices: JSON.stringify(
      entities.map(({ name }) => {
        const { variants, parents, bounds } = chosen.get(name) ?? {};
        return bounds === undefined ? [name, variants, parents] : [name, variants, parents, bounds];
      }),
    ),
    leaves: entities.map(({ name }) => name).filter((name) => !isParent(definition, chosen, name)),
    continueAfter: instant(nowMs - continueWithinMs),
  };
}

function readingOf(entity: Entity, chosen: ChosenEntity | undefined, nowMs: number): EntityReading {
  return {
    isIncremental: isReadIncrementally(entity, chosen),
    fullBefore: instant(nowMs - (chosen?.fullEveryMs ?? 0)),
    mayMove: entity.deletes === 'confirm' && entity.actions.has('get') && !isKeyedByParent(entity),
  };
}

/** Of its table, and of what an array of it is exploded into. */
function versionedOf(
  { table, explodedTable }: Entity,
  chosen: ChosenEntity | undefined,
): readonly EntityName[] {
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
): readonly FoundPartition[] {
  return (chosen?.variants ?? [{}]).map((variant) => ({
    entity: entity.name,
    params: { ...variant, ...chosen?.bounds },
    inject: {},
    rank: 0,
    treeDepth: entity.recursive === null ? null : 0,
    tree: null,
    parent: null,
    marker: null,
    base: run.window === null ? null : variant,
  }));
}

/** Sorts by time, reads as a time, cannot collide: `20260131T235959123Z-9f86d081`. */
export function newRunId(nowMs: number): RunId {
  const time = instant(nowMs).replaceAll(/[-:.]/g, '');
  return `${time}-${randomBytes(4).toString('hex')}` as RunId;
}

/**
 * A backfill's entities: the deepest that take bounds, with those of the window. What leads to them, and what they lead
 * to, is read in full. Null: no backfill.
 */
export function withWindow(
  definition: Definition,
  chosen: ChosenEntities,
  window: Window | null,
): ChosenEntities {
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
function windowOf(
  definition: Definition,
  chosen: ChosenEntities,
  name: EntityName,
): NonNullable<Entity['window']> | null {
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
 * Both a little wider than the window: whether a service includes bounds is not specified. What two windows read is
 * stored once.
 */
function boundsOf({ since, before }: NonNullable<Entity['window']>, { sinceMs, untilMs }: Window): Params {
  return { [since]: timeParam(sinceMs - 1000), [before]: timeParam(untilMs + 999) };
}
