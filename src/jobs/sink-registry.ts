import { createHash } from 'node:crypto';
import { hostname } from 'node:os';
import type { Redis } from 'ioredis';
import * as z from 'zod';
import { type Clock, instant } from '../core/clock.ts';
import { SyncError } from '../core/errors.ts';
import {
  scheduledConnector,
  scheduledTarget,
  schedulesKey,
  sinksKey,
  type QueueSet,
} from './open-queue-set.ts';
import type { ServedSink } from './worker-context.ts';

const registered = z.object({ id: z.string().min(1), host: z.string(), place: z.string() });

/** The file that a sink's name stands for, as its first worker registered it. */
type RegisteredSink = z.output<typeof registered>;

/**
 * Registers the file of a sink's name; resolves with the id that it had before, if that differs. A new file at the same
 * path of the same host replaces the old one. A file anywhere else throws `SyncError` SINK_INCOMPATIBLE unless
 * `mayTakeOver`: two machines would otherwise write to two unrelated files in turn.
 */
async function registerSink(
  redis: Redis,
  prefix: string,
  sink: ServedSink,
  options: { readonly mayTakeOver: boolean; readonly clock: Clock },
): Promise<string | null> {
  const own = { id: sink.id, host: hostname(), place: sink.place };
  const text = JSON.stringify({ ...own, pid: process.pid, since: instant(options.clock.now()) });
  const isFirst = (await redis.hsetnx(sinksKey(prefix), sink.name, text)) === 1;
  const known = isFirst ? null : await registeredSink(redis, prefix, sink.name);
  if (isFirst || (known?.id === own.id && known.host === own.host && known.place === own.place)) {
    return null;
  }
  if (known !== null && known.id !== own.id && !options.mayTakeOver && !isSamePlace(known, own)) {
    throw incompatible(sink.name, known, own);
  }
  await redis.hset(sinksKey(prefix), sink.name, text);
  return known === null || known.id === own.id ? null : known.id;
}

/** Null when no worker has served a sink of this name. */
export async function registeredSink(
  redis: Redis,
  prefix: string,
  name: string,
): Promise<RegisteredSink | null> {
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

function isSamePlace(left: RegisteredSink, right: RegisteredSink): boolean {
  return left.host === right.host && left.place === right.place;
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
  options: { readonly takeOver: readonly string[]; readonly clock: Clock },
): Promise<readonly string[]> {
  const tookOver = sinks.map(async (sink) => {
    const replaced = await registerSink(queues.redis, queues.prefix, sink, {
      mayTakeOver: options.takeOver.includes(sink.name),
      clock: options.clock,
    });
    if (replaced === null) return [];
    await forget(queues, replaced);
    return [sink.name];
  });
  return (await Promise.all(tookOver)).flat();
}

async function forget(queues: QueueSet, sinkId: string): Promise<void> {
  for (const { key } of await queues.ticks.getJobSchedulers(0, -1)) {
    const isOfSink = scheduledConnector(key, sinkId) !== null || scheduledTarget(key, sinkId) !== null;
    if (isOfSink) await queues.ticks.removeJobScheduler(key);
  }
  await queues.syncs(sinkId).drain(true);
  await queues.publications(sinkId).drain(true);
}

/** One process's claim to the schedules of the sinks that it serves. */
export type ScheduleClaim = Readonly<Awaited<ReturnType<typeof beginClaim>>>;

/**
 * Keeps the claim of the config that started last, in whatever order claims arrive; returns the fingerprint in force.
 */
const claim = `
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

/**
 * True if this process may write the schedules of this sink: its config is the one that started last. During a deploy,
 * workers with two configs run side by side; without this check each would undo the other's writes. Idempotent; after
 * Redis loses its data, the claims can be repeated in any order.
 */
export async function claimSchedules(
  redis: Redis,
  prefix: string,
  { sink, schedules, sinceMs }: ScheduleClaim & { readonly sink: ServedSink; readonly schedules: unknown },
): Promise<boolean> {
  const own = createHash('sha256').update(JSON.stringify(schedules)).digest('hex').slice(0, 16);
  const inForce = await redis.eval(claim, 1, schedulesKey(prefix), sink.id, String(sinceMs), own);
  return inForce === own;
}
