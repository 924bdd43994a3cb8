import { Redis } from 'ioredis';

/** Every key of a Redis with everything in it, as one text to search. */
export async function redisContents(url: string): Promise<string> {
  const redis = new Redis(url);
  try {
    const keys = await redis.keys('*');
    const contents = await Promise.all(keys.map((key) => contentOf(redis, key)));
    return keys.map((key, index) => `${key} ${contents[index] ?? ''}`).join('\n');
  } finally {
    redis.disconnect();
  }
}

async function contentOf(redis: Redis, key: string): Promise<string> {
  switch (await redis.type(key)) {
    case 'hash':
      // Values apart, so that JSON within them is found as it was written.
      return Object.entries(await redis.hgetall(key))
        .flat()
        .join(' ');
    case 'string':
      return (await redis.get(key)) ?? '';
    case 'list':
      return (await redis.lrange(key, '0', '-1')).join(' ');
    case 'zset':
      return (await redis.zrange(key, '0', '-1')).join(' ');
    case 'set':
      return (await redis.smembers(key)).join(' ');
    case 'none':
      // It has gone since the keys were listed, and may come again.
      return '';
    default:
      return (await redis.xrange(key, '-', '+')).flat(2).join(' ');
  }
}
