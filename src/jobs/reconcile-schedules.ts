import { hash } from 'node:crypto';
import { hostname } from 'node:os';
import type { JobSchedulerJson, JobSchedulerTemplateOptions, RepeatOptions } from 'bullmq';
import type { Redis } from 'ioredis';
import * as z from 'zod';
import { type Clock, instant } from '../core/clock.ts';
import { SyncError } from '../core/errors.ts';
import type { ConnectorName } from '../core/names.ts';
import { previousSlot } from '../settings/cron.ts';
import type { ConnectorSettings, Schedule } from '../settings/settings.ts';
import {
  addSync,
  publicationName,
  publicationSchedulerId,
  type QueueSet,
  scheduledName,
  schedulerId,
  sinksKey,
} from './open-queue-set.ts';
import {
  isMadeUpFor,
  type ScheduledTarget,
  type ServedSink,
  sinkOfTarget,
  type WorkerContext,
  type WorkerLedger,
} from './worker-context.ts';

type ScheduledConnector = Pick<ConnectorSettings, 'name' | 'schedule'> & {
  readonly sink: Pick<ConnectorSettings['sink'], 'name'>;
};

/**
 * Only schedulers of `sinks` are changed; all others belong to other workers. `lastRun` is read for cron schedules that
 * Redis did not have: a slot that passed without a run gets a catch-up run.
 */
interface ReconcileOptions extends Pick<WorkerContext, 'queues' | 'targets' | 'sinks' | 'clock'> {
  readonly connectors: ReadonlyMap<ConnectorName, ScheduledConnector>;
  readonly ledger: Pick<WorkerLedger, 'paused' | 'lastRun'>;
  readonly claim: ScheduleClaim;
  readonly retryDelayMs: number;
}

/**
 * Makes Redis hold exactly the schedules of the settings for the given sinks. A schedule that is already correct is not
 * written: rewriting a cron schedule drops its overdue run, so a daily sync missed during a restart would wait another
 * day. Idempotent, also for concurrent processes and beside processes with an older or newer config: if a newer config
 * holds a sink's schedules, nothing is written or removed. Gives names of connectors, and `publish-<target>`.
 */
export async function reconcileSchedules(options: ReconcileOptions) {
  const { ticks } = options.queues;
  const existing = new Map(
    (await ticks.getJobSchedulers(0, -1)).map((scheduler) => [scheduler.key, scheduler]),
  );
  const written: string[] = [];
  const kept: string[] = [];
  const removed: string[] = [];
  const outdated: string[] = [];
  const asked = options.sinks.map(async (sink) => ({
    sink,
    wanted: await wantedTicks(options, sink),
    isOwn: await isInForce(options, sink),
  }));
  for (const { sink, wanted, isOwn } of await Promise.all(asked)) {
    if (!isOwn) {
      outdated.push(sink.name);
      continue;
    }
    const outOfDate = wanted.filter((tick) => !isCurrent(existing.get(tick.id), tick));
    await inBatches(outOfDate, async (tick) => {
      const first = tick.of === null ? {} : await firstTime(options, tick.of);
      await ticks.upsertJobScheduler(tick.id, { ...tick.repeat, ...first }, tick.template);
      if (tick.of !== null) await catchUp(options, sink, tick.of, existing.get(tick.id));
    });
    const isWritten = new Set(outOfDate);
    written.push(...outOfDate.map(({ name }) => name));
    kept.push(...wanted.flatMap((tick) => (isWritten.has(tick) ? [] : [tick.name])));
    const isWanted = new Set(wanted.map(({ id }) => id));
    const unwanted = [...existing.keys()].flatMap((id) => {
      const name = scheduledName(id, sink.id);
      return name === null || isWanted.has(id) ? [] : [{ id, name }];
    });
    await inBatches(unwanted, ({ id }) => ticks.removeJobScheduler(id));
    removed.push(...unwanted.map(({ name }) => name));
  }
  return {
    written,
    kept,
    removed,
    /** Names of the sinks whose schedules belong to a process with a newer config. */
    outdated,
  };
}

const batchSize = 100;

/** A busy worker waits long for each answer of Redis: a new config may have ten thousand schedules. */
async function inBatches<One>(all: readonly One[], work: (one: One) => Promise<unknown>): Promise<void> {
  for (let from = 0; from < all.length; from += batchSize) {
    await Promise.all(all.slice(from, from + batchSize).map(work));
  }
}

interface OfConnector {
  readonly connector: ConnectorName;
  readonly schedule: Schedule;
}

/** A schedule as Redis should hold it. */
type WantedTick = Awaited<ReturnType<typeof wantedTicks>>[number];

/** Options of a job that only adds another job. */
const tickOptions: JobSchedulerTemplateOptions = {
  attempts: 3,
  backoff: { type: 'exponential', delay: 1000 },
  removeOnComplete: { count: 50 },
  removeOnFail: { count: 50 },
};

