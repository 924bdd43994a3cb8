import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/core/json.ts';
import { builtInDefinitionsFolder, loadDefinitions } from '../../src/definitions/load-definitions.ts';
import { textOf } from '../../src/sample/sample-values.ts';
import type { TruthRecord } from '../support/sample-truth.ts';
import { entityNamed } from '../support/sync-once.ts';
import type { FakeServer } from '../support/upstream/fake-server.ts';
import type { FakeDesk } from '../support/upstream/made-up/fake-desk.ts';
import { bentBody, onPath } from '../support/upstream/faults.ts';
import {
  deskWorld,
  mailchimpWorld,
  notionWorld,
  type UpstreamWorld,
} from '../support/upstream/upstream-world.ts';
import { listingsOf, never, openWorldAccount, walkAccount } from '../support/upstream/walk-account.ts';

const deskEntities = [
  'agents',
  'tickets',
  'customers',
  'events',
  'articles',
  'invoices',
  'messages',
  'reviews',
  'parcels',
  'attachments',
];

describe.each([
  ['Mailchimp', 'email-marketing', mailchimpWorld, 5],
  ['Notion', 'workspace-notes', notionWorld, 4],
  ['help desk', null, deskWorld, 7],
] as const)('the made-up %s', (_name, builtIn, openWorld, pageSize) => {
  let world: UpstreamWorld<FakeServer>;
  beforeAll(async () => {
    world = await openWorld();
  });
  afterAll(() => world[Symbol.asyncDispose]());

  const entities =
    builtIn === null
      ? deskEntities
      : [...(loadDefinitions([builtInDefinitionsFolder]).get(builtIn)?.entities.keys() ?? [])];

  it.each(entities)('holds the %s that its definition reads', async (entity) => {
    await using account = openWorldAccount(world);
    const declared = entityNamed(world.definition, entity);
    const read = await walkAccount(account, world, entity, pageSize);
    const own = (records: readonly TruthRecord[]): JsonObject =>
      Object.fromEntries(
        listingsOf(declared, world.truth(entity)).map((listing) => [
          JSON.stringify(listing),
          records.flatMap(({ record, params }) =>
            Object.entries(listing).every(
              ([name, value]) => JSON.stringify(params[name]) === JSON.stringify(value),
            )
              ? [record]
              : [],
          ),
        ]),
      );
    // A synced copy lists the blocks of its original, which the truth has once.
    const shown = read.filter(({ record, params }) => isOwn(entity, record, params['block_id']));
    expect(own(shown)).toEqual(own([...world.truth(entity)]));
    expect(read.length).toBeGreaterThan(0);
  });

  it('belongs to the account that its check names, whichever credentials are used', async () => {
    for (const credentials of world.credentials.values()) {
      await using account = openWorldAccount(world, credentials);
      expect(await account.check(never)).toMatchObject({ identity: world.identity });
    }
    const wrong = Object.fromEntries(
      Object.keys([...world.credentials.values()][0] ?? {}).map((name) => [name, 'wrong-us1']),
    );
    await using stranger = openWorldAccount(world, wrong);
    await expect(stranger.check(never)).rejects.toMatchObject({ class: 'unauthorized' });
    expect(world.fake.requests.at(-1)?.credential).toBe('wrong');
  });
});

/** Blocks stand in the listing of their parent, and in those of its copies. */
function isOwn(entity: string, record: JsonObject, listing: unknown): boolean {
  return entity !== 'blocks' || Object.values(record['parent'] ?? {}).includes(listing);
}

describe('a world', () => {
  it('may have another name than the connector type that comes with the program', async () => {
    await using world = await mailchimpWorld({ as: 'own-mail' });
    expect([...loadDefinitions([builtInDefinitionsFolder, world.definitionsFolder]).keys()]).toContain(
      'own-mail',
    );
  });

  it('identifies the account by the integration where the answer names no workspace', async () => {
    await using world = await notionWorld({ as: 'my-notes' });
    await using account = openWorldAccount(world);
    const ids: string[] = [];
    world.fake.script({
      on: onPath('/users/me'),
      times: 2,
      effect: bentBody((body) => {
        ids.push(textOf(body['id'] ?? null));
        return { ...body, bot: {} };
      }),
    });
    const found = [await account.check(never), await account.check(never), await account.check(never)];
    expect(found.map(({ identity }) => identity)).toEqual([...ids, world.identity]);
    expect(new Set(ids).size).toBe(1);
  });

  it('goes from revision to revision, and has another identity for another account', async () => {
    await using world = await notionWorld();
    await using other = await notionWorld({ accountName: 'Another workspace' });
    const before = [...world.truth('pages')].map(({ record }) => record);
    world.moveTo(5);
    expect([...world.truth('pages')].map(({ record }) => record)).not.toEqual(before);
    expect(other.identity).not.toBe(world.identity);
    expect([...other.credentials.values()][0]).not.toEqual([...world.credentials.values()][0]);
  });

  it('renews the tokens of an app, and keeps them where they are saved', async () => {
    await using world = await deskWorld();
    await using account = openWorldAccount(world, world.credentials.get('App'));
    world.fake.oauth.expireAccessTokens();
    expect(await account.check(never)).toMatchObject({ identity: world.identity });
    const { refreshToken, accessToken } = world.fake.oauth.tokens();
    expect(account.saved).toMatchObject([{ refresh_token: refreshToken, access_token: accessToken }]);
    expect(world.fake.oauth.refreshes()).toBe(1);
  });

  it.each(['attachments', 'exports'])(
    'brings the files of %s from where the service says, without credentials',
    async (entity) => {
      await using world: UpstreamWorld<FakeDesk> = await deskWorld();
      await using account = openWorldAccount(world);
      for (const { record } of [...world.truth('attachments')].slice(0, 2)) {
        const id = textOf(record['id']);
        const { name } = entityNamed(world.definition, entity);
        const file = await account.download({ entity: name, params: { attachment_id: id } }, never);
        const chunks: Uint8Array[] = [];
        for await (const chunk of file?.read(never) ?? []) chunks.push(chunk);
        expect(Buffer.concat(chunks)).toEqual(Buffer.from(world.fake.fileOf(id) ?? []));
      }
      expect(new Set(world.fake.fileRequests().map(({ credential }) => credential))).toEqual(
        new Set(['none']),
      );
    },
  );
});
