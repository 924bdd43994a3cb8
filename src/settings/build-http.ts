import { Secret } from '../core/secret.ts';
import type { Note } from '../definitions/check-names.ts';
import type { HttpSettings } from './settings.ts';
import type { SettingsFile } from './settings-file.ts';

const tokenPattern = /^[\x21-\x7e]{16,512}$/;

/** What opens the worker's board over HTTP; without a token there is no board. */
export function buildHttp(file: SettingsFile['http'], note: Note): HttpSettings {
  if (file === undefined) {
    return { token: null };
  }
  if (!tokenPattern.test(file.token)) {
    note(['http', 'token'], 'expected 16 to 512 visible ASCII characters without blanks');
  }
  return { token: new Secret(file.token) };
}
