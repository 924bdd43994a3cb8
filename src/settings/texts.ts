import { randomUUID } from 'node:crypto';
import * as z from 'zod';
import { isLikeGlob } from '../core/names.ts';
import type { Note } from '../definitions/check-names.ts';
import { textAs } from '../definitions/schema-problems.ts';
import { firstNames } from '../definitions/suggest-name.ts';
import { apiAddress, isLoopbackHost } from '../http/guard-address.ts';

// Texts of a config that are checked and converted where its schemas name them.

/**
 * Replaces a text that is missing here. It passes every check, so that the rest can be checked; secrets are hidden
 * wherever they occur in output, and this occurs nowhere. New in each process, so that no file can contain it: such a
 * file would pass every check with a publicly known key.
 */
export const missingHere = `<secret-that-is-missing-here-${randomUUID()}>`;

export function checked(check: (text: string) => Checked, text = z.string()) {
  return textAs((given, note) => {
    const found: Checked = given === missingHere ? { ok: true, value: given } : check(given);
    if (!found.ok) note(found.why);
    return found.ok ? found.value : '';
  }, text);
}

export function matching(pattern: RegExp, message: string, text = z.string()) {
  return checked((given) => (pattern.test(given) ? { ok: true, value: given } : wrong(message)), text);
}

/** Milliseconds. */
export function duration(leastMs = 0) {
  const error = `expected a duration such as ${durationExamples}`;
  return textAs((text, note) => {
    const ms = text === missingHere ? leastMs : parseDuration(text);
    if (ms === null) note(error);
    else if (ms < leastMs) note(`expected at least ${formatDuration(leastMs)}`);
    return ms ?? 0;
  }, z.string({ error })).meta({ description: `A duration such as ${durationExamples}` });
}

/** The shortest interval of anything that runs repeatedly. */
export const shortestEveryMs = 10_000;

/** Describes a text that no output may show. */
export function secret(description: string) {
  return { description, writeOnly: true };
}

/** Null where the file says nothing. */
export function orNull<Schema extends z.ZodType>(schema: Schema) {
  return schema.optional().transform((value) => value ?? null);
}

/** Checks that each glob matches a connector of the config. */
export function checkGlobs(
  globs: readonly string[],
  named: readonly string[],
  at: readonly string[],
  note: Note,
): void {
  for (const [index, glob] of globs.entries()) {
    if (named.some((one) => isLikeGlob(one, glob))) continue;
    note(
      [...at, String(index)],
      `no connector matches ${JSON.stringify(glob)}; the config has ${firstNames(named)}`,
    );
  }
}

/** The value of a text, or the problem with it (without the text, which may be secret). */
export type Checked = { readonly ok: true; readonly value: string } | Wrong;
type Wrong = { readonly ok: false; readonly why: string };

export function wrong(why: string): Wrong {
  return { ok: false, why };
}

/** Checks the API's address, and removes a trailing slash. */
export function checkBaseUrl(text: string): Checked {
  const url = apiAddress(text);
  if (typeof url === 'string') return wrong(url);
  if (/\/api\/v\d+\/*$/.test(url.pathname)) {
    return wrong('expected the address without /api/v1 at its end: the program adds it');
  }
  return { ok: true, value: `${url.origin}${url.pathname}`.replace(/\/+$/, '') };
}

/**
 * Checks an address that a service redirects a browser to: on this machine, or https, from which a person copies it.
 */
export function checkRedirect(text: string): Checked {
  const url = parseUrl(text);
  const isHere = url?.protocol === 'http:' && ['127.0.0.1', 'localhost'].includes(url.hostname);
  if (url === null || !(isHere || url.protocol === 'https:') || url.username !== '' || /[?#]/.test(text)) {
    return wrong(
      'expected http://127.0.0.1/..., http://localhost/... (each with or without a port) or https://..., without user, query and fragment',
    );
  }
  return { ok: true, value: text };
}

/** Checks `redis://` or `rediss://`; a password is required unless Redis is on this machine. */
export function checkRedisUrl(text: string): Checked {
  const url = parseUrl(text);
  if (url === null || (url.protocol !== 'redis:' && url.protocol !== 'rediss:') || url.hostname === '') {
    return wrong('expected an address such as redis://127.0.0.1:6379 or rediss://user:password@host:6379');
  }
  if (url.password === '' && !isLoopbackHost(url.hostname)) {
    return wrong(
      'expected a password (redis://:password@host): a Redis that others can reach must not be open',
    );
  }
  return { ok: true, value: text };
}

const hostAndPort = /^([a-z0-9_](?:[a-z0-9_.-]{0,251}[a-z0-9_])?|\[[0-9a-f:.]{2,45}\])(?::(\d{1,5}))?$/;

/** Parses `host` or `host:port` to the form of parsed URLs; null for anything else. */
export function allowedHost(text: string): string | null {
  const [, host, port] = hostAndPort.exec(text.toLowerCase()) ?? [];
  if (host === undefined || !URL.canParse(`http://${host}`)) return null;
  const { hostname } = new URL(`http://${host}`);
  if (port === undefined) return hostname;
  return Number(port) >= 1 && Number(port) <= 65_535 ? `${hostname}:${Number(port)}` : null;
}

function parseUrl(text: string): URL | null {
  // The URL parser silently drops tabs, line ends and outer blanks; such an address is a mistake.
  return /[\s\\]/.test(text) || !URL.canParse(text) ? null : new URL(text);
}

const pattern = /^(?:(\d{1,5})d)?(?:(\d{1,6})h)?(?:(\d{1,7})m)?(?:(\d{1,9})s)?$/;
const unitMs = [86_400_000, 3_600_000, 60_000, 1000];

/** Examples of durations, for messages. */
export const durationExamples = '30s, 30m, 1h30m or 7d';

/** Milliseconds of `30s`, `30m`, `1h30m`, `7d`; null when the text is no duration or is zero. */
export function parseDuration(text: string): number | null {
  const match = pattern.exec(text);
  if (match === null) return null;
  const ms = unitMs.reduce((sum, unit, index) => sum + Number(match[index + 1] ?? 0) * unit, 0);
  return ms > 0 ? ms : null;
}

/** The shortest notation of a duration: `5400000` is `1h30m`. Parts of a second stay as `ms`. */
export function formatDuration(ms: number): string {
  let rest = ms;
  let text = '';
  for (const [index, name] of ['d', 'h', 'm', 's'].entries()) {
    const unit = unitMs[index] ?? 1;
    const count = Math.floor(rest / unit);
    rest -= count * unit;
    text += count === 0 ? '' : `${count}${name}`;
  }
  return rest === 0 && text !== '' ? text : `${ms}ms`;
}

/** The bytes of a size such as `500MB`, `1.5 GB` or `64MiB`; null for any other text, and for zero. */
export function parseSize(text: string): number | null {
  const [, digits, unit = ' ', binary] = /^(\d{1,12}(?:\.\d{1,6})?) ?(?:([KMGT])(i)?)?B$/.exec(text) ?? [];
  const bytes = Math.round(Number(digits) * (binary === undefined ? 1_000 : 1_024) ** ' KMGT'.indexOf(unit));
  return Number.isSafeInteger(bytes) && bytes > 0 ? bytes : null;
}
