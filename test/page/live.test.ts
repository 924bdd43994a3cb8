import { get, type IncomingMessage } from 'node:http';
import path from 'node:path';
import { writeFile } from 'node:fs/promises';
import { chromium, type Browser, type Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../support/jobs/worker-bench.ts';
import { instantClock } from '../support/instant-clock.ts';
import { openActor } from '../support/page/actor.ts';
import { findChromium } from '../support/page/find-chromium.ts';
import { serveUi, serveWorkerPages } from '../support/page/served-ui.ts';
import { noRedis, openStatusWorld, type StatusWorld } from '../support/page/status-world.ts';
import { type PrivateRedis, startRedis } from '../support/redis.ts';
import { isLong } from '../support/trials.ts';

const token = 'token-of-anna-0123';
const program = findChromium();

let world: StatusWorld;
let redis: PrivateRedis;
let config: string;
let ui: Awaited<ReturnType<typeof serveUi>>;

beforeAll(async () => {
  world = await openStatusWorld();
  redis = await startRedis();
  config = path.join(world.folder, 'live.yaml');
  const text = (await world.configText()).replace(noRedis, redis.url);
  await writeFile(config, `http: { tokens: { anna: { token: ${token}, may: act } } }\n${text}`);
  ui = await serveUi({ config });
});
afterAll(async () => {
  await ui[Symbol.asyncDispose]();
  await redis.stop();
  await world[Symbol.asyncDispose]();
});

describe('the stream of changes', () => {
  const open = async (cookie: string, url = ui.url, address = '/live?at=other') =>
    await new Promise<IncomingMessage>((resolve, reject) => {
      get(`${url}${address}`, { headers: { cookie }, agent: false }, resolve).on('error', reject);
    });
  const firstEvent = async (stream: IncomingMessage): Promise<string> => {
    let text = '';
    for await (const part of stream) {
      text += String(part);
      if (text.includes('event: ')) break;
    }
    return text;
  };

  it('serves 64 at a time, refuses more while pages still work, and serves again when some have left', async () => {
    const { cookie, read } = await openActor(ui, token);
    const streams = await Promise.all(Array.from({ length: 70 }, () => open(cookie)));
    const by = (status: number) => streams.filter(({ statusCode }) => statusCode === status);
    expect([by(200).length, by(503).length]).toEqual([64, 6]);
    expect(await read('/connectors/newsletter')).toContain('newsletter');
    const [first] = by(200);
    if (first === undefined) throw new Error('none');
    expect([first.headers['content-type'], first.headers['cache-control']]).toEqual([
      'text/event-stream; charset=utf-8',
      'no-store',
    ]);
    expect(await firstEvent(first)).toContain('event: change');
    for (const stream of streams) stream.destroy();
    await eventually(async () => {
      const again = await open(cookie);
      again.destroy();
      return again.statusCode === 200;
    });
  });

  it('tells a page of a change since it was read, and of none before', async () => {
    const { cookie, read } = await openActor(ui, token);
    const body = await read('/connectors/newsletter');
    const address = /data-live="\.\.([^"]*)"/.exec(body)?.[1]?.replaceAll('&amp;', '&') ?? '';
    const stream = await open(cookie, ui.url, address);
    let text = '';
    stream.on('data', (part) => void (text += String(part)));
    // Another page gets the event at once, because it shows another state: by then this one was read too.
    await firstEvent(await open(cookie));
    await firstEvent(await open(cookie));
    expect(text).not.toContain('event');
    await world.cli('schedule', 'pause', 'newsletter');
    await eventually(async () => await Promise.resolve(text.includes('event: change')));
    stream.destroy();
    await world.cli('schedule', 'resume', 'newsletter');
  });

  it('ends after an hour, and after twelve the token is asked for again', { timeout: 120_000 }, async () => {
    const clock = instantClock(Date.now());
    await using later = await serveUi({ config, clock });
    const { cookie } = await openActor(later, token);
    const beganMs = clock.now();
    let streams = 0;
    for (; streams < 30; streams += 1) {
      const stream = await open(cookie, later.url);
      if (stream.statusCode !== 200) break;
      const isOver = new Promise<void>((resolve) => stream.once('close', resolve));
      stream.resume();
      await isOver;
    }
    // A page that is open for a day opens no more than one an hour.
    expect([streams, (clock.now() - beganMs) / 3_600_000]).toEqual([12, expect.closeTo(12, 0)]);
    expect((await later.get('/', { headers: { cookie } })).status).toBe(401);
  });

  it('needs the right to read, and ends with the server', async () => {
    const closed = await open('');
    expect(closed.statusCode).toBe(401);
    closed.destroy();
    const other = await serveUi({ config });
    const { cookie } = await openActor(other, token);
    const stream = await open(cookie, other.url);
    stream.resume();
    const ended = new Promise<void>((resolve) => stream.once('close', resolve));
    await other[Symbol.asyncDispose]();
    await ended;
  });
});

