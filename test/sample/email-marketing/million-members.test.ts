import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../../src/core/json.ts';
import {
  mailing,
  object,
  sampleAccounts,
  serveApi,
  type ServedApi,
  text,
} from '../../support/service/served-api.ts';
import { isLong } from '../../support/trials.ts';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

const members = 1_000_000;
let api: ServedApi;
let list_id = '';
beforeAll(async () => {
  api = await serveApi({ accounts: sampleAccounts({ members }) });
  list_id = text((await api.list(mailing, 'lists')).records[0]?.['id']);
});
afterAll(() => api.service.close());

const page = async (params: JsonObject): Promise<readonly JsonObject[]> =>
  (await api.list(mailing, 'list_members', { list_id, count: 1_000, ...params })).records;
const changed = (record: JsonObject | undefined): string => text(record?.['last_changed']);

describe('a list of a million members', () => {
  it('answers the first, a middle and the last page', async () => {
    const first = await page({ offset: 0 });
    const middle = await page({ offset: 500_000 });
    const last = await page({ offset: members - 1 });
    expect([first.length, middle.length, last.length]).toEqual([1_000, 1_000, 1]);
    expect(new Set([...first, ...middle, ...last].map(({ id }) => id)).size).toBe(2_001);
    expect(await page({ offset: members })).toEqual([]);
    const [list] = (await api.list(mailing, 'lists')).records;
    expect(object(list?.['stats'])['total_contacts']).toBe(members);
  });

  it('finds the place of a time and the end of a descending order', async () => {
    const [middle] = await page({ offset: 700_000, count: 1 });
    const since = await page({ since_last_changed: changed(middle), count: 3 });
    expect(since.map(({ id }) => id)).toContain(middle?.['id']);
    expect(changed(since[0])).toBe(changed(middle));
    const [newest] = await page({ sort_field: 'last_changed', sort_dir: 'DESC', count: 1 });
    expect([newest]).toEqual(await page({ offset: members - 1 }));
  });

  const pagesRead = isLong ? 10 : 4;

  it('keeps nothing of a member once its page is out', async () => {
    const pages = async (from: number): Promise<void> => {
      for (let offset = from; offset < from + pagesRead * 1_000; offset += 1_000) await page({ offset });
    };
    const heapAfterCollection = (): number => {
      collectGarbage();
      return process.memoryUsage().heapUsed;
    };
    await pages(0);
    const before = heapAfterCollection();
    await pages(400_000);
    await pages(960_000);
    // A page is more than a megabyte of text.
    expect(heapAfterCollection() - before).toBeLessThan(2 * pagesRead * 200 * 1024);
  });
});
