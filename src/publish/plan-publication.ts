import path from 'node:path';
import { SyncError } from '../core/errors.ts';
import { entityName, type Manifest, type PublishedEntity } from './manifest.ts';
import { nameColumns } from './row-text.ts';
import { publishedRun, type StoredConnector, type StoredEntity, type StoredState } from './stored-state.ts';
import type { PlannedEntity } from './target.ts';

interface Wishes {
  readonly target: string;
  /** How files are named, with their ending; null for tables. */
  readonly layout: string | null;
  readonly isNewGenerationAsked: boolean;
  /** `due`: with whatever there is to publish, and alone where anything was published since the one before. */
  readonly snapshot: 'asked' | 'due' | null;
}

/** An entity whose rows stay as they were published, until it has been read completely again. */
export type HeldBack = Pick<PublishedEntity, 'connector' | 'entity'>;

export type PublicationPlan = ReturnType<typeof planPublication>;
export type EntityPlan = ReturnType<typeof planEntity>;

/**
 * What the publication after `newest` holds. An entity that was published completely stays as it was while its table is
 * missing or was made again, until it has been read completely; one that left the settings does so until the next
 * snapshot, which leaves it out. Throws TARGET_AHEAD where the target holds changes that this sink has not made yet,
 * and TARGET_INCOMPATIBLE where it holds those of a sink that has nothing to do with this one.
 */
export function planPublication(newest: Manifest | null, stored: StoredState, wishes: Wishes) {
  const publication = (newest?.publication ?? 0) + 1;
  const publishedByName = new Map((newest?.entities ?? []).map((one) => [entityName(one), one]));
  const ofAll = reasonForAll(newest, stored, wishes);
  const entities = stored.connectors.flatMap((connector) =>
    connector.entities.flatMap((entity) => {
      const name = entityName({ connector: connector.connector, entity: entity.table.entity });
      const published = publishedByName.get(name) ?? null;
      if (published !== null && !wishes.isNewGenerationAsked && isBegunAgain(published, entity)) return [];
      return [planEntity({ publication, connector, entity, published, ofAll, wishes })];
    }),
  );
  const planned = new Set(entities.map((one) => entityName(one.planned)));
  const declared = new Set(
    stored.connectors.flatMap((one) =>
      one.declared.map((entity) => entityName({ connector: one.connector, entity })),
    ),
  );
  const others = (newest?.entities ?? []).filter((one) => !planned.has(entityName(one)));
  const heldBack = others.filter((one) => declared.has(entityName(one)));
  const isNeeded =
    isSnapshotNeeded(newest, stored, wishes) ||
    entities.some(
      (one) =>
        one.planned.isNewGeneration ||
        one.hasNewColumns ||
        publishedByName.get(entityName(one.planned))?.asOf !== one.planned.asOf,
    );
  return {
    publication,
    entities,
    // Their rows stay as they were published: those that are held back or have left the settings.
    // All that stays is of this sink: what leaves now comes back with a new generation.
    unchanged: (wishes.snapshot === null && ofAll === null ? others : heldBack).map((one) =>
      withoutRows(one, stored),
    ),
    heldBack: heldBack.map(({ connector, entity }) => ({ connector, entity })),
    /** There is something to publish even where no row has changed. */
    isNeeded,
  };
}

/** Readers must not see a complete table become empty and fill again. */
function isBegunAgain(published: PublishedEntity, { tableId, asOf }: StoredEntity): boolean {
  return published.tableId !== tableId && published.asOf !== null && asOf === null;
}

function isSnapshotNeeded(newest: Manifest | null, stored: StoredState, { snapshot }: Wishes): boolean {
  if (newest === null || snapshot === null) return false;
  return snapshot === 'asked' || oldestBase(newest, stored) < newest.publication;
}

/** The publication that the reading of some entity begins with, of those that the next one can have a snapshot of. */
export function oldestBase(newest: Manifest, stored: StoredState): number {
  return Math.min(newest.publication, ...followedEntities(newest, stored).map(({ base }) => base));
}

/** Those whose table is still the one that was published: a copied one keeps its id. */
function followedEntities(newest: Manifest, { connectors }: StoredState): readonly PublishedEntity[] {
  const tableIds = new Map(
    connectors.flatMap(({ connector, entities }) =>
      entities.map(({ table: { entity }, tableId }) => [entityName({ connector, entity }), tableId]),
    ),
  );
  return newest.entities.filter((one) => tableIds.get(entityName(one)) === one.tableId);
}

/**
 * Its files are in the publication that it is from. Its run is that of the others, by which the next publication knows
 * the sink.
 */
function withoutRows(entity: PublishedEntity, { connectors }: StoredState): PublishedEntity {
  const run = connectors.find(({ connector }) => connector === entity.connector)?.newestRun ?? entity.run;
  return { ...entity, run, after: entity.through, upserts: 0, deletes: 0, files: [], snapshot: null };
}

/**
 * A sink that was restored gives numbers again that the target knows already: of every connector, as they are in one
 * sink.
 */
