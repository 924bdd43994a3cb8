import { SyncError } from '../core/errors.ts';
import { entityName, type Manifest, type PublishedEntity } from './manifest.ts';
import type { RunId } from '../core/names.ts';
import { followedEntities, reasonForAll, reasonOfEntity } from './new-generation.ts';
import { nameColumns } from './row-text.ts';
import type { StoredConnector, StoredEntity, StoredState } from './stored-state.ts';
import type { PlannedEntity } from './target.ts';

interface Wishes {
  readonly target: string;
  /** How files are named, with their ending; null for tables. */
  readonly layout: string | null;
  readonly isNewGenerationAsked: boolean;
  /** `due`: with whatever there is to publish, and alone where anything was published since the one before. */
  readonly snapshot: 'asked' | 'due' | null;
}

/**
 * An entity whose rows stay as they were published: until it has been read completely again, or while its connector
 * seems to have read another account.
 */
export interface HeldBack extends Pick<PublishedEntity, 'connector' | 'entity'> {
  /** Null: no account is in doubt. */
  readonly doubt: { readonly run: RunId; readonly toUndo: readonly RunId[] } | null;
}

export type PublicationPlan = ReturnType<typeof planPublication>;

export interface EntityPlan {
  readonly planned: PlannedEntity;
  readonly hasSnapshot: boolean;
  readonly hasNewColumns: boolean;
  /** For people: why a new generation begins. Null: none does, or the entity is published for the first time. */
  readonly reason: string | null;
  /** Nothing is stored of it: the new generation has no rows. */
  readonly isRemoved: boolean;
}

/**
 * The publication after `newest`. An entity that was published completely stays as it was while its table is
 * missing or was made again, until it has been read completely. So does an entity while one of its rows stands for
 * several records, and every entity of a connector that seems to have read another account. An entity that left the
 * settings does so until the next snapshot, which leaves it out, unless the sink holds nothing of it now: then a
 * generation without rows begins. Throws TARGET_AHEAD where the target holds changes that this sink has not made yet,
 * and TARGET_INCOMPATIBLE where it holds those of a sink that has nothing to do with this one.
 */
export function planPublication(newest: Manifest | null, stored: StoredState, wishes: Wishes) {
  const publication = (newest?.publication ?? 0) + 1;
  const publishedByName = new Map((newest?.entities ?? []).map((one) => [entityName(one), one]));
  const ofAll = reasonForAll(newest, stored, wishes);
  const chosen = stored.connectors.flatMap((connector) =>
    connector.entities.flatMap((entity) => {
      if (connector.doubt !== null) return [];
      const name = entityName({ connector: connector.connector, entity: entity.table.entity });
      const published = publishedByName.get(name) ?? null;
      const isWaiting = entity.isColliding || (published !== null && isBegunAgain(published, entity));
      if (isWaiting && !wishes.isNewGenerationAsked) return [];
      return [planEntity({ publication, connector, entity, published, ofAll, wishes })];
    }),
  );
  // All rows that readers have of them are of this sink, which has none now.
  const removed = ofAll === null && wishes.snapshot === null ? stored.removed : [];
  const entities = [...chosen, ...removed.map((one) => planRemoved(publication, one, wishes))];
  const planned = new Set(entities.map((one) => entityName(one.planned)));
  const declared = new Set(
    stored.connectors.flatMap((one) =>
      one.declared.map((entity) => entityName({ connector: one.connector, entity })),
    ),
  );
  const others = (newest?.entities ?? []).filter((one) => !planned.has(entityName(one)));
  const heldBack = others.filter((one) => declared.has(entityName(one)));
  const inDoubt = stored.connectors.filter(({ doubt }) => doubt !== null);
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
    heldBack: [
      ...heldBack
        .filter((one) => !inDoubt.some(({ connector }) => connector === one.connector))
        .map(({ connector, entity }): HeldBack => ({ connector, entity, doubt: null })),
      ...inDoubt.flatMap(({ connector, doubt, entities: held }) =>
        held.map(({ table: { entity } }): HeldBack => ({ connector, entity, doubt })),
      ),
    ],
    /** There is something to publish even where no row has changed. */
    isNeeded,
  };
}

/** For people: a line for each reason. */
export function heldBackTexts(heldBack: readonly HeldBack[]): readonly string[] {
  const waiting = heldBack.filter(({ doubt }) => doubt === null).map(entityName);
  const doubts = new Map(
    heldBack.flatMap(({ connector, doubt }) => (doubt === null ? [] : [[connector, doubt]])),
  );
  const names = waiting.length > mostNamed ? [`${waiting.length} entities`] : waiting;
  return [
    ...[...doubts].map(
      ([connector, { run, toUndo }]) =>
        `${connector}: held back, because run ${run} seems to have read another account. If so: correct the config, ${toUndo.map((one) => `connector-sync undo ${connector} --run ${one}, `).join('')}and sync again. If it is the right one: connector-sync adopt ${connector} --yes`,
    ),
    ...(waiting.length === 0
      ? []
      : [`${names.join(', ')}: as published before, until the next sync has read all of it again`]),
  ];
}

const mostNamed = 3;

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

/**
 * Its files are in the publication that it is from. Its run is that of the others, by which the next publication knows
 * the sink.
 */
function withoutRows(entity: PublishedEntity, { connectors }: StoredState): PublishedEntity {
  const run = connectors.find(({ connector }) => connector === entity.connector)?.newestRun ?? entity.run;
  return { ...entity, run, after: entity.through, upserts: 0, deletes: 0, files: [], snapshot: null };
}

interface Planning {
  readonly publication: number;
  readonly connector: StoredConnector;
  readonly entity: StoredEntity;
  readonly published: PublishedEntity | null;
  readonly ofAll: string | null;
  readonly wishes: Wishes;
}

function planEntity({ publication, connector, entity, published, ofAll, wishes }: Planning): EntityPlan {
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
    },
    hasSnapshot,
    hasNewColumns: published !== null && !isSameSchema,
    reason,
    isRemoved: false,
  };
}

/** Readers empty their tables. When the entity comes back, its table is another one, and its generation too. */
function planRemoved(publication: number, published: PublishedEntity, { layout }: Wishes): EntityPlan {
  const { connector, entity, tableId, schema, key, columns } = published;
  const fields = key.map((name) => columns.find((column) => column.name === name)?.field ?? name);
  return {
    planned: {
      connector,
      entity,
      tableId,
      schema,
      key,
      columns,
      layout,
      generation: publication,
      base: publication,
      after: 0,
      through: 0,
      asOf: null,
      run: null,
      table: { entity, columns: columns.map(({ field, type }) => ({ name: field, type })), key: fields },
      isNewGeneration: true,
    },
    hasSnapshot: false,
    hasNewColumns: false,
    reason: 'what the sink held of it was removed',
    isRemoved: true,
  };
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
