import { Secret } from '../core/secret.ts';
import type { Note } from '../definitions/check-names.ts';
import type { HttpSettings } from './settings.ts';
import type { SettingsFile } from './settings-file.ts';

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
