import { randomUUID } from 'node:crypto';
import { type Callback, Redis, type RedisOptions } from 'ioredis';
import { type Clock, slept, systemClock } from '../core/clock.ts';
import { SyncError } from '../core/errors.ts';
import type { Secret } from '../core/secret.ts';
import type { RedisSettings } from '../settings/settings.ts';
import type { JobLog } from './worker-context.ts';

const answerWithinMs = 2000;
/** The deadline of the first contact is `rejectLate`. */
const socketWithinMs = 5000;
const longestPauseMs = 1000;
/** Longer than the longest blocking read, which is 10 s. */
const silentMs = 15_000;

/**
 * Opens a connection, waits for the first answer and checks the user's rights. By default the client retries forever
 * without a message, so the first contact has a limit of two seconds. After that the client reconnects by itself, once
 * a second. Throws `SyncError` QUEUE_UNAVAILABLE, whose message names the cause and the fix. The caller disconnects.
 */
export async function connectRedis(
  { url, prefix }: Pick<RedisSettings, 'url' | 'prefix'>,
  options: Pick<
    RedisOptions,
    'maxRetriesPerRequest' | 'enableOfflineQueue' | 'commandTimeout' | 'keyPrefix' | 'socketTimeout'
  >,
) {
  const redis = new Redis(url.reveal(), {
    // A firewall may forget a connection: commands sent over it get no answer for a quarter of an hour.
    socketTimeout: silentMs,
    ...options,
    lazyConnect: true,
    connectTimeout: socketWithinMs,
    // After a failover the address may resolve to the new primary; the old connection stays on the replica.
    reconnectOnError: (error) => errorKind(error) === 'READONLY',
    retryStrategy: (attempt: number) => Math.min(longestPauseMs, 100 * 2 ** Math.min(attempt, 4)),
  });
  const known = { info: '' };
  const disconnect = trackCopies(redis, known);
  // The client rejects with "Connection is closed"; the cause is in the error event before.
  let lastError: Error | null = null;
  redis.on('error', (error: Error) => (lastError = error));
  const answered = new AbortController();
  try {
    const ask = async (): Promise<string | null> => {
      await connect(redis);
      return await refusalOf(redis, prefix);
    };
    const refusal = await Promise.race([ask(), rejectLate(answered.signal)]);
    if (refusal !== null) throw new Refused(refusal);
  } catch (error) {
    disconnect();
    if (error instanceof Refused) throw unavailable(url, error.message, error);
    // While Redis loads its data, the client retries until the deadline.
    if (/^loading:1/m.test(known.info)) throw unavailable(url, isLoading, error);
    const cause = lastError ?? error;
    throw unavailable(url, failureText(cause, url), cause);
  } finally {
    answered.abort();
  }
  /**
   * `disconnect` closes this connection and every duplicate that the queue's client made of it, even if Redis does not
   * answer. Idempotent.
   */
  return { redis, disconnect };
}

/** An error whose message is ready to be shown after "Redis at host:port". */
class Refused extends Error {}

/** Selects the database explicitly: if it does not exist, the client silently uses database 0. */
async function connect(redis: Redis): Promise<void> {
  await redis.connect();
  const chosen = redis.options.db ?? 0;
  if (chosen === 0) return;
  await redis.select(chosen).catch((error: unknown) => {
    throw new Refused(
      `has no database ${chosen} (${reasonOf(error)}). Set another database at the end of redis.url, or use redis.prefix instead`,
    );
  });
}

/** The worker duplicates its connection for blocking reads, and does not close the duplicate while Redis is down. */
function trackCopies(redis: Redis, known: { info: string }): () => void {
  const all = [redis];
  guardInfo(redis, known);
  // Users of a connection add their own error listeners; this one only keeps the client from printing errors.
  const ignore = (): void => undefined;
  redis.on('error', ignore);
  const duplicate = redis.duplicate.bind(redis);
  redis.duplicate = (override) => {
    const copy = duplicate(override);
    copy.on('error', ignore);
    guardInfo(copy, known);
    all.push(copy);
    return copy;
  };
  return () => {
    for (const connection of all) connection.disconnect();
  };
}

/**
 * BullMQ runs INFO on every new connection, prints a warning about the eviction policy to the console (`examineRedis`
 * reports it), and retries without a pause if INFO is denied; ioredis then prints too. So the policy line is removed,
 * and if the user has lost the right, INFO answers with the last known text.
 */
