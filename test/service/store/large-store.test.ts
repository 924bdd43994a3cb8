import { expect, it } from 'vitest';
import type { JsonObject } from '../../../src/core/json.ts';
import type { Provider } from '../../../src/service/provider.ts';
import { textOf } from '../../../src/sample/sample-values.ts';
import { execute, never, searchable, storeWorld } from '../../support/service/store-world.ts';
import { isLong } from '../../support/trials.ts';

const mailing = 'email-marketing';
const size = isLong ? 100_000 : 20_000;

it(`answers get between any two pages of a sync of ${size} records, which is found complete`, async () => {
  await using world = storeWorld();
  let pages = 0;
  let answered = 0;
  /** Of each page, how many gets had been answered when it was asked for. */
  const answeredAtPage: number[] = [];
  const provider: Provider = {
    list: async ({ entity, params }) => {
      if (entity.name !== 'lists') return { records: [], metadata: null };
      pages += 1;
      answeredAtPage.push(answered);
      const offset = Number(params['offset'] ?? 0);
      const count = Math.max(0, Math.min(Number(params['count']), size - offset));
      return { records: Array.from({ length: count }, (_, at) => listRecord(offset + at)), metadata: null };
    },
    get: async ({ params }) => listRecord(Number(textOf(params['list_id']).slice(1))),
    download: async () => null,
  };
  const connector = { connectorId: 'one', definition: mailing, provider };
  world.keep('one', mailing, provider);
  const ready = searchable(world.stores, 'one').then(() => 'ready');
  for (let number = 0; ; number += 1) {
    const list_id = `l${number % size}`;
    const got = await execute(world.stores, connector, {
      entity: 'lists',
      action: 'get',
      params: { list_id },
    });
    expect(got).toMatchObject({ id: list_id });
    answered += 1;
    // A breath: the process of the sync needs a processor too.
    const next = new Promise((resolve) => setTimeout(() => resolve('on'), 1));
    if ((await Promise.race([ready, next])) === 'ready') break;
  }
  expect(pages).toBeGreaterThan(size / 1_000);
  const idle = answeredAtPage.filter((count, page) => page > 0 && count === answeredAtPage[page - 1]);
  // The next page is asked for while this one is stored, so two may come together.
  expect(idle.length).toBeLessThan(pages / 2);
  expect(world.stores.status('one').entities.find(({ entity }) => entity === 'lists')?.records).toBe(size);
  const query = { filter: { eq: { name: `list ${size - 1}` } } };
  const { data } = await world.stores.search('one', 'lists', { query, fields: ['id'] }, never);
  expect(data).toEqual([{ id: `l${size - 1}` }]);
}, 120_000);

function listRecord(number: number): JsonObject {
  return {
    id: `l${number}`,
    web_id: number,
    name: `list ${number}`,
    date_created: new Date(Date.UTC(2020, 0, 1) + number * 1_000).toISOString(),
  };
}
