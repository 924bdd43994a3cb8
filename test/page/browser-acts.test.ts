import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { AxeBuilder } from '@axe-core/playwright';
import { chromium, type Browser, type Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../support/jobs/worker-bench.ts';
import { findChromium } from '../support/page/find-chromium.ts';
import { noRedis, openStatusWorld, type StatusWorld } from '../support/page/status-world.ts';
import { serveWorkerPages } from '../support/page/worker-pages.ts';
import { startRedis, type PrivateRedis } from '../support/redis.ts';
import { callCli } from '../support/run-cli.ts';
import { isLong } from '../support/trials.ts';

const program = findChromium();

describe.skipIf(!isLong || program === null)('the actions of the pages in a browser', () => {
  let world: StatusWorld;
  let redis: PrivateRedis;
  let worker: Awaited<ReturnType<typeof serveWorkerPages>>;
  let browser: Browser;
  let config: string;

  beforeAll(async () => {
    world = await openStatusWorld();
    redis = await startRedis();
    config = path.join(world.folder, 'with-worker.yaml');
    const slow = (await world.configText())
      .replace(noRedis, redis.url)
      .replace(/(leads: .*requestsPerSecond: )1000/, '$11');
    await writeFile(config, `http: { tokens: { anna: { token: token-of-anna-0123, may: act } } }\n${slow}`);
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
  async function act(
    [at, link, button]: readonly [string, string, string],
    hasScript: boolean,
    before: (page: Page) => Promise<void> = async () => undefined,
  ): Promise<string> {
    const look = { javaScriptEnabled: hasScript, viewport: { width: 390, height: 800 } };
    const context = await browser.newContext({ ...look, colorScheme: 'dark' });
    try {
      const page = await context.newPage();
      await page.goto(worker.url);
      await page.getByLabel('Token').fill('token-of-anna-0123');
      await page.getByRole('button', { name: 'Log in' }).click();
      await page.goto(`${worker.url}${at}`);
      await page.getByRole('banner').getByText('anna', { exact: true }).waitFor();
      await before(page);
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

  const acts = [
    ['/connectors/newsletter', 'Run now', 'Run newsletter now', 'newsletter: '],
    ['/connectors/new-shop', 'Pause', 'Pause new-shop', 'new-shop: paused.'],
    ['/connectors/new-shop', 'Resume', 'Resume new-shop', 'new-shop: resumed.'],
    ['/?q=archive&state=paused', 'Resume this one', 'Resume archive', 'archive: resumed.'],
    ['/?q=archive', 'Pause this one', 'Pause archive', 'archive: paused.'],
    ['/', 'Allow once', 'Allow the deletes of members once', 'members: '],
    ['/targets/lake', 'Publish now', 'Publish into lake now', 'lake: '],
  ] as const;

  it.each(acts)(
    'works on %s: %s',
    async (at, link, button, said) => {
      expect(await act([at, link, button], acts.findIndex((one) => one[1] === link) % 2 === 0)).toContain(
        said,
      );
    },
    60_000,
  );

  it('cancels a run that is in progress, and undoes one', async () => {
    const run = callCli(['sync', 'leads', '--full', '--config', config], { cwd: world.folder });
    const cancelled = await act(
      ['/connectors/leads', 'Cancel the run', 'Cancel the run of leads'],
      true,
      async (page) => await page.getByRole('link', { name: 'Cancel the run' }).waitFor(),
    );
    expect(cancelled).toContain('stops at its next page');
    expect((await run).stderr).toContain('leads: cancelled on request');

    let deleting = '';
    await eventually(async () => {
      [deleting = ''] = await world.runsOf('members');
      return (await worker.get(`/runs/${deleting}`, bearer)).body.includes('act/undo');
    });
    const undone = await act([`/runs/${deleting}`, 'Undo', 'Undo a run of members'], false);
    expect(undone).toContain('list_members: 23 deletes taken back.');
  }, 60_000);
});

const bearer = { headers: { authorization: 'Bearer token-of-anna-0123' } };
