import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Clock } from '../core/clock.ts';
import type { Secret } from '../core/secret.ts';
import type { HttpSettings } from '../settings/settings.ts';

/** Who has a token, by its name in the config. */
export interface TokenHolder {
  readonly name: string;
  /** `act`: change something from the pages, too. */
  readonly may: 'read' | 'act';
}

export interface AccessToken extends TokenHolder {
  readonly token: Secret;
}

export type TokenVerdict = TokenHolder | 'wrong' | 'missing' | 'too-many';
export type TokenCheck = ReturnType<typeof openTokenCheck>;

/** All tokens of the config. No name of `http.tokens` has a dot. */
export function tokensOf({ token, tokens }: HttpSettings): readonly AccessToken[] {
  const named = Object.entries(tokens).map(([name, one]) => ({ name, ...one }));
  return token === null ? named : [{ name: 'http.token', may: 'act', token }, ...named];
}

interface TokenCheckOptions {
  readonly tokens: readonly AccessToken[];
  readonly wrongTries: number;
  readonly wrongTriesMs: number;
  readonly clock: Clock;
}

/**
 * `judge`: of an Authorization header: `Bearer <token>`, or Basic with any user and the token as password. A right one
 * is taken however many wrong ones come. After `wrongTries` wrong ones within `wrongTriesMs`, wrong ones must wait.
 */
export function openTokenCheck(options: TokenCheckOptions) {
  const { clock, tokens } = options;
  const key = randomBytes(32);
  // Digests under a key made here are equally long, and how far two of them agree says nothing about the token.
  const digest = (text: string): Buffer => createHmac('sha256', key).update(text).digest();
  const known = tokens.map(({ token, ...holder }) => ({ holder, expected: digest(token.reveal()) }));
  let wrongAtMs: readonly number[] = [];

  const judge = (header: string | undefined): TokenVerdict => {
    if (header === undefined) return 'missing';
    const given = tokenIn(header);
    const found =
      given === null ? undefined : known.find((one) => timingSafeEqual(digest(given), one.expected));
    if (found !== undefined) return found.holder;
    wrongAtMs = wrongAtMs.filter((at) => clock.now() - at < options.wrongTriesMs);
    if (wrongAtMs.length >= options.wrongTries) return 'too-many';
    wrongAtMs = [...wrongAtMs, clock.now()];
    return 'wrong';
  };
  return {
    judge,
    tokenNamed: (name: string): AccessToken | null => tokens.find((one) => one.name === name) ?? null,
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
