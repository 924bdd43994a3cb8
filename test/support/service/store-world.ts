import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { openPromise } from '../open-promise.ts';
import { definitions } from './served-api.ts';
import { systemClock } from '../../../src/core/clock.ts';
import { knownOrMade } from '../../../src/core/grouped.ts';
import type { JsonObject, JsonValue } from '../../../src/core/json.ts';
import type { Definition } from '../../../src/definitions/definition.ts';
import { createSampleAccount, sampleProviders } from '../../../src/sample/sample-service.ts';
import type { SampleAccount, SampleSize } from '../../../src/sample/sample-account.ts';
import { executeAction, type ExecuteBody } from '../../../src/service/execution.ts';
import type { KeptConnector, Provider } from '../../../src/service/provider.ts';
import {
  type ContextStores,
  type ContextStoresOptions,
  openContextStores,
  type StoreStatus,
} from '../../../src/service/store/open-context-stores.ts';

export function definitionNamed(name: string): Definition {
  const definition = definitions.get(name);
  if (definition === undefined) throw new Error(`no definition ${name}`);
  return definition;
}

/** Definition name -> the file of a store that has all of its sample account: one sync for all tests of a file. */
const filled = new Map<string, Promise<Buffer>>();

async function filledStore(definition: string): Promise<Buffer> {
  await using world = storeWorld();
  world.keep('one', definition, providerOf(definition, sampleOf(definition)));
  await searchable(world.stores, 'one');
  await world.stores[Symbol.asyncDispose]();
  return readFileSync(world.file('one'));
}

/** A world whose store `one` has all of the definition's sample account, as a restart of the service finds it. */
export async function filledWorld(definition: string, options: Partial<ContextStoresOptions> = {}) {
  const file = await knownOrMade(filled, definition, () => filledStore(definition));
  const world = storeWorld(options);
  mkdirSync(path.dirname(world.file('one')), { mode: 0o700 });
  writeFileSync(world.file('one'), file, { mode: 0o600 });
  return world;
}

