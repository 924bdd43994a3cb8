import { hostname } from 'node:os';
import { hasCode, SyncError, usage } from '../core/errors.ts';
import type { RunPublication } from '../jobs/worker-context.ts';
import type { Notifier } from '../notify/open-notifier.ts';
import type { Manifest } from '../publish/manifest.ts';
import type { OpenTarget } from '../publish/open-target.ts';
import type { PublishEnd, PublishRequest, TargetState } from '../publish/publication.ts';
import type { Target } from '../publish/target.ts';
import { targetNamed, targetsOfConnector } from '../settings/choices.ts';
import type {
  ConnectorSettings,
  LocalSettings,
  PublishSettings,
  SinkSettings,
} from '../settings/settings.ts';
import { checkTargets } from '../settings/load-settings.ts';
import { type PurgeWork, targetNames } from '../sinks/requests.ts';
import { openExistingHistory, openSink } from '../sinks/registry.ts';
import { counted } from '../telemetry/format.ts';
import { programVersion } from './program-version.ts';
import type { WorkerRunsOptions } from './worker-runs.ts';

export type AskedPublication = Pick<PublishRequest, 'isSnapshotAsked' | 'isNewGenerationAsked'>;

/** A publication without special requests. */
export const ordinaryPublication: AskedPublication = { isSnapshotAsked: false, isNewGenerationAsked: false };

interface TargetRequest extends AskedPublication, Pick<PublishRequest, 'clock' | 'signal' | 'onProgress'> {
  /** Null: no person is notified of how it ends. */
  readonly notifier: Pick<Notifier, 'publicationEnded'> | null;
}

/** `cleaned` null: no purge was unfinished in this target. */
export type TargetEnd = PublishEnd & { readonly cleaned: CleanedTarget | null };

/**
 * Publishes the stored data of a target's connectors, whatever started it: every publication ends here. If a purge is
 * not finished in the target, the publication holds all rows, and everything before it is removed. Rejects as
 * `openTarget` and `publishOnce` do.
 */
export async function publishTarget(settings: PublishSettings, { notifier, ...request }: TargetRequest) {
  // Loaded only here: a sync that publishes nothing needs none of it.
  const { publishOnce } = await import('../publish/publication.ts');
  const by = { program: `connector-sync ${programVersion()}`, host: hostname() };
  let end: TargetEnd;
  try {
    end = await withTarget(settings, request, async (target) => {
      // Read before the publication, which may still contain rows that are purged meanwhile.
      const work = await targetWork(settings);
      const isSnapshotAsked = request.isSnapshotAsked || work.length > 0;
      const published = await publishOnce(target, { ...request, isSnapshotAsked, settings, by });
      if (work.length === 0) return { ...published, cleaned: null };
      const { clock, signal } = request;
      const cleaned = await finishPurges(target, settings, { work, end: published, clock, signal });
      return { ...published, cleaned };
    });
  } catch (error) {
    await notifier?.publicationEnded(settings, error);
    throw error;
  }
  if (end.kind !== 'nothing-stored') await notifier?.publicationEnded(settings, null);
  return end;
}

/**
 * Finishes the purges of a connector in its targets, by a publication into each. Readers that follow a target of files
 * load it again. A target that cannot be cleaned now, or is no longer in the config, is named, and never keeps others
 * from it.
 */
export async function cleanTargets(
  settings: LocalSettings,
  { name: connector, sink }: ConnectorSettings,
  how: OpenTarget,
): Promise<readonly CleanedTarget[]> {
  await using history = await openExistingHistory(sink);
  const work = (await history?.purgeWork([connector])) ?? [];
  const cleaned: CleanedTarget[] = [];
  for (const name of targetNames(work)) {
    how.signal.throwIfAborted();
    try {
      const target = targetsOfConnector(settings, connector).find((one) => one.name === name);
      if (target === undefined) throw usage(`${name} no longer publishes ${connector}. ${goneAdvice}`);
      checkTargets(settings, [target]);
      const end = await publishTarget(target, { ...ordinaryPublication, ...how, notifier: null });
      // Null: another process has finished it meanwhile.
      if (end.cleaned !== null) cleaned.push(end.cleaned);
    } catch (error) {
      how.signal.throwIfAborted();
      cleaned.push(notCleaned(name, error instanceof Error ? error.message : String(error)));
    }
  }
  return cleaned;
}

const goneAdvice = 'Name it in the config again until the purge is finished there: prune finishes it.';

/** Changes nothing. Rejects as `publishTarget` does where a publication would be refused. */
export async function targetStatus(settings: PublishSettings, how: OpenTarget): Promise<TargetState> {
  const { readTargetState } = await import('../publish/publication.ts');
  return await withTarget(settings, how, (target) => readTargetState(target, { settings, clock: how.clock }));
}

const shownPublications = 10;

/** The last publications of a target up to this one, newest first. */
export async function publishedBefore(settings: PublishSettings, newest: number, how: OpenTarget) {
  return await withTarget(settings, how, async (target) => {
    const found: Manifest[] = [];
    const first = Math.max(1, newest - shownPublications + 1);
    for await (const { manifest } of target.manifests(first)) found.unshift(manifest);
    return found;
  });
}

/** Opens the target for `use`. Rejects as `openTarget` does. */
export async function withTarget<Result>(
  settings: PublishSettings,
  { clock, signal }: OpenTarget,
  use: (target: Target) => Promise<Result>,
): Promise<Result> {
  const { openTarget } = await import('../publish/open-target.ts');
  await using target = await openTarget(settings, { clock, signal });
  return await use(target);
}

/**
 * The targets that are published from sinks of this worker. Throws CONFIG_INVALID if something is missing here for a
 * target that is published automatically.
 */
