import { instant, type Clock } from '../core/clock.ts';
import { SyncError } from '../core/errors.ts';
import type { PublishSettings } from '../settings/settings.ts';
import type { RecordReader } from '../sinks/sink-access.ts';
import { openExistingRecords } from '../sinks/registry.ts';
import { entityName, manifestFormat, manifestText, readManifest } from './manifest.ts';
import type { Manifest, PublishedEntity, StoredManifest } from './manifest.ts';
import { heldBackTexts, oldestBase, planPublication } from './plan-publication.ts';
import type { EntityPlan, HeldBack, PublicationPlan } from './plan-publication.ts';
import { readRemoved, readStoredConnector, type StoredConnector, type StoredState } from './stored-state.ts';
import type { OpenPublication, PlannedEntity, Target } from './target.ts';
import { writeEntity, type PublishProgress } from './write-entity.ts';

/** One publication into a target, or the finding that there is nothing new. */
export interface PublishRequest {
  readonly settings: Pick<PublishSettings, 'name' | 'connectors' | 'snapshotEveryMs' | 'keepMs'>;
  /** All rows besides the changes, due or not. */
  readonly isSnapshotAsked: boolean;
  /** Every entity starts from the beginning, whatever the target holds. */
  readonly isNewGenerationAsked: boolean;
  readonly by: Manifest['by'];
  readonly clock: Clock;
  /** Once it is aborted, `publishOnce` rejects with its reason, and the target is as before. */
  readonly signal: AbortSignal;
  readonly onProgress: (progress: PublishProgress) => void;
}

export type PublishEnd =
  | {
      readonly kind: 'published';
      readonly published: StoredManifest;
      readonly newGenerations: readonly NewGeneration[];
      readonly heldBack: readonly HeldBack[];
      /** In words: what failed after the publication was there. */
      readonly warnings: readonly string[];
    }
  /** Nothing has changed since this one. */
  | { readonly kind: 'unchanged'; readonly newest: StoredManifest; readonly heldBack: readonly HeldBack[] }
  /** The sink is not there yet, or holds nothing of the connectors, and nothing was published before. */
  | { readonly kind: 'nothing-stored' };

export type NewGeneration = Pick<PlannedEntity, 'connector' | 'entity'> & Pick<EntityPlan, 'reason'>;

const attempts = 3;

/**
 * Publishes what has changed since the newest publication, whole or not at all. Rejects with `SyncError` TARGET_AHEAD,
 * TARGET_FAILED, COPY_UNFINISHED, ACCOUNTING where other rows were written than were read, and what opening the sink
 * rejects with; with the signal's reason once that is aborted.
 */
export async function publishOnce(target: Target, request: PublishRequest): Promise<PublishEnd> {
  for (let attempt = 1; attempt <= attempts; attempt += 1) {
    const end = await attemptPublication(target, request);
    if (end === null) continue;
    return end.kind === 'published' ? await withPruned(target, request, end) : end;
  }
  const { name } = request.settings;
  throw new SyncError(
    `Target ${name} was published to by another process ${attempts} times while this one was writing. One publisher is enough: publish again when the other has ended.`,
    { code: 'TARGET_FAILED', recovery: 'retry', context: { target: name } },
  );
}

type Published = Extract<PublishEnd, { kind: 'published' }> & { readonly before: StoredManifest | null };

/** Null: another process was faster. */
async function attemptPublication(
  target: Target,
  request: PublishRequest,
): Promise<Published | Exclude<PublishEnd, { kind: 'published' }> | null> {
  // Before the records: what is published meanwhile would seem to be ahead of them.
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
  if (newest !== null && (await isUpToDate(reader, plan))) return { kind: 'unchanged', newest, heldBack };
  await using publication = await target.begin(plan.publication);
  const writing = { request, reader, plan, newest };
  const written = await writeEntities(publication, writing).catch(async (error: unknown) => {
    // A prune removes what an attempt has written whose number is taken.
    request.signal.throwIfAborted();
    if (((await target.newest())?.manifest.publication ?? 0) >= plan.publication) return null;
    throw error;
  });
  if (written === null) return null;
  const manifest = manifestOf(writing, written);
  // Read back, as every reader will: what it would refuse is never published.
  const published = readManifest(manifestText(manifest));
  request.signal.throwIfAborted();
  if ((await publication.commit(published.manifest)) === 'taken') return null;
  const newGenerations = plan.entities
    .filter(({ planned }) => planned.isNewGeneration)
    .map(({ planned: { connector, entity }, reason }) => ({ connector, entity, reason }));
  return { kind: 'published', published, newGenerations, heldBack, warnings: [], before: newest };
}

/** A sink that cannot be found is no empty one: a disk may be away, or a path misspelt. */
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

/** What the next publication holds. Rejects where a publication would be refused. */
export async function planOf(
  target: Target,
  { settings, isNewGenerationAsked, isSnapshotAsked, clock }: Planned,
  reader: RecordReader,
  newest: StoredManifest | null,
): Promise<PublicationPlan> {
  const { name, connectors, snapshotEveryMs } = settings;
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
  const wishes = { target: name, layout: target.layout, isNewGenerationAsked, snapshot } as const;
  const plan = planPublication(manifest, stored, wishes);
  if (newest !== null) await refuseBroken(target, newest, plan, { name, isNewGenerationAsked });
  return plan;
}

/** No reader could read a publication that continues entities of which something is lost. */
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
    `Target ${name} has lost part of what a publication continues: ${lost[0]}${more}. Nothing was published, because readers could not read it. ` +
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

/** Of several connectors in one sink, another one may have made the newest numbers: only the rows say it. */
export async function isUpToDate(
  reader: RecordReader,
  { isNeeded, entities }: PublicationPlan,
): Promise<boolean> {
  if (isNeeded) return false;
  for (const { planned } of entities) {
    if (planned.through === planned.after) continue;
    for await (const records of reader.changes(planned.connector, planned.table, planned.after)) {
      if (records.length > 0) return false;
    }
  }
  return true;
}

interface Writing {
  readonly request: PublishRequest;
  readonly reader: RecordReader;
  readonly plan: PublicationPlan;
  readonly newest: StoredManifest | null;
}

async function writeEntities(
  publication: OpenPublication,
  { request: { signal, onProgress }, reader, plan }: Writing,
): Promise<readonly PublishedEntity[]> {
  const entities: PublishedEntity[] = [];
  for (const one of plan.entities) {
    const { table: _table, isNewGeneration: _isNew, ...described } = one.planned;
    const written = await writeEntity(publication, one, { reader, signal, onProgress });
    entities.push({ ...described, ...written });
  }
  return [...entities, ...plan.unchanged];
}

function manifestOf(
  { request, reader, plan, newest }: Writing,
  entities: readonly PublishedEntity[],
): Manifest {
  return {
    format: manifestFormat,
    publication: plan.publication,
    previous: newest === null ? null : { publication: newest.manifest.publication, sha256: newest.sha256 },
    sink: reader.sinkId,
    createdAt: instant(request.clock.now()),
    by: request.by,
    entities,
  };
}

/**
 * Once a day, as it reads what the target holds: with the first publication of the day (UTC). What is published stays
 * so, whatever comes of it.
 */
async function withPruned(
  target: Target,
  { settings: { name, keepMs }, clock }: PublishRequest,
  { before, ...end }: Published,
): Promise<PublishEnd> {
  const day = end.published.manifest.createdAt.slice(0, 10);
  if (before === null || before.manifest.createdAt.startsWith(day)) return end;
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
