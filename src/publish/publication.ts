import path from 'node:path';
import { type Clock, type Instant, instant } from '../core/clock.ts';
import { SyncError } from '../core/errors.ts';
import { entityOfHistory, type ConnectorName, type OfEntity, type RunId } from '../core/names.ts';
import type { DescribedTable, EntityTable } from '../core/records.ts';
import { describeTables } from '../definitions/describe-tables.ts';
import type { ConnectorSettings, PublishSettings } from '../settings/settings.ts';
import type { StoredRecord } from '../sinks/readings.ts';
import { counted } from '../telemetry/format.ts';
import { historyTable } from '../sinks/decisions/stored-table.ts';
import { checkCopied, openExistingRecords } from '../sinks/registry.ts';
import type { RecordReader } from '../sinks/sink-access.ts';
import {
  entityName,
  manifestFormat,
  manifestText,
  publishedEntity,
  readManifest,
  type Manifest,
  type PublishedColumn,
  type PublishedEntity,
  type PublishedFile,
  type StoredManifest,
} from './manifest.ts';
import { nameColumns } from './row-files.ts';
import type { OpenPublication, PlannedEntity, Target, WrittenEntity } from './target.ts';
import { kindsOf, typedRows, typeOfKind } from './typed-columns.ts';

/** One publication into a target, or the finding that there is nothing new. */
export interface PublishRequest {
  readonly settings: Pick<PublishSettings, 'name' | 'connectors' | 'snapshotEveryMs' | 'keepMs' | 'times'>;
  /** Publishes all rows in addition to the changes, due or not. */
  readonly isSnapshotAsked: boolean;
  /** Every entity starts from the beginning, whatever the target holds. */
  readonly isNewGenerationAsked: boolean;
  readonly by: Manifest['by'];
  readonly clock: Clock;
  /** Once it is aborted, `publishOnce` rejects with its reason, and the target is as before. */
  readonly signal: AbortSignal;
  /** Called after each batch with the rows of the entity so far, including those of its snapshot. */
  readonly onProgress?: ((progress: OfEntity & { readonly rows: number }) => void) | undefined;
}

export type PublishEnd =
  | {
      readonly kind: 'published';
      readonly published: StoredManifest;
      readonly newGenerations: readonly NewGeneration[];
      readonly heldBack: readonly HeldBack[];
      /** Failures after the publication was there, in words. */
      readonly warnings: readonly string[];
    }
  /** No row has changed since `newest`, whose freshness was updated. */
  | {
      readonly kind: 'unchanged';
      readonly newest: StoredManifest;
      readonly heldBack: readonly HeldBack[];
      readonly warnings: readonly string[];
    }
  /** The sink is not there yet, or holds nothing of the connectors, and nothing was published before. */
  | { readonly kind: 'nothing-stored' };

export type NewGeneration = Pick<PlannedEntity, 'connector' | 'entity'> & Pick<EntityPlan, 'reason'>;

const attempts = 3;

/**
 * Publishes all changes since the newest publication, completely or not at all. Rejects with `SyncError` TARGET_AHEAD,
 * TARGET_FAILED, COPY_UNFINISHED, ACCOUNTING if the written rows are not the read ones, and the errors of opening the
 * sink; with the signal's reason once that is aborted.
 */
export async function publishOnce(target: Target, request: PublishRequest): Promise<PublishEnd> {
  for (let attempt = 1; attempt <= attempts; attempt += 1) {
    const end = await attemptPublication(target, request);
    if (end === null) continue;
    return end.kind === 'nothing-stored' ? end : await withPruned(target, request, end);
  }
  const { name } = request.settings;
  throw new SyncError(
    `Target ${name} was published to by another process ${attempts} times while this one was writing. One publisher is enough: publish again when the other has ended.`,
    { code: 'TARGET_FAILED', recovery: 'retry', context: { target: name } },
  );
}

type Published = Exclude<PublishEnd, { kind: 'nothing-stored' }> & { readonly before: StoredManifest | null };