function reasonForAll(newest: Manifest | null, stored: StoredState, wishes: Wishes): string | null {
  if (newest === null) return null;
  if (wishes.isNewGenerationAsked) return 'it was asked for';
  if (newest.sink !== stored.sinkId) {
    if (followedEntities(newest, stored).length === 0) throw otherSinkError(newest, wishes);
    return 'the records were copied to another sink';
  }
  const reused = stored.connectors.find(({ hasReusedNumbers }) => hasReusedNumbers);
  if (reused !== undefined) {
    return `the sink was restored from a backup: changes of ${reused.connector} have numbers that were published before`;
  }
  const ended = stored.connectors.find(({ isPublishedEndKnown }) => !isPublishedEndKnown);
  if (ended !== undefined) {
    const run = publishedRun(newest, ended.connector)?.run ?? '';
    return `the sink was restored from a backup: it does not know the end of run ${run} of ${ended.connector}, which was published`;
  }
  const lost = stored.connectors
    .map((connector) => ({ connector, run: publishedRun(newest, connector.connector) }))
    .find(
      ({ connector: { isPublishedRunKnown, oldestRunAt }, run }) =>
        !isPublishedRunKnown && run !== null && oldestRunAt !== null && oldestRunAt < run.startedAt,
    );
  if (lost === undefined) return null;
  return `the sink was restored from a backup: it knows older runs of ${lost.connector.connector}, but not ${lost.run?.run ?? ''}, which was published`;
}

interface Planning {
  readonly publication: number;
  readonly connector: StoredConnector;
  readonly entity: StoredEntity;
  readonly published: PublishedEntity | null;
  readonly ofAll: string | null;
  readonly wishes: Wishes;
}

function planEntity({ publication, connector, entity, published, ofAll, wishes }: Planning) {
  const { table, tableId, asOf } = entity;
  const columns = nameColumns(table, published?.columns ?? []);
  const key = table.key.map((field) => columns.find((column) => column.field === field)?.name ?? field);
  const reason = published === null ? null : (ofAll ?? reasonOfEntity(published, entity, key, wishes.layout));
  const old = reason === null ? published : null;
  if (old !== null && old.through > connector.newestSeq) throw aheadError(old, connector, wishes);
  // The files of a new generation are all rows already.
  const hasSnapshot = wishes.snapshot !== null && old !== null;
  const isSameSchema = published !== null && JSON.stringify(columns) === JSON.stringify(published.columns);
  return {
    planned: {
      connector: connector.connector,
      entity: table.entity,
      generation: old?.generation ?? publication,
      base: old === null || hasSnapshot ? publication : old.base,
      tableId,
      schema: isSameSchema ? published.schema : (published?.schema ?? 0) + 1,
      key,
      columns,
      layout: wishes.layout,
      after: old?.through ?? 0,
      through: connector.newestSeq,
      asOf,
      run: connector.newestRun,
      table,
      isNewGeneration: old === null,
    } satisfies PlannedEntity,
    hasSnapshot,
    hasNewColumns: published !== null && !isSameSchema,
    /** For people: why a new generation begins. Null: none does, or the entity is published for the first time. */
    reason,
  };
}

/** Why rows that were published cannot be followed any further; null where they can. */
function reasonOfEntity(
  published: PublishedEntity,
  { table, tableId }: StoredEntity,
  key: readonly string[],
  layout: string | null,
): string | null {
  if (published.tableId !== tableId) return 'its table in the sink was reset';
  if (published.key.join() !== key.join()) {
    return `its key was ${published.key.join(', ')} and is now ${key.join(', ')}`;
  }
  for (const { field, type } of published.columns) {
    const column = table.columns.find(({ name }) => name === field);
    if (column === undefined) return `its column ${field} is gone`;
    if (column.type !== type) return `its column ${field} was ${type} and is now ${column.type}`;
  }
  // Who reads all files of a generation by a pattern would miss those of the other names.
  if (published.layout !== null && layout !== null && published.layout !== layout) {
    const [before, now] = [path.posix.parse(published.layout), path.posix.parse(layout)];
    return path.posix.join(before.dir, before.name) === path.posix.join(now.dir, now.name)
      ? `its files were ${before.ext} and are now ${now.ext}`
      : `its files were named ${published.layout} and are now named ${layout}`;
  }
  return null;
}

/** Two projects with one place would replace each other's rows with every publication. */
function otherSinkError({ sink, publication }: Manifest, { target }: Wishes): SyncError {
  return new SyncError(
    `Target ${target} holds publication ${publication} of another sink (id ${sink}). If the target belongs to another project, name another place for it. ` +
      `If this sink has taken the place of that one, replace all published rows: publish ${target} --new-generation.`,
    { code: 'TARGET_INCOMPATIBLE', recovery: 'stop', context: { target, sink } },
  );
}

function aheadError(
  published: PublishedEntity,
  { newestSeq }: StoredConnector,
  { target }: Wishes,
): SyncError {
  const { through } = published;
  const entity = entityName(published);
  return new SyncError(
    `Target ${target} holds ${entity} up to change ${through}, and the sink has changes up to ${newestSeq} only: ` +
      'the sink was restored from an older backup, or the target belongs to another copy of it. ' +
      `If this sink is the right one, publish all rows again with "connector-sync publish ${target} --new-generation".`,
    {
      code: 'TARGET_AHEAD',
      recovery: 'stop',
      context: { target, entity, published: through, newest: newestSeq },
    },
  );
}