async function wantedTicks(options: ReconcileOptions, sink: ServedSink) {
  const isPaused = await options.ledger.paused(sink.name);
  const ofConnectors = [...options.connectors.values()].flatMap(({ name, schedule, sink: own }) =>
    schedule === null || own.name !== sink.name || isPaused.has(name)
      ? []
      : [tickOf(sink, { connector: name, schedule })],
  );
  const ofTargets = scheduledTargets(options.targets, sink).map(({ target, everyMs }) => {
    const name = publicationName(target);
    const data = { sink: sink.id, target };
    const id = publicationSchedulerId(sink.id, target);
    const repeat: Omit<RepeatOptions, 'key'> = { every: everyMs };
    return { id, name, repeat, template: { name, data, opts: tickOptions }, of: null };
  });
  return [...ofConnectors, ...ofTargets];
}

/**
 * The name of its jobs contains a fingerprint of the schedule in the settings, whatever form BullMQ stores it in.
 * Jitter and the missed-run rule are applied when the tick fires, so the fingerprint does not include them.
 */
function tickOf(sink: ServedSink, of: OfConnector) {
  const { connector, schedule } = of;
  const repeat: Omit<RepeatOptions, 'key'> =
    schedule.kind === 'cron'
      ? { pattern: schedule.pattern, tz: schedule.timezone }
      : { every: schedule.everyMs };
  const fingerprint = hash('sha256', JSON.stringify([sink.id, connector, repeat])).slice(0, 12);
  const data = { sink: sink.id, connector };
  const template = { name: `tick-${fingerprint}`, data, opts: tickOptions };
  return { id: schedulerId(sink.id, connector), name: connector, repeat, template, of };
}

function isCurrent(stored: JobSchedulerJson | undefined, { repeat, template }: WantedTick): boolean {
  if (stored === undefined || stored.name !== template.name) return false;
  return repeat.every === undefined
    ? stored.pattern === repeat.pattern && stored.tz === repeat.tz
    : stored.every === repeat.every;
}

/** The targets of a sink that are published on a schedule, in the order of their names. */
function scheduledTargets(targets: readonly ScheduledTarget[], sink: ServedSink) {
  return targets
    .flatMap((target) =>
      target.when.kind === 'every' && sinkOfTarget(target) === sink.name
        ? [{ target: target.name, everyMs: target.when.everyMs }]
        : [],
    )
    .toSorted((left, right) => (left.target < right.target ? -1 : 1));
}

/**
 * True if this process may write the schedules of this sink: its config is the one that started last. During a deploy,
 * workers with two configs run side by side; without this check each would undo the other's writes. Idempotent; after
 * Redis loses its data, the claims can be repeated in any order. Claims with the schedules of the settings alone:
 * paused connectors are in the ledger, which all processes read.
 */
async function isInForce({ queues, connectors, targets, claim }: ReconcileOptions, sink: ServedSink) {
  const ofConnectors = [...connectors.values()]
    .filter((connector) => connector.schedule !== null && connector.sink.name === sink.name)
    .toSorted((left, right) => (left.name < right.name ? -1 : 1))
    .map(({ name, schedule }) => [name, schedule]);
  const schedules = [...ofConnectors, ...scheduledTargets(targets, sink)];
  const own = hash('sha256', JSON.stringify(schedules)).slice(0, 16);
  // Hash from a sink's id to the start time and fingerprint of the config whose schedules are in force.
  const keys = [`${queues.prefix}:schedules`, sink.id, String(claim.sinceMs), own];
  return (await queues.redis.eval(keepNewestClaim, 1, ...keys)) === own;
}

/**
 * The first run of an interval starts at once or, if the connector has run before, one interval after that run started.
 * Otherwise every connector would run at the same moment after Redis lost its data.
 */
async function firstTime({ ledger, clock }: ReconcileOptions, { connector, schedule }: OfConnector) {
  if (schedule.kind !== 'every') return {};
  const last = await ledger.lastRun(connector);
  if (last === null || last.state === 'running' || last.state === 'interrupted') return {};
  const startDate = Date.parse(last.startedAt) + schedule.everyMs;
  return startDate > clock.now() ? { startDate } : {};
}

/**
 * Adds a catch-up run if needed: a cron schedule that Redis lost, or that is rewritten, starts with its next slot, so a
 * daily sync whose slot passed meanwhile would wait another day. `firstTime` does the same for intervals. `stored`: the
 * previous schedule in Redis.
 */
async function catchUp(
  { queues, ledger, clock, retryDelayMs }: ReconcileOptions,
  sink: ServedSink,
  { connector, schedule }: OfConnector,
  stored: JobSchedulerJson | undefined,
): Promise<void> {
  if (schedule.kind !== 'cron' || schedule.missed === 'skip') return;
  const last = await ledger.lastRun(connector);
  const nowMs = clock.now();
  // A connector that never ran may be new, with its first slot ahead. Rewriting drops a tick that was due and not
  // taken.
  const lost = last === null ? null : previousSlot(schedule, nowMs);
  const overdue = stored?.next !== undefined && stored.next < nowMs ? stored.next : null;
  const due = stored === undefined ? lost : overdue;
  if (due === null || isMadeUpFor(due, last)) return;
  await addSync(
    queues.syncs(sink.id),
    { connector, reason: 'catch-up', due },
    { retryDelayMs, deadlineMs: due },
  );
}

