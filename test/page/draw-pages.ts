import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { chromium } from 'playwright-core';
import { findChromium, howToGetChromium } from '../support/page/find-chromium.ts';
import { clockAhead, serveUi } from '../support/page/served-ui.ts';
import { openStatusWorld } from '../support/page/status-world.ts';

/** `npm run images`: the pictures of the pages in the documents, of connectors in all states, into `docs/images`. */
const pictures = [
  { name: 'overview', path: '/', width: 1280, height: 900 },
  { name: 'connector', path: '/connectors/newsletter', width: 1280, height: 1100 },
] as const;

const executablePath = findChromium();
if (executablePath === null) throw new Error(howToGetChromium);
const folder = join('docs', 'images');
mkdirSync(folder, { recursive: true });
await using world = await openStatusWorld({ size: 'small', runs: 12, outside: 'tomorrow' });
const token = 'a-token-of-16-or-more';
const rights = '[pages, data, act]';
const config = join(world.folder, 'with-token.yaml');
writeFileSync(
  config,
  `http: { tokens: { anna: { token: ${token}, may: ${rights} } } }\n${await world.configText()}`,
);
await using ui = await serveUi({ config, clock: clockAhead(47 * 60_000) });
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });
for (const { name, path, width, height } of pictures) {
  const page = await browser.newPage({
    viewport: { width, height },
    colorScheme: 'light',
    extraHTTPHeaders: { authorization: `Bearer ${token}` },
  });
  await page.goto(`${ui.url}${path}`);
  await page.screenshot({ path: join(folder, `${name}.png`) });
  await page.close();
}
await browser.close();
