import { chromium } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { isLookup, type RunDetails, slownessOf } from '../../src/app/find-run.ts';
import { instant } from '../../src/core/clock.ts';
import { type RunJournal, sweepLine } from '../../src/sinks/run-journal.ts';
import { duration } from '../../src/telemetry/format.ts';
import { openCliWorld } from '../support/cli-world.ts';
import { expectConsole } from '../support/page/expect-console.ts';
import { findChromium } from '../support/page/find-chromium.ts';
import { clockAhead, serveUi } from '../support/page/served-ui.ts';
import { openStatusWorld, script, type StatusWorld } from '../support/page/status-world.ts';
import { startCli } from '../support/run-cli.ts';

let world: StatusWorld;
let ui: Awaited<ReturnType<typeof serveUi>>;

beforeAll(async () => {
  world = await openStatusWorld();
  ui = await serveUi({ config: world.config, clock: clockAhead(60_000) });
});
afterAll(async () => {
  await ui[Symbol.asyncDispose]();
  await world[Symbol.asyncDispose]();
});

async function page(path: string, status = 200): Promise<string> {
  const answer = await ui.get(path);
  expect([path, answer.status]).toEqual([path, status]);
  return answer.body;
}

/** What a person reads, on one line. */
function textOf(body: string): string {
  const text = body.replace(/<[^>]*>/g, ' ').replace(/\s+/g, ' ');
  return text.replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&quot;', '"').trim();
}

const rowsOf = (body: string): readonly string[] =>
  [
    ...((body.split('<tbody>')[1] ?? '').split('</tbody>')[0] ?? '').matchAll(/<tr[^>]*>([\s\S]*?)<\/tr>/g),
  ].map(([, row = '']) => textOf(row));

const logOf = (body: string): string =>
  textOf(/<pre class="log"[\s\S]*?<\/pre>/.exec(body)?.[0].replaceAll('\n', ' ¶ ') ?? '');

/** Without what may have codes and ids. */
const plainOf = (body: string): string =>
  textOf(body.replace(/<details>[\s\S]*?<\/details>|<pre[\s\S]*?<\/pre>/g, ''));

describe('a run', () => {
  it('says first why it failed, with the words of the service, and leads to the run before', async () => {
    const [failed, first] = await world.runsOf('crm');
    const body = await page(`/runs/${failed}`);
    const text = textOf(body);
    expect(text).toMatch(
      /Run of \d\d:\d\d Failed By connector-sync sync on \S+ · took .* · 0 read, 0 written/,
    );
    expect(text).toContain('The API refused the credentials. list lists was answered with 401 "Signed out');
    expect(body).toContain(`<a href="../runs/${first}">run before</a>`);
    expect(rowsOf(body)[0]).toMatch(/^lists Stopped 0 0 0 0 \d/);
    expect(rowsOf(body)[2]).toMatch(/^list_members Not started 0 0 0 0 0/);
    expect(plainOf(body)).not.toMatch(/AUTH_FAILED|FORBIDDEN|\dZ-[0-9a-f]{8}/);
    expect(body.indexOf('Why it failed')).toBeLessThan(body.indexOf('What was read'));
  });

  it('shows what was read, how complete that is, its requests, and what it waited for', async () => {
    const body = await page(`/runs/${(await world.runsOf('crm'))[1]}`);
    expect(rowsOf(body)[0]).toMatch(/^lists Complete 3 3 0 0 \d+$|^lists Complete 3 2 0 0 \d+/);
    const text = textOf(body);
    expect(text).toMatch(
      /Requests All \d+ Answered 2xx \d+ Asked to wait \(429\) 0 Refused 0 Median time \d+ ms, slowest/,
    );
    expect(text).toMatch(/Where the time went .* Sink Mostly \w+ \d.* ms API /);
    expect(logOf(body)).toMatch(
      /\d\d:\d\d:\d\d info POST \/api\/v1\/integrations\/connectors\/c-crm\/execute list lists 200 \d+ ms \d records? ¶/,
    );
    expect(logOf(body)).toMatch(/info run ended: ok in .* ¶/);
  });

  it('shows warnings alone where they are asked for, and texts of the service as text', async () => {
    const [degraded] = await world.runsOf('team-notes');
    const all = await page(`/runs/${degraded}`);
    const some = await page(`/runs/${degraded}?log=warnings`);
    expect(logOf(all)).toContain(' info ');
    expect(logOf(some)).not.toContain(' info ');
    expect(logOf(some)).toMatch(/error POST .*list comments 403/);
    expect(textOf(all)).toContain('listings and files could not be read, such as of comments.');
    expect(all).not.toContain('<script src="https://evil');
    expect(textOf(all)).toContain(script);
  });

  it('that is in progress shows how far it is; killed, that its process has ended', async () => {
    const slow = await openCliWorld({ latencyMs: 600, size: 'small' });
    onTestFinished(() => slow[Symbol.asyncDispose]());
    const { config, env, folder } = slow;
    const running = startCli(['sync', 'newsletter', '--config', config, '--json'], { cwd: folder, env });
    await running.until('"run-started"');
    await using served = await serveUi({ config, env });
    const run = /href="runs\/([^"]+)"/.exec((await served.get('/runs')).body)?.[1] ?? '';
    const shown = async (): Promise<string> => textOf((await served.get(`/runs/${run}`)).body);
    await expect.poll(shown, { timeout: 15_000 }).toMatch(/Requests [1-9]\d* [\d.]+ a second/);
    const now = await shown();
    expect(now).toMatch(/Run of \d\d:\d\d Running By .* · running \d+ s/);
    expect(now).toContain('Everything read so far is stored.');
    expect(now).toMatch(/lists (Read|Reading) \d/);
    running.child.kill('SIGKILL');
    await running.result;
    expect(await shown()).toContain('The process of the run has ended without a report.');
  }, 40_000);
});