const registered = z.object({ id: z.string().min(1), host: z.string(), place: z.string() });

/** The file that a sink's name stands for, as its first worker registered it. */
type RegisteredSink = z.output<typeof registered>;

/**
 * Registers the file of a sink's name; resolves with the id that it had before, if that differs. A new file at the same
 * path of the same host replaces the old one. A file anywhere else throws `SyncError` SINK_INCOMPATIBLE unless
 * `mayTakeOver`: two machines would otherwise write to two unrelated files in turn.
 */
async function registerSink(
  { redis, prefix }: QueueSet,
  sink: ServedSink,
  mayTakeOver: boolean,
  clock: Clock,
) {
  const own = { id: sink.id, host: hostname(), place: sink.place };
  const text = JSON.stringify({ ...own, pid: process.pid, since: instant(clock.now()) });
  const isFirst = (await redis.hsetnx(sinksKey(prefix), sink.name, text)) === 1;
  const known = isFirst ? null : await registeredSink(redis, prefix, sink.name);
  const isSamePlace = known?.host === own.host && known.place === own.place;
  if (isFirst || (known?.id === own.id && isSamePlace)) return null;
  if (known !== null && known.id !== own.id && !mayTakeOver && !isSamePlace) {
    throw incompatible(sink.name, known, own);
  }
  await redis.hset(sinksKey(prefix), sink.name, text);
  return known === null || known.id === own.id ? null : known.id;
}

/** Null when no worker has served a sink of this name. */
export async function registeredSink(redis: Redis, prefix: string, name: string) {
  const text = await redis.hget(sinksKey(prefix), name);
  if (text === null) return null;
  try {
    return registered.parse(JSON.parse(text));
  } catch (error) {
    throw new SyncError(
      `Expected the location of sink ${name} in field ${name} of Redis hash ${sinksKey(prefix)}; found an unknown value. Remove the field.`,
      { code: 'INTERNAL', recovery: 'stop', context: { sink: name }, cause: error },
    );
  }
}

function incompatible(sink: string, known: RegisteredSink, own: RegisteredSink): SyncError {
  return new SyncError(
    `Sink ${sink} is registered in this Redis as ${known.place} on ${known.host}; here it is another file, ${own.place} on ${own.host}. ` +
      `Run this worker where that file is, or exclude the sink's connectors with --connectors; ` +
      `if that file is permanently lost, run \`connector-sync schedule apply --take-over ${sink}\`.`,
    {
      code: 'SINK_INCOMPATIBLE',
      recovery: 'stop',
      context: { sink, host: known.host, place: known.place, ownHost: own.host, ownPlace: own.place },
    },
  );
}

/**
 * Registers every sink. If a sink's file was replaced, removes the queued jobs and schedules of the old file, which no
 * worker could run. Returns the names of those sinks. Throws `SyncError` SINK_INCOMPATIBLE if a name is registered for
 * another file, unless `takeOver` has the name.
 */
export async function registerSinks(
  queues: QueueSet,
  sinks: readonly ServedSink[],
  { takeOver, clock }: { readonly takeOver: readonly string[]; readonly clock: Clock },
): Promise<readonly string[]> {
  const tookOver = sinks.map(async (sink) => {
    const replaced = await registerSink(queues, sink, takeOver.includes(sink.name), clock);
    if (replaced === null) return [];
    await forget(queues, replaced);
    return [sink.name];
  });
  return (await Promise.all(tookOver)).flat();
}

async function forget(queues: QueueSet, sinkId: string): Promise<void> {
  for (const { key } of await queues.ticks.getJobSchedulers(0, -1)) {
    if (scheduledName(key, sinkId) !== null) await queues.ticks.removeJobScheduler(key);
  }
  await queues.syncs(sinkId).drain(true);
  await queues.publications(sinkId).drain(true);
}

/** One process's claim to the schedules of the sinks that it serves. */
export type ScheduleClaim = Readonly<Awaited<ReturnType<typeof beginClaim>>>;

/**
 * Keeps the claim of the config that started last, in whatever order claims arrive; returns the fingerprint in force.
 */
const keepNewestClaim = `
local known = redis.call('hget', KEYS[1], ARGV[1])
if known then
  local since, fingerprint = string.match(known, '^(%d+) (%x+)$')
  if since and tonumber(since) >= tonumber(ARGV[2]) then return fingerprint end
end
redis.call('hset', KEYS[1], ARGV[1], ARGV[2] .. ' ' .. ARGV[3])
return ARGV[3]`;

/** `sinceMs`: when the process started, by the clock of Redis, in milliseconds. */
export async function beginClaim(redis: Redis) {
  const [seconds = 0, microseconds = 0] = (await redis.time()).map(Number);
  return { sinceMs: seconds * 1000 + Math.floor(microseconds / 1000) };
}
