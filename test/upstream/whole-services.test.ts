import { describe, expect, it, onTestFinished } from 'vitest';
import { isJsonObject, type JsonObject } from '../../src/core/json.ts';
import type { EntityName } from '../../src/core/names.ts';
import type { Params } from '../../src/core/records.ts';
import type { Entity } from '../../src/definitions/definition.ts';
import { styleOf } from '../../src/pagination/pagination-of.ts';
import { openCallGate } from '../../src/upstream/call-gate.ts';
import { openUpstream, type UpstreamAccount } from '../../src/upstream/open-upstream.ts';
import { openUpstreamTransport } from '../../src/upstream/upstream-transport.ts';
import { textOf } from '../../src/sample/sample-values.ts';
import type { FakeServer } from '../support/upstream/fake-server.ts';
import {
  deskWorld,
  mailchimpWorld,
  notionWorld,
  type UpstreamWorld,
} from '../support/upstream/upstream-world.ts';

const never = new AbortController().signal;

interface OpenedWorld {
  readonly world: UpstreamWorld<FakeServer>;
  /** An account with the credentials of this title, which are stored where they change. */
  open(title: string): UpstreamAccount;
}

async function openWorld(world: Promise<UpstreamWorld<FakeServer>>): Promise<OpenedWorld> {
  const opened = await world;
  const gate = openCallGate();
  const transport = openUpstreamTransport({ allowHosts: opened.allowHosts });
  onTestFinished(async () => {
    await gate[Symbol.asyncDispose]();
    await transport[Symbol.asyncDispose]();
    await opened[Symbol.asyncDispose]();
  });
  return {
    world: opened,
    open(title) {
      let stored: JsonObject = opened.credentials.get(title) ?? {};
      return openUpstream({
        definition: opened.definition,
        credentials: () => Promise.resolve(stored),
        saveCredentials: (changed) => {
          stored = changed;
          return Promise.resolve();
        },
        connector: title,
        gate,
        transport,
      });
    },
  };
}

/** Every record of one listing, read page by page as a walk does. */
async function walk(
  account: UpstreamAccount,
  entity: Entity,
  params: Params,
): Promise<readonly JsonObject[]> {
  const style = styleOf(entity.pagination);
  const pages = style.walk({
    isOrdered: true,
    growsOnly: false,
    pageLengths: new Map(),
    storedRows: 0,
    trustsTotal: true,
  });
  const records: JsonObject[] = [];
  let position = pages.begin();
  for (let calls = 0; calls < 200; calls += 1) {
    const asked = { ...entity.fixedParams, ...params, ...pages.request(position) };
    const page = await account.list({ entity: entity.name, params: asked }, never);
    records.push(...page.records.filter((record) => isJsonObject(record)));
    const next = style.readNext({ result: [], metadata: page.metadata }, () => undefined);
    if (next !== null && 'fault' in next) throw new Error(next.fault);
    const marks = page.records.map((record) => JSON.stringify(record));
    const seen = { marks, changes: [], capMs: 0, bytes: page.bytes, next, nowMs: calls };
    const step = pages.advance(position, seen);
    if (step.kind === 'end') return records;
    if (step.kind !== 'continue') throw new Error(step.why);
    position = step.position;
  }
  throw new Error('the walk has no end');
}

const keyOf = ({ key }: Entity, record: JsonObject): string =>
  JSON.stringify(key.map((field) => record[field] ?? null));

/** Each listing of an entity with the keys that the truth has for it. */
function listingsOf({ world }: OpenedWorld, entity: Entity): ReadonlyMap<string, ReadonlySet<string>> {
  const listings = new Map<string, Set<string>>();
  const declared = entity.actions.get('list')?.params ?? new Map();
  for (const { record, params } of world.truth(entity.name)) {
    const listing = JSON.stringify(
      Object.fromEntries(Object.entries(params).filter(([name]) => declared.has(name))),
    );
    const keys = listings.get(listing) ?? new Set();
    listings.set(listing, keys.add(keyOf(entity, record)));
  }
  return listings;
}

async function differences(opened: OpenedWorld, title: string): Promise<readonly string[]> {
  const account = opened.open(title);
  expect((await account.check(never)).identity).toBe(opened.world.identity);
  const found: string[] = [];
  for (const entity of opened.world.definition.entities.values()) {
    for (const [listing, keys] of listingsOf(opened, entity)) {
      const records = await walk(account, entity, JSON.parse(listing) as Params);
      const met = new Set(records.map((record) => keyOf(entity, record)));
      const missing = [...keys].filter((key) => !met.has(key));
      const others = [...met].filter((key) => !keys.has(key));
      found.push(...[...missing, ...others].map((key) => `${entity.name} ${listing}: ${key}`));
    }
  }
  return found;
}

describe('all listings of', () => {
  it('a mailing account show its records', async () => {
    expect(await differences(await openWorld(mailchimpWorld()), 'API key')).toEqual([]);
  });

  it.each(['Internal integration token', 'OAuth'])(
    'a workspace show its records, with its %s',
    async (title) => {
      expect(await differences(await openWorld(notionWorld()), title)).toEqual([]);
    },
  );

  it.each(['Key in a header', 'Key in the query', 'Agent', 'Token', 'App'])(
    'a help desk show its records, with its %s',
    async (title) => {
      expect(await differences(await openWorld(deskWorld()), title)).toEqual([]);
    },
  );
});

it('brings each record of a mailing account by itself, and each file of a help desk without credentials', async () => {
  const mailing = await openWorld(mailchimpWorld());
  const account = mailing.open('API key');
  for (const name of ['lists', 'campaigns'] as EntityName[]) {
    const entity = mailing.world.definition.entities.get(name);
    const get = entity?.actions.get('get');
    if (entity === undefined || get === undefined) throw new Error(`${name} has no get`);
    for (const { record } of mailing.world.truth(name)) {
      const params = Object.fromEntries([...get.key].map(([param, field]) => [param, record[field] ?? null]));
      expect(keyOf(entity, (await account.get({ entity: name, params }, never)) ?? {})).toBe(
        keyOf(entity, record),
      );
    }
  }
  const desk = await deskWorld();
  const opened = await openWorld(Promise.resolve(desk));
  const agent = opened.open('Agent');
  const attachments = 'attachments' as EntityName;
  for (const { record } of desk.truth(attachments)) {
    const file = await agent.download(
      { entity: attachments, params: { attachment_id: record['id'] ?? null } },
      never,
    );
    const chunks: Uint8Array[] = [];
    for await (const chunk of file?.read(never) ?? []) chunks.push(chunk);
    expect(Buffer.concat(chunks).equals(desk.fake.fileOf(textOf(record['id'])) ?? Buffer.from('none'))).toBe(
      true,
    );
  }
  expect(desk.fake.fileRequests().map(({ credential }) => credential)).not.toContain('right');
  expect(desk.fake.fileRequests().length).toBeGreaterThan(0);
});