/** Null: another process was faster. */
async function attemptPublication(
  target: Target,
  request: PublishRequest,
): Promise<Published | Extract<PublishEnd, { kind: 'nothing-stored' }> | null> {
  // Read before the records: otherwise a publication in between would seem to be ahead of them.
  const newest = await target.newest();
  const [first] = request.settings.connectors;
  await using reader = first === undefined ? null : await openExistingRecords(first.sink);
  if (reader === null) {
    if (newest !== null) throw noSinkError(request.settings, newest);
    return { kind: 'nothing-stored' };
  }
  const plan = await planOf(target, request, reader, newest);
  const { heldBack } = plan;
  if (newest === null && plan.entities.length === 0) {
    if (heldBack.length === 0) return { kind: 'nothing-stored' };
    throw new SyncError(`Nothing was published. ${heldBackTexts(heldBack).join('. ')}`, {
      code: 'IDENTITY_CHANGED',
      recovery: 'stop',
    });
  }
  if (newest !== null && (await isUpToDate(reader, plan))) {
    const fresher = fresherOf(newest, plan, instant(request.clock.now()));
    if (fresher !== null && !(await target.tell(fresher))) return null;
    return { kind: 'unchanged', newest: fresher ?? newest, heldBack, warnings: [], before: newest };
  }
  await using publication = await target.begin(plan.publication);
  const entities = await writeEntities(publication, request, reader, plan).catch(async (error: unknown) => {
    // A prune removes the files of an attempt whose number is taken.
    request.signal.throwIfAborted();
    if (((await target.newest())?.manifest.publication ?? 0) >= plan.publication) return null;
    throw error;
  });
  if (entities === null) return null;
  const text = manifestText({
    format: manifestFormat,
    publication: plan.publication,
    previous: newest && { publication: newest.manifest.publication, sha256: newest.sha256 },
    sink: reader.sinkId,
    createdAt: instant(request.clock.now()),
    by: request.by,
    entities,
  });
  // Read back as every reader does, so that no unreadable manifest is published.
  const published = readManifest(text);
  request.signal.throwIfAborted();
  if ((await publication.commit(published.manifest)) === 'taken') return null;
  const newGenerations = plan.entities
    .filter(({ planned }) => planned.isNewGeneration)
    .map(({ planned: { connector, entity }, reason }) => ({ connector, entity, reason }));
  const warnings = [...plan.misfits].map(
    ([column, count]) => `${column}: ${counted(count, 'value')} did not fit its type, and stayed in _extra`,
  );
  return { kind: 'published', published, newGenerations, heldBack, warnings, before: newest };
}

/** The publication with the time of a later complete reading, which has changed no row; null: there was none. */
function fresherOf(stored: StoredManifest, { entities: plans }: PublicationPlan, checkedAt: Instant) {
  const planned = new Map(plans.map((one) => [entityName(one.planned), one.planned]));
  const { manifest } = stored;
  const entities = manifest.entities.map((one) => {
    const { asOf, run } = planned.get(entityName(one)) ?? one;
    return (asOf ?? '') > (one.asOf ?? '') ? { ...one, asOf, run } : one;
  });
  const isFresher = entities.some((one, index) => one !== manifest.entities[index]);
  return isFresher ? { ...stored, checkedAt, manifest: { ...manifest, entities } } : null;
}

/** A sink that cannot be found is not an empty one: a disk may be away, or a path misspelt. */
export function noSinkError(
  { name, connectors }: Pick<PublishSettings, 'name' | 'connectors'>,
  { manifest: { publication } }: StoredManifest,
): SyncError {
  const sink = connectors[0]?.sink.name ?? '';
  return new SyncError(
    `The sink ${sink} is not there, and target ${name} holds publication ${publication}. Check the place of the sink in the config, and that its disk is mounted. ` +
      `If the sink is lost, sync into a new one, then replace all published rows: publish ${name} --new-generation.`,
    { code: 'SINK_MOVED', recovery: 'retry', context: { target: name, sink } },
  );
}

type Planned = Pick<PublishRequest, 'settings' | 'isNewGenerationAsked' | 'isSnapshotAsked' | 'clock'>;

