import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished } from 'vitest';
import { ApiError } from '../../src/service/api-error.ts';
import type { Providers } from '../../src/service/provider.ts';
import { startService } from '../../src/service/start-service.ts';
import { loadServedMasks } from '../../src/settings/load-served-masks.ts';
import { it } from '../support/it.ts';
import {
  areComplete,
  everyAnswer,
  listed,
  listedWhen,
  openServeClient,
  startServe,
  storedAddresses,
} from '../support/mcp-serve.ts';
import { contentsOf } from '../support/masks/find-values.ts';
import { credentials, definitions, sampleAccounts, serveApi } from '../support/service/served-api.ts';
import { searchable } from '../support/service/store-world.ts';

const address = /[\w.+-]+@[\w-]+\.[\w.]+/g;

function masksIn(folder: string): string {
  const file = join(folder, 'masks.yaml');
  const key = randomBytes(32).toString('base64');
  const mask = '{ email_activity: { fields: { email_address: { hash: { as: email } } } } }';
  writeFileSync(file, `mask: { key: "${key}" }\ntypes:\n  email-marketing:\n    mask: ${mask}\n`);
  return file;
}

// Proves promise 22.3
it(
  'answers with no value that masks hide, also of a store that was filled before',
  { timeout: 240_000 },
  async ({ folder }) => {
    const data = join(folder, 'data', 'service');
    const clear = await startServe(folder);
    onTestFinished(() => clear.kill());
    await using mcp = await openServeClient(data, '--allow-sql');
    await listedWhen(mcp, areComplete);
    const clearAnswers = JSON.stringify(await everyAnswer(mcp, 'sample-newsletter'));
    const hidden = await storedAddresses(mcp);
    expect(hidden.filter((one) => !clearAnswers.includes(one))).toEqual([]);
    await clear.kill();
    const masked = await startServe(folder, '--masks', masksIn(folder));
    onTestFinished(() => masked.kill());
    const shown = [JSON.stringify(await listed(mcp))];
    await listedWhen(mcp, areComplete);
    shown.push(JSON.stringify(await everyAnswer(mcp, 'sample-newsletter')));
    expect(hidden.filter((one) => shown.some((text) => text.includes(one)))).toEqual([]);
    // Equal values have equal hashes: they can be counted and joined.
    const { rows: hashes } = await mcp.call('sql', {
      connector: 'sample-newsletter',
      sql: 'SELECT DISTINCT email_address FROM store__email_activity_current',
      limit: 200,
    });
    expect(hashes).toHaveLength(hidden.length);
  },
);

// Proves promise 22.3
it(
  'has removed what other masks have stored when a service answers',
  { timeout: 120_000 },
  async ({ folder }) => {
    const [newsletter] = sampleAccounts('tiny');
    if (newsletter === undefined) throw new Error('the accounts have one');
    const accounts = ['one', 'two', 'three'].map((connectorId) => ({ ...newsletter, connectorId }));
    const data = join(folder, 'data');
    {
      await using clear = await serveApi({ accounts, data });
      for (const { connectorId } of accounts) await searchable(clear.service.stores, connectorId);
    }
    const before = textsIn(join(data, 'stores'));
    expect((before.match(address) ?? []).length).toBeGreaterThan(100);
    const { masks } = loadServedMasks({ file: masksIn(folder), env: {}, definitions });
    // No sync gets any further: what is there now was there when the service began to answer.
    const silent = { port: 0, ...credentials, definitions, connectors: accounts, providers: silence(), data };
    for (let start = 0; start < 2; start += 1) {
      const service = await startService({ ...silent, masks });
      const after = textsIn(join(data, 'stores'));
      await service.close();
      expect(after.match(address)).toBeNull();
    }
    await using mcp = await openServeClient(data);
    expect(await mcp.call('search', { entity: 'one/email_activity' }).catch(String)).toContain('Nothing of');
  },
);

function textsIn(folder: string): string {
  return [...contentsOf(folder)].map(({ bytes }) => bytes.toString('latin1')).join('\n');
}

/** Third parties that never answer. */
function silence(): Providers {
  const never = (): Promise<never> => new Promise(() => undefined);
  return {
    open: () => ({ list: never, get: never, download: never }),
    check: never,
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}

// Proves promise 22.2
it('says what is not complete while a service fills a store, and when it is', async ({ folder }) => {
  let isOpen = false;
  const [newsletter] = sampleAccounts('tiny');
  if (newsletter === undefined) throw new Error('the accounts have one');
  const data = join(folder, 'data');
  await using api = await serveApi({
    data,
    accounts: [
      {
        ...newsletter,
        wrap: (account) => ({
          ...account,
          list: (entity, params) => {
            if (entity === 'email_activity' && !isOpen) throw new ApiError(403, 'not yet');
            return account.list(entity, params);
          },
        }),
      },
    ],
  });
  await using mcp = await openServeClient(data, '--allow-sql');
  const state = async () => await mcp.call('list_entities', { name: 'mail-1/email_activity' });
  const counted = async () =>
    await mcp.call('sql', { connector: 'mail-1', sql: 'SELECT count(*) FROM store__email_activity_current' });
  await searchable(api.service.stores, 'mail-1');
  expect(await state()).toMatchObject({ complete: false, as_of: null, rows: 0 });
  expect(await mcp.call('list_entities', { name: 'mail-1/campaigns' })).toMatchObject({ complete: true });
  const [before] = await listed(mcp);
  expect(before).toMatchObject({ complete: false });
  isOpen = true;
  await api.call('/api/v1/integrations/connectors/mail-1', {
    method: 'PUT',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ credentials: { api_key: 'sample' } }),
  });
  const counts: [unknown, unknown][] = [];
  for (;;) {
    const { complete, rows } = await counted();
    counts.push([complete, JSON.stringify(rows)]);
    if (complete === true) break;
  }
  const { rows: stored } = await state();
  expect(stored).toBeGreaterThan(10);
  expect(counts.at(-1)).toEqual([true, `[[${String(stored)}]]`]);
});
