import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { chromium, type Browser, type BrowserContextOptions, type Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { findChromium, howToGetChromium } from '../support/page/find-chromium.ts';
import { expectConsole, usePage } from '../support/page/expect-console.ts';
import { clockAhead, serveUi } from '../support/page/served-ui.ts';
import { openStatusWorld, type StatusWorld } from '../support/page/status-world.ts';
import { createServer, request as httpRequest } from 'node:http';
import { listen } from '../support/listen.ts';

const program = findChromium();
if (program === null) console.warn(howToGetChromium);

describe.skipIf(program === null)('the pages in a browser', { timeout: 180_000 }, () => {
  let world: StatusWorld;
  let ui: Awaited<ReturnType<typeof serveUi>>;
  let browser: Browser;

  beforeAll(async () => {
    world = await openStatusWorld();
    ui = await serveUi({ config: world.config, clock: clockAhead(47 * 60_000) });
    // Tests run as root in containers, where Chromium's sandbox does not start.
    browser = await chromium.launch({ executablePath: program ?? '', args: ['--no-sandbox'] });
  });
  afterAll(async () => {
    await browser.close();
    await ui[Symbol.asyncDispose]();
    await world[Symbol.asyncDispose]();
  });

  const open = (options: BrowserContextOptions, use: (page: Page) => Promise<void>): Promise<void> =>
    usePage(browser, options, use);

  const pages = [
    ['/targets/lake', 'Targets'],
    ['/connectors/nope', null],
  ] as const;

  it.each(pages)('keep to the console where no other test looks (%s)', async (path, at) => {
    await open({}, async (page) => {
      await page.goto(`${ui.url}${path}`);
      await expectConsole(page, { at });
    });
  });

  it('listen to nothing while they are hidden, and show what has changed once they are seen', async () => {
    await open({}, async (page) => {
      await page.goto(`${ui.url}/connectors/newsletter`);
      const live = page.locator('#live').getByText('Live');
      await live.waitFor();
      const isHidden = (value: boolean): string =>
        `Object.defineProperty(document, 'hidden', { value: ${value}, configurable: true }); document.dispatchEvent(new Event('visibilitychange'))`;
      await page.evaluate(isHidden(true));
      const asked: string[] = [];
      page.on('request', (request) => asked.push(request.url()));
      await world.cli('sync', 'newsletter', '--select', 'lists');
      expect(asked).toEqual([]);
      const back = page.waitForEvent('request', (request) => request.url().includes('/live'));
      await page.evaluate(isHidden(false));
      await back;
    });
  });

  it('ask for the token once, also below the path prefix of a proxy', async () => {
    const config = join(world.folder, 'with-token.yaml');
    const text = `http: { token: a-token-of-16-or-more }\n${await world.configText()}`;
    await writeFile(config, text);
    await using closed = await serveUi({ config });
    await using proxy = await proxyBelow('/sync', closed.url);
    await open({}, async (page) => {
      await page.goto(`${proxy.url}/sync/connectors/newsletter`);
      await page.getByLabel('Token').fill('a-token-of-16-or-more');
      await page.getByRole('button', { name: 'Log in' }).click();
      await page.waitForURL(`${proxy.url}/sync/`);
      await page.getByRole('link', { name: 'newsletter', exact: true }).click();
      await page.waitForURL(`${proxy.url}/sync/connectors/newsletter`);
      await page.locator('#live').getByText('Live').waitFor();
      const ground = await page.evaluate('getComputedStyle(document.querySelector(".top")).display');
      expect(ground).toBe('flex');
      await page.getByRole('link', { name: 'Pause…', exact: true }).click();
      await page.getByLabel('Why').fill('the account moves');
      await page.getByRole('button', { name: 'Pause newsletter' }).click();
      await page.getByText('newsletter: paused.').waitFor();
      await page.waitForURL(/\/sync\/connectors\/newsletter\?did=/);
      await page.getByText('the account moves').first().waitFor();
      await page.locator('.who > summary').click();
      await page.getByRole('button', { name: 'Log out' }).click();
      await page.getByLabel('Token').waitFor();
    });
  });
});

/** A reverse proxy that takes a path prefix away, as the one in the guide does. */
async function proxyBelow(prefix: string, target: string) {
  const { hostname, port } = new URL(target);
  const server = createServer((incoming, outgoing) => {
    const path = (incoming.url ?? '').slice(prefix.length);
    const { method = 'GET' } = incoming;
    const { headers } = incoming;
    if (!incoming.url?.startsWith(`${prefix}/`)) return void outgoing.writeHead(404).end();
    const asked = httpRequest({ hostname, port, path, method, headers }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(outgoing);
    });
    asked.on('error', () => outgoing.destroy());
    outgoing.on('close', () => asked.destroy());
    incoming.pipe(asked);
  });
  const { origin, close } = await listen(server);
  return { url: origin, [Symbol.asyncDispose]: close };
}