/** The content of the next publication. Rejects if the publication would be refused. */
export async function planOf(
  target: Target,
  { settings, isNewGenerationAsked, isSnapshotAsked, clock }: Planned,
  reader: RecordReader,
  newest: StoredManifest | null,
): Promise<PublicationPlan> {
  const { name, connectors, snapshotEveryMs, times } = settings;
  const manifest = newest?.manifest ?? null;
  const all: StoredConnector[] = [];
  for (const connector of connectors) all.push(await readStoredConnector(reader, connector, manifest));
  const removed = await readRemoved(reader, connectors, manifest);
  const stored: StoredState = { sinkId: reader.sinkId, connectors: all, removed };
  const isDue = async (): Promise<boolean> =>
    manifest !== null &&
    snapshotEveryMs !== null &&
    (await ageOf(target, oldestBase(manifest, stored), clock.now())) >= snapshotEveryMs;
  const snapshot = target.layout === null ? null : isSnapshotAsked ? 'asked' : (await isDue()) ? 'due' : null;
  const { layout } = target;
  // Files of texts have every value as it came.
  const isTyped = times === 'typed' && (layout === null || layout.endsWith('.parquet'));
  const wishes = { target: name, layout, isTyped, isNewGenerationAsked, snapshot } as const;
  const plan = planPublication(manifest, stored, wishes);
  if (newest !== null) await refuseBroken(target, newest, plan, { name, isNewGenerationAsked });
  return plan;
}

/** Rejects if a part of the entities that the publication continues is lost: no reader could read it. */
async function refuseBroken(
  target: Target,
  newest: StoredManifest,
  { publication, entities, unchanged, heldBack }: PublicationPlan,
  { name, isNewGenerationAsked }: { readonly name: string; readonly isNewGenerationAsked: boolean },
): Promise<void> {
  const continued = entities.flatMap(({ planned }) => (planned.base < publication ? [planned] : []));
  // Tables of entities that left the config may be dropped.
  const left = target.layout === null ? heldBack : unchanged;
  const names = new Set([...continued, ...left].map(entityName));
  const rest = newest.manifest.entities.filter((one) => names.has(entityName(one)));
  const lost = rest.length === 0 ? [] : await target.lost(newest, rest);
  if (lost.length === 0) return;
  const more = lost.length > 1 ? `, and ${lost.length - 1} more (publish check ${name} lists them)` : '';
  const waiting = heldBack.map(entityName).join(', ');
  const first = isNewGenerationAsked
    ? `Sync ${waiting} first, or exclude it in the config. Then publish`
    : 'publish';
  throw new SyncError(
    `In target ${name}, ${lost[0]}${more}. Nothing was published, because readers could not read a publication that continues it. ` +
      `Restore what is lost from a backup; without one, ${first} all rows again: connector-sync publish ${name} --new-generation`,
    { code: 'TARGET_INCOMPATIBLE', recovery: 'stop', context: { target: name, lost: lost.length } },
  );
}

/** Milliseconds since a publication was made. */
async function ageOf(target: Target, publication: number, nowMs: number): Promise<number> {
  for await (const { manifest } of target.manifests(publication)) {
    return nowMs - Date.parse(manifest.createdAt);
  }
  return 0;
}

/**
 * True if there is nothing new. With several connectors in one sink, another one may have made the newest numbers, so
 * only the rows tell.
 */
export async function isUpToDate(reader: RecordReader, { isNeeded, entities }: PublicationPlan) {
  if (isNeeded) return false;
  for (const { planned } of entities) {
    if (planned.through === planned.after) continue;
    for await (const records of reader.changes(planned.connector, planned.table, planned.after)) {
      if (records.length > 0) return false;
    }
  }
  return true;
}

async function writeEntities(
  publication: OpenPublication,
  { signal, onProgress }: PublishRequest,
  reader: RecordReader,
  { entities: planned, unchanged, misfits }: PublicationPlan,
): Promise<readonly PublishedEntity[]> {
  const entities: PublishedEntity[] = [];
  for (const one of planned) {
    const written = await writeEntity(publication, one, { reader, signal, onProgress, misfits });
    entities.push(publishedEntity.parse({ ...one.planned, ...written }));
  }
  return [...entities, ...unchanged];
}

/**
 * Prunes once a day, because that reads the content of the target: with the first publication or update of
 * freshness of the day (UTC). A failure to prune does not undo the publication.
 */
