import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';

/** The path of a Chromium, or null: of $CHROMIUM, else of the PATH. Playwright's own download is not used. */
export function findChromium(): string | null {
  const named = process.env['CHROMIUM'] ?? '';
  const folders = (process.env['PATH'] ?? '').split(delimiter).filter((folder) => folder !== '');
  const names = ['chromium', 'chromium-browser', 'google-chrome'];
  const candidates =
    named === '' ? folders.flatMap((folder) => names.map((name) => join(folder, name))) : [named];
  return candidates.find((path) => existsSync(path)) ?? null;
}

export const howToGetChromium =
  'Found no Chromium, so the pages are not tried in a browser. Install the Debian package chromium (apt-get install chromium), or set CHROMIUM to the path of one.';