export function targetsOf(settings: LocalSettings, connectors: readonly ConnectorSettings[]) {
  const sinks = new Set(connectors.map(({ sink }) => sink.name));
  const targets = [...settings.publish.values()].filter((target) =>
    target.connectors.some(({ sink }) => sinks.has(sink.name)),
  );
  checkTargets(
    settings,
    targets.filter(({ when }) => when.kind !== 'by-hand'),
  );
  return targets;
}

/** All connectors of a target are in one sink, and there is one. */
function sinkOf([first]: PublishSettings['connectors']): SinkSettings {
  if (first === undefined) throw usage('The target has no connectors.');
  return first.sink;
}

/** A worker's way to publish: each publication is logged and counted. */
export function workerPublications(options: WorkerRunsOptions): RunPublication {
  const { app, metrics, clock } = options;
  return async (name, signal, by) => {
    const startedMs = clock.now();
    try {
      const target = targetNamed(app.settings, name);
      if (by !== null) {
        await using sink = await openSink(sinkOf(target.connectors), { clock, signal });
        await sink.noteAction({ action: 'publish-now', connector: null, detail: { target: name }, who: by });
      }
      const request = { ...ordinaryPublication, clock, signal, notifier: app.notifier };
      const end = await publishTarget(target, request);
      tellEnd(options, name, end, clock.now() - startedMs);
      return end.kind;
    } catch (error) {
      // The job runs again by itself, and nothing has failed.
      if (!hasCode(error, 'INTERRUPTED')) metrics.onPublication(name, { kind: 'failed' });
      throw error;
    }
  };
}

function tellEnd({ metrics, log }: WorkerRunsOptions, target: string, end: TargetEnd, ms: number): void {
  const problem = end.cleaned?.problem ?? null;
  if (problem !== null) log.warn({ target, problem }, 'a purge is not finished in this target');
  if (end.kind === 'nothing-stored') return metrics.onPublication(target, end);
  const { manifest } = newestOf(end);
  const newest = { publication: manifest.publication, createdAtMs: Date.parse(manifest.createdAt) };
  for (const warning of end.warnings) log.warn({ target }, warning);
  if (end.kind === 'unchanged') return metrics.onPublication(target, { kind: end.kind, ...newest });
  const rows = manifest.entities.reduce((sum, { upserts, deletes }) => sum + upserts + deletes, 0);
  metrics.onPublication(target, { kind: end.kind, ...newest, rows, ms });
  log.info({ target, publication: manifest.publication, rows, ms }, 'published');
  for (const { connector, entity, reason } of end.newGenerations) {
    if (reason === null) continue;
    const text = 'rows published before no longer count: a new generation';
    log.warn({ target, connector, entity, reason }, text);
  }
}

/** The newest publication after an attempt to publish. */
function newestOf(end: Exclude<PublishEnd, { readonly kind: 'nothing-stored' }>) {
  return end.kind === 'published' ? end.published : end.newest;
}

/** The state of a target after a purge. */
type CleanedTarget = Awaited<ReturnType<typeof finishPurges>>;

/** Result of cleaning a target, in words. */
export function cleanedText({ target, publication, removed, problem }: CleanedTarget): string {
  if (problem !== null) return `Target ${target} may still hold what was purged: ${problem}`;
  if (publication === null) return `Target ${target}: nothing was ever published`;
  const { publications, files } = removed;
  return `Target ${target}: publication ${publication} is without what was purged; ${counted(publications, 'older publication')} removed, with ${counted(files, 'file')}`;
}

/** A target that could not be cleaned. */
function notCleaned(target: string, problem: string) {
  return { target, publication: null, removed: { publications: 0, files: 0 }, problem };
}

/** Steps that purges of the target's connectors have not finished there. */
export async function targetWork({ name, connectors }: PublishSettings): Promise<readonly PurgeWork[]> {
  const [first] = connectors;
  await using history = first === undefined ? null : await openExistingHistory(first.sink);
  const work = (await history?.purgeWork(connectors.map((one) => one.name))) ?? [];
  return work.filter(({ step }) => step === `target:${name}`);
}

/**
 * Finishes purges in a target, after a publication that began when their rows were gone from the sink: removes all
 * earlier publications and the leftovers of killed publishers. Work that cannot be done now stays noted.
 */
async function finishPurges(
  target: Target,
  { name, connectors: [first] }: PublishSettings,
  { work, end, ...how }: OpenTarget & { readonly work: readonly PurgeWork[]; readonly end: PublishEnd },
) {
  try {
    const { publications, files, waiting } = await target.prune(how.clock.now() + 1, false, true);
    const left = `${counted(waiting.files, 'file')} of a publication that was begun and is not there; the next publication removes what is left of it.`;
    const problem = heldText(name, work, end) ?? (waiting.files > 0 ? left : null);
    if (problem === null && first !== undefined) {
      await using sink = await openSink(first.sink, how);
      await sink.purges.noteDone(work);
    }
    const publication = end.kind === 'nothing-stored' ? null : newestOf(end).manifest.publication;
    return { target: name, publication, removed: { publications, files }, problem };
  } catch (error) {
    how.signal.throwIfAborted();
    if (!(error instanceof SyncError)) throw error;
    return notCleaned(name, error.message);
  }
}

/** An entity that waits to be read again keeps its published rows. */
function heldText(target: string, work: readonly PurgeWork[], end: PublishEnd): string | null {
  const held = (end.kind === 'nothing-stored' ? [] : end.heldBack).filter((one) =>
    work.some(({ connector, entity }) => connector === one.connector && entity === one.entity),
  );
  if (held.length === 0) return null;
  return `${held.map(({ entity }) => entity).join(', ')} stay as they were published until they are read completely again. To replace all rows now: publish ${target} --new-generation, then publish prune.`;
}