function guardInfo(redis: Redis, known: { info: string }): void {
  const ask = redis.info.bind(redis);
  const info = async (): Promise<string> => {
    try {
      known.info = (await ask()).replace(/^maxmemory_policy:.*$/m, '');
    } catch (error) {
      if (!(error instanceof Error) || errorKind(error) !== 'NOPERM') throw error;
    }
    return known.info;
  };
  Object.assign(redis, {
    info: async (callback?: Callback<string>): Promise<string> => {
      if (callback === undefined) return await info();
      let failure: Error | null = null;
      const text = await info().catch((error: Error) => {
        failure = error;
        return '';
      });
      callback(failure, text);
      return text;
    },
  });
}

const turnMs = 100;

/**
 * Counts the turns of this process, not the time: while a worker reads a large config or stores pages, an answer may
 * have come and not be read yet.
 */
async function rejectLate(answered: AbortSignal): Promise<never> {
  for (let waitedMs = 0; waitedMs < answerWithinMs; waitedMs += turnMs) {
    await slept(systemClock, turnMs, answered);
  }
  throw new Error(`no answer within ${answerWithinMs} ms`);
}

export type WorkerConnections = Awaited<ReturnType<typeof openWorkerConnections>>;

/** Throws `SyncError` QUEUE_UNAVAILABLE within two seconds. The caller disconnects. */
export async function openWorkerConnections(settings: Pick<RedisSettings, 'url' | 'prefix'>) {
  const opening = [
    // maxRetriesPerRequest 0: commands in flight fail when the connection breaks.
    connectRedis(settings, { enableOfflineQueue: false, commandTimeout: 2000, maxRetriesPerRequest: 0 }),
    connectRedis(settings, { maxRetriesPerRequest: null }),
  ] as const;
  try {
    const [forQueues, forWorkers] = await Promise.all(opening);
    return {
      /** Commands fail fast, so that work that can be retried at the next interval never hangs. */
      forQueues,
      /** Commands have no timeout. */
      forWorkers,
      disconnect: () => [forQueues, forWorkers].forEach((one) => one.disconnect()),
    };
  } catch (error) {
    for (const one of await Promise.allSettled(opening)) {
      if (one.status === 'fulfilled') one.value.disconnect();
    }
    throw error;
  }
}

const isLoading = 'is still loading its data. Start again when it has finished';

/**
 * The commands of queues, rate limits and locks. KEY is a temporary key; Redis checks rights before types, so one will
 * do for all.
 */
const needed = `
  HSET KEY f 1, HMSET KEY g 1, HINCRBY KEY f 1, HGET KEY f, HMGET KEY f, HGETALL KEY, HEXISTS KEY f,
  HLEN KEY, HDEL KEY g, ZADD KEY 1 m, ZCARD KEY, ZCOUNT KEY 0 1, ZSCORE KEY m, ZRANGE KEY 0 0,
  ZREVRANGE KEY 0 0, ZRANGEBYSCORE KEY 0 1, ZREVRANGEBYSCORE KEY 1 0, ZRANGEBYLEX KEY - +,
  ZREMRANGEBYSCORE KEY 5 6, ZREMRANGEBYRANK KEY 5 6, ZREM KEY n, ZPOPMIN KEY,
  LPUSH KEY a, RPUSH KEY b, LLEN KEY, LRANGE KEY 0 0, LINDEX KEY 0, LPOS KEY a, LREM KEY 1 z, LTRIM KEY 0 5,
  RPOP KEY, LPOP KEY, XADD KEY * f 1, XLEN KEY, XRANGE KEY - +, XTRIM KEY MAXLEN 1,
  XREAD COUNT 1 STREAMS KEY 0, GET KEY, INCR KEY, INCRBY KEY 1, EXISTS KEY, PTTL KEY, PEXPIRE KEY 1000,
  PERSIST KEY, TYPE KEY, SADD KEY m, SREM KEY n, SCARD KEY, SMEMBERS KEY, SISMEMBER KEY m, SET KEY 1,
  UNLINK KEY, DEL KEY, INFO, TIME`;

/** Returns the names of the denied commands, and `READONLY` if Redis rejects writes. */
const tryAll = `
local refused = {}
for _, call in ipairs(cjson.decode(ARGV[1])) do
  local reply = redis.pcall(unpack(call))
  if type(reply) == 'table' and reply.err then
    if string.find(reply.err, 'NOPERM') or string.find(reply.err, "can't run this command") then
      table.insert(refused, call[1])
    elseif string.find(reply.err, 'READONLY') then
      return {'READONLY'}
    end
  end
end
return refused`;

/**
 * Tries every command that queues, rate limits and locks use, on a temporary key with `prefix`. Resolves with the
 * denied commands, as a text to follow "Redis at host:port"; null: none. Does not report out of memory, because that is
 * temporary. Rejects with the client's error when the connection breaks.
 */
