import { describe, expect, it } from 'vitest';
import type { JsonObject, JsonValue } from '../../../src/core/json.ts';
import type { Provider } from '../../../src/service/provider.ts';
import { revisingAccount } from '../../support/revising-account.ts';
import { textOf } from '../../../src/sample/sample-values.ts';
import { searchableEntities } from '../../../src/service/store/store-ledger.ts';
import { object, objects } from '../../support/service/served-api.ts';
import { asTexts, expectedRecords } from '../../support/service/expected-search.ts';
import {
  definitionNamed,
  execute,
  never,
  providerOf,
  searchable,
  searchAll,
  storeWorld,
} from '../../support/service/store-world.ts';
import { isLong } from '../../support/trials.ts';

const mailing = 'email-marketing';

describe('a refresh', () => {
  // Proves specification 1.4, 4.4.4
  it.each([mailing, 'workspace-notes'])(
    'is what a search waits for, which asks the store of %s and never the account, as list and get do: it brings what was added, changed and deleted',
    async (name) => {
      await using world = storeWorld();
      const account = revisingAccount({ definitionName: name, seed: 7, size: 'tiny' });
      const provider = providerOf(name, account);
      const connector = { connectorId: 'one', definition: name, provider };
      world.keep('one', name, provider);
      await searchable(world.stores, 'one');
      const entities = searchableEntities(definitionNamed(name));
      const before = entities.map((entity) => asTexts(expectedRecords(entity, account)));
      account.moveTo(3);
      for (const [place, { name: entity }] of entities.entries()) {
        const found: JsonObject[] = [];
        let cursor: JsonValue = null;
        do {
          const body = { entity, action: 'context_store_search', params: { query: {}, cursor } };
          const { data = [], meta }: JsonObject = object(await execute(world.stores, connector, body));
          found.push(...objects(data));
          cursor = object(meta)['cursor'] ?? null;
        } while (cursor !== null);
        expect(asTexts(found), entity).toEqual(before[place]);
      }
      const [entity, param] = name === mailing ? ['lists', 'list_id'] : ['users', 'user_id'];
      const [now] = account.list(entity, {}).slice(0, 1);
      const listed = await execute(world.stores, connector, { entity, action: 'list' });
      expect(Array.isArray(listed) ? listed[0] : null).toEqual(now);
      const params = { [param]: now?.['id'] ?? null };
      expect(await execute(world.stores, connector, { entity, action: 'get', params })).toMatchObject(
        now ?? {},
      );

      await world.refresh('one');
      let changed = 0;
      for (const [place, searched] of entities.entries()) {
        const found = await searchAll(world.stores, 'one', searched.name);
        const expected = expectedRecords(searched, account);
        // What was done with a campaign that is gone was done: an event stays.
        const isGone = ({ campaign_id = null }: JsonObject): boolean =>
          searched.deletes === 'never' && !expected.some((event) => event['campaign_id'] === campaign_id);
        const there = found.filter((record) => !isGone(record));
        expect(asTexts(there), searched.name).toEqual(asTexts(expected));
        if (JSON.stringify(asTexts(expected)) !== JSON.stringify(before[place])) changed += 1;
      }
      expect(changed).toBeGreaterThanOrEqual(3);
    },
  );

  // Proves promise 16
  it('neither hides from a concurrent search what existed throughout, nor shows it twice', async () => {
    await using world = storeWorld();
    const lists = Array.from({ length: isLong ? 90 : 60 }, (_, number) => listRecord(number * 10));
    const stayed = new Set(lists.filter((_, place) => place % 5 !== 0).map(({ id }) => id));
    world.keep(
      'one',
      mailing,
      listsProvider(() => lists),
    );
    await searchable(world.stores, 'one');
    for (const sort of [undefined, [{ web_id: 'desc' }]]) {
      const found: unknown[] = [];
      let next = 1_000 + found.length;
      for (let cursor: string | null = null; ;) {
        const more: JsonObject = cursor === null ? {} : { cursor };
        const params: JsonObject = {
          query: sort === undefined ? {} : { sort },
          limit: 35,
          fields: ['id'],
          ...more,
        };
        const { data, meta } = await world.stores.search('one', 'lists', params, never);
        found.push(...data.map(({ id }) => id));
        if (!meta.has_more) break;
        ({ cursor } = meta);
        // Behind the page and before it: one goes, one comes, one changes where it does not stand in the order.
        const leaving = lists.findIndex(({ id }) => !stayed.has(id));
        if (leaving !== -1) lists.splice(leaving, 1);
        for (const number of [next, next % 7]) lists.push(listRecord(number + 0.5));
        next += 1;
        lists[3] = { ...lists[3], visibility: `seen ${next}` };
        await world.refresh('one');
      }
      expect(new Set(found).size).toBe(found.length);
      expect([...stayed].filter((id) => !found.includes(id))).toEqual([]);
    }
  });
});

function listRecord(number: number): JsonObject {
  return {
    id: `l${number}`,
    web_id: Math.floor(number * 2),
    name: `list ${String(number).padStart(8, '0')}`,
    date_created: new Date(Date.UTC(2024, 0, 1) + number * 60_000).toISOString(),
    visibility: 'pub',
  };
}

/** An account that has lists and nothing else. */
function listsProvider(lists: () => readonly JsonObject[]): Provider {
  return {
    list: async ({ entity, params }) => {
      const sorted = [...(entity.name === 'lists' ? lists() : [])].sort((left, right) =>
        textOf(left['date_created']) < textOf(right['date_created']) ? -1 : 1,
      );
      const offset = Number(params['offset'] ?? 0);
      return { records: sorted.slice(offset, offset + Number(params['count'])), metadata: null };
    },
    get: async ({ params }) => lists().find(({ id }) => id === params['list_id']) ?? null,
    download: async () => null,
  };
}
