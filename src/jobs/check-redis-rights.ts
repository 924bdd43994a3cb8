import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

/** What Redis denies the user. */
export type RedisRefusal =
  | { readonly kind: 'commands'; readonly commands: readonly string[] }
  /** The user may not access keys with the prefix. */
  | { readonly kind: 'keys' }
  | { readonly kind: 'replica' }
  | { readonly kind: 'loading' };

const keyCount = 6;
/**
 * Commands with their arguments behind the key: one key for each type, all with the prefix. The script deletes them at
 * its end.
 */
const inScripts = [
  [1, 'HSET f 1, HMSET g 1, HINCRBY f 1, HGET f, HMGET f, HGETALL, HEXISTS f, HLEN, HDEL g'],
  [2, 'ZADD 1 m, ZCARD, ZCOUNT 0 1, ZSCORE m, ZRANGE 0 0, ZREVRANGE 0 0, ZRANGEBYSCORE 0 1'],
  [2, 'ZREVRANGEBYSCORE 1 0, ZRANGEBYLEX - +, ZREMRANGEBYSCORE 5 6, ZREMRANGEBYRANK 5 6, ZREM n, ZPOPMIN'],
  [3, 'LPUSH a, RPUSH b, LLEN, LRANGE 0 0, LINDEX 0, LPOS a, LREM 1 z, LTRIM 0 5, RPOP, LPOP'],
  [4, 'XADD * f 1, XLEN, XRANGE - +, XTRIM MAXLEN 1'],
  [5, 'SET 1, GET, INCR, INCRBY 1, EXISTS, PTTL, PEXPIRE 1000, PERSIST, TYPE'],
  [6, 'SADD m, SREM n, SCARD, SMEMBERS, SISMEMBER m'],
  [5, 'UNLINK'],
  [6, 'DEL'],
] as const;

/** Returns the names of the denied commands, and `READONLY` if Redis rejects writes. */
const tryAll = `
local refused = {}
for _, call in ipairs(cjson.decode(ARGV[1])) do
  call[2] = KEYS[call[2]]
  local reply = redis.pcall(unpack(call))
  if type(reply) == 'table' and reply.err then
    if string.find(reply.err, 'NOPERM') or string.find(reply.err, "can't run this command") then
      table.insert(refused, call[1])
    elseif string.find(reply.err, 'READONLY') then
      table.insert(refused, 'READONLY')
      break
    end
  end
end
for _, key in ipairs(KEYS) do redis.pcall('UNLINK', key) end
return refused`;

/**
 * Tries every command that queues, rate limits and locks use, on temporary keys with `prefix`. Null: all are allowed.
 * Out of memory is not reported, because it is temporary. Rejects with the client's error when the connection breaks.
 */
export async function checkRedisRights(redis: Redis, prefix: string): Promise<RedisRefusal | null> {
  const keys = Array.from({ length: keyCount }, (_none, at) => `${prefix}:{${randomUUID()}}:${at}`);
  const [key = ''] = keys;
  const calls = inScripts.flatMap(([at, commands]) =>
    commands.split(', ').map((text) => {
      const [command, ...args] = text.split(' ');
      return [command, at, ...args];
    }),
  );
  const alone: readonly (readonly [string, ...(string | number)[]])[] = [
    ['EVAL', tryAll, keyCount, ...keys, JSON.stringify(calls)],
    ['EVALSHA', '0'.repeat(40), 1, key],
    ['INFO'],
    ['TIME'],
    ['BZPOPMIN', key, 0.001],
    ['XREAD', 'COUNT', 1, 'STREAMS', key, '0'],
    ['ZRANGE', key, 0, 0],
    ['HGETALL', key],
    ['PTTL', key],
  ];
  const replies = await Promise.all(
    alone.map(([command, ...args]) =>
      redis.call(command, ...args).then(
        (value) => ({ command, value, error: '' }),
        (error: unknown) => ({ command, value: null, error: asReply(error) }),
      ),
    ),
  );
  const errors = replies.map(({ error }) => error);
  if (errors.some((error) => error.startsWith('LOADING'))) return { kind: 'loading' };
  if (errors.some((error) => /^NOPERM .*\bkeys?\b/.test(error))) return { kind: 'keys' };
  const inScript = replies.flatMap(({ value, command }) =>
    command === 'EVAL' && Array.isArray(value) ? value.map(String) : [],
  );
  if (inScript.includes('READONLY') || errors.some((error) => error.startsWith('READONLY'))) {
    return { kind: 'replica' };
  }
  const commands = [
    ...replies.flatMap(({ command, error }) => (error.startsWith('NOPERM') ? [command] : [])),
    ...inScript,
  ];
  return commands.length === 0 ? null : { kind: 'commands', commands: [...new Set(commands)] };
}

/** The error text of a Redis reply; rethrows any other error. */
function asReply(error: unknown): string {
  if (error instanceof Error && error.name === 'ReplyError') return error.message;
  throw error;
}
