import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { AxeBuilder } from '@axe-core/playwright';
import { chromium, type Browser, type Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { findChromium } from '../support/page/find-chromium.ts';
import { noRedis, openStatusWorld, type StatusWorld } from '../support/page/status-world.ts';
import { serveWorkerPages } from '../support/page/worker-pages.ts';
import { startRedis, type PrivateRedis } from '../support/redis.ts';
import { isLong } from '../support/trials.ts';

const program = findChromium();

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
