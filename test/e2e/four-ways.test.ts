import { expect } from 'vitest';
import type { JsonObject } from '../../src/core/json.ts';
import type { Params } from '../../src/core/records.ts';
import type { Entity } from '../../src/definitions/definition.ts';
import { textOf } from '../../src/sample/sample-values.ts';
import type { UpstreamAccount } from '../../src/upstream/open-upstream.ts';
import { it } from '../support/it.ts';
import type { TruthRecord } from '../support/sample-truth.ts';
import { object, objects } from '../support/service/served-api.ts';
import type { FakeServer } from '../support/upstream/fake-server.ts';
import {
  getFromMailchimp,
  officialMailchimp,
  walkMailchimp,
} from '../support/upstream/mailchimp/official-mailchimp.ts';
import { getFromNotion, officialNotion, walkNotion } from '../support/upstream/notion/official-notion.ts';
import { opened, serveWorlds } from '../support/upstream/served-world.ts';
import { mailchimpWorld, notionWorld, type UpstreamWorld } from '../support/upstream/upstream-world.ts';
import { never, openWorldAccount, walkAccount } from '../support/upstream/walk-account.ts';

type World = UpstreamWorld<FakeServer>;

/** One way to ask for records; `get` gives null for an entity that cannot be asked for one. */
interface Way {
  readonly name: string;
  list(entity: Entity): Promise<readonly TruthRecord[]>;
  get(entity: Entity, one: TruthRecord): Promise<JsonObject | null>;
}

const services = [
  [
    'Mailchimp',
    async () => {
      const world = await opened(mailchimpWorld({ as: 'my-mail' }));
      const client = officialMailchimp(world.fake.baseUrl, world.fake.apiKey);
      const official: Way = {
        name: 'official client',
        list: (entity) => walkMailchimp(client, entity.name, 7),
        get: async (entity, one) => await getFromMailchimp(client, entity.name, one),
      };
      return { world, official };
    },
  ],
  [
    'Notion',
    async () => {
      const world = await opened(notionWorld({ as: 'my-notes' }));
      const client = officialNotion(world.fake.origin, world.fake.token);
      const official: Way = {
        name: 'official client',
        list: (entity) => walkNotion(client, entity.name, 7),
        get: (entity, { record }) => getFromNotion(client, entity.name, textOf(record['id'])),
      };
      return { world, official };
    },
  ],
] as const;

it.each(services)(
  'shows the same records of %s to its official client, to what a direct sync reads with, and to a client of serve',
  async (_name, open) => {
    const { world, official } = await open();
    await using account = openWorldAccount(world);
    const served = await serveWorlds([world]);
    const connectorId = await served.connect(world);
    const execute: Pick<UpstreamAccount, 'list' | 'get'> = {
      async list({ entity, params }) {
        const { body } = await served.execute(connectorId, { entity, action: 'list', params });
        const metadata = body['connector_metadata'] ?? null;
        return {
          records: objects(body['result']),
          metadata: metadata === null ? null : object(metadata),
          serverTime: null,
          bytes: 0,
          bodyBytes: 0,
        };
      },
      async get({ entity, params }) {
        const { body } = await served.execute(connectorId, { entity, action: 'get', params });
        return object(body['result']);
      },
    };
    const ways = [official, wayOf('direct', account, world), wayOf('serve', execute, world)];

    const differences: string[] = [];
    let compared = 0;
    for (const entity of world.definition.entities.values()) {
      const truth = [...world.truth(entity.name)];
      const expected = byKey(entity, truth);
      for (const way of ways) {
        const listed = byKey(
          entity,
          (await way.list(entity)).filter((one) => isOwn(entity, one)),
        );
        const keys = new Set([...expected.keys(), ...listed.keys()]);
        for (const key of keys) {
          compared += 1;
          if (!isSame(listed.get(key), expected.get(key))) differences.push(`${way.name} list ${key}`);
        }
        const get = entity.actions.get('get');
        if (get === undefined || (get.isDirectOnly && way.name === 'serve')) continue;
        for (const one of truth) {
          compared += 1;
          const got = await way.get(entity, one);
          if (!isSame(got ?? undefined, one.record)) {
            differences.push(`${way.name} get ${entity.name} ${textOf(one.record['id'])}`);
          }
        }
      }
    }
    expect(differences).toEqual([]);
    expect(compared).toBeGreaterThan(400);
  },
  120_000,
);

function wayOf(name: string, account: Pick<UpstreamAccount, 'list' | 'get'>, world: World): Way {
  return {
    name,
    list: (entity) => walkAccount(account, world, entity.name, 7),
    async get(entity, { record, params }) {
      const whole: JsonObject = { ...params, ...record };
      const key = entity.actions.get('get')?.key ?? new Map<string, string>();
      const asked: Params = Object.fromEntries(
        [...key].map(([param, field]) => [param, whole[field] ?? null]),
      );
      return await account.get({ entity: entity.name, params: asked }, never);
    },
  };
}

function byKey(entity: Entity, records: Iterable<TruthRecord>): ReadonlyMap<string, JsonObject> {
  const found = new Map<string, JsonObject>();
  for (const { record, params } of records) {
    const whole: JsonObject = { ...params, ...record };
    found.set(JSON.stringify([entity.name, entity.key.map((field) => whole[field] ?? null)]), record);
  }
  return found;
}

/** A synced copy lists the blocks of its original, which the truth has once. */
function isOwn({ name }: Entity, { record, params }: TruthRecord): boolean {
  return (
    name !== 'blocks' || Object.values(object(record['parent'] ?? {})).includes(params['block_id'] ?? null)
  );
}

/** The definition may fill in further fields from others or from parameters. */
function isSame(shown: JsonObject | undefined, truth: JsonObject | undefined): boolean {
  if (shown === undefined || truth === undefined) return false;
  const own = Object.fromEntries(Object.entries(shown).filter(([name]) => Object.hasOwn(truth, name)));
  return JSON.stringify(sorted(own)) === JSON.stringify(sorted(truth));
}

function sorted(record: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(record).toSorted(([a], [b]) => (a < b ? -1 : 1)));
}
