import { randomBytes } from 'node:crypto';
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import type { JsonObject } from '../../src/core/json.ts';
import { loadServedMasks } from '../../src/settings/load-served-masks.ts';
import { startService, type RequestEntry } from '../../src/service/start-service.ts';
import type { SampleSize } from '../../src/sample/sample-account.ts';
import { contentsOf, openSearchFor } from '../support/masks/find-values.ts';
import {
  markedAccount,
  maskedMembers,
  maskWithout,
  openMarks,
  type Marks,
} from '../support/masks/marked-world.ts';
import {
  credentials,
  definitions,
  mailing,
  objects,
  sampleAccounts,
  serveApi,
  text,
  type ServedApi,
} from '../support/service/served-api.ts';
import { searchable, statusWhen } from '../support/service/store-world.ts';
import { isLong } from '../support/trials.ts';

const key = randomBytes(32).toString('base64');

function folderOf(): string {
  const folder = mkdtempSync(join(tmpdir(), 'masked-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

function masksOf(folder: string, types: string) {
  const file = join(folder, 'masks.yaml');
  writeFileSync(file, `mask: { key: "${key}" }\ntypes:\n${types}`);
  return loadServedMasks({ file, env: {}, definitions }).masks;
}

/** The masks of the marked account, but for those of one path. */
const membersWithout = (left: string | null): string => `  email-marketing:\n${maskWithout(left)}`;

async function serveMarked(
  marks: Marks,
  folder: string,
  masks: ReturnType<typeof masksOf>,
  size: SampleSize = 'tiny',
) {
  const log: (RequestEntry | string)[] = [];
  const [newsletter] = sampleAccounts(size);
  if (newsletter === undefined) throw new Error('the accounts have one');
  const api = await serveApi({
    accounts: [{ ...newsletter, wrap: markedAccount(marks) }],
    data: join(folder, 'data'),
    masks,
    onRequest: (entry) => log.push(entry),
    onFailure: (error) => log.push(String(error)),
  });
  onTestFinished(() => api.service.close());
  return { api, log };
}

const settled = async ({ service }: ServedApi): Promise<void> => {
  await statusWhen(
    service.stores,
    mailing,
    ({ readiness, problem }) => (readiness === 'Ready' || readiness === 'Preview') && problem !== null,
  );
};

/** Everything that a client gets of a connector. */
async function useEverything(api: ServedApi, size: SampleSize = 'tiny'): Promise<string> {
  const answers: string[] = [];
  const execute = async (body: JsonObject): Promise<JsonObject> => {
    const answer = await api.execute(mailing, body);
    answers.push(JSON.stringify([answer.status, [...answer.headers], answer.body]));
    return answer.body;
  };
  const all = async (entity: string, params: JsonObject): Promise<readonly JsonObject[]> => {
    const records: JsonObject[] = [];
    for (;;) {
      const paged = { ...params, count: 1_000, offset: records.length };
      const page = objects((await execute({ entity, action: 'list', params: paged }))['result']);
      if (page.length === 0) return records;
      records.push(...page);
    }
  };
  for (const { id } of await all('lists', {})) {
    const params = { list_id: id ?? null };
    for (const member of await all('list_members', params)) {
      const subscriber = { ...params, subscriber_hash: text(member['id']) };
      await execute({ entity: 'list_members', action: 'get', params: subscriber });
    }
  }
  const refusals = new Set<unknown>();
  for (const { id } of await all('campaigns', {})) {
    const { message } = await execute({
      entity: 'email_activity',
      action: 'list',
      params: { campaign_id: id ?? null },
    });
    if (message !== undefined) refusals.add(message);
  }
  // One long list has no campaigns.
  if (size !== 'tiny') return answers.join('\n');
  expect([...refusals]).toEqual(['list and get of email_activity: [hidden: the entity has a mask]']);
  for (const query of [{}, { filter: { like: { email_id: '%' } } }, { filter: { eq: { none: 1 } } }]) {
    await execute({
      entity: 'email_activity',
      action: 'context_store_search',
      params: { query, limit: 1_000 },
    });
  }
  expect(answers.join('\n')).toContain('"data":[');
  for (const path of [`/api/v1/integrations/connectors/${mailing}`, '/openapi.json']) {
    answers.push(JSON.stringify((await api.call(path)).body));
  }
  return answers.join('\n');
}

function foundIn(folder: string, texts: string, values: readonly string[]): ReadonlyMap<string, string> {
  const search = openSearchFor(values);
  const found = new Map<string, string>();
  for (const { place, bytes } of [{ place: 'answers', bytes: Buffer.from(texts) }, ...contentsOf(folder)]) {
    for (const value of search(bytes)) found.set(value, place);
  }
  return found;
}

// Proves promise 10.7
it.each<SampleSize>(isLong ? ['tiny', { members: 1_000 }] : ['tiny'])(
  'holds and answers no masked value (%j)',
  { timeout: 480_000 },
  async (size) => {
    const marks = openMarks();
    const folder = folderOf();
    const { api, log } = await serveMarked(marks, folder, masksOf(folder, membersWithout(null)), size);
    if (size === 'tiny') await settled(api);
    const answers = await useEverything(api);
    expect(marks.values().length).toBeGreaterThan(size === 'tiny' ? 200 : 8_000);
    expect([...foundIn(folder, `${answers}${JSON.stringify(log)}`, marks.values())]).toEqual([]);
  },
);

const places = [
  ...Object.keys(maskedMembers).filter((path) => !path.startsWith('merge_fields')),
  'activity.ip',
];

it.each(isLong ? places : ['activity.ip'])(
  'answers with the values, and stores them, where the mask leaves out %s',
  { timeout: 240_000 },
  async (left) => {
    const marks = openMarks();
    const folder = folderOf();
    const { api } = await serveMarked(marks, folder, masksOf(folder, membersWithout(left)));
    await settled(api);
    const answers = await useEverything(api);
    const isStored = left === 'activity.ip';
    const stored = foundIn(join(folder, 'data'), '', marks.values());
    expect([...stored.keys()].toSorted()).toEqual(isStored ? marks.at(left).toSorted() : []);
    const answered = foundIn(join(folder, 'data'), answers, marks.values());
    expect([...answered.keys()].toSorted()).toEqual(marks.at(left).toSorted());
  },
);

it(
  'makes a store again that was filled without its masks, and searches it only then',
  { timeout: 240_000 },
  async () => {
    const marks = openMarks();
    const folder = folderOf();
    const clear = await serveMarked(marks, folder, new Map());
    await settled(clear.api);
    await clear.api.service.close();
    expect(foundIn(folder, '', marks.values()).size).toBeGreaterThan(40);
    const masked = await serveMarked(marks, folder, masksOf(folder, membersWithout(null)));
    const search = { entity: 'email_activity', action: 'context_store_search', params: { query: {} } };
    for (;;) {
      const { status, body } = await masked.api.execute(mailing, search);
      if (status === 200) {
        expect(foundIn(join(folder, 'data'), JSON.stringify(body), marks.values())).toEqual(new Map());
        break;
      }
      expect(JSON.stringify(body)).toContain('context_store_not_ready');
    }
    await settled(masked.api);
    expect(foundIn(folder, '', marks.values())).toEqual(new Map());
  },
);

// Proves promise 10.7
it('removes at its start what stores hold from before the masks', { timeout: 120_000 }, async () => {
  const folder = folderOf();
  const data = join(folder, 'data');
  const [newsletter] = sampleAccounts('tiny');
  if (newsletter === undefined) throw new Error('the accounts have one');
  const accounts = ['one', 'two', 'three'].map((connectorId) => ({ ...newsletter, connectorId }));
  {
    await using clear = await serveApi({ accounts: accounts.slice(0, 1), data });
    await searchable(clear.service.stores, 'one');
  }
  for (const { connectorId } of accounts.slice(1)) {
    copyFileSync(join(data, 'stores/one.db'), join(data, `stores/${connectorId}.db`));
  }
  const addresses = () =>
    [...contentsOf(join(data, 'stores'))].flatMap(
      ({ bytes }) => bytes.toString('latin1').match(/[\w.+-]+@[\w-]+\.[\w.]+/g) ?? [],
    );
  expect(addresses().length).toBeGreaterThan(100);
  const never = (): Promise<never> => new Promise(() => undefined);
  const email = '{ email_activity: { fields: { email_address: { hash: { as: email } } } } }';
  // Third parties that never answer: more stores than syncs that may run, and none gets any further.
  await using _masked = await startService({
    port: 0,
    ...credentials,
    definitions,
    connectors: accounts,
    providers: {
      open: () => ({ list: never, get: never, download: never }),
      check: never,
      [Symbol.asyncDispose]: () => Promise.resolve(),
    },
    data,
    masks: masksOf(folder, `  email-marketing:\n    mask: ${email}\n`),
  });
  await expect.poll(addresses, { timeout: 30_000 }).toEqual([]);
});

it('seals the page tokens of masked entities, and takes none that it did not seal', async () => {
  const types = '  workspace-notes:\n    mask: { pages: { fields: { url: drop } } }\n';
  const folder = folderOf();
  await using plain = await serveApi();
  await using api = await serveApi({ masks: masksOf(folder, types) });
  const walk = async (of: ServedApi) => {
    const ids: unknown[] = [];
    const tokens: string[] = [];
    for (let params: JsonObject = { page_size: 1 }; ;) {
      const { records, metadata } = await of.list('notes-1', 'pages', params);
      ids.push(...records.map(({ id }) => id));
      expect(records.some((record) => 'url' in record)).toBe(of === plain);
      if (metadata['has_more'] !== true) return { ids, tokens };
      params = { page_size: 1, start_cursor: text(metadata['next_cursor']) };
      tokens.push(text(metadata['next_cursor']));
    }
  };
  const [clear, sealed] = [await walk(plain), await walk(api)];
  expect(sealed.ids).toEqual(clear.ids);
  expect(sealed.tokens.length).toBeGreaterThan(1);
  const refused = await api.execute('notes-1', {
    entity: 'pages',
    action: 'list',
    params: { start_cursor: clear.tokens[0] ?? '' },
  });
  expect(refused).toMatchObject({ status: 400, body: { errors: [{ error_code: 'upstream_stale_token' }] } });
});