async function refusalOf(redis: Redis, prefix: string): Promise<string | null> {
  const key = `${prefix}:{${randomUUID()}}`;
  const calls = needed
    .trim()
    .split(/,\s+/)
    .map((text) => text.split(' ').map((part) => (part === 'KEY' ? key : part)));
  // Scripts may run neither EVALSHA nor BZPOPMIN.
  const asks = {
    EVAL: () => redis.eval(tryAll, 1, key, JSON.stringify(calls)),
    EVALSHA: () => redis.evalsha('0'.repeat(40), 1, key),
    BZPOPMIN: () => redis.bzpopmin(key, 0.001),
  };
  const user = redis.options.username ?? 'default';
  const commands: string[] = [];
  for (const [command, ask] of Object.entries(asks)) {
    const found: unknown = await ask().catch((error: unknown) => {
      if (error instanceof Error && error.name === 'ReplyError') return error.message;
      throw error;
    });
    if (command === 'EVAL' && Array.isArray(found)) commands.push(...found.map(String));
    if (typeof found !== 'string') continue;
    if (found.startsWith('LOADING')) return isLoading;
    if (/^NOPERM .*\bkeys?\b/.test(found)) {
      return `does not let its user "${user}" use keys that begin with "${prefix}:". Allow them (ACL SETUSER ${user} ~${prefix}:*), or set redis.prefix to a prefix that the user may use`;
    }
    if (found.startsWith('NOPERM')) commands.push(command);
  }
  if (commands.includes('READONLY')) return 'is a read-only replica. Set redis.url to the primary';
  if (commands.length === 0) return null;
  const more = commands.length > 5 ? ` and ${commands.length - 5} more` : '';
  return `does not let its user "${user}" run ${commands.slice(0, 5).join(', ')}${more}. Allow them (ACL SETUSER ${user} +@all -@dangerous +info)`;
}

/** `what`: why Redis cannot be used, to stand behind its name. */
function unavailable(url: Secret, what: string, cause: unknown): SyncError {
  const { hostname, port } = new URL(url.reveal());
  const place = `${hostname}:${port === '' ? 6379 : port}`;
  return new SyncError(`Redis at ${place} ${what}.`, {
    code: 'QUEUE_UNAVAILABLE',
    recovery: 'stop',
    context: { place },
    cause,
  });
}

function failureText(error: unknown, url: Secret): string {
  const reason = reasonOf(error);
  const isTls = url.reveal().startsWith('rediss:');
  if (/max number of clients/.test(reason)) {
    return 'accepts no more connections (maxclients). Raise maxclients, or close connections of other clients';
  }
  if (/^(WRONGPASS|NOAUTH|ERR AUTH)\b/.test(reason)) {
    return `rejects the user name or password of redis.url: ${reason}. Correct them in redis.url`;
  }
  if (reason.startsWith('LOADING')) return isLoading;
  if (reason.startsWith('Unknown RESP type')) {
    return 'is not a Redis server: another program answers there. Set redis.url to the address of Redis';
  }
  if (/certificate/i.test(reason)) {
    return `has a TLS certificate that is not trusted: ${reason}. Name its CA in NODE_EXTRA_CA_CERTS`;
  }
  if (isTls && /no answer within|wrong version number|packet length|EPROTO/.test(reason)) {
    return `does not answer over TLS: ${reason}. If it does not use TLS, begin redis.url with redis:// instead of rediss://`;
  }
  if (!isTls && /Connection is closed|ECONNRESET|EPIPE/.test(reason)) {
    return 'closes the connection without an answer. If it expects TLS, begin redis.url with rediss:// instead of redis://. If it has as many clients as maxclients allows, raise maxclients or close other connections';
  }
  return `does not answer: ${reason}. Start it, or correct redis.url`;
}

/** In the words of the client, with its code. */
function reasonOf(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  const code = error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : '';
  if (code === 'ECONNREFUSED') return 'it refused the connection (ECONNREFUSED)';
  const text = message.replace(/[.\s]+$/, '');
  return code === '' || text.includes(code) ? text : `${text} (${code})`;
}

const oldest = { major: 6, minor: 2 };
const maxSkewMs = 5000;

/**
 * Checks the Redis of a worker: version, memory policy, persistence, clock. Never throws: a Redis that does not answer
 * is a finding. Each command takes two seconds at most.
 */
