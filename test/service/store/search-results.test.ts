import { afterAll, beforeAll, expect, it } from 'vitest';
import { sampleTruth } from '../../support/sample-truth.ts';
import { asTexts, expectedRecords, pairs } from '../../support/service/expected-search.ts';
import { searchableEntities } from '../../../src/service/store/store-ledger.ts';
import {
  definitionNamed,
  execute,
  never,
  providerOf,
  sampleOf,
  searchable,
  searchAll,
  storeWorld,
} from '../../support/service/store-world.ts';

const mailing = 'email-marketing';
const notes = 'workspace-notes';
const accounts = { [mailing]: sampleOf(mailing), [notes]: sampleOf(notes) };

const world = storeWorld();
afterAll(() => world[Symbol.asyncDispose]());
beforeAll(async () => {
  for (const name of [mailing, notes] as const) world.keep(name, name, providerOf(name, accounts[name]));
  await Promise.all([mailing, notes].map((id) => searchable(world.stores, id)));
});

// Proves specification 1.6, 2.6.2
it.each([
  [mailing, ['lists', 'campaigns', 'reports', 'email_activity']],
  [notes, ['users', 'pages', 'data_sources', 'blocks']],
] as const)('finds in a store of %s exactly what the account has', async (name, entities) => {
  const searchable = searchableEntities(definitionNamed(name));
  expect(searchable.map((entity) => entity.name)).toEqual(expect.arrayContaining([...entities]));
  for (const entity of searchable) {
    // In several pages.
    const found = await searchAll(world.stores, name, entity.name, { limit: 70 });
    for (const record of found) expect(Object.keys(record)).toEqual([...entity.searchable.keys()]);
    const expected = expectedRecords(entity, accounts[name]);
    expect(asTexts(found), entity.name).toEqual(asTexts(expected));
    const status = world.stores.status(name).entities.find((one) => one.entity === entity.name);
    expect(status?.records).toBe(expected.length);
  }
});

// Proves specification 2.6.3
it('has one row for each action, with what only the recipient knows', async () => {
  const truth = [...sampleTruth(accounts[mailing], 'email_activity')].find(
    ({ record }) => Array.isArray(record['activity']) && record['activity'].length > 1,
  );
  const { campaign_id, email_id, list_is_active, activity } = truth?.record ?? {};
  const found = await searchAll(world.stores, mailing, 'email_activity', {
    query: { filter: { eq: { campaign_id: campaign_id ?? null, email_id: email_id ?? null } } },
  });
  expect(found).toHaveLength(Array.isArray(activity) ? activity.length : -1);
  for (const row of found) expect(row).toMatchObject({ campaign_id, email_id, list_is_active });
});

// Proves specification 2.8.2
it('shows the properties of a page as a list of names and values', async () => {
  const connector = {
    connectorId: notes,
    definition: notes,
    provider: providerOf(notes, accounts[notes]),
  };
  const [page] = [...sampleTruth(accounts[notes], 'pages')].map(({ record }) => record);
  const query = { filter: { eq: { id: page?.['id'] ?? null } } };
  const body = { entity: 'pages', action: 'search', params: { query } };
  expect(await execute(world.stores, connector, { ...body, select_fields: ['properties'] })).toMatchObject({
    data: [{ properties: pairs(page?.['properties'] ?? null) }],
    meta: { has_more: false, cursor: null },
  });
});

it('says which part of a query cannot be asked', async () => {
  const asked = world.stores.search(notes, 'users', { query: { filter: { eq: { nonsense: 1 } } } }, never);
  await expect(asked).rejects.toMatchObject({
    status: 400,
    body: {
      errors: [
        { error_code: 'search_invalid', field: expect.stringMatching(/^params\.query\.filter/) as string },
      ],
    },
  });
  const other = world.stores.search(notes, 'comments', { query: {} }, never);
  await expect(other).rejects.toMatchObject({
    status: 400,
    body: { errors: [{ error_code: 'unknown_entity' }] },
  });
});
