import type { Clock } from '../core/clock.ts';
import { ApiError } from './api-error.ts';

/** Of more than so many the one that was quiet for longest is forgotten: memory is bounded whatever comes. */
const maxKeys = 10_000;

/**
 * A bucket for each key: `perSecond` requests a second, and as many at once after a second of quiet. What it returns
 * takes one request of a key's share; throws `ApiError` 429 with Retry-After where nothing of it is left.
 */
export function createRateLimit(perSecond: number, clock: Clock): (key: string) => void {
  const buckets = new Map<string, { readonly left: number; readonly at: number }>();
  return (key) => {
    const now = clock.now();
    const { left, at } = buckets.get(key) ?? { left: perSecond, at: now };
    // A clock that was put back gives nothing, and takes nothing.
    const filled = Math.min(perSecond, left + (Math.max(0, now - at) * perSecond) / 1000);
    const isAllowed = filled >= 1;
    buckets.delete(key);
    buckets.set(key, { left: isAllowed ? filled - 1 : filled, at: now });
    for (const quietest of buckets.keys()) {
      if (buckets.size <= maxKeys) break;
      buckets.delete(quietest);
    }
    if (isAllowed) return;
    const waitMs = Math.ceil(((1 - filled) * 1000) / perSecond);
    throw new ApiError(429, 'Too many requests a second. Wait as long as Retry-After says.', {
      errorCode: 'too_many_requests',
      headers: { 'retry-after': String(Math.max(1, Math.ceil(waitMs / 1000))) },
    });
  };
}
