import { AxeBuilder } from '@axe-core/playwright';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { expect } from 'vitest';
import { isLong } from '../trials.ts';

interface Expected {
  /** The page of the navigation that this one belongs to; null: none. */
  readonly at: 'Connectors' | 'Runs' | 'Data' | 'Targets' | 'Actions' | null;
  /** Selector of parts that show values of a service, which may look like anything. */
  readonly values?: string;
}

/** The long tests audit each width in each colour scheme, the others one page in light, the next one in dark. */
const looks = [
  { width: 1280, colorScheme: 'light' },
  { width: 390, colorScheme: 'dark' },
  ...(isLong
    ? ([
        { width: 1280, colorScheme: 'dark' },
        { width: 390, colorScheme: 'light' },
      ] as const)
    : []),
] as const;

let audited = 0;

/**
 * Expects of the open page whatever each page of the console keeps to: accessible, within its width, one heading, at
 * most one primary button, controls for fingers, visible focus, no codes, one format of times. At both widths and in
 * both colour schemes, without reading the page again.
 */
export async function expectConsole(page: Page, { at, values = '' }: Expected): Promise<void> {
  const size = page.viewportSize() ?? { width: 1280, height: 800 };
  audited += 1;
  for (const [index, { width, colorScheme }] of looks.entries()) {
    await page.setViewportSize({ width, height: 800 });
    await page.emulateMedia({ colorScheme });
    expect(await page.evaluate(tooWide)).toEqual([]);
    if (!isLong && index !== audited % looks.length) continue;
    const { violations } = await audit(page);
    expect(violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html}`))).toEqual([]);
  }
  await page.setViewportSize({ width: 390, height: 800 });
  expect(await page.evaluate(lowControls)).toEqual([]);
  await page.setViewportSize({ width: 320, height: 800 });
  expect(await page.evaluate(tooWide)).toEqual([]);
  await page.setViewportSize(size);
  await page.emulateMedia({ colorScheme: 'light' });
  expect(await page.locator('h1').count()).toBe(1);
  const current = page.locator('.top nav [aria-current="page"]');
  expect(await current.allTextContents()).toEqual(at === null ? [] : [at]);
  expect(await page.locator('.primary').count()).toBeLessThan(2);
  expect(await page.evaluate(codesOutside(values === '' ? '' : `, ${values}`))).toEqual([]);
  expect(await page.evaluate(oddTimes)).toEqual([]);
  expect(await withoutOutline(page)).toEqual([]);
}

/**
 * Tries the rules of axe. No page has frames, so axe opens no blank page to collect those of frames, and it describes
 * only violations: this takes a third of the time.
 */
async function audit(page: Page) {
  return await new AxeBuilder({ page })
    .setLegacyMode()
    .options({ resultTypes: ['violations'] })
    .analyze();
}

/** What makes the page wider than the window; only tables and chips may scroll, in their boxes. */
const tooWide = `document.scrollingElement.scrollWidth <= innerWidth ? [] :
  [...document.querySelectorAll('body *')]
    .filter((one) => one.getBoundingClientRect().right > innerWidth && one.closest('.wide, .chips, pre, .unseen') === null)
    .map((one) => one.outerHTML.slice(0, 120))`;

/** On a phone each control is 44 px high. */
const lowControls = `[...document.querySelectorAll(
    'button, .btn, .chip, .menu > summary, select, textarea, input:not([type=checkbox], [type=radio], [type=hidden])')]
  .filter((one) => one.checkVisibility() && !one.matches('.unseen, .skip'))
  .filter((one) => one.getBoundingClientRect().height < 44)
  .map((one) => one.outerHTML.slice(0, 120))`;

/** Run ids, codes and raw times that stand where a person reads, outside parts that show values of a service. */
const codesOutside = (values: string): string => `(() => {
  const body = document.body.cloneNode(true);
  for (const one of body.querySelectorAll('details, .log, code, pre, script${values}')) one.remove();
  const codes = /\\b[A-Z]{3,}_[A-Z_]+\\b|\\b(FORBIDDEN|THROTTLED|NETWORK|TIMEOUT|UPSTREAM|REDIRECTED|CANCELLED|INTERNAL)\\b/g;
  const ids = /\\d{8}T\\d{9}Z-[0-9a-f]{8}|\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\S*/g;
  return [codes, ids].flatMap((one) => body.textContent.match(one) ?? []);
})()`;

/** Each moment has the one format, and its exact time as a title. */
const oddTimes = `[...document.querySelectorAll('time')].filter((one) => {
    const text = one.textContent.trim();
    const isAge = /^\\d+ (s|min|h|d)$/.test(text);
    const isMoment = /^(\\d\\d:\\d\\d(:\\d\\d)?|\\d{1,2} [A-Z][a-z]{2} (\\d\\d:\\d\\d|\\d{4}))$/.test(text);
    const exact = one.dateTime.slice(0, 19).replace('T', ' ') + ' UTC';
    return one.title !== exact || (!isAge && !isMoment);
  }).map((one) => one.outerHTML)`;

/** Tab stops that a person does not see; of a long page the first ones. */
async function withoutOutline(page: Page): Promise<readonly string[]> {
  const unseen: string[] = [];
  await page.evaluate('document.activeElement.blur(); scrollTo(0, 0)');
  for (let stop = 0; stop < mostStops; stop += 1) {
    await page.keyboard.press('Tab');
    const found: string | null = await page.evaluate(focusedWithoutOutline);
    if (found === 'body') break;
    if (found !== null) unseen.push(found);
  }
  return unseen;
}

const mostStops = isLong ? 60 : 20;

const focusedWithoutOutline = `(() => {
  const one = document.activeElement;
  if (one === null || one === document.body) return 'body';
  const { outlineStyle, outlineWidth } = getComputedStyle(one);
  return outlineStyle !== 'none' && parseFloat(outlineWidth) >= 2 ? null : one.outerHTML.slice(0, 120);
})()`;

/**
 * A page in a context of its own. Fails where it asked another machine for something, or an error was logged: also one
 * about the content security policy.
 */
export async function usePage(
  browser: Browser,
  options: BrowserContextOptions,
  use: (page: Page) => Promise<void>,
): Promise<void> {
  const context = await browser.newContext(options);
  const strange: string[] = [];
  try {
    const page = await context.newPage();
    page.on('request', (request) => {
      if (new URL(request.url()).hostname !== '127.0.0.1') strange.push(request.url());
    });
    page.on('pageerror', (error) => strange.push(error.message));
    page.on('console', (message) => {
      // A login that is refused and a page that does not exist are asked for on purpose.
      const isMeant = message.text().includes('401') || message.location().url.endsWith('/nope');
      if (message.type() === 'error' && !isMeant) strange.push(message.text());
    });
    await use(page);
  } finally {
    await context.close();
  }
  expect(strange).toEqual([]);
}
