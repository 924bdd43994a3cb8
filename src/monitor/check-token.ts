import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Clock } from '../core/clock.ts';
import type { Secret } from '../core/secret.ts';

export type TokenVerdict = 'right' | 'wrong' | 'missing' | 'too-many';

interface TokenCheckOptions {
  readonly token: Secret;
  readonly wrongTries: number;
  readonly wrongTriesMs: number;
  readonly clock: Clock;
}

/**
 * Judges an Authorization header: `Bearer <token>`, or Basic with any user and the token as password. After
 * `wrongTries` wrong ones within `wrongTriesMs` none is compared, right or wrong, until the first of them is that old.
 */
export function openTokenCheck(options: TokenCheckOptions): (header: string | undefined) => TokenVerdict {
  const { clock } = options;
  const key = randomBytes(32);
  // Digests under a key made here are equally long, and how far two of them agree says nothing about the token.
  const digest = (text: string): Buffer => createHmac('sha256', key).update(text).digest();
  const expected = digest(options.token.reveal());
  let wrongAtMs: readonly number[] = [];

  return (header) => {
    if (header === undefined) return 'missing';
    wrongAtMs = wrongAtMs.filter((at) => clock.now() - at < options.wrongTriesMs);
    if (wrongAtMs.length >= options.wrongTries) return 'too-many';
    const given = tokenIn(header);
    if (given !== null && timingSafeEqual(digest(given), expected)) return 'right';
    wrongAtMs = [...wrongAtMs, clock.now()];
    return 'wrong';
  };
}

function tokenIn(header: string): string | null {
  const bearer = /^Bearer +(\S+) *$/i.exec(header)?.[1];
  if (bearer !== undefined) return bearer;
  const basic = /^Basic +([\w+/=-]+) *$/i.exec(header)?.[1];
  if (basic === undefined) return null;
  const userAndPassword = Buffer.from(basic, 'base64').toString('utf8');
  const colon = userAndPassword.indexOf(':');
  return colon === -1 ? null : userAndPassword.slice(colon + 1);
}
