import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Clock } from '../core/clock.ts';

export interface AccessTokens {
  /** A new token for the right credentials, null for wrong ones. */
  issue(clientId: string, clientSecret: string): string | null;
  /** True for a token that was issued here and has not expired. */
  isValid(token: string): boolean;
  /** How many tokens are kept: at most the bound, expired ones included until the next `issue`. */
  count(): number;
}

export interface AccessTokenOptions {
  readonly clientId: string;
  readonly clientSecret: string;
  readonly ttlSeconds: number;
  readonly maxTokens: number;
  readonly clock: Clock;
}

/**
 * Tokens live in memory only, and only as digests under a key made at start: a token cannot be read back, and the
 * time a look-up takes says nothing about the tokens that are there.
 */
export function createAccessTokens(options: AccessTokenOptions): AccessTokens {
  const key = randomBytes(32);
  const digest = (text: string): Buffer => createHmac('sha256', key).update(text).digest();
  const expectedId = digest(options.clientId);
  const expectedSecret = digest(options.clientSecret);
  const expiryByDigest = new Map<string, number>();

  const dropExpired = (): void => {
    const now = options.clock.now();
    // Insertion order is expiry order, because every token lives equally long.
    for (const [token, expiresAt] of expiryByDigest) {
      if (expiresAt > now && expiryByDigest.size < options.maxTokens) return;
      expiryByDigest.delete(token);
    }
  };

  return {
    issue(clientId, clientSecret) {
      // Both are compared, whatever the first says: a wrong id takes as long as a wrong secret.
      const isId = timingSafeEqual(digest(clientId), expectedId);
      const isSecret = timingSafeEqual(digest(clientSecret), expectedSecret);
      if (!isId || !isSecret) return null;
      dropExpired();
      const token = randomBytes(32).toString('base64url');
      expiryByDigest.set(digest(token).toString('hex'), options.clock.now() + options.ttlSeconds * 1000);
      return token;
    },
    isValid(token) {
      const expiresAt = expiryByDigest.get(digest(token).toString('hex'));
      return expiresAt !== undefined && expiresAt > options.clock.now();
    },
    count: () => expiryByDigest.size,
  };
}
