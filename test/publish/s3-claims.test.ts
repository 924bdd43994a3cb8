import { describe, expect, it } from 'vitest';
import { removeOld, type ObjectStore } from '../../src/publish/object-store.ts';
import { useOwnTemp } from '../support/publish/own-temp.ts';
import { openFakeStore, openStore } from '../support/publish/s3-place.ts';
import { fakePlace, type FakeS3 } from '../support/publish/fake-s3.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { repeats, startSeed } from '../support/trials.ts';

const minuteMs = 60_000;
const name = '_publications/00000000000000000001.json';

describe('a server that ignores conditions', () => {
  it('gives a name to one text only', async () => {
    const { fake, store } = await openForgetful();
    expect(await store.create(name, 'mine')).toBe('created');
    expect(await store.create(name, 'other')).toBe('exists');
    expect(String(await store.read(name))).toBe('mine');
    expect([...fake.objects.keys()].filter((key) => key.includes('_claims/'))).toEqual([]);
  });

  it('is found out too where it says that it cannot', async () => {
    const { fake, store } = await openFakeStore();
    fake.fault = ({ headers }) =>
      headers['if-none-match'] === undefined ? null : { status: 501, code: 'NotImplemented' };
    expect(await store.create(name, 'mine')).toBe('created');
    expect(await store.create(name, 'other')).toBe('exists');
  });

  // Proves promise 20.2
  it('lets one of several writers at once win', { timeout: 300_000 }, async () => {
    const rounds = repeats('TRIALS', { share: 2, full: 200 });
    const { fake, store } = await openForgetful();
    const stores = [
      store,
      await openStore(fakePlace(fake.endpoint)),
      await openStore(fakePlace(fake.endpoint)),
    ];
    const random = seededRandom(startSeed());
    fake.delayMs = () => random() * 8;
    for (let round = 1; round <= rounds; round += 1) {
      const each = `${round}.json`;
      const ends = await Promise.all(
        stores.map(async (one, at) => await settled(one.create(each, `by ${at}`))),
      );
      const winners = ends.flatMap((end, at) => (end === 'created' ? [at] : []));
      expect(winners.length).toBeLessThan(2);
      const found = await store.read(each);
      if (winners.length === 1) expect(String(found)).toBe(`by ${winners[0]}`);
      else expect(found).toBeNull();
      expect(ends.filter((end) => end === 'failed').length).toBeLessThan(stores.length);
    }
  });

  // Proves promise 20.2
  it('keeps a writer away while another one may still write', async () => {
    const { fake, store } = await openForgetful();
    leaveClaim(fake, Date.now() - 14 * minuteMs);
    const ending = new AbortController();
    const second = await openStore(fakePlace(fake.endpoint), { signal: ending.signal });
    const created = second.create(name, 'second');
    setTimeout(() => ending.abort(new Error('enough')), 300);
    await expect(created).rejects.toThrow('enough');
    expect(await store.read(name)).toBeNull();
  });

  it('forgets the claim of a writer that was killed, a quarter of an hour later', async () => {
    const { fake, store } = await openForgetful();
    leaveClaim(fake, Date.now() - 16 * minuteMs);
    expect(await store.create(name, 'mine')).toBe('created');
    expect([...fake.objects.keys()].filter((key) => key.includes('_claims/'))).toEqual([]);
  });

  it('has claims that stay when their writers are killed, and a prune removes them a day later', async () => {
    useOwnTemp();
    const { fake, store } = await openForgetful();
    const place = `raw/sync/_claims/${name}`;
    const dayMs = 24 * 60 * minuteMs;
    leaveClaim(fake, Date.now() - dayMs - minuteMs);
    leaveClaim(fake, Date.now() - dayMs + minuteMs, '00000000000000bb');
    const prune = { ageMs: dayMs, now: () => Promise.resolve(Date.now()) };
    const ends = { removed: { files: 1, bytes: 0 }, waiting: { files: 1, bytes: 0 } };
    expect(await removeOld(await store.leftovers(), { ...prune, isDryRun: true })).toEqual(ends);
    expect([...fake.objects.keys()]).toEqual([`${place}/00000000000000aa`, `${place}/00000000000000bb`]);
    expect(await removeOld(await store.leftovers(), { ...prune, isDryRun: false })).toEqual(ends);
    expect([...fake.objects.keys()]).toEqual([`${place}/00000000000000bb`]);
  });

  it('overwrites nothing where it keeps conditions at times', async () => {
    const { fake, store } = await openForgetful();
    await store.create('other.json', '{}');
    fake.keepsConditions = true;
    fake.fault = ({ operation, key, headers }) => {
      const isWritten = operation === 'put' && key.endsWith('1.json') && headers['if-none-match'] === '*';
      if (isWritten) fake.objects.set(key, { body: Buffer.from('other'), modifiedAtMs: Date.now() });
      return null;
    };
    expect(await store.create(name, 'mine')).toBe('exists');
    expect(String(await store.read(name))).toBe('other');
  });

  it('keeps its claim when it does not know whether its text arrived', async () => {
    const { fake, store } = await openForgetful();
    fake.fault = ({ operation, key }) =>
      operation === 'put' && key.endsWith('1.json') ? { status: 403, code: 'AccessDenied' } : null;
    await expect(store.create(name, 'mine')).rejects.toMatchObject({ code: 'TARGET_FAILED' });
    expect([...fake.objects.keys()].filter((key) => key.includes('_claims/'))).toHaveLength(1);
  });

  it('is refused where its lists do not show what was written', async () => {
    const { fake, store } = await openForgetful();
    fake.listed = (key) => (key.includes('_claims/') ? `${key.slice(0, -16)}0000000000000000` : key);
    await expect(store.create(name, 'mine')).rejects.toMatchObject({ code: 'TARGET_INCOMPATIBLE' });
    expect(fake.objects.has(`raw/sync/${name}`)).toBe(false);
  });
});

async function openForgetful(): Promise<{ readonly fake: FakeS3; readonly store: ObjectStore }> {
  const opened = await openFakeStore();
  opened.fake.keepsConditions = false;
  return opened;
}

function leaveClaim(fake: FakeS3, modifiedAtMs: number, id = '00000000000000aa'): void {
  fake.objects.set(`raw/sync/_claims/${name}/${id}`, { body: Buffer.alloc(0), modifiedAtMs });
}

async function settled(created: Promise<'created' | 'exists'>): Promise<'created' | 'exists' | 'failed'> {
  return await created.catch(() => 'failed' as const);
}
