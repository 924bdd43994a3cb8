import { describe, expect, it, onTestFinished } from 'vitest';
import type { JsonObject } from '../../src/core/json.ts';
import type { EntityName } from '../../src/core/names.ts';
import type { Entity } from '../../src/definitions/definition.ts';
import { openCallGate } from '../../src/upstream/call-gate.ts';
import { openUpstream, type UpstreamAccount } from '../../src/upstream/open-upstream.ts';
import { openUpstreamTransport } from '../../src/upstream/upstream-transport.ts';
import { textOf } from '../../src/sample/sample-values.ts';
import type { TruthRecord } from '../support/sample-truth.ts';
import { bentBody, onPath } from '../support/upstream/faults.ts';
import {
  deskWorld,
  mailchimpWorld,
  notionWorld,
  type UpstreamWorld,
} from '../support/upstream/upstream-world.ts';
import { never, walkAccount } from '../support/upstream/walk-account.ts';

/** Opens accounts with the credentials of a title, which are stored where they change. */
async function openWorld<World extends UpstreamWorld>(opening: Promise<World>) {
  const world = await opening;
  const gate = openCallGate();
  const transport = openUpstreamTransport({ allowHosts: world.allowHosts });
  onTestFinished(async () => {
    await gate[Symbol.asyncDispose]();
    await transport[Symbol.asyncDispose]();
    await world[Symbol.asyncDispose]();
  });
  const open = (title: string): UpstreamAccount => {
    let stored: JsonObject = world.credentials.get(title) ?? {};
    return openUpstream({
      definition: world.definition,
      credentials: () => Promise.resolve(stored),
      saveCredentials: (changed) => {
        stored = changed;
        return Promise.resolve();
      },
      connector: title,
      gate,
      transport,
    });
  };
  return { world, open };
}

const keyOf = ({ key }: Entity, record: JsonObject): string =>
  JSON.stringify(key.map((field) => record[field] ?? null));

/** Records of the truth that a walk has not met, and the other way round. */
async function differences(opening: Promise<UpstreamWorld>, title: string): Promise<readonly string[]> {
  const { world, open } = await openWorld(opening);
  const account = open(title);
  expect((await account.check(never)).identity).toBe(world.identity);
  const found: string[] = [];
  for (const entity of world.definition.entities.values()) {
    const keysOf = (records: Iterable<TruthRecord>): Set<string> =>
      new Set(Array.from(records, ({ record }) => keyOf(entity, record)));
    const truth = [...world.truth(entity.name)];
    const [wanted, met] = [keysOf(truth), keysOf(await walkAccount(account, entity, truth))];
    // Exports are files alone.
    expect(wanted.size > 0).toBe(entity.name !== 'exports');
    found.push(
      ...[...wanted, ...met]
        .filter((key) => !wanted.has(key) || !met.has(key))
        .map((key) => `${entity.name}: ${key}`),
    );
  }
  return found;
}

describe('all listings of', () => {
  it('a mailing account show its records', async () => {
    expect(await differences(mailchimpWorld(), 'API key')).toEqual([]);
  });

  it.each(['Internal integration token', 'OAuth'])(
    'a workspace show its records, with its %s',
    async (title) => {
      expect(await differences(notionWorld(), title)).toEqual([]);
    },
  );

  it.each(['Key in a header', 'Key in the query', 'Agent', 'Token', 'App'])(
    'a help desk show its records, with its %s',
    async (title) => {
      expect(await differences(deskWorld(), title)).toEqual([]);
    },
  );
});

it('brings each record of a mailing account by itself', async () => {
  const { world, open } = await openWorld(mailchimpWorld());
  const account = open('API key');
  for (const name of ['lists', 'campaigns'] as EntityName[]) {
    const entity = world.definition.entities.get(name);
    const get = entity?.actions.get('get');
    if (entity === undefined || get === undefined) throw new Error(`${name} has no get`);
    for (const { record } of world.truth(name)) {
      const params = Object.fromEntries([...get.key].map(([param, field]) => [param, record[field] ?? null]));
      expect(keyOf(entity, (await account.get({ entity: name, params }, never)) ?? {})).toBe(
        keyOf(entity, record),
      );
    }
  }
});

it.each(['attachments', 'exports'] as EntityName[])(
  'brings the files of %s from where the service says, without credentials',
  async (entity) => {
    const { world, open } = await openWorld(deskWorld());
    const agent = open('Agent');
    for (const { record } of world.truth('attachments')) {
      const id = textOf(record['id']);
      const file = await agent.download({ entity, params: { attachment_id: id } }, never);
      const chunks: Uint8Array[] = [];
      for await (const chunk of file?.read(never) ?? []) chunks.push(chunk);
      expect(Buffer.concat(chunks)).toEqual(Buffer.from(world.fake.fileOf(id) ?? 'none'));
    }
    expect(new Set(world.fake.fileRequests().map(({ credential }) => credential))).toEqual(new Set(['none']));
  },
);

it('identifies the account by the integration where the answer names no workspace', async () => {
  const { world, open } = await openWorld(notionWorld({ as: 'my-notes' }));
  const account = open('Internal integration token');
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
