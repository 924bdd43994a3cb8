import { createHash } from 'node:crypto';
import type { Redis } from 'ioredis';
import { schedulesKey } from './queue-names.ts';
import type { ServedSink } from './worker-context.ts';

/** One process's claim to the schedules of the sinks that it serves. */
export interface ScheduleClaim {
  /** When the process started, by the clock of Redis, in milliseconds. */
  readonly sinceMs: number;
}

/** Keeps the claim of the config that started last, in whatever order claims arrive; returns the fingerprint in force. */
const claim = `
local known = redis.call('hget', KEYS[1], ARGV[1])
if known then
  local since, fingerprint = string.match(known, '^(%d+) (%x+)$')
  if since and tonumber(since) >= tonumber(ARGV[2]) then return fingerprint end
end
redis.call('hset', KEYS[1], ARGV[1], ARGV[2] .. ' ' .. ARGV[3])
return ARGV[3]`;

export async function beginClaim(redis: Redis): Promise<ScheduleClaim> {
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
