import { writeFile } from 'node:fs/promises';
import path, { join } from 'node:path';
import { AxeBuilder } from '@axe-core/playwright';
import { chromium, type Browser, type BrowserContextOptions, type Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { findChromium, howToGetChromium } from '../support/page/find-chromium.ts';
import { proxyBelow } from '../support/page/proxy-below.ts';
import { clockAhead, serveUi } from '../support/page/served-ui.ts';
import { noRedis, openStatusWorld, type StatusWorld } from '../support/page/status-world.ts';
import { usePage } from '../support/page/use-page.ts';
import { serveWorkerPages } from '../support/page/worker-pages.ts';
import { startRedis, type PrivateRedis } from '../support/redis.ts';
import { isLong } from '../support/trials.ts';

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
    '/record?in=newsletter/list_members',
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
        const { violations } = await new AxeBuilder({ page }).analyze();
        expect(violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html}`))).toEqual([]);
        expect(await page.evaluate('document.scrollingElement.scrollWidth - innerWidth')).toBe(0);
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
      await page.getByLabel('id', { exact: true }).fill('nope');
      await page.getByRole('button', { name: 'Find' }).click();
      expect(await page.getByText('It is not stored.').isVisible()).toBe(true);
    });
  });

  it('show a new run by themselves, and listen to nothing while they are hidden', async () => {
    await open({}, async (page) => {
      await page.goto(`${ui.url}/connectors/newsletter`);
      const runs = page.getByRole('region', { name: 'Timeline', exact: true }).getByRole('row');
      const before = await runs.count();
      await page.getByText('· live').waitFor();
      await world.cli('sync', 'newsletter', '--select', 'lists');
      await runs.nth(before).waitFor();

      const left = page.waitForEvent('requestfailed', (request) => request.url().endsWith('/live'));
      await page.evaluate(
        "Object.defineProperty(document, 'hidden', { value: true, configurable: true }); document.dispatchEvent(new Event('visibilitychange'))",
      );
      await left;
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
      await page.getByRole('button', { name: 'Pause newsletter' }).click();
      await page.getByText('newsletter: paused.').waitFor();
      await page.getByRole('link', { name: 'Back to newsletter' }).click();
      const timeline = page.getByRole('region', { name: 'Timeline', exact: true });
      await timeline.getByRole('row', { name: 'pause http.token reason: the account moves' }).waitFor();
      await page.getByRole('button', { name: 'Log out' }).click();
      await page.getByLabel('Token').waitFor();
    });
  });
});

interface Act {
  readonly at: string;
  readonly link: string;
  readonly button: string;
  readonly hasScript: boolean;
}

describe.skipIf(!isLong || program === null)('the actions of the pages in a browser', () => {
  let world: StatusWorld;
  let redis: PrivateRedis;
  let worker: Awaited<ReturnType<typeof serveWorkerPages>>;
  let browser: Browser;

  beforeAll(async () => {
    world = await openStatusWorld();
    redis = await startRedis();
    const config = path.join(world.folder, 'with-worker.yaml');
    const text = (await world.configText()).replace(noRedis, redis.url);
    await writeFile(config, `http: { tokens: { anna: { token: token-of-anna-0123, may: act } } }\n${text}`);
    worker = await serveWorkerPages(config, ['members', 'newsletter', 'new-shop']);
    // Tests run as root in containers, where Chromium's sandbox does not start.
    browser = await chromium.launch({ executablePath: program ?? '', args: ['--no-sandbox'] });
  }, 60_000);
  afterAll(async () => {
    await browser.close();
    await worker[Symbol.asyncDispose]();
    await redis.stop();
    await world[Symbol.asyncDispose]();
  });

  /** Logs in on a phone, opens the page, follows the link, confirms, and reads what was done. */
  async function act({ at, link, button, hasScript }: Act): Promise<string> {
    const look = { javaScriptEnabled: hasScript, viewport: { width: 390, height: 800 } };
    const context = await browser.newContext({ ...look, colorScheme: 'dark' });
    try {
      const page = await context.newPage();
      await page.goto(worker.url);
      await page.getByLabel('Token').fill('token-of-anna-0123');
      await page.getByRole('button', { name: 'Log in' }).click();
      await page.goto(`${worker.url}${at}`);
      await page.getByRole('banner').getByText('anna', { exact: true }).waitFor();
      await page.getByRole('link', { name: link, exact: true }).first().click();
      await page.getByRole('heading', { name: button }).waitFor();
      if (hasScript) await checkPage(page);
      await page.getByRole('button', { name: button }).click();
      const done = page.getByRole('main').getByRole('status');
      await done.waitFor();
      const said = await done.innerText();
      if (hasScript) await checkPage(page);
      return said;
    } finally {
      await context.close();
    }
  }

  async function checkPage(page: Page): Promise<void> {
    const { violations } = await new AxeBuilder({ page }).analyze();
    expect(violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html}`))).toEqual([]);
    expect(await page.evaluate('document.scrollingElement.scrollWidth - innerWidth')).toBe(0);
  }

  // `acts.test.ts` has the others, without a browser.
  it.each([
    {
      at: '/connectors/newsletter',
      link: 'Run now',
      button: 'Run newsletter now',
      said: 'newsletter: ',
      hasScript: true,
    },
    {
      at: '/connectors/new-shop',
      link: 'Pause',
      button: 'Pause new-shop',
      said: 'new-shop: paused.',
      hasScript: false,
    },
    {
      at: '/',
      link: 'Allow once',
      button: 'Allow the deletes of members once',
      said: 'members: ',
      hasScript: true,
    },
  ])('work on $at: $link', { timeout: 60_000 }, async ({ said, ...asked }) => {
    expect(await act(asked)).toContain(said);
  });
});
