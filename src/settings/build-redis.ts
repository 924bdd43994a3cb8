import { Secret } from '../core/secret.ts';
import type { Note } from '../definitions/check-names.ts';
import { checkRedisUrl } from './check-urls.ts';
import type { RedisSettings } from './settings.ts';
import type { SettingsFile } from './settings-file.ts';

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
