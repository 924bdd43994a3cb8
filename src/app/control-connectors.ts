import { instant } from '../core/clock.ts';
import { SyncError, usage } from '../core/errors.ts';
import type { ConnectorName, RunId } from '../core/names.ts';
import type { Queues } from '../jobs/open-queues.ts';
import type { ServedSink } from '../jobs/worker-context.ts';
import { connectorsBySink, sinksOf } from '../settings/choices.ts';
import { withParts } from '../settings/load-settings.ts';
import type { ConnectorSettings, LocalSettings, SinkSettings } from '../settings/settings.ts';
import type { Pause } from '../sinks/lease.ts';
import type { EntityStatus } from '../sinks/ledger-reader.ts';
import { accessSink, openSink, storedStatus } from '../sinks/registry.ts';
import type { ResetCounts, ResetScope } from '../sinks/requests.ts';
import type { OpenHow, Sink } from '../sinks/sink-access.ts';
import { overviewOf, readOverviews } from './connector-states.ts';
import {
  checkHere,
  checkNotPaused,
  openQueuesOf,
  reachQueues,
  servedSink,
  sinkIdOf,
} from './reach-queues.ts';

/**
 * Called with each completed action, as text for a person and as a document for a program. A call without a document is
 * a remark about the whole.
 */
export type Tell = (line: string, document?: Done) => void;

type Done =
  | { readonly connector: ConnectorName; readonly paused: Pause; readonly running: RunId | null }
  | { readonly connector: ConnectorName; readonly wasPaused: boolean }
  | ({ readonly connector: ConnectorName } & Awaited<ReturnType<Queues['enqueue']>>);

interface How extends Pick<OpenHow, 'clock' | 'signal' | 'who'> {
  readonly program: string;
  readonly tell: Tell;
}

export const defaultReason = 'paused by hand';

/**
 * Pauses connectors. Writes to their sinks first, which a worker reads before every run; then removes their schedules
 * from Redis. Throws USAGE, before anything is done, if a sink is on another machine.
 */
export async function pauseConnectors(
  settings: LocalSettings,
  connectors: readonly ConnectorSettings[],
  text: string,
  how: How,
): Promise<void> {
  const reason = text.trim();
  if (reason === '') throw usage('Expected a few words as the reason, got none.');
  await using reached = await reachQueues(settings);
  const { queues, problem } = reached;
  const pause = { since: instant(how.clock.now()), reason };
  await inEachSink(connectors, queues, how, async (sink, names) => {
    await sink.pause(names, pause);
    await Promise.all(names.map(async (name) => await queues?.removeSchedule(sink.id, name)));
    const last = await sink.history.recentRuns(names, 1);
    for (const connector of names) {
      const newest = last.get(connector)?.[0];
      const running = newest?.state === 'running' ? newest.run : null;
      const continues =
        running === null
          ? ''
          : `; its run ${running} continues, "${how.program} cancel ${running}" stops it at its next page`;
      how.tell(`${connector}: paused${continues}`, { connector, paused: pause, running });
    }
  });
  if (problem !== null) how.tell(unreachedText(problem));
}

/** Ends their pauses, and writes their schedules to Redis again. Otherwise as `pauseConnectors`. */
export async function resumeConnectors(
  settings: LocalSettings,
  connectors: readonly ConnectorSettings[],
  how: How,
): Promise<void> {
  await using reached = await reachQueues(settings);
  const { queues, problem } = reached;
  await inEachSink(connectors, queues, how, async (sink, names) => {
    const paused = await sink.resume(names);
    for (const connector of names) {
      const wasPaused = paused.has(connector);
      const schedule = settings.connectors.get(connector)?.schedule ?? null;
      const resumed =
        schedule === null ? 'resumed; it has no schedule' : 'resumed, runs on its schedule again';
      how.tell(`${connector}: ${wasPaused ? resumed : 'was not paused'}`, { connector, wasPaused });
    }
  });
  if (queues === null) return how.tell(unreachedText(problem));
  const served: ServedSink[] = [];
  for (const sink of sinksOf(connectors)) served.push(await servedSink(sink, how.clock));
  try {
    await writeSchedules(settings, queues, served);
  } catch (error) {
    // The sinks already hold everything that counts.
    if (!(error instanceof SyncError)) throw error;
    how.tell(unreachedText(error.message));
  }
}

/**
 * Has a worker run connectors now, for a person (`by`, as in `LedgerReader.actions`); a job that already waits or runs
 * is left unchanged. Throws QUEUE_UNAVAILABLE within two seconds, and USAGE for a paused connector or if no worker
 * would take the job; then nothing was requested.
 */
export async function runNow(
  settings: LocalSettings,
  connectors: readonly ConnectorSettings[],
  by: string,
  { program, tell }: Pick<How, 'program' | 'tell'>,
): Promise<void> {
  await using reached = await openRunQueues(settings, connectors, program);
  for (const some of inParts(connectors)) {
    const jobs = await Promise.all(
      some.map(async ({ name, sink }) => ({
        connector: name,
        ...(await reached.queues.enqueue(reached.idBySink.get(sink) ?? '', name, 'manual', { by })),
      })),
    );
    for (const job of jobs) tell(`${job.connector}: ${queuedText(job)}`, job);
  }
}

/**
 * Has a worker run a connector now, and lets this run alone make the deletes that a guard withholds. Throws as `runNow`
 * does, and USAGE if a job of it already waits or runs; then nothing was requested.
 */