async function withPruned(
  target: Target,
  { settings: { name, keepMs }, clock }: PublishRequest,
  { before, ...end }: Published,
): Promise<PublishEnd> {
  const day = (end.kind === 'published' ? end.published : end.newest).checkedAt.slice(0, 10);
  if (before === null || before.checkedAt.startsWith(day)) return end;
  try {
    await target.prune(keepMs === null ? null : clock.now() - keepMs, false);
    return end;
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return {
      ...end,
      warnings: [`Old publications and leftovers of target ${name} could not be removed: ${why}`],
    };
  }
}

/** The state of a target, and the effect of the next publication. */
export type TargetState = Awaited<ReturnType<typeof readTargetState>>;

/**
 * Changes nothing. `newest` null: nothing was published yet. `isUpToDate`: a publication would find nothing to publish.
 * `newGeneration`, for people: why the next publication starts an entity from the beginning; null: it does not.
 * `refusal`: why a publication would be refused; null: it would not.
 */
export async function readTargetState(
  target: Target,
  { settings, clock }: Pick<PublishRequest, 'settings' | 'clock'>,
) {
  const newest = await target.newest();
  const [first] = settings.connectors;
  await using reader = first === undefined ? null : await openExistingRecords(first.sink);
  const state = { newest, isUpToDate: false, newGeneration: null, heldBack: [], refusal: null };
  if (newest === null) return state;
  if (reader === null) return { ...state, refusal: noSinkError(settings, newest) };
  const request = { settings, clock, isNewGenerationAsked: false, isSnapshotAsked: false };
  try {
    const plan = await planOf(target, request, reader, newest);
    const newGeneration = plan.entities.find(({ reason }) => reason !== null)?.reason ?? null;
    const { heldBack } = plan;
    return { ...state, newGeneration, heldBack, isUpToDate: await isUpToDate(reader, plan) };
  } catch (error) {
    if (!(error instanceof SyncError)) throw error;
    return { ...state, refusal: error };
  }
}

/** The sink's data of the target's connectors, in one state. */
export interface StoredState {
  readonly sinkId: string;
  readonly connectors: readonly StoredConnector[];
  /** Published entities of connectors that the target no longer has, and of which the sink holds nothing now. */
  readonly removed: readonly PublishedEntity[];
}

export type StoredConnector = Readonly<Awaited<ReturnType<typeof readStoredConnector>>>;

export interface StoredEntity {
  readonly table: EntityTable;
  readonly tableId: string;
  readonly asOf: Instant | null;
  /** A row stands for several records of one key, so that others are missing. */
  readonly isColliding: boolean;
  readonly kinds: PlannedEntity['kinds'];
  readonly described: PlannedEntity['described'];
}

/**
 * Reads the sink's data of a connector, and the ledger's entry for the run that was published last. Throws
 * COPY_UNFINISHED if the sink has only a part of it.
 */
export async function readStoredConnector(
  reader: RecordReader,
  connector: ConnectorSettings,
  newest: Manifest | null,
) {
  const { name } = connector;
  const { history } = reader;
  await checkCopied(history, name);
  const freshness = new Map((await history.freshness(name)).map(({ entity, asOf }) => [entity, asOf]));
  const [status] = await history.connectors([name]);
  const colliding = new Set(
    status?.entities.flatMap(({ entity, partMissing }) =>
      partMissing?.doubt.kind === 'collision' ? [entity] : [],
    ),
  );
  const declared = declaredTables(connector);
  const entities: StoredEntity[] = [];
  for (const one of declared) {
    const { entity } = one.table;
    const table = await reader.table(name, entity);
    const tableId = await reader.tableId(name, entity);
    if (table === null || tableId === null) continue;
    const owner = entityOfHistory(entity) ?? entity;
    const isColliding = colliding.has(owner);
    const kinds = kindsOf(one.entity, table);
    const asOf = freshness.get(owner) ?? null;
    entities.push({ table, tableId, asOf, isColliding, kinds, described: describedTable(one) });
  }
  const [newestRun] = await history.runs({ connector: name, limit: 1 });
  const doubts = await history.doubts([name]);
  const first = doubts[0] ?? null;
  return {
    connector: name,
    /** Its rows may be those of another account; null: that is not in doubt. */
    doubt: first && { run: first.run, toUndo: doubts.filter((one) => one.isToUndo).map(({ run }) => run) },
    newestSeq: await reader.newestSeq(name),
    /** Null: the ledger knows none. */
    newestRun:
      newestRun === undefined
        ? null
        : { run: newestRun.run, startedAt: newestRun.startedAt, finishedAt: newestRun.finishedAt },
    /** Why the sink seems to be restored from a backup that is older than the newest publication; null: it does not. */
    restored: newest === null ? null : await restoredBecause(reader, name, entities, newest),
    /** Entities of the settings, stored or not. */
    declared: declared.map(({ table }) => table.entity),
    entities,
  };
}

