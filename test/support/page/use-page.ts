import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { expect } from 'vitest';

/** A page in a context of its own. Fails where it asked another machine for something, or an error was logged. */
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
