import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Clock } from '../core/clock.ts';
import type { Secret } from '../core/secret.ts';
import type { HttpSettings } from '../settings/settings.ts';

/** The owner of a token, by the token's name in the config. */
export interface TokenHolder {
  readonly name: string;
  /** `data`: see values of stored records, too. `act`: change something from the pages. */
  readonly may: HttpSettings['tokens'][string]['may'];
}

export interface AccessToken extends TokenHolder {
  readonly token: Secret;
}

type TokenVerdict = TokenHolder | 'wrong' | 'missing' | 'too-many';
type TokenCheck = ReturnType<typeof openTokenCheck>;

/** All tokens of the config. No name of `http.tokens` has a dot. */
export function tokensOf({ token, tokens }: HttpSettings): readonly AccessToken[] {
  const named = Object.entries(tokens).map(([name, one]) => ({ name, ...one }));
  return token === null ? named : [{ name: 'http.token', may: ['pages', 'act'], token }, ...named];
}

interface TokenCheckOptions {
  readonly tokens: readonly AccessToken[];
  readonly wrongTries: number;
  readonly wrongTriesMs: number;
  readonly clock: Clock;
}

/**
 * `judge`: of an Authorization header, `Bearer <token>`. A right one is taken however many wrong ones come. After
 * `wrongTries` wrong ones within `wrongTriesMs`, wrong ones must wait.
 */
export function openTokenCheck({ tokens, wrongTries, wrongTriesMs, clock }: TokenCheckOptions) {
  const key = randomBytes(32);
  // Digests under a key made here are equally long, and how far two of them agree says nothing about the token.
  const digest = (text: string): Buffer => createHmac('sha256', key).update(text).digest();
  const known = tokens.map(({ token, ...holder }) => ({ holder, expected: digest(token.reveal()) }));
  let wrongAtMs: readonly number[] = [];

  const judge = (header: string | undefined): TokenVerdict => {
    if (header === undefined) return 'missing';
    const given = /^Bearer +(\S+) *$/i.exec(header)?.[1];
    const found = known.find((one) => given !== undefined && timingSafeEqual(digest(given), one.expected));
    if (found !== undefined) return found.holder;
    wrongAtMs = wrongAtMs.filter((at) => clock.now() - at < wrongTriesMs);
    if (wrongAtMs.length >= wrongTries) return 'too-many';
    wrongAtMs = [...wrongAtMs, clock.now()];
    return 'wrong';
  };
  return {
    judge,
    tokenNamed: (name: string): AccessToken | null => tokens.find((one) => one.name === name) ?? null,
  };
}

export type PageAccess = ReturnType<typeof openPageAccess>;

/** Logged-in visitors of a server, whatever content it serves. */
export type Sessions = ReturnType<typeof openSessions>;

export function openSessions() {
  return {
    /** Seals forms. */
    key: randomBytes(32),
    /** By the random id that a cookie has; the oldest first. */
    byId: new Map<string, { readonly holder: AccessToken; readonly endsMs: number }>(),
  };
}

interface AccessOptions {
  readonly sessions: Sessions;
  /** Null: there is no token. */
  readonly checkToken: TokenCheck | null;
  /** Only this machine can reach the server. */
  readonly isLoopback: boolean;
  readonly clock: Clock;
}

export type PageVerdict = 'right' | 'closed' | Exclude<TokenVerdict, TokenHolder>;

/** The visitor, and the text from which the tokens of its forms are made. */
interface Visit {
  readonly holder: TokenHolder;
  readonly session: string;
}

/** A working day: then the token is asked for again, as after a restart. */
const sessionMs = 12 * 3_600_000;
const mostSessions = 1_000;

/**
 * Controls access to the pages. Without a token, everyone on this machine has access; else every holder of a token. A
 * browser that has shown a token gets a cookie with the id of a session, which ends here at logout.
 */
