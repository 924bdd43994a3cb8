import { createHash } from 'node:crypto';
import type { Redis } from 'ioredis';
import { schedulesKey } from './queue-names.ts';
import type { ServedSink } from './served-sink.ts';

/** The claim of one process to the schedules of the sinks that it serves. */
export interface ScheduleClaim {
  /** When the process began, by the clock of Redis, in milliseconds. */
  readonly sinceMs: number;
}

/** Keeps the claim of the config that began last, whoever comes first; gives the fingerprint that is in force. */
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
 * Whether the schedules of this sink are the business of this process: they are while its config is the one that began
 * last. During a deploy, workers of two configs run side by side; without this each would undo what the other writes. Safe
 * to repeat; a Redis that has forgotten everything is told again, in any order.
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
