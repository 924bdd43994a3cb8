import { isFullBlock, isFullComment, isFullDataSource, isFullPage, isFullUser } from '@notionhq/client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/core/json.ts';
import { createSampleAccount } from '../../src/sample/sample-service.ts';
import { textOf } from '../../src/sample/sample-values.ts';
import { sampleTruth, type TruthRecord } from '../support/sample-truth.ts';
import { type FakeMailchimp, startFakeMailchimp } from '../support/upstream/mailchimp/fake-mailchimp.ts';
import {
  getFromMailchimp,
  officialMailchimp,
  type OfficialMailchimp,
  walkMailchimp,
} from '../support/upstream/mailchimp/official-mailchimp.ts';
import { type FakeNotion, startFakeNotion } from '../support/upstream/notion/fake-notion.ts';
import { getFromNotion, officialNotion, walkNotion } from '../support/upstream/notion/official-notion.ts';
import { builtInDefinition, sampleSeed } from '../support/sample-service.ts';

const entitiesOf = (definition: string): readonly string[] => [
  ...builtInDefinition(definition).entities.keys(),
];

/** Records by the listing that they stand in, whatever the order of the listings. */
function byListing(
  records: Iterable<TruthRecord>,
  names: readonly string[],
): ReadonlyMap<string, JsonObject[]> {
  const found = new Map<string, JsonObject[]>();
  for (const { record, params } of records) {
    const listing = JSON.stringify(names.map((name) => params[name] ?? null));
    found.set(listing, [...(found.get(listing) ?? []), record]);
  }
  return found;
}

describe('the official client of Mailchimp', () => {
  let fake: FakeMailchimp;
  let client: OfficialMailchimp;

  beforeAll(async () => {
    const account = createSampleAccount({
      definitionName: 'email-marketing',
      seed: sampleSeed,
      size: 'tiny',
    });
    fake = await startFakeMailchimp({ account });
    client = officialMailchimp(fake.baseUrl, fake.apiKey);
  });
  afterAll(() => fake[Symbol.asyncDispose]());

  it.each(entitiesOf('email-marketing'))('reads the %s of the account, in pages of 4', async (entity) => {
    const names = ['list_id', 'campaign_id', 'segment_id', 'interest_category_id'];
    const truth = byListing(sampleTruth(fake.account, entity), names);
    const read = byListing(await walkMailchimp(client, entity, 4), names);
    expect(read).toEqual(truth);
    expect(read.size).toBeGreaterThan(0);
  });

  it.each(entitiesOf('email-marketing'))(
    'gets each of the %s by its id, where there is a call for it',
    async (entity) => {
      for (const one of sampleTruth(fake.account, entity)) {
        const got = getFromMailchimp(client, entity, one);
        if (got === null) return;
        expect(await got).toEqual(one.record);
      }
    },
  );

  it('gets status 401 for a wrong key, and 404 for a list that does not exist', async () => {
    const stranger = officialMailchimp(fake.baseUrl, `${'0'.repeat(32)}-us1`);
    await expect(stranger.ping['get']?.call(stranger.ping)).rejects.toMatchObject({ status: 401 });
    await expect(client.lists['getList']?.call(client.lists, 'nothing', {})).rejects.toMatchObject({
      status: 404,
      response: { body: { title: 'Resource Not Found', status: 404 } },
    });
  });

  it('finds out which account the key belongs to', async () => {
    expect(
      await client.root['getRoot']?.call(client.root, { fields: ['account_id', 'account_name'] }),
    ).toEqual({
      account_id: fake.accountId,
      account_name: fake.accountName,
    });
  });
});

const whole: Readonly<Record<string, (record: never) => boolean>> = {
  users: isFullUser,
  pages: isFullPage,
  data_sources: isFullDataSource,
  blocks: isFullBlock,
  comments: isFullComment,
};

describe('the official client of Notion', () => {
  let fake: FakeNotion;
  let client: ReturnType<typeof officialNotion>;

  beforeAll(async () => {
    const account = createSampleAccount({
      definitionName: 'workspace-notes',
      seed: sampleSeed,
      size: 'tiny',
    });
    fake = await startFakeNotion({ account });
    client = officialNotion(fake.origin, fake.token);
  });
  afterAll(() => fake[Symbol.asyncDispose]());

  it.each(entitiesOf('workspace-notes'))('reads the %s of the workspace, in pages of 7', async (entity) => {
    const truth = byListing(sampleTruth(fake.account, entity), ['block_id']);
    const read = byListing(await walkNotion(client, entity, 3), ['block_id']);
    expect(read).toEqual(truth);
    expect(read.size).toBeGreaterThan(0);
    // The client's own test for a record that is more than an id.
    const isWhole = whole[entity] ?? (() => false);
    expect([...read.values()].flat().filter((record) => !isWhole(record as never))).toEqual([]);
  });

  it.each(entitiesOf('workspace-notes'))('gets each of the %s by its id', async (entity) => {
    for (const { record } of sampleTruth(fake.account, entity)) {
      expect(await getFromNotion(client, entity, textOf(record['id']))).toEqual(record);
    }
  });

  it('gets an error that names what is wrong with its token, its cursor and its id', async () => {
    const stranger = officialNotion(fake.origin, 'ntn_wrong');
    await expect(stranger.users.me({})).rejects.toMatchObject({ status: 401, code: 'unauthorized' });
    await expect(client.users.list({ start_cursor: 'made-up' })).rejects.toMatchObject({
      status: 400,
      code: 'validation_error',
      message: expect.stringContaining('start_cursor provided is invalid') as unknown,
    });
    const page_id = '00000000-0000-4000-8000-000000000000';
    await expect(client.pages.retrieve({ page_id })).rejects.toMatchObject({
      status: 404,
      code: 'object_not_found',
    });
  });

  it('finds out which workspace the token belongs to', async () => {
    expect(await client.users.me({})).toMatchObject({ type: 'bot', bot: { workspace_id: fake.workspaceId } });
  });
});