export async function runAllowingDeletes(
  settings: LocalSettings,
  connector: ConnectorSettings,
  by: string,
  { program, tell }: Pick<How, 'program' | 'tell'>,
): Promise<void> {
  const { name, sink } = connector;
  await using reached = await openRunQueues(settings, [connector], program);
  const sinkId = reached.idBySink.get(sink) ?? '';
  const job = await reached.queues.enqueue(sinkId, name, 'manual', { by, allowDeletes: true });
  const text = queuedText(job);
  if (!job.isNew) {
    throw usage(`${name} is ${text}: that run deletes what it was allowed to. Ask again when it has ended.`);
  }
  tell(`${name}: ${text}`, { connector: name, ...job });
}

/** Throws as `runNow` does, without asking for anything. */
export async function checkRunnable(
  settings: LocalSettings,
  connectors: readonly ConnectorSettings[],
  program: string,
): Promise<void> {
  await using _reached = await openRunQueues(settings, connectors, program);
}

async function openRunQueues(
  settings: LocalSettings,
  connectors: readonly ConnectorSettings[],
  program: string,
) {
  await checkNotPaused(connectors, program);
  const queues = await openQueuesOf(withParts(settings, 'redis'));
  try {
    const idBySink = new Map<SinkSettings, string>();
    for (const sink of sinksOf(connectors)) idBySink.set(sink, await sinkIdOf(sink, queues, program));
    return { queues, idBySink, [Symbol.asyncDispose]: () => queues[Symbol.asyncDispose]() };
  } catch (error) {
    await queues[Symbol.asyncDispose]();
    throw error;
  }
}

/** Makes Redis hold the config's schedules of these sinks, without those of paused connectors. */
export async function writeSchedules(
  settings: LocalSettings,
  queues: Queues,
  sinks: readonly ServedSink[],
  takeOver: readonly string[] = [],
): ReturnType<Queues['apply']> {
  const names = new Set(sinks.map(({ name }) => name));
  const connectors = [...settings.connectors].filter(([, { sink }]) => names.has(sink.name));
  const overviews = await readOverviews(connectors.map(([, connector]) => connector));
  const known = new Map(connectors.map(([name, connector]) => [name, overviewOf(overviews, connector)]));
  return await queues.apply({
    connectors: new Map(connectors),
    targets: [...settings.publish.values()],
    sinks,
    paused: async (sink) =>
      new Set(
        [...(overviews.get(sink)?.connectors.values() ?? [])].flatMap(({ connector, paused }) =>
          paused === null ? [] : [connector],
        ),
      ),
    takeOver,
    lastRun: async (connector) => known.get(connector)?.lastRun ?? null,
  });
}

/** Opens each sink, where all of them are here, for parts of its connectors. */
async function inEachSink(
  connectors: readonly ConnectorSettings[],
  queues: Queues | null,
  how: How,
  work: (sink: Sink, names: readonly ConnectorName[]) => Promise<void>,
): Promise<void> {
  const bySink = connectorsBySink(connectors);
  for (const [sink] of bySink) await checkHere(sink, queues);
  for (const [settings, ofSink] of bySink) {
    await using sink = await openSink(settings, how);
    for (const some of inParts(ofSink)) {
      await work(
        sink,
        some.map(({ name }) => name),
      );
    }
  }
}

/** Connectors per transaction or Redis turn. */
const atOnce = 500;

function inParts(connectors: readonly ConnectorSettings[]): readonly (readonly ConnectorSettings[])[] {
  return Array.from({ length: Math.ceil(connectors.length / atOnce) }, (_, part) =>
    connectors.slice(part * atOnce, (part + 1) * atOnce),
  );
}

/** State of a requested job, in words. */
export function queuedText({ isNew, state }: { readonly isNew: boolean; readonly state: string }): string {
  if (isNew) return state === 'active' ? 'a worker has taken it' : 'waiting for a worker to take it';
  if (state === 'active') return 'already running';
  return state === 'delayed' ? 'already waiting for its next attempt' : 'already waiting';
}

/** Says that a pause or its end is in effect, although `problem` kept Redis from being updated. */
function unreachedText(problem: string): string {
  return `This is stored in the sink and is in effect. A worker learns of it within a minute, because Redis could not be told: ${problem}`;
}

/** A connector, or one entity of it with its tables, whose progress is discarded. */
interface ResetTarget {
  readonly connector: ConnectorSettings;
  readonly scope: Pick<ResetScope, 'entity' | 'tables'>;
}

/** Lists data that a reset would discard; empty where nothing is stored. */
export async function wouldReset({ connector, scope }: ResetTarget): Promise<readonly EntityStatus[]> {
  const stored = await storedStatus(connector);
  const names = new Set(scope.tables.map(({ entity }) => entity));
  return (stored?.entities ?? []).filter(({ entity }) => scope.entity === null || names.has(entity));
}

/** Null where there is no sink. Throws as `reset` of the sink. */
export async function resetConnector(
  { connector, scope }: ResetTarget,
  withData: boolean,
  how: Pick<OpenHow, 'clock' | 'signal'>,
): Promise<ResetCounts | null> {
  if (!(await accessSink(connector.sink).isThere())) return null;
  await using sink = await openSink(connector.sink, how);
  return await sink.repair.reset(connector.name, { ...scope, withData, now: instant(how.clock.now()) });
}
