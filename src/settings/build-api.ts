import { Secret } from '../core/secret.ts';
import type { Note } from '../definitions/check-names.ts';
import { buildDuration } from './parse-unit.ts';
import { checkBaseUrl, checkRedisUrl } from './check-urls.ts';
import type { SettingsFile } from './settings-file.ts';
import type { ApiSettings, HttpSettings, RedisSettings } from './settings.ts';

/**
 * Printable text: what travels in bodies and headers without surprises. A line end is usually a slip in a secret file.
 */
const printable = /^[^\p{Cc}\p{Zl}\p{Zp}]{1,4096}$/u;
const workspaceName = /^[^\p{Cc}\p{Zl}\p{Zp}]{1,256}$/u;
const headerId = /^[A-Za-z0-9_-]{1,128}$/;

/**
 * Where the API is and who we are there; null: the config names none. Of no use after a problem. Values are never
 * quoted: they may be secret.
 */
export function buildApi(file: SettingsFile['api'], note: Note): ApiSettings | null {
  if (file === undefined) return null;
  const baseUrl = checkBaseUrl(file.baseUrl);
  if (!baseUrl.ok) note(['api', 'baseUrl'], baseUrl.why);
  for (const name of ['clientId', 'clientSecret'] as const) {
    if (!printable.test(file[name])) {
      note(['api', name], 'expected 1 to 4096 characters without line ends and control characters');
    }
  }
  const organizationId = file.organizationId ?? null;
  if (organizationId !== null && !headerId.test(organizationId)) {
    note(['api', 'organizationId'], 'expected letters, digits, "_" and "-", at most 128');
  }
  const scopedToWorkspace = file.scopedToWorkspace ?? null;
  if (scopedToWorkspace !== null && !workspaceName.test(scopedToWorkspace)) {
    note(
      ['api', 'scopedToWorkspace'],
      'expected 1 to 256 characters without line ends and control characters',
    );
  }
  return {
    baseUrl: baseUrl.ok ? baseUrl.value : '',
    clientId: file.clientId,
    clientSecret: new Secret(file.clientSecret),
    organizationId,
    scopedToWorkspace,
    lookups: {
      requestsPerSecond: file.lookups.requestsPerSecond,
      concurrency: file.lookups.concurrency,
      cacheForMs: buildDuration(file.lookups.cacheFor, 0, ['api', 'lookups', 'cacheFor'], note),
    },
  };
}

const tokenPattern = /^[\x21-\x7e]{16,512}$/;

/** What the worker shows over HTTP; without a token there is no board. */
export function buildHttp(file: SettingsFile['http'], note: Note): HttpSettings {
  const { token, connectorSeries = 'all' } = file ?? {};
  if (token === undefined) return { token: null, connectorSeries };
  if (!tokenPattern.test(token)) {
    note(['http', 'token'], 'expected 16 to 512 visible ASCII characters without blanks');
  }
  return { token: new Secret(token), connectorSeries };
}

const defaults = { url: 'redis://127.0.0.1:6379', prefix: 'connector-sync' };
const prefix = /^[a-z][a-z0-9_-]{0,39}$/;

/** Where the queue is; of no use after a problem. */
export function buildRedis(file: SettingsFile['redis'], note: Note): RedisSettings {
  const given = file ?? defaults;
  const checked = checkRedisUrl(given.url);
  if (!checked.ok) note(['redis', 'url'], checked.why);
  // It becomes a part of every key and of queue names, where a colon has a meaning.
  if (!prefix.test(given.prefix)) {
    note(
      ['redis', 'prefix'],
      'expected a lower-case letter, then lower-case letters, digits, "_" and "-", at most 40 characters',
    );
  }
  return {
    url: new Secret(checked.ok ? checked.value : ''),
    isConfigured: file !== undefined,
    prefix: given.prefix,
  };
}