/** Stores in a folder of their own, removed with them. */
export function storeWorld(options: Partial<ContextStoresOptions> = {}) {
  const folder = mkdtempSync(path.join(tmpdir(), 'stores-'));
  const cursorKey = randomBytes(32);
  const open = (more: Partial<ContextStoresOptions>): ContextStores =>
    openContextStores({
      folder,
      clock: systemClock,
      refreshEveryMs: null,
      search: { deadlineMs: 10_000, processes: 1 },
      cursorKey,
      ...options,
      ...more,
    });
  let stores = open({});
  const kept = new Map<string, KeptConnector>();
  return {
    folder,
    get stores() {
      return stores;
    },
    /** Closes the stores and opens them again, as a restart of the service does. */
    async restart(more: Partial<ContextStoresOptions> = {}) {
      await stores[Symbol.asyncDispose]();
      stores = open(more);
      return stores;
    },
    keep(connectorId: string, definition: string, provider: Provider) {
      kept.set(connectorId, { connectorId, definition: definitionNamed(definition), provider });
      stores.keep({ connectorId, definition: definitionNamed(definition), provider });
    },
    /** Keeps the connector again, and resolves when a sync that began after that has ended, whatever it came to. */
    async refresh(connectorId: string) {
      const connector = kept.get(connectorId);
      if (connector === undefined) throw new Error(`no connector ${connectorId}`);
      const before = syncProcesses();
      stores.keep(connector);
      const begun = await firstOf(() => syncProcesses().find((pid) => !before.includes(pid)));
      await firstOf(() => (syncProcesses().includes(begun) ? undefined : true));
      await statusWhen(stores, connectorId, isAtRest);
    },
    file: (connectorId: string) => path.join(folder, 'stores', `${connectorId}.db`),
    async [Symbol.asyncDispose]() {
      await stores[Symbol.asyncDispose]();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

export function sampleOf(definitionName: string, size: SampleSize = 'tiny', seed = 7): SampleAccount {
  return createSampleAccount({ definitionName, seed, size });
}

/** The provider of an account, as the service makes it. */
export function providerOf(definitionName: string, account: SampleAccount): Provider {
  const providers = sampleProviders({
    accounts: new Map([['one', account]]),
    otherwise: { size: 'tiny', seed: 7, revision: 0 },
  });
  return providers.open({
    connectorId: 'one',
    definition: definitionNamed(definitionName),
    credentials: () => null,
    saveCredentials: null,
  });
}

export const never = new AbortController().signal;

/** Runs an action of a connector that is kept in the world. */
export async function execute(
  stores: ContextStores,
  connector: { readonly connectorId: string; readonly definition: string; readonly provider: Provider },
  body: ExecuteBody,
): Promise<JsonObject | readonly JsonValue[]> {
  const answer = await executeAction({
    ...connector,
    definition: definitionNamed(connector.definition),
    stores,
    body,
    signal: never,
  });
  if (answer.kind === 'file') throw new Error('expected an envelope, got a file');
  return answer.result;
}

/** Every record that a search finds, page after page. */
export async function searchAll(
  stores: ContextStores,
  connectorId: string,
  entity: string,
  params: JsonObject = {},
): Promise<readonly JsonObject[]> {
  const found: JsonObject[] = [];
  for (let cursor: string | null = null; ;) {
    const more: JsonObject = cursor === null ? {} : { cursor };
    const page = await stores.search(connectorId, entity, { query: {}, ...params, ...more }, never);
    found.push(...page.data);
    if (!page.meta.has_more) return found;
    ({ cursor } = page.meta);
  }
}

/** Resolves when the status is as wanted, looking after everything else that is ready to run has run. */
export async function statusWhen(
  stores: ContextStores,
  connectorId: string,
  isWanted: (status: StoreStatus) => boolean,
): Promise<StoreStatus> {
  for (;;) {
    const status = stores.status(connectorId);
    if (isWanted(status)) return status;
    await new Promise((resolve) => setTimeout(resolve, 4));
  }
}

/** Resolves when search works for the connector (`Preview` or `Ready`) and no sync is at work on its store. */
export async function searchable(stores: ContextStores, connectorId: string): Promise<StoreStatus> {
  return await statusWhen(
    stores,
    connectorId,
    (status) => ['Preview', 'Ready'].includes(status.readiness) && isAtRest(status),
  );
}

function isAtRest({ isSyncing }: StoreStatus): boolean {
  return !isSyncing;
}

/** The first result that is not undefined. */
async function firstOf<Found>(look: () => Found | undefined): Promise<Found> {
  for (;;) {
    const found = look();
    if (found !== undefined) return found;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** Process numbers of this process's children that run the sync of a store. */
export function syncProcesses(): readonly number[] {
  return childrenNamed('store-process');
}

/** Process numbers of this process's children with this in their command line. */
function childrenNamed(name: string): readonly number[] {
  return readdirSync('/proc/self/task')
    .flatMap((thread) => fileOf(`self/task/${thread}/children`).split(' '))
    .filter((pid) => pid !== '' && fileOf(`${pid}/cmdline`).includes(name))
    .map(Number);
}

/** '' for a process or thread that has gone meanwhile. */
function fileOf(name: string): string {
  try {
    return readFileSync(`/proc/${name}`, 'utf8');
  } catch {
    // It has gone.
    return '';
  }
}

/** A provider whose calls wait at a gate that the test opens. */
export function heldProvider(provider: Provider, isHeld: (entity: string, call: number) => boolean) {
  let calls = 0;
  const gate = openPromise();
  const arrival = openPromise();
  return {
    ...provider,
    /** Resolves when a call that `isHeld` names waits at the gate. */
    arrived: arrival.promise,
    /** Lets every call pass, now and from now on. */
    open: () => gate.resolve(),
    async list(request: Parameters<Provider['list']>[0]) {
      calls += 1;
      if (isHeld(request.entity.name, calls)) {
        arrival.resolve();
        await gate.promise;
      }
      return await provider.list(request);
    },
  };
}
