import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { chromium, type Browser, type BrowserContextOptions, type Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { AxeBuilder } from '@axe-core/playwright';
import { findChromium, howToGetChromium } from '../support/page/find-chromium.ts';
import { usePage } from '../support/page/expect-console.ts';
import { clockAhead, serveUi } from '../support/page/served-ui.ts';
import { openStatusWorld, type StatusWorld } from '../support/page/status-world.ts';
import { isLong } from '../support/trials.ts';
import { createServer, request as httpRequest } from 'node:http';
import { listen } from '../support/listen.ts';

const program = findChromium();
if (program === null) console.warn(howToGetChromium);

describe.skipIf(program === null)('the pages in a browser', () => {
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

  async function expectFit(page: Page): Promise<void> {
    const { violations } = await new AxeBuilder({ page }).analyze();
    expect(violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html}`))).toEqual([]);
    expect(await page.evaluate('document.scrollingElement.scrollWidth - innerWidth')).toBe(0);
  }

  const looks = [
    { colorScheme: 'light', width: 1280 },
    { colorScheme: 'dark', width: 390 },
    { colorScheme: 'light', width: 390 },
    { colorScheme: 'dark', width: 1280 },
  ] as const;

  const pages = [
    '/',
    '/connectors/team-notes',
    '/connectors/members',
    '/runs/<failed>',
    '/actions',
    '/targets/lake',
    '/data/newsletter/list_members',
    '/connectors/nope',
  ];
  const views = pages.flatMap((path, index) =>
    looks.filter((_look, which) => isLong || which === index % 2).map((look) => ({ ...look, path })),
  );

  it.each(views)(
    'have nothing that keeps people out, and fit ($path, $colorScheme, $width px)',
    async ({ colorScheme, width, path }) => {
      const [failed = ''] = await world.runsOf('crm');
      await open({ colorScheme, viewport: { width, height: 800 } }, async (page) => {
        await page.goto(`${ui.url}${path.replace('<failed>', failed)}`);
        await expectFit(page);
        if (width > 390) return;
        // A table that is too wide would scroll sideways in its box.
        const boxes =
          '[...document.querySelectorAll(".wide")].map((box) => box.scrollWidth - box.clientWidth)';
        expect(await page.evaluate(`${boxes}.filter((over) => over !== 0)`)).toEqual([]);
      });
    },
  );

  it('work without JavaScript', async () => {
    await open({ javaScriptEnabled: false }, async (page) => {
      await page.goto(ui.url);
      await page.getByLabel('Name contains').fill('news');
      await page.getByRole('button', { name: 'Filter' }).click();
      expect(await page.getByRole('row').count()).toBe(2);
      await page
        .getByText(/^4[789]m ago$/)
        .first()
        .click();
      expect(await page.locator('tbody time').first().isVisible()).toBe(true);
      await page.getByRole('link', { name: 'newsletter', exact: true }).click();
      await page.getByRole('link', { name: 'lists', exact: true }).click();
      await page.locator('#filter').fill('nothing-like-it');
      await page.keyboard.press('Enter');
      expect(await page.getByText('No such rows.').isVisible()).toBe(true);
    });
  });

  it('show a new run by themselves, and ask for nothing while they are hidden', async () => {
    await open({}, async (page) => {
      await page.goto(`${ui.url}/connectors/newsletter`);
      const runs = page.getByRole('region', { name: 'Timeline', exact: true }).getByRole('row');
      const before = await runs.count();
      await page.getByText('· live').waitFor();
      await world.cli('sync', 'newsletter', '--select', 'lists');
      await runs.nth(before).waitFor();

      await page.evaluate(
        "Object.defineProperty(document, 'hidden', { value: true, configurable: true }); document.dispatchEvent(new Event('visibilitychange'))",
      );
      const asked = page.waitForRequest((request) => request.url().endsWith('/live'), { timeout: 3_000 });
      await expect(asked).rejects.toThrow('Timeout');
      const back = page.waitForEvent('request', (request) => request.url().endsWith('/live'));
      await page.evaluate(
        "Object.defineProperty(document, 'hidden', { value: false, configurable: true }); document.dispatchEvent(new Event('visibilitychange'))",
      );
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
      await page.getByText('· live').waitFor();
      const ground = await page.evaluate('getComputedStyle(document.querySelector(".top")).display');
      expect(ground).toBe('flex');
      await page.getByRole('link', { name: 'Pause', exact: true }).click();
      await page.getByLabel('Why').fill('the account moves');
      await expectFit(page);
      await page.getByRole('button', { name: 'Pause newsletter' }).click();
      await page.getByText('newsletter: paused.').waitFor();
      await expectFit(page);
      await page.getByRole('link', { name: 'Back to newsletter' }).click();
      const timeline = page.getByRole('region', { name: 'Timeline', exact: true });
      await timeline.getByRole('row', { name: 'pause http.token reason: the account moves' }).waitFor();
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
