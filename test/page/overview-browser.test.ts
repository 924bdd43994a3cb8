import { writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { chromium, type Browser, type Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { expectConsole, usePage } from '../support/page/expect-console.ts';
import { findChromium, howToGetChromium } from '../support/page/find-chromium.ts';
import { openManyWorld } from '../support/page/many-world.ts';
import { clockAhead, serveUi } from '../support/page/served-ui.ts';
import { openStatusWorld } from '../support/page/status-world.ts';
import { openProgram } from '../support/program.ts';
import { isLong } from '../support/trials.ts';

const chromiumPath = findChromium();
if (chromiumPath === null) console.warn(howToGetChromium);

const token = 'a-token-of-16-or-more';

describe.skipIf(chromiumPath === null)('the first page in a browser', { timeout: 180_000 }, () => {
  let browser: Browser;

  beforeAll(async () => {
    // Tests run as root in containers, where Chromium's sandbox does not start.
    browser = await chromium.launch({ executablePath: chromiumPath ?? '', args: ['--no-sandbox'] });
  });
  afterAll(async () => await browser.close());

  /** The first page of a config, for a person who may act. */
  async function openFirst(
    { config }: { readonly config: string },
    use: (page: Page, url: string) => Promise<void>,
    aheadMs = 0,
  ): Promise<void> {
    const text = await readFile(config, 'utf8');
    writeFileSync(config, `http: { token: ${token} }\n${text}`);
    await using ui = await serveUi({ config, clock: clockAhead(aheadMs) });
    await usePage(browser, { viewport: { width: 1280, height: 800 } }, async (page) => {
      await page.goto(ui.url);
      await page.getByLabel('Token').fill(token);
      await page.getByRole('button', { name: 'Log in' }).click();
      await page.getByRole('navigation', { name: 'Pages', exact: true }).waitFor();
      await use(page, ui.url);
    });
    writeFileSync(config, text);
  }

  const heightOf = async (page: Page, width: number): Promise<number> => {
    await page.setViewportSize({ width, height: 800 });
    return await page.evaluate('document.documentElement.scrollHeight');
  };

  it('keeps to the console with connectors in all states', async () => {
    await using world = await openStatusWorld();
    await openFirst(
      world,
      async (page) => {
        await expectConsole(page, { at: 'Connectors' });
        expect(await page.title()).toBe('(4) Connectors · connector-sync');
        await page.keyboard.press('/');
        await page.locator('#find:focus').waitFor();
      },
      47 * 60_000,
    );
  });

  it('shows forty connectors on two screens, in less than 60 KB', async () => {
    await using world = await openManyWorld(40);
    await openFirst(world, async (page) => {
      await expectConsole(page, { at: 'Connectors' });
      expect(await heightOf(page, 1280)).toBeLessThan(2_200);
      expect(await heightOf(page, 390)).toBeLessThan(3_200);
      const lines = await page.evaluate(rowHeights);
      expect(lines).toEqual(Array(40).fill(44));
      const response = await page.request.get(page.url());
      expect((await response.body()).length).toBeLessThan(60_000);
    });
  });

  const many = isLong ? 1_000 : 200;
  it(`finds one of ${many} by name`, async () => {
    await using world = await openManyWorld(many, { needing: 20 });
    await openFirst(world, async (page) => {
      await expectConsole(page, { at: 'Connectors' });
      await page.getByLabel('Name or type contains').fill('expenses-4');
      await page.keyboard.press('Enter');
      await page.waitForURL(/q=expenses-4/);
      expect(await page.locator('tbody tr').count()).toBe(1);
      await page.getByRole('link', { name: 'expenses-4' }).click();
      await page.getByRole('heading', { level: 1, name: /expenses-4/ }).waitFor();
    });
  });

  it('has one primary button where there are no connectors', async () => {
    await using program =
      openProgram(`api: { baseUrl: "http://127.0.0.1:1", clientId: local, clientSecret: x }
sinks: { main: { type: sqlite, path: ./main.db } }
connectors: {}
`);
    await openFirst(program, async (page) => {
      await expectConsole(page, { at: 'Connectors' });
      expect(await page.locator('.primary').allTextContents()).toEqual(['Add connector']);
    });
  });

  it('filters and opens a connector without a script', async () => {
    await using world = await openManyWorld(12);
    await using ui = await serveUi({ config: world.config });
    await usePage(browser, { javaScriptEnabled: false }, async (page) => {
      await page.goto(ui.url);
      await page.getByLabel('Name or type contains').fill('payroll');
      await page.keyboard.press('Enter');
      await page.waitForURL(/q=payroll/);
      expect(await page.locator('tbody tr').count()).toBe(1);
      // The newest bar stands on the right.
      await page.locator('.bars').click({ position: { x: 116, y: 18 } });
      await page.waitForURL(/\/runs\//);
    });
  });
});

const rowHeights =
  '[...document.querySelectorAll("tbody tr")].map((row) => Math.round(row.getBoundingClientRect().height))';