export function openPageAccess({ checkToken, sessions, isLoopback, clock }: AccessOptions) {
  const { key, byId } = sessions;
  const sealed = (text: string): string => createHmac('sha256', key).update(text).digest('base64url');
  const visits = new WeakMap<FastifyRequest, Visit>();
  const sessionOf = (id = ''): Visit | null => {
    const session = byId.get(id);
    if (session === undefined || session.endsMs <= clock.now()) return null;
    const { name, token } = session.holder;
    // The config may have changed it since.
    const known = checkToken?.tokenNamed(name) ?? null;
    if (known?.token.reveal() !== token.reveal()) return null;
    return { holder: { name, may: known.may }, session: id };
  };
  const formToken = (request: FastifyRequest): string => sealed(`form ${visits.get(request)?.session ?? ''}`);
  return {
    /** `closed`: the server can be reached from elsewhere, and has no token. */
    verdict(request: FastifyRequest): PageVerdict {
      if (checkToken === null) return isLoopback ? 'right' : 'closed';
      const known = sessionOf(cookieOf(request));
      const judged = known?.holder ?? checkToken.judge(request.headers.authorization);
      if (typeof judged === 'string') return judged;
      visits.set(request, known ?? { holder: judged, session: `header ${judged.name}` });
      return 'right';
    },
    /** After `verdict`; null: there is no token, and no one may act. */
    visitorOf: (request: FastifyRequest): TokenHolder | null => visits.get(request)?.holder ?? null,
    /** The token that a form for an act must carry: pages of other origins cannot read it. Called after `verdict`. */
    formToken,
    isFormOf: (request: FastifyRequest, given: string): boolean =>
      visits.has(request) && isSame(given, formToken(request)),
    /** Sets the cookie where the token is right. */
    login(request: FastifyRequest, reply: FastifyReply, token: string): PageVerdict {
      if (checkToken === null) return isLoopback ? 'right' : 'closed';
      const verdict = token === '' ? 'missing' : checkToken.judge(`Bearer ${token}`);
      if (typeof verdict === 'string') return verdict;
      const holder = checkToken.tokenNamed(verdict.name);
      if (holder === null) return 'wrong';
      const id = randomBytes(24).toString('base64url');
      for (const [other, { endsMs }] of byId) {
        if (endsMs > clock.now() && byId.size < mostSessions) break;
        byId.delete(other);
      }
      byId.set(id, { holder, endsMs: clock.now() + sessionMs });
      reply.header('set-cookie', cookieText(request, id, sessionMs / 1000));
      return 'right';
    },
    logout(request: FastifyRequest, reply: FastifyReply): void {
      byId.delete(cookieOf(request) ?? '');
      reply.header('set-cookie', cookieText(request, '', 0));
    },
  };
}

function isSame(given: string, expected: string): boolean {
  const [one, other] = [Buffer.from(given), Buffer.from(expected)];
  return one.length === other.length && timingSafeEqual(one, other);
}

/** Cookies of one host are shared by all its ports: each server has a name for its cookie. */
function cookieName(request: FastifyRequest): string {
  return `connector-sync-${request.socket.localPort ?? 0}`;
}

function cookieText(request: FastifyRequest, value: string, seconds: number): string {
  const secure = request.headers['x-forwarded-proto'] === 'https' ? '; Secure' : '';
  return `${cookieName(request)}=${value}; Path=/; Max-Age=${seconds}; HttpOnly; SameSite=Strict${secure}`;
}

function cookieOf(request: FastifyRequest): string | undefined {
  const prefix = `${cookieName(request)}=`;
  const cookies = (request.headers.cookie ?? '').split(';').map((text) => text.trim());
  return cookies.find((text) => text.startsWith(prefix))?.slice(prefix.length);
}

/** Whether a form was sent by a page of this server, as far as the browser says; a program says nothing. */
export function isFromHere({ headers }: FastifyRequest): boolean {
  const site = headers['sec-fetch-site'];
  if (site !== undefined) return site === 'same-origin';
  if (headers.origin === undefined) return true;
  return URL.canParse(headers.origin) && new URL(headers.origin).host === headers.host;
}

/** Whether no one else reads what a browser sends: it comes by https up to a proxy, or from this machine itself. */
export function isSealed({ headers, ip }: FastifyRequest): boolean {
  const scheme = headers['x-forwarded-proto'];
  if (scheme !== undefined) return scheme === 'https';
  const isProxied = headers['x-forwarded-for'] !== undefined || headers.forwarded !== undefined;
  const isHere = /^(localhost|127\.0\.0\.1|\[::1\])(:\d+)?$/i.test(headers.host ?? '');
  return !isProxied && isHere && /^(::ffff:)?127\.|^::1$/.test(ip);
}