/** `table`: the table of the entity, or of the array that it is exploded into, or one with the versions of either. */
export type DeclaredTable = ReturnType<typeof declaredTables>[number];

/** Tables of a connector that are published once they are stored. */
export function declaredTables(connector: ConnectorSettings) {
  return [...connector.definition.entities.values()].flatMap((entity) => {
    const { table, explodedTable } = entity;
    const settings = connector.entities.get(table.entity);
    if (settings === undefined) return [];
    const tables = explodedTable === null ? [table] : [table, explodedTable];
    const all = settings.history === null ? tables : [...tables, ...tables.map(historyTable)];
    return all.map((one) => ({ connector, entity, table: one }));
  });
}

export function describedTable({ connector, entity, table }: DeclaredTable): DescribedTable | null {
  const parents = connector.entities.get(entity.name)?.parents ?? [];
  const name = entityOfHistory(table.entity) ?? table.entity;
  return describeTables(entity, parents).find((one) => one.entity === name) ?? null;
}

/** `StoredState.removed`, without those that were published as removed. */
export async function readRemoved(
  reader: RecordReader,
  connectors: readonly Pick<ConnectorSettings, 'name'>[],
  newest: Manifest | null,
): Promise<readonly PublishedEntity[]> {
  const names = new Set<string>(connectors.map(({ name }) => name));
  const removed: PublishedEntity[] = [];
  for (const one of newest?.entities ?? []) {
    if (names.has(one.connector) || (one.through === 0 && one.asOf === null)) continue;
    if ((await reader.tableId(one.connector, one.entity)) === null) removed.push(one);
  }
  return removed;
}

/** The newest run that the target's entities of a connector name. */
export function publishedRun(newest: Manifest, connector: ConnectorName): PublishedEntity['run'] {
  return newest.entities
    .filter((one) => one.connector === connector)
    .map(({ run }) => run)
    .reduce(
      (last, run) => (last === null || (run !== null && run.startedAt > last.startedAt) ? run : last),
      null,
    );
}

/** More than a ledger keeps of a connector. */
const mostRuns = 2_000;

/** For people, by what the ledger knows of the run that was published last. */
export async function restoredBecause(
  reader: Pick<RecordReader, 'history' | 'changes'>,
  connector: ConnectorName,
  entities: readonly StoredEntity[],
  newest: Manifest,
): Promise<string | null> {
  const published = publishedRun(newest, connector);
  if (published === null) return null;
  const { run, startedAt, finishedAt } = published;
  const known = await reader.history.run(run);
  if (known === null) {
    const runs = await reader.history.runs({ connector, limit: mostRuns });
    // A ledger forgets the oldest runs first.
    return runs.some((one) => one.startedAt < startedAt)
      ? `it knows older runs of ${connector}, but not ${run}, which was published`
      : null;
  }
  if (finishedAt !== null && known.finishedAt !== finishedAt) {
    return `it does not know the end of run ${run} of ${connector}, which was published`;
  }
  return (await hasReusedNumbers(reader, connector, entities, newest))
    ? `changes of ${connector} have numbers that were published before`
    : null;
}

/** The range of the newest published numbers to search. */
const searchedNumbers = 200;

