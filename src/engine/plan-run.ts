import { randomBytes } from 'node:crypto';
import { instant } from '../core/clock.ts';
import type { EntityName, RunId } from '../core/names.ts';
import type { Definition, Entity } from '../definitions/definition.ts';
import type { FoundPartition, RunPlan } from '../sinks/sink.ts';
import type { ChosenEntities } from './chosen-entities.ts';

/** A chain of runs that stored nothing for this long is not gone on with: its first half would be stale beside its second. */
const continueWithinMs = 24 * 60 * 60 * 1000;

/** What a run is going to read: tables, entities, and the root partitions that everything else is found from. */
export function planRun(definition: Definition, chosen: ChosenEntities, nowMs: number): RunPlan {
  const entities = [...definition.entities.values()].filter((entity) => chosen.has(entity.name));
  return {
    run: newRunId(nowMs),
    startedAt: instant(nowMs),
    tables: entities.flatMap((entity) =>
      entity.explodedTable === null ? [entity.table] : [entity.table, entity.explodedTable],
    ),
    entities: entities.map((entity) => entity.name),
    roots: entities
      .filter((entity) => entity.parents.length === 0)
      .flatMap((entity) => rootsOf(entity, chosen)),
    choices: JSON.stringify(
      entities.map(({ name }) => [name, chosen.get(name)?.variants, chosen.get(name)?.parents]),
    ),
    leaves: entities.map(({ name }) => name).filter((name) => !isParent(definition, chosen, name)),
    continueAfter: instant(nowMs - continueWithinMs),
  };
}

function isParent(definition: Definition, chosen: ChosenEntities, name: EntityName): boolean {
  const entity = definition.entities.get(name);
  return entity?.recursive !== null || [...chosen.values()].some(({ parents }) => parents.includes(name));
}

function rootsOf(entity: Entity, chosen: ChosenEntities): readonly FoundPartition[] {
  return (chosen.get(entity.name)?.variants ?? [{}]).map((params) => ({
    entity: entity.name,
    params,
    inject: {},
    rank: 0,
    treeDepth: entity.recursive === null ? null : 0,
    tree: null,
  }));
}

/** Sorts by time, reads as a time, cannot collide: `20260131T235959123Z-9f86d081`. */
function newRunId(nowMs: number): RunId {
  const time = instant(nowMs).replaceAll(/[-:.]/g, '');
  return `${time}-${randomBytes(4).toString('hex')}` as RunId;
}
