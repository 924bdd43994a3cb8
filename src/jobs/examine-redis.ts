import type { Clock } from '../core/clock.ts';
import { SyncError } from '../core/errors.ts';
import type { RedisSettings } from '../settings/settings.ts';
import { connectRedis } from './connect-redis.ts';

export interface RedisFinding {
  readonly what: 'redis' | 'redis memory' | 'redis persistence' | 'redis clock';
  readonly state: 'ok' | 'warning' | 'failed';
  /** For people: the finding and, if it is not ok, what to do. */
  readonly detail: string;
}

const oldest = { major: 6, minor: 2 };
const maxSkewMs = 5000;

/**
 * Checks the Redis of a worker: version, memory policy, persistence, clock. Never throws: a Redis that does not answer
 * is a finding. Each command takes two seconds at most.
 */
export async function examineRedis(
  settings: Pick<RedisSettings, 'url' | 'prefix'>,
  clock: Clock,
): Promise<readonly RedisFinding[]> {
  try {
    const connection = await connectRedis(settings, {
      enableOfflineQueue: false,
      commandTimeout: 2000,
    });
    try {
      const facts = parseInfo(String(await connection.redis.call('INFO')));
      const askedAtMs = clock.now();
      const [seconds = Number.NaN, microseconds = 0] = (await connection.redis.time()).map(Number);
      const nowMs = (askedAtMs + clock.now()) / 2;
      return [
        examineVersion(facts),
        examineMemory(facts),
        examinePersistence(facts),
        examineClock(seconds * 1000 + microseconds / 1000 - nowMs),
      ];
    } finally {
      connection.disconnect();
    }
  } catch (error) {
    const detail = error instanceof SyncError ? error.message : `INFO or TIME failed: ${reasonOf(error)}`;
    return [{ what: 'redis', state: 'failed', detail }];
  }
}

type Facts = ReadonlyMap<string, string>;

function parseInfo(text: string): Facts {
  return new Map(
    text.split(/\r?\n/).flatMap((line) => {
      const colon = line.indexOf(':');
      return colon === -1 ? [] : [[line.slice(0, colon), line.slice(colon + 1)]];
    }),
  );
}

function examineVersion(facts: Facts): RedisFinding {
  const version = facts.get('redis_version') ?? 'unknown';
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const isRecent = major > oldest.major || (major === oldest.major && minor >= oldest.minor);
  if (isRecent) return { what: 'redis', state: 'ok', detail: `version ${version}` };
  const detail = `expected version ${oldest.major}.${oldest.minor} or later, found ${version}; upgrade it`;
  return { what: 'redis', state: 'failed', detail };
}

function examineMemory(facts: Facts): RedisFinding {
  const what = 'redis memory';
  const policy = facts.get('maxmemory_policy') ?? 'unknown';
  const limit = facts.get('maxmemory') ?? '0';
  const used = facts.get('used_memory_human') ?? 'an unknown amount';
  const limitText = limit === '0' ? 'without a limit' : `of ${facts.get('maxmemory_human') ?? limit}`;
  if (policy === 'noeviction') return { what, state: 'ok', detail: `${used} used ${limitText}, noeviction` };
  const detail = `maxmemory-policy is ${policy}: Redis may evict jobs and schedules when memory runs short; set it to noeviction`;
  return { what, state: 'warning', detail };
}

function examinePersistence(facts: Facts): RedisFinding {
  const what = 'redis persistence';
  if (facts.get('aof_enabled') !== '1') {
    const detail =
      'appendonly is off: a restart of Redis loses manual jobs (schedules are restored within a minute). Turn it on';
    return { what, state: 'warning', detail };
  }
  if (facts.get('aof_last_write_status') !== 'err') return { what, state: 'ok', detail: 'appendonly' };
  const detail = 'appendonly is on but its last write failed; check the free space of its disk';
  return { what, state: 'warning', detail };
}

function examineClock(aheadMs: number): RedisFinding {
  const what = 'redis clock';
  const skew = `${Math.abs(aheadMs / 1000).toFixed(1)} s ${aheadMs < 0 ? 'behind' : 'ahead of'} this machine's`;
  if (Math.abs(aheadMs) <= maxSkewMs) return { what, state: 'ok', detail: skew };
  const detail = `its clock is ${skew}: runs start early or late by that; set the clocks by NTP`;
  return { what, state: 'warning', detail };
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