async function runsAfter(
  { history }: Pick<RecordReader, 'history'>,
  connector: ConnectorName,
  published: PublishedEntity['run'],
): Promise<ReadonlySet<string>> {
  // Mostly it is among the first: reports of runs take time to read.
  for (let limit = 20; ; limit *= 10) {
    const runs = (await history.runs({ connector, limit })).map(({ run }) => run);
    const at = published === null ? 0 : runs.indexOf(published.run);
    if (at !== -1) return new Set(runs.slice(0, at));
    if (runs.length < limit || limit > mostRuns) return new Set(runs);
  }
}

/**
 * A later run cannot have made a change that was published before it began. Where a row says so, the sink was restored
 * from a backup that was made in the middle of the published run, and has given its numbers again.
 */
async function hasReusedNumbers(
  reader: Pick<RecordReader, 'history' | 'changes'>,
  connector: ConnectorName,
  entities: readonly StoredEntity[],
  newest: Manifest,
): Promise<boolean> {
  const later = await runsAfter(reader, connector, publishedRun(newest, connector));
  if (later.size === 0) return false;
  for (const { table, tableId } of entities) {
    // A version keeps its number when a later run writes its row again.
    if (entityOfHistory(table.entity) !== null) continue;
    const one = newest.entities.find(
      (other) => other.connector === connector && other.entity === table.entity,
    );
    // A table that was dropped and created again has other numbers.
    if (one?.tableId !== tableId) continue;
    const after = Math.max(0, one.through - searchedNumbers);
    for await (const records of reader.changes(connector, table, after)) {
      if (records.some(({ seq, run }) => seq <= one.through && later.has(run))) return true;
      if ((records.at(-1)?.seq ?? 0) > one.through) break;
    }
  }
  return false;
}

interface Wishes {
  readonly target: string;
  /** The pattern of file names, with their ending; null for tables. */
  readonly layout: string | null;
  /** Columns have the types that the definition knows. */
  readonly isTyped: boolean;
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
  /**
   * For people: the reason for a new generation. Null: there is none, or the entity is published for the first time.
   */
  readonly reason: string | null;
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
      // Readers must not see a complete table become empty and fill again.
      const isBegunAgain =
        published !== null &&
        published.tableId !== entity.tableId &&
        published.asOf !== null &&
        entity.asOf === null;
      if ((entity.isColliding || isBegunAgain) && !wishes.isNewGenerationAsked) return [];
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
        // A newer reading alone is recorded beside the manifest.
        (publishedByName.get(entityName(one.planned))?.asOf === null) !== (one.planned.asOf === null),
    );
  return {
    publication,
    entities,
    // Rows of entities that are held back or have left the settings stay as they were published. Everything that stays
    // is from this sink: an entity that leaves now comes back with a new generation.
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
    /** Filled by `writeEntity`: the numbers of values that do not fit their columns, by `connector/entity.column`. */
    misfits: new Map<string, number>(),
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
  const kinds: PlannedEntity['kinds'] = wishes.isTyped ? entity.kinds : new Map();
  const columns = nameColumns(table, published?.columns ?? []).map((column): PublishedColumn => {
    const kind = kinds.get(column.field);
    return kind === undefined ? column : { ...column, as: typeOfKind(kind) };
  });
  const key = table.key.map((field) => columns.find((column) => column.field === field)?.name ?? field);
  const reason =
    published === null
      ? null
      : (ofAll ?? reasonOfEntity(published, { tableId, columns, key }, wishes.layout));
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
      kinds,
      described: entity.described,
      isNewGeneration: old === null,
    },
    hasSnapshot,
    hasNewColumns: published !== null && !isSameSchema,
    reason,
  };
}

/** Readers empty their tables. When the entity comes back, its table is another one, and its generation too. */
function planRemoved(publication: number, published: PublishedEntity, { layout }: Wishes): EntityPlan {
  const { entity, key, columns } = published;
  const fields = key.map((name) => columns.find((column) => column.name === name)?.field ?? name);
  return {
    planned: {
      ...published,
      layout,
      generation: publication,
      base: publication,
      after: 0,
      through: 0,
      asOf: null,
      run: null,
      table: { entity, columns: columns.map(({ field, type }) => ({ name: field, type })), key: fields },
      kinds: new Map(),
      described: null,
      isNewGeneration: true,
    },
    hasSnapshot: false,
    hasNewColumns: false,
    reason: 'what the sink held of it was removed',
  };
}

