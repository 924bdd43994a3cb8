import { createHmac, timingSafeEqual } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Clock } from '../core/clock.ts';
import type { AccessToken, TokenCheck, TokenHolder, TokenVerdict } from './check-token.ts';

export type PageAccess = ReturnType<typeof openPageAccess>;

interface AccessOptions {
  /** Seals sessions. */
  readonly sessionKey: Buffer;
  /** Null: there is no token. */
  readonly checkToken: TokenCheck | null;
  /** Only this machine can reach the server. */
  readonly isLoopback: boolean;
  readonly clock: Clock;
}

export type PageVerdict = 'right' | 'closed' | Exclude<TokenVerdict, TokenHolder>;

/** Who asks, and the text that the tokens of its forms are made of. */
interface Visit {
  readonly holder: TokenHolder;
  readonly session: string;
}

/** A working day: then the token is asked for again, as after a restart. */
const sessionMs = 12 * 3_600_000;

/**
 * Who may see the pages: on this machine everybody where there is no token, else who has one. A browser that has shown
 * a token gets a cookie, which holds the end of the session and the token's name, under a key of this process.
 */
export function openPageAccess({ checkToken, sessionKey: key, isLoopback, clock }: AccessOptions) {
  const sealed = (text: string): string => createHmac('sha256', key).update(text).digest('base64url');
  /** With the token: one that the config has changed ends its sessions. */
  const sessionSeal = (session: string, { token }: AccessToken): string =>
    sealed(`session ${session} ${token.reveal()}`);
  const visits = new WeakMap<FastifyRequest, Visit>();
  const sessionOf = (cookie = ''): Visit | null => {
    const [, session = '', endsMs, name = '', seal = ''] =
      /^((\d{1,15})\.([\w.-]{1,64}))\.([\w-]{43})$/.exec(cookie) ?? [];
    const known = checkToken?.tokenNamed(name) ?? null;
    if (known === null || Number(endsMs) <= clock.now()) return null;
    if (!isSame(seal, sessionSeal(session, known))) return null;
    return { holder: { name, may: known.may }, session };
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
    /** What a form that acts has to carry: pages of others cannot read it. After `verdict`. */
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
      const session = `${clock.now() + sessionMs}.${holder.name}`;
      const cookie = `${session}.${sessionSeal(session, holder)}`;
      reply.header('set-cookie', cookieText(request, cookie, sessionMs / 1000));
      return 'right';
    },
    logout(request: FastifyRequest, reply: FastifyReply): void {
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
