import { AxeBuilder } from '@axe-core/playwright';
import { chromium } from 'playwright-core';
import { afterAll, describe, expect } from 'vitest';
import { ApiError } from '../../src/service/api-error.ts';
import { it } from '../support/it.ts';
import { findChromium } from '../support/page/find-chromium.ts';
import { usePage } from '../support/page/use-page.ts';
import { tokenFor } from '../support/service/api-client.ts';
import {
  credentials,
  mailing,
  notes,
  object,
  objects,
  sampleAccounts,
  serveApi,
  type ServedApi,
} from '../support/service/served-api.ts';
import { isLong } from '../support/trials.ts';
import { searchable, statusWhen } from '../support/service/store-world.ts';

const strangers = { clientId: 'client-2', clientSecret: 'a-secret-of-the-strangers' };
const script = '<script>alert(1)</script>';
let api: ServedApi;

it.beforeAll(async ({ fileFolder }) => {
  const [mail, wiki] = sampleAccounts('tiny');
  if (mail === undefined || wiki === undefined) throw new Error('expected two accounts');
  const refuses = {
    list: (): never => {
      throw new ApiError(401, 'signed out', { errorCode: 'unauthorized' });
    },
  };
  api = await serveApi({
    data: fileFolder,
    accounts: [
      mail,
      wiki,
      {
        ...mail,
        connectorId: 'refused',
        workspace: 'elsewhere',
        wrap: (account) => ({ ...account, ...refuses }),
      },
    ],
    applications: [{ organization: 'strangers', ...strangers }],
  });
  const made = await api.call('/api/v1/integrations/connectors', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      workspace_name: 'named',
      connector_type: 'email-marketing',
      name: script,
      credentials: { api_key: 'sample' },
    }),
  });
  expect(made.status).toBe(200);
  await Promise.all([
    searchable(api.service.stores, mailing),
    statusWhen(api.service.stores, 'refused', ({ problem }) => problem !== null),
  ]);
});
afterAll(() => api.service.close());

const basic = ({ clientId, clientSecret }: typeof credentials): string =>
  `Basic ${Buffer.from(`${clientId}:${clientSecret}`).toString('base64')}`;

async function ask(path: string, authorization: string | null) {
  const answer = await fetch(`${api.service.url}${path}`, {
    headers: authorization === null ? {} : { authorization },
  });
  return { status: answer.status, headers: answer.headers, body: await answer.text() };
}

/** What a person reads of each row, by the connector's id. */
async function rows(path: string, authorization = basic(credentials)): Promise<ReadonlyMap<string, string>> {
  const { status, body } = await ask(path, authorization);
  expect(status).toBe(200);
  const texts = [...body.matchAll(/<tr>\s*<th scope="row">([\s\S]*?)<\/tr>/g)].map(([, row = '']) =>
    row
      .replace(/<[^>]*>/g, ' ')
      .replace(/\s+/g, ' ')
      .trim(),
  );
  const ids = [mailing, notes, 'refused'];
  return new Map(ids.flatMap((id) => texts.filter((text) => text.includes(id)).map((text) => [id, text])));
}