function aheadError(published: PublishedEntity, { newestSeq }: StoredConnector, { target }: Wishes) {
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

/**
 * The reason why every entity starts again; null if there is none. A restored sink gives numbers again that the target
 * knows already, which concerns every connector, because their rows are in one sink.
 */
export function reasonForAll(
  newest: Manifest | null,
  stored: StoredState,
  wishes: { readonly target: string; readonly isNewGenerationAsked: boolean },
): string | null {
  if (newest === null) return null;
  if (wishes.isNewGenerationAsked) return 'it was asked for';
  if (newest.sink !== stored.sinkId) {
    if (followedEntities(newest, stored).length === 0) throw otherSinkError(newest, wishes.target);
    return 'the records were copied to another sink';
  }
  const restored = stored.connectors.find((one) => one.restored !== null)?.restored ?? null;
  return restored === null ? null : `the sink was restored from a backup: ${restored}`;
}

/** Why rows that were published cannot be followed any further; null where they can. */
export function reasonOfEntity(
  published: PublishedEntity,
  { tableId, columns, key }: Pick<PublishedEntity, 'tableId' | 'columns' | 'key'>,
  layout: string | null,
): string | null {
  if (published.tableId !== tableId) return 'its table in the sink was reset, purged or rewritten';
  if (published.key.join() !== key.join()) {
    return `its key was ${published.key.join(', ')} and is now ${key.join(', ')}`;
  }
  const typeOf = ({ type, as }: PublishedColumn): string => as ?? type;
  const retyped: string[] = [];
  for (const column of published.columns) {
    const now = columns.find(({ field }) => field === column.field);
    if (now === undefined) return `its column ${column.field} is gone`;
    if (now.type === column.type && now.as === column.as) continue;
    retyped.push(`its column ${column.field} was ${typeOf(column)} and is now ${typeOf(now)}`);
  }
  if (retyped.length > 0) return retyped.join(', ');
  // Readers that find all files of a generation by a pattern would miss those with another ending.
  if (published.layout === null || layout === null || published.layout === layout) return null;
  return `its files were ${path.posix.extname(published.layout)} and are now ${path.posix.extname(layout)}`;
}

/** Entities whose table is still the published one: a copied table keeps its id. */
export function followedEntities(newest: Manifest, { connectors }: StoredState): readonly PublishedEntity[] {
  const tableIds = new Map(
    connectors.flatMap(({ connector, entities }) =>
      entities.map(({ table: { entity }, tableId }) => [entityName({ connector, entity }), tableId]),
    ),
  );
  return newest.entities.filter((one) => tableIds.get(entityName(one)) === one.tableId);
}

/** Two projects with one place would replace each other's rows with every publication. */
function otherSinkError({ sink, publication }: Manifest, target: string): SyncError {
  return new SyncError(
    `Target ${target} holds publication ${publication} of another sink (id ${sink}). If the target belongs to another project, name another place for it. ` +
      `If this sink has taken the place of that one, replace all published rows: publish ${target} --new-generation.`,
    { code: 'TARGET_INCOMPATIBLE', recovery: 'stop', context: { target, sink } },
  );
}

const nothing: WrittenEntity = { upserts: 0, deletes: 0, files: [], snapshot: null };

/** Writes the planned rows of an entity. Rejects with ACCOUNTING unless the written rows are the read ones. */
export async function writeEntity(
  publication: OpenPublication,
  { planned, hasSnapshot, hasNewColumns }: EntityPlan,
  {
    reader,
    signal,
    onProgress,
    misfits,
  }: Pick<PublishRequest, 'signal' | 'onProgress'> & {
    readonly reader: RecordReader;
    readonly misfits: Map<string, number>;
  },
): Promise<WrittenEntity> {
  const { connector, entity, table, after, through, kinds } = planned;
  const typed = (batches: AsyncIterable<readonly StoredRecord[]>, onMisfit: (field: string) => void) =>
    typedRows(batches, { fields: planned.columns.map(({ field }) => field), kinds, onMisfit });
  let rows = 0;
  const onRows = (more: number): void => {
    signal.throwIfAborted();
    rows += more;
    onProgress?.({ connector, entity, rows });
  };
  // There is no table of an entity that was removed.
  const stored = through === after ? [] : reader.changes(connector, table, after);
  const changes = tallied(stored, planned, onRows);
  const snapshot = tallied(live(reader.changes(connector, table, 0)), { ...planned, after: 0 }, onRows);
  try {
    const first = await changes.rows.next();
    if (first.done === true && !planned.isNewGeneration && !hasNewColumns && !hasSnapshot) return nothing;
    const written = await publication.write(planned, {
      changes: typed(startingWith(first, changes.rows), (field) => {
        const name = `${entityName(planned)}.${field}`;
        misfits.set(name, (misfits.get(name) ?? 0) + 1);
      }),
      // Its rows are counted as changes.
      snapshot: hasSnapshot ? typed(snapshot.rows, () => undefined) : null,
    });
    const { rows: upserts, files } = written.snapshot ?? { rows: 0, files: [] };
    const wrong =
      difference(changes.tally, written, planned.layout === null ? null : written.files) ??
      (hasSnapshot ? difference(snapshot.tally, { upserts, deletes: 0 }, files) : null);
    if (wrong !== null) throw accountingError(planned, wrong);
    return written;
  } finally {
    await changes.rows.return(undefined);
  }
}

/** Numbers of the rows and changes that were read of an entity. */
type Tally = ReturnType<typeof tallied>['tally'];

type Span = Pick<PlannedEntity, 'connector' | 'entity' | 'after' | 'through'>;
type Batches = AsyncIterable<readonly StoredRecord[]> | readonly (readonly StoredRecord[])[];

function tallied(batches: Batches, span: Span, onRows: (rows: number) => void) {
  /** Numbers of changes are 0 where there was no row. */
  const tally = { upserts: 0, deletes: 0, firstSeq: 0, lastSeq: 0, isRead: false };
  async function* rows(): AsyncGenerator<readonly StoredRecord[]> {
    let last = span.after;
    for await (const records of batches) {
      for (const { seq, isDeleted } of records) {
        if (seq <= last || seq > span.through) {
          throw accountingError(span, `change ${seq} came behind ${last}, expected up to ${span.through}`);
        }
        last = seq;
        if (tally.firstSeq === 0) tally.firstSeq = seq;
        tally.lastSeq = seq;
        tally[isDeleted ? 'deletes' : 'upserts'] += 1;
      }
      onRows(records.length);
      yield records;
    }
    tally.isRead = true;
  }
  return { tally, rows: rows() };
}

async function* live(batches: Batches): AsyncGenerator<readonly StoredRecord[]> {
  for await (const records of batches) {
    const kept = records.filter(({ isDeleted }) => !isDeleted);
    if (kept.length > 0) yield kept;
  }
}

/** The difference between rows that were read and those that were written; null: there is none. */
function difference(
  { upserts, deletes, firstSeq, lastSeq, isRead }: Tally,
  written: Pick<WrittenEntity, 'upserts' | 'deletes'>,
  files: readonly PublishedFile[] | null,
): string | null {
  if (!isRead) return 'rows were left unread';
  const read = [upserts, deletes];
  const found = [written.upserts, written.deletes];
  if (files !== null) {
    const rows = files.reduce((sum, one) => sum + one.rows, 0);
    read.push(upserts + deletes, firstSeq, lastSeq);
    found.push(rows, files[0]?.firstSeq ?? 0, files.at(-1)?.lastSeq ?? 0);
  }
  if (read.join() === found.join()) return null;
  return `rows, deletes, both in files, first and last change: ${read.join(', ')} were read, ${found.join(', ')} were written`;
}

function accountingError({ connector, entity }: Pick<Span, 'connector' | 'entity'>, what: string): SyncError {
  return new SyncError(
    `${connector}/${entity} does not add up: ${what}. Nothing was published. Publish again; if it stays so, report it.`,
    { code: 'ACCOUNTING', recovery: 'stop', context: { connector, entity } },
  );
}

async function* startingWith<Batch>(first: IteratorResult<Batch, unknown>, others: AsyncIterable<Batch>) {
  if (first.done === true) return;
  yield first.value;
  yield* others;
}
