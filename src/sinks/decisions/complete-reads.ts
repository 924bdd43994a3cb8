import type { Instant } from '../../core/clock.ts';
import type { EntityName } from '../../core/names.ts';
import type { EntityStatus } from '../ledger-reader.ts';
import { completenessOf, type Completeness } from '../completeness.ts';
import type { DoubtedListings } from '../run-report.ts';

/** What is stored of an entity, and of how its listings were read. */
export interface EntityFacts extends Omit<EntityStatus, 'lastCompleteReadAt' | 'completeness'> {
  /** Some of its listings were read in unknown order, and no total agreed. */
  readonly isUnordered: boolean;
  /** Listings that were read to their end, or are to be read. */
  readonly begun: number;
  /** Of those: read completely, once at least. */
  readonly complete: number;
  /** When the oldest of those complete reads was; null where there is none. */
  readonly oldestReadAt: Instant | null;
  /** The entities whose records led to them. */
  readonly parents: readonly EntityName[];
  /** When the newest chain began that read the entity whole. */
  readonly asOf: Instant | null;
}

/** The listings that ended with a doubt, for an entity's status. */
export function toPartMissing(found: DoubtedListings | undefined): EntityStatus['partMissing'] {
  if (found === undefined) return null;
  const { listings, params, doubt, runs } = found;
  return { listings, params, doubt, runs };
}

/** What `status` shows of all entities of a connector. */
export function entityStatuses(facts: readonly EntityFacts[]): readonly EntityStatus[] {
  const byName = new Map(facts.map((one) => [one.entity, one]));
  return facts.map((one): EntityStatus => ({
    entity: one.entity,
    rows: one.rows,
    deleted: one.deleted,
    missing: one.missing,
    partitions: one.partitions,
    due: one.due,
    quarantined: one.quarantined,
    partMissing: one.partMissing,
    completeness: one.partitions === 0 ? null : wordFor(one.entity, byName, []),
    lastSealedAt: one.lastSealedAt,
    lastCompleteReadAt: lastCompleteRead(one.entity, byName),
    files: one.files,
  }));
}

/** `below`: entities that it leads to, which are asked already. */
function wordFor(
  entity: EntityName,
  ofConnector: ReadonlyMap<EntityName, EntityFacts>,
  below: readonly EntityName[],
): Completeness {
  const facts = ofConnector.get(entity);
  const others = (facts?.parents ?? []).filter((parent) => parent !== entity && !below.includes(parent));
  return completenessOf(
    {
      isUnread: facts === undefined || facts.due > 0 || facts.lastSealedAt === null,
      isDoubted: facts?.partMissing !== null,
      isUnordered: facts?.isUnordered === true,
    },
    others.map((parent) => wordFor(parent, ofConnector, [...below, entity])),
  );
}

/**
 * Since when an entity has been read completely; null: it never was. A listing that was never read completely, or that
 * may still be found through an unread parent, is new where a chain has read the entity whole before: then what that
 * chain read counts.
 */
function lastCompleteRead(
  entity: EntityName,
  ofConnector: ReadonlyMap<EntityName, EntityFacts>,
): Instant | null {
  const { oldestReadAt = null, asOf = null } = ofConnector.get(entity) ?? {};
  if (oldestReadAt === null || isComplete(entity, ofConnector, [])) return oldestReadAt;
  if (asOf === null) return null;
  return asOf < oldestReadAt ? asOf : oldestReadAt;
}

/** `below`: entities that it leads to, which are asked already. */
function isComplete(
  entity: EntityName,
  ofConnector: ReadonlyMap<EntityName, EntityFacts>,
  below: readonly EntityName[],
): boolean {
  const { begun = 0, complete = 0, parents = [] } = ofConnector.get(entity) ?? {};
  const others = parents.filter((parent) => parent !== entity && !below.includes(parent));
  return complete >= begun && others.every((parent) => isComplete(parent, ofConnector, [...below, entity]));
}