describe.skipIf(program === null)('an act in a browser', { timeout: 180_000 }, () => {
  let browser: Browser;
  let worker: Awaited<ReturnType<typeof serveWorkerPages>>;

  beforeAll(async () => {
    worker = await serveWorkerPages(config, ['newsletter', 'members', 'leads']);
    browser = await chromium.launch({ executablePath: program ?? '', args: ['--no-sandbox'] });
  });
  afterAll(async () => {
    await browser.close();
    await worker[Symbol.asyncDispose]();
  });

  const visit = async (address: string, use: (page: Page) => Promise<void>, javaScriptEnabled = true) => {
    const context = await browser.newContext({ javaScriptEnabled });
    try {
      const page = await context.newPage();
      await page.goto(`${worker.url}/`);
      await page.getByLabel('Access token').fill(token);
      await page.getByRole('button', { name: 'Log in' }).click();
      await page.goto(`${worker.url}${address}`);
      await use(page);
    } finally {
      await context.close();
    }
  };

  it('runs a connector with one press, on the same page, to its end without a reload', async () => {
    await visit('/connectors/newsletter', async (page) => {
      await page.getByRole('button', { name: 'Run now' }).click();
      await page.waitForURL(/\/connectors\/newsletter\?did=/);
      await page.evaluate("document.body.dataset.kept = 'yes'");
      await page.getByText(/^Done at/).waitFor();
      expect(await page.evaluate('document.body.dataset.kept')).toBe('yes');
    });
  });

  it('asks in a dialog whose focus is on "No", and gives the focus back', async () => {
    await visit('/connectors/members', async (page) => {
      const pause = page.getByRole('link', { name: /^Pause/ });
      await pause.click();
      const dialog = page.getByRole('dialog', { name: 'Pause members?' });
      await dialog.waitFor();
      expect(await page.evaluate('document.activeElement.textContent')).toBe('No, go back');
      await page.keyboard.press('Escape');
      await dialog.waitFor({ state: 'detached' });
      expect(await page.evaluate('document.activeElement.textContent')).toMatch(/^Pause/);
      await pause.click();
      await dialog.getByLabel('Why').fill('a move');
      // Someone else is faster: it is asked again.
      await world.cli('schedule', 'pause', 'members');
      await dialog.getByRole('button', { name: 'Pause members' }).click();
      await page.getByText('Nothing to pause: members is paused already.').waitFor();
      await world.cli('schedule', 'resume', 'members');
    });
  });

  it('does each without the script', async () => {
    await visit(
      '/connectors/leads',
      async (page) => {
        await page.getByRole('link', { name: /^Pause/ }).click();
        await page.getByRole('button', { name: 'Pause leads' }).click();
        await page.getByText('leads: paused.').waitFor();
        await page
          .getByRole('link', { name: /^Resume/ })
          .first()
          .click();
        await page.getByRole('button', { name: 'Resume leads' }).click();
        await page.getByText('leads: resumed').waitFor();
        await page.goto(`${worker.url}/act/mark-known?connector=leads`);
        await page.getByText('They no longer need a person').waitFor();
        await page.getByRole('button', { name: /^Mark \d new field/ }).click();
        await page.getByText(/leads: \d new fields? marked as known\./).waitFor();
        expect((await world.cli('status', 'leads')).stdout).not.toContain('not as the definition declares');
        await page.goto(`${worker.url}/targets`);
        await page.getByRole('link', { name: 'Publish now…' }).click();
        await page.getByRole('button', { name: 'Publish into lake now' }).click();
        await page.waitForURL(/\/targets\?did=/);
        await page.goto(`${worker.url}/actions?q=known`);
        expect(
          await page.getByRole('row', { name: /anna Marked new fields as known of leads/ }).count(),
        ).toBe(1);
      },
      false,
    );
  });

  it('keeps focus, open details, typed text and scroll when the page is renewed', async () => {
    await visit('/actions', async (page) => {
      await page.getByText('Live,').waitFor();
      await page.setViewportSize({ width: 1000, height: 300 });
      await page.getByLabel('Did').fill('typed');
      await page.evaluate('scrollTo(0, 120)');
      const before = await page.getByRole('row').count();
      await world.cli('schedule', 'pause', 'archive');
      await page.getByRole('row').nth(before).waitFor({ state: 'attached' });
      expect(await page.getByLabel('Did').inputValue()).toBe('typed');
      expect(await page.evaluate('document.activeElement.id')).toBe('q');
      expect(await page.evaluate('scrollY')).toBe(120);
    });
    await visit('/targets/lake', async (page) => {
      await page.evaluate("document.querySelector('.menu').open = true; refresh()");
      await page.waitForFunction('refreshing === null');
      expect(await page.evaluate("document.querySelector('.menu').open")).toBe(true);
    });
  });

  it('leaks nothing when very much has changed', async () => {
    await visit('/actions', async (page) => {
      const nodes = 'document.querySelectorAll("*").length';
      const before = await page.evaluate(nodes);
      await page.evaluate(
        `(async () => { for (let n = 0; n < ${isLong ? 200 : 40}; n += 1) await refresh(); })()`,
      );
      expect(await page.evaluate(nodes)).toBe(before);
      expect(await page.evaluate('source.readyState')).toBe(1);
    });
  });
});