it('that waited for most of its time says how long and for whom', () => {
  const at = Date.UTC(2026, 10, 30, 10);
  const asked = (text: string) => ({ at, level: 'warn', text }) as const;
  const refusal = 'tickets: attempt 1 of 6 failed (THROTTLED): list tickets was answered with 429 "Limit';
  const journal = {
    requests: [],
    lines: [asked(`${refusal} of this plan exceeded: 120 calls per minute."; next in 22.0 s`)],
    statuses: { 200: 22, 429: 4 },
    slowestMs: 180,
    pausedMs: 88_000,
    waits: [{ entity: 'tickets', requests: 26, apiMs: 300, limitMs: 95_000, sinkMs: 300 }],
  };
  const run = { startedAt: instant(at), finishedAt: instant(at + 95_400) };
  const details = (change: object) => ({ run, journal: { ...journal, ...change } }) as unknown as RunDetails;
  const slow = { tookMs: 95_400, waitedMs: 88_000, throttled: 4 };
  expect(slownessOf(details({}))).toEqual({ ...slow, by: 'service', allows: '120 calls a minute' });
  expect(slownessOf(details({ pausedMs: 0 }))).toMatchObject({ by: 'limit', waitedMs: 95_000 });
  expect(slownessOf(details({ pausedMs: 0, waits: [] }))).toBeNull();
});

it('has durations of at most two units, rounded', () => {
  const hourMs = 3_600_000;
  const texts = [180, 4_810, 59_960, 95_400, 120_000, hourMs - 1, 2.5 * hourMs, 24 * hourMs, 53 * hourMs].map(
    duration,
  );
  expect(texts.join('; ')).toBe('180 ms; 4.8 s; 1 min; 1 min 35 s; 2 min; 1 h; 2 h 30 min; 24 h; 2 d 5 h');
});

it('takes a record that is not there for a confirmed delete once it looks for deleted rows', () => {
  const lines = [{ at: 5, level: 'info', text: sweepLine }] as const;
  const journal = { lines } as unknown as RunJournal;
  expect([4, 6].map((at) => isLookup({ status: 404, at }, journal))).toEqual([false, true]);
});

describe('all runs', () => {
  it('are counted by outcome, newest first, each with its reason', async () => {
    const body = await page('/runs');
    expect(textOf(body)).toMatch(/0 running, 11 runs in 24 h 9 done · 1 incomplete · 1 failed/);
    const rows = rowsOf(body);
    expect(rows).toHaveLength(11);
    expect(rows[0]).toMatch(
      /^\d\d:\d\d:\d\d Done newsletter [\d.]+ m?s, 13 entities complete 13 entities complete \d+ \d+ 0 [\d.]+ m?s$/,
    );
    expect(rows.find((row) => row.includes('Failed'))).toMatch(/crm .*The API refused the credentials: list/);
    expect(textOf(body)).toContain('Sink away cannot be read: PostgreSQL');
    expect(plainOf(body)).not.toMatch(/\dZ-[0-9a-f]{8}/);
  });

  it('are filtered by outcome and connector, and older ones are a click away', async () => {
    expect(rowsOf(await page('/runs?state=failed'))).toHaveLength(1);
    expect(rowsOf(await page('/runs?q=NEWS')).every((row) => row.includes('newsletter'))).toBe(true);
    expect(textOf(await page('/runs?q=nothing'))).toContain('There are no such runs.');
    expect(rowsOf(await page('/runs?state=constructor&before[]=x'))).toHaveLength(11);
    const [, second = ''] = await world.runsOf('newsletter');
    const older = await page(`/runs?before=${second}`);
    expect(older).not.toContain(`runs/${second}"`);
    expect(rowsOf(older).length).toBeLessThan(11);
  });
});

describe.runIf(findChromium() !== null)('in a browser', () => {
  it('meets the checks of every page', async () => {
    const browser = await chromium.launch({ executablePath: findChromium() ?? '', args: ['--no-sandbox'] });
    onTestFinished(() => browser.close());
    const context = await browser.newContext();
    const [failed] = await world.runsOf('crm');
    const paths = ['/runs', `/runs/${failed}`, `/runs/${(await world.runsOf('team-notes'))[0]}`];
    for (const path of paths) {
      const tab = await context.newPage();
      await tab.goto(`${ui.url}${path}`);
      await expectConsole(tab, { at: 'Runs' });
      await tab.close();
    }
  }, 120_000);
});
