import { isJsonObject, type JsonObject } from '../../../src/core/json.ts';
import type { Params } from '../../../src/core/records.ts';
import type { Entity } from '../../../src/definitions/definition.ts';
import { keyOfToken } from '../../../src/definitions/pagination-file.ts';
import { openCallGate } from '../../../src/upstream/call-gate.ts';
import {
  openUpstream,
  type UpstreamAccount,
  type UpstreamPage,
} from '../../../src/upstream/open-upstream.ts';
import { openUpstreamTransport } from '../../../src/upstream/upstream-transport.ts';
import { entityNamed } from '../sync-once.ts';
import type { TruthRecord } from '../sample-truth.ts';
import type { FakeServer } from './fake-server.ts';
import type { UpstreamWorld } from './upstream-world.ts';

export const never = new AbortController().signal;

/**
 * The account of a world, read by what its definition says, with nothing between. Credentials: the first unless others
 * are given.
 */
export function openWorldAccount(
  world: UpstreamWorld<FakeServer>,
  credentials: JsonObject = [...world.credentials.values()][0] ?? {},
): UpstreamAccount & AsyncDisposable & { readonly saved: readonly JsonObject[] } {
  const gate = openCallGate();
  const transport = openUpstreamTransport({ allowHosts: world.allowHosts });
  const saved: JsonObject[] = [];
  const account = openUpstream({
    definition: world.definition,
    credentials: () => Promise.resolve(saved.at(-1) ?? credentials),
    saveCredentials: async (changed) => void saved.push(changed),
    connector: 'a-connector',
    gate,
    transport,
  });
  return {
    ...account,
    saved,
    async [Symbol.asyncDispose]() {
      await account.close();
      await gate[Symbol.asyncDispose]();
      await transport[Symbol.asyncDispose]();
    },
  };
}

/** Every record of the listings that the truth knows, page by page as the definition's pagination says. */
export async function walkAccount(
  account: Pick<UpstreamAccount, 'list'>,
  world: UpstreamWorld<FakeServer>,
  entityName: string,
  pageSize: number,
): Promise<readonly TruthRecord[]> {
  const entity = entityNamed(world.definition, entityName);
  const found: TruthRecord[] = [];
  for (const params of listingsOf(entity, world.truth(entityName))) {
    for await (const { records } of pagesOf(account, entity, params, pageSize)) {
      found.push(...records.filter((record) => isJsonObject(record)).map((record) => ({ record, params })));
    }
  }
  return found;
}

/** The parameters of each listing, once. */
export function listingsOf(entity: Entity, truth: Iterable<TruthRecord>): readonly Params[] {
  const declared = entity.actions.get('list')?.params ?? new Map<string, unknown>();
  const listings = new Map<string, Params>();
  for (const { params } of truth) {
    const own = Object.fromEntries(Object.entries(params).filter(([name]) => declared.has(name)));
    listings.set(JSON.stringify(own), own);
  }
  return [...listings.values()];
}

async function* pagesOf(
  account: Pick<UpstreamAccount, 'list'>,
  { name, pagination }: Entity,
  params: Params,
  size: number,
): AsyncIterable<UpstreamPage> {
  const list = (more: Params): Promise<UpstreamPage> =>
    account.list({ entity: name, params: { ...params, ...more } }, never);
  switch (pagination.kind) {
    case 'single':
      yield await list({});
      return;
    case 'offset': {
      const { offsetParam, sizeParam } = pagination;
      for (let offset = 0; ; offset += size) {
        const page = await list({ [offsetParam]: offset, [sizeParam]: size });
        yield page;
        if (page.records.length < size) return;
      }
    }
    case 'page':
    case 'lastRecord':
      throw new Error('the made-up services page in other ways');
    case 'pageToken': {
      const { tokenParam, sizeParam, tokenKeys, flagKeys } = pagination;
      const sized = sizeParam === null ? {} : { [sizeParam]: size };
      let token: JsonObject = {};
      for (let pages = 0; pages < 1_000; pages += 1) {
        const page = await list({ ...sized, ...token });
        yield page;
        const { [keyOfToken(tokenKeys[0] ?? '')]: next = null, [flagKeys[0] ?? '']: more = null } =
          page.metadata ?? {};
        if (more !== true) return;
        token = { [tokenParam]: next };
      }
      throw new Error('the walk did not end');
    }
  }
}