export async function examineRedis(settings: Pick<RedisSettings, 'url' | 'prefix'>, clock: Clock) {
  try {
    const connection = await connectRedis(settings, { enableOfflineQueue: false, commandTimeout: 2000 });
    try {
      const info = String(await connection.redis.call('INFO')).matchAll(/^([^:\r\n]+):(.*)$/gm);
      const facts: Facts = new Map(Array.from(info, ([, name = '', value = '']) => [name, value]));
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
    return [finding('redis', '', detail, 'failed')];
  }
}

type Facts = ReadonlyMap<string, string>;

function examineVersion(facts: Facts) {
  const version = facts.get('redis_version') ?? 'unknown';
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const isRecent = major > oldest.major || (major === oldest.major && minor >= oldest.minor);
  const problem = isRecent
    ? unsupportedMode(facts)
    : `expected version ${oldest.major}.${oldest.minor} or later, found ${version}; upgrade it`;
  return finding('redis', `version ${version}`, problem, 'failed');
}

function unsupportedMode(facts: Facts): string | null {
  const mode = facts.get('redis_mode');
  if (mode === 'cluster') return 'is a cluster: jobs need keys that it keeps apart; use a standalone Redis';
  return mode === 'sentinel' ? 'is a Sentinel; name the address of its primary in redis.url' : null;
}

/** For people; `problem` says what to do, and null: there is none. */
function finding(what: string, good: string, problem: string | null, bad: 'warning' | 'failed' = 'warning') {
  return { what, state: problem === null ? ('ok' as const) : bad, detail: problem ?? good };
}

function examineMemory(facts: Facts) {
  const policy = facts.get('maxmemory_policy') ?? 'unknown';
  const limit = facts.get('maxmemory') === '0' ? 'without a limit' : `of ${facts.get('maxmemory_human')}`;
  return finding(
    'redis memory',
    `${facts.get('used_memory_human')} used ${limit}, noeviction`,
    policy === 'noeviction'
      ? null
      : `maxmemory-policy is ${policy}: Redis may evict jobs and schedules when memory runs short; set it to noeviction`,
  );
}

function examinePersistence(facts: Facts) {
  const what = 'redis persistence';
  if (facts.get('aof_enabled') !== '1') {
    const problem =
      'appendonly is off: a restart of Redis loses manual jobs (schedules are restored within a minute). Turn it on';
    return finding(what, '', problem);
  }
  const hasFailed = facts.get('aof_last_write_status') === 'err';
  const problem = 'appendonly is on but its last write failed; check the free space of its disk';
  return finding(what, 'appendonly', hasFailed ? problem : null);
}

function examineClock(aheadMs: number) {
  const skew = `${Math.abs(aheadMs / 1000).toFixed(1)} s ${aheadMs < 0 ? 'behind' : 'ahead of'} this machine's`;
  const problem = `its clock is ${skew}: runs start early or late by that; set the clocks by NTP`;
  return finding('redis clock', skew, Math.abs(aheadMs) > maxSkewMs ? problem : null);
}

const quietMs = 30_000;
/** The error of a command sent without a connection; the cause was reported when the connection broke. */
const echo = /^(Stream isn't writeable|Connection is closed)/;

/**
 * Logs each kind of error at most once in 30 s, with the number suppressed in between: a Redis out of memory makes a
 * worker emit tens of thousands of errors in seconds. A command that failed for lack of a connection is not logged if
 * the cause was logged within 30 s. All connections of a process share one gate, so that an outage is logged once.
 */
export function gateErrors(log: JobLog, clock: Clock): (error: Error) => void {
  const kinds = new Map<string, { loggedAtMs: number; held: number }>();
  const isQuiet = ({ loggedAtMs }: { readonly loggedAtMs: number }): boolean =>
    clock.now() - loggedAtMs < quietMs;
  return (error) => {
    const kind = errorKind(error);
    const known = kinds.get(kind);
    if (known !== undefined && isQuiet(known)) {
      known.held += 1;
      return;
    }
    if (echo.test(error.message) && [...kinds.values()].some(isQuiet)) return;
    log.error(
      { err: error, kind, repeated: known?.held ?? 0 },
      'Redis reports an error: running syncs continue, new ones start when Redis answers again',
    );
    kinds.set(kind, { loggedAtMs: clock.now(), held: 0 });
  };
}

/**
 * The system error code if there is one, else the first word of the message (`OOM`, `NOAUTH`): a small set of values.
 */
export function errorKind(error: Error): string {
  if ('code' in error && typeof error.code === 'string') return error.code;
  // A command denied inside a script has no error code.
  if (error.message.startsWith("ERR The user executing the script can't ")) return 'NOPERM';
  // Redis 6 wraps errors inside scripts: "ERR Error running script (call to f_…): @user_script: 36: -OOM command not
  // allowed …".
  const text = error.message.replace(/^ERR Error running script .*: -(?=[A-Z]+ )/, '');
  return text.split(/[\s:]/, 1)[0] ?? error.name;
}
