import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

/** What Redis denies the user. */
export type RedisRefusal =
  | { readonly kind: 'commands'; readonly commands: readonly string[] }
  /** The user may not access keys with the prefix. */
  | { readonly kind: 'keys' }
  | { readonly kind: 'replica' }
  | { readonly kind: 'loading' };

/** Run on one key of each type, all with the prefix; the script deletes them at its end. */
const inScripts: readonly (readonly [command: string, key: number, ...args: string[]])[] = [
  ['HSET', 1, 'f', '1'],
  ['HMSET', 1, 'g', '1'],
  ['HINCRBY', 1, 'f', '1'],
  ['HGET', 1, 'f'],
  ['HMGET', 1, 'f'],
  ['HGETALL', 1],
  ['HEXISTS', 1, 'f'],
  ['HLEN', 1],
  ['HDEL', 1, 'g'],
  ['ZADD', 2, '1', 'm'],
  ['ZCARD', 2],
  ['ZCOUNT', 2, '0', '1'],
  ['ZSCORE', 2, 'm'],
  ['ZRANGE', 2, '0', '0'],
  ['ZREVRANGE', 2, '0', '0'],
  ['ZRANGEBYSCORE', 2, '0', '1'],
  ['ZREVRANGEBYSCORE', 2, '1', '0'],
  ['ZRANGEBYLEX', 2, '-', '+'],
  ['ZREMRANGEBYSCORE', 2, '5', '6'],
  ['ZREMRANGEBYRANK', 2, '5', '6'],
  ['ZREM', 2, 'n'],
  ['ZPOPMIN', 2],
  ['LPUSH', 3, 'a'],
  ['RPUSH', 3, 'b'],
  ['LLEN', 3],
  ['LRANGE', 3, '0', '0'],
  ['LINDEX', 3, '0'],
  ['LPOS', 3, 'a'],
  ['LREM', 3, '1', 'z'],
  ['LTRIM', 3, '0', '5'],
  ['RPOP', 3],
  ['LPOP', 3],
  ['XADD', 4, '*', 'f', '1'],
  ['XLEN', 4],
  ['XRANGE', 4, '-', '+'],
  ['XTRIM', 4, 'MAXLEN', '1'],
  ['SET', 5, '1'],
  ['GET', 5],
  ['INCR', 5],
  ['INCRBY', 5, '1'],
  ['EXISTS', 5],
  ['PTTL', 5],
  ['PEXPIRE', 5, '1000'],
  ['TYPE', 5],
  ['SADD', 6, 'm'],
  ['SREM', 6, 'n'],
  ['SCARD', 6],
  ['SMEMBERS', 6],
  ['SISMEMBER', 6, 'm'],
  ['UNLINK', 5],
  ['DEL', 6],
];
const keyCount = 6;

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
 * Tries every command that queues, rate limits and locks use, on temporary keys with `prefix`. Null: all are allowed. Out of
 * memory is not reported, because it is temporary. Rejects with the client's error when the connection breaks.
 */
export async function checkRedisRights(redis: Redis, prefix: string): Promise<RedisRefusal | null> {
  const keys = Array.from({ length: keyCount }, (_none, at) => `${prefix}:{${randomUUID()}}:${at}`);
  const [key = ''] = keys;
  const alone: readonly (readonly [string, ...(string | number)[]])[] = [
    ['EVAL', tryAll, keyCount, ...keys, JSON.stringify(inScripts)],
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