describe('the page of connectors', () => {
  it('shows of each connector what inspect says of its store', async () => {
    const shown = await rows('/connectors');
    const { body } = await api.call(`/api/v1/integrations/connectors/${mailing}/inspect`);
    const entities = objects(object(body['context_store_readiness'])['configured_cache_entities']);
    const records = entities.reduce((sum, one) => sum + Number(one['entity_count']), 0);
    expect(shown.get(mailing)).toMatch(
      new RegExp(
        `^Email marketing \\(default\\) ${mailing} ready \\d+s ago [\\d-]+ [\\d:]+ UTC ` +
          `${entities.length} of ${entities.length} .* ${records} email-marketing sample data default$`,
      ),
    );
    const refused = await api.call('/api/v1/integrations/connectors/refused/inspect');
    const [warning = ''] = refused.body['warnings'] as readonly string[];
    expect(warning).toContain('The last sync');
    expect(shown.get('refused')).toMatch(/ refused loading \d+s ago /);
    expect(shown.get('refused')).toContain(` UTC ${warning} 0 of `);
    expect(shown.get('refused')).toMatch(/ email-marketing sample data elsewhere$/);
  });

  // Proves promise 17
  it('opens to an application, by its secret or a token, and to a token of a workspace within it', async () => {
    const wrong = basic({ ...credentials, clientSecret: 'not-the-secret-of-it' });
    for (const authorization of [
      null,
      wrong,
      basic({ ...credentials, clientId: 'nope' }),
      'Basic bm86',
      'Basic =',
    ]) {
      const { status, headers, body } = await ask('/connectors', authorization);
      expect([authorization, status, headers.get('www-authenticate')]).toEqual([
        authorization,
        401,
        'Basic realm="connector-sync", charset="UTF-8"',
      ]);
      expect(body).not.toContain(mailing);
    }
    expect([...(await rows('/connectors')).keys()]).toEqual([mailing, notes, 'refused']);
    expect([...(await rows('/connectors', `Bearer ${api.token}`)).keys()]).toEqual([
      mailing,
      notes,
      'refused',
    ]);
    const scoped = await tokenFor(api.service.url, credentials, 'elsewhere');
    expect([...(await rows('/connectors', `Bearer ${scoped}`)).keys()]).toEqual(['refused']);
    expect(await rows('/connectors', basic(strangers))).toEqual(new Map());
  });

  it('takes a secret on no other path', async () => {
    const { status, headers } = await ask('/api/v1/workspaces', basic(credentials));
    expect([status, headers.get('www-authenticate')]).toEqual([401, 'Bearer']);
  });

  it('filters by a part of the name, the id or the type, and has pages', async () => {
    expect([...(await rows('/connectors?q=NOTES')).keys()]).toEqual([notes]);
    expect([...(await rows('/connectors?q=refus')).keys()]).toEqual(['refused']);
    expect([...(await rows('/connectors?page=2')).keys()]).toEqual([]);
    expect((await ask('/connectors?page=0', basic(credentials))).status).toBe(422);
  });

  it('has nothing inline and asks nothing of other origins, and shows names as text', async () => {
    const { body, headers } = await ask(
      `/connectors?q=${encodeURIComponent('alert(1)')}`,
      basic(credentials),
    );
    expect(headers.get('content-security-policy')).toBe(
      "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; " +
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    );
    expect(headers.get('cache-control')).toBe('no-store');
    expect(body).toContain('&lt;script&gt;alert(1)');
    expect(body).not.toMatch(/<script|<style| style=| on\w+=|https?:/);
  });

  const looks = [
    ['dark', 390],
    ['light', 1280],
  ] as const;
  const program = findChromium();
  it.skipIf(program === null)('fits a phone and a wide screen, and keeps no one out', async () => {
    // Tests run as root in containers, where Chromium's sandbox does not start.
    const browser = await chromium.launch({ executablePath: program ?? '', args: ['--no-sandbox'] });
    try {
      for (const [colorScheme, width] of isLong ? looks : looks.slice(0, 1)) {
        const { clientId: username, clientSecret: password } = credentials;
        const options = {
          colorScheme,
          viewport: { width, height: 800 },
          httpCredentials: { username, password },
        };
        await usePage(browser, options, async (page) => {
          await page.goto(api.service.url);
          await page.getByRole('link', { name: 'Connectors and their readiness', exact: true }).click();
          await page.getByRole('heading', { name: 'Connectors' }).waitFor();
          const { violations } = await new AxeBuilder({ page }).analyze();
          expect(violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html}`))).toEqual(
            [],
          );
          expect(await page.evaluate('document.scrollingElement.scrollWidth - innerWidth')).toBe(0);
        });
      }
    } finally {
      await browser.close();
    }
  });
});
