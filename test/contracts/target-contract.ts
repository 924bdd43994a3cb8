import { isDeepStrictEqual } from 'node:util';
import { expect } from 'vitest';
import type { Column } from '../../src/core/records.ts';
import type { Target } from '../../src/publish/target.ts';
import { it } from '../support/it.ts';
import { repeats } from '../support/trials.ts';
import { hostileText } from '../support/sinks/hostile-texts.ts';
import { seededRandom } from '../support/seeded-random.ts';
import {
  addColumns,
  addEntity,
  emptyModel,
  expectedModelRows,
  publishedModel,
  publishModel,
  remove,
  store,
  untilEnd,
  type ModelRow,
  type StoredEntity,
  type StoredModel,
} from '../support/publish/stored-model.ts';

/**
 * A kind of target, and how its readers see what was published. `folder` stands for one target: its path, or what its
 * schema is named after.
 */
export interface TargetKind {
  readonly open: (folder: string) => Promise<Target>;
  /** Rows that are not deleted, in the state of the newest publication, by `keyTextOf`. */
  readonly rows: (folder: string, entity: StoredEntity) => Promise<ReadonlyMap<string, ModelRow>>;
  /** What a text is read back as, where the target cannot hold it as it is. */
  readonly readText?: (text: string) => string;
}

async function newestOf(target: Target) {
  const newest = await target.newest();
  if (newest === null) throw new Error('Nothing is published');
  return newest;
}

export const everyType: readonly Column[] = [
  { name: 'id', type: 'string' },
  { name: 'visits', type: 'integer' },
  { name: 'score', type: 'number' },
  { name: 'vip', type: 'boolean' },
  { name: 'address', type: 'object' },
  { name: 'tags', type: 'array' },
  { name: 'anything', type: 'any' },
];

/**
 * What every target promises, whatever it is made of. `isWhole`: false for the share of it that `npm test` has time
 * for.
 */
export function targetContract({ open, rows, readText = (text) => text }: TargetKind, isWhole = true): void {
  const expectSame = async (folder: string, model: StoredModel): Promise<void> => {
    for (const entity of model.entities.values()) {
      const found = await rows(folder, entity);
      const expected = expectedModelRows(entity);
      expect([...found.keys()].toSorted(), entity.entity).toEqual(
        [...expected.keys()].map(readText).toSorted(),
      );
      for (const [key, row] of expected) {
        const read = Object.entries(row).map(([name, text]) => [name, text === null ? null : readText(text)]);
        const stored = found.get(readText(key));
        // `expect` takes longer than the publication.
        if (isDeepStrictEqual(stored, Object.fromEntries(read))) continue;
        expect(stored, `${entity.entity} ${key}`).toEqual(Object.fromEntries(read));
      }
    }
  };
  const begin = async (folder: string) => {
    const desk = publishedModel(await open(folder));
    const publishSame = async (): Promise<void> => {
      expect(await desk.publish()).toBe('published');
      await expectSame(folder, desk.model);
    };
    return { ...desk, publishSame };
  };
  const people = (model: StoredModel, count: number): StoredEntity => {
    const entity = addEntity(model, 'people', everyType);
    for (let id = 1; id <= count; id += 1) store(model, entity, { id: `p${id}`, visits: id, score: id / 3 });
    return entity;
  };

  it('shows what is stored, after its first publication and after each of its changes', async ({
    folder,
  }) => {
    await using desk = await begin(folder);
    const { model, target } = desk;
    expect(await target.newest()).toBeNull();
    expect((await target.check(untilEnd)).publications).toBe(0);
    const entity = people(model, 1_500);
    addEntity(model, 'empty', everyType);
    await desk.publishSame();
    store(model, entity, { id: 'p2', visits: 7n, vip: 1, anything: '[1.50]' }, '{"more":1}');
    store(model, entity, { id: 'new' });
    remove(model, entity, 'p3');
    remove(model, entity, 'p4');
    await desk.publishSame();
    remove(model, entity, 'new');
    store(model, entity, { id: 'p3', score: 1 });
    const lists = addEntity(model, 'lists', [{ name: 'id', type: 'integer' }]);
    store(model, lists, { id: 9_007_199_254_740_993n });
    await desk.publishSame();
    // Nothing has changed: only the manifest moves on.
    await desk.publishSame();
    const newest = await target.newest();
    expect(newest?.manifest.publication).toBe(4);
    const numbers: number[] = [];
    for await (const { manifest } of target.manifests(2)) numbers.push(manifest.publication);
    expect(numbers).toEqual([2, 3, 4]);
    expect(await target.check(untilEnd)).toMatchObject({ publications: 4, problems: [] });
  });

  // Proves promise 20.6
  it('records how fresh its newest publication is; a later one and another manifest do not inherit it', async ({
    folder,
  }) => {
    await using desk = await begin(folder);
    const { model, target } = desk;
    const entity = people(model, 3);
    await desk.publish();
    const first = await newestOf(target);
    const asOf = '2026-03-01T10:00:00.000Z';
    const fresher = {
      ...first,
      checkedAt: '2026-03-01T10:00:01.000Z',
      manifest: { ...first.manifest, entities: first.manifest.entities.map((one) => ({ ...one, asOf })) },
    };
    expect(await target.tell(fresher)).toBe(true);
    expect(await newestOf(target)).toEqual(fresher);
    await expectSame(folder, model);
    store(model, entity, { id: 'new' });
    await desk.publishSame();
    const second = await newestOf(target);
    expect(second).toMatchObject({ manifest: { publication: 2 }, checkedAt: second.manifest.createdAt });
    await target.tell(fresher);
    expect(await newestOf(target)).toEqual(second);
    expect(await target.check(untilEnd)).toMatchObject({ publications: 2, problems: [] });
  });

  it.runIf(isWhole)('takes added columns, and keeps the rows of before', async ({ folder }) => {
    await using desk = await begin(folder);
    const { model } = desk;
    const entity = people(model, 3);
    await desk.publish();
    addColumns(entity, { name: 'email', type: 'string' }, { name: 'rank', type: 'integer' });
    store(model, entity, { id: 'p1', email: 'a@example.test', rank: 1 });
    await desk.publishSame();
    addColumns(entity, { name: 'later', type: 'boolean' });
    await desk.publishSame();
    expect(await desk.problems()).toEqual([]);
  });

  // Proves promise 20.5
  it.runIf(isWhole)(
    'leaves no row of an earlier generation, also where the key and types are others',
    async ({ folder }) => {
      await using desk = await begin(folder);
      const { model, target } = desk;
      people(model, 5);
      await target.probe();
      expect(await target.newest()).toBeNull();
      await desk.publish();
      const same = people(model, 2);
      store(model, same, { id: 'only now' });
      await desk.publishSame();
      const columns: readonly Column[] = [
        { name: 'id', type: 'integer' },
        { name: 'part', type: 'string' },
        { name: 'score', type: 'object' },
      ];
      const other = addEntity(model, 'people', columns, ['id', 'part']);
      store(model, other, { id: 1, part: 'a', score: '{}' });
      store(model, other, { id: 1, part: 'b' });
      remove(model, other, 1, 'b');
      await desk.publishSame();
      remove(model, other, 1, 'a');
      store(model, other, { id: 2, part: 'c' });
      await desk.publishSame();
      expect(await desk.problems()).toEqual([]);
    },
  );

  // Proves promise 20.5
  it('is published once by two publishers at once, and the other finds it taken', async ({ folder }) => {
    await using one = await open(folder);
    await using other = await open(folder);
    const model = emptyModel();
    const entity = people(model, 3);
    await publishModel(one, model);
    const rounds = repeats('TRIALS', { share: 1, full: 100 });
    for (let round = 1; round <= rounds; round += 1) {
      store(model, entity, { id: `round ${round}` });
      const meet = meeting(2);
      const both = await Promise.all([
        publishModel(one, model, { beforeCommit: meet }),
        publishModel(other, model, { beforeCommit: meet }),
      ]);
      expect(both.toSorted()).toEqual(['published', 'taken']);
      await expectSame(folder, model);
    }
    // Begun before the other's, and committed behind it.
    store(model, entity, { id: 'p1', visits: 100 });
    const late = await publishModel(one, model, {
      beforeCommit: async () => {
        expect(await publishModel(other, model)).toBe('published');
        store(model, entity, { id: 'p2', visits: 200 });
        expect(await publishModel(other, model)).toBe('published');
      },
    });
    expect(late).toBe('taken');
    await expectSame(folder, model);
    expect(await one.check(untilEnd)).toMatchObject({ publications: rounds + 3, problems: [] });
  }, 900_000);

  it.runIf(isWhole)('shows nothing of a publication that was begun and left', async ({ folder }) => {
    await using desk = await begin(folder);
    const { model, target } = desk;
    const entity = people(model, 3);
    await desk.publish();
    const before = new Map(await rows(folder, entity));
    store(model, entity, { id: 'unseen' });
    addEntity(model, 'unseen', everyType);
    const left = desk.publish({ beforeCommit: () => Promise.reject(new Error('left')) });
    await expect(left).rejects.toThrow('left');
    expect(await rows(folder, entity)).toEqual(before);
    expect((await target.newest())?.manifest.publication).toBe(1);
    await desk.publishSame();
    expect(await target.check(untilEnd)).toMatchObject({ publications: 2, problems: [] });
  });

  // Proves promise 20.5
  it.runIf(isWhole)('holds every value to the last digit and character', async ({ folder }) => {
    await using desk = await begin(folder);
    const { model } = desk;
    const entity = addEntity(model, 'people', everyType);
    const integers = [0n, -1n, 2n ** 53n + 1n, 2n ** 63n - 1n, -(2n ** 63n)];
    for (const visits of integers) store(model, entity, { id: `i${visits}`, visits });
    const numbers = [-0, 5e-324, 1.797e308, 0.1 + 0.2, 1e21, 123_456_789.123_456_79];
    for (const score of numbers) store(model, entity, { id: `n${String(score)}`, score });
    const json = '{"big":12345678901234567890,"nul":"a\\u0000b","d":1.10,"s":"\u2028 é"}';
    const deep = `${'['.repeat(200)}1${']'.repeat(200)}`;
    store(model, entity, { id: 'json', address: json, tags: deep, anything: '"text"' }, json);
    store(model, entity, { id: 'long', anything: JSON.stringify('x'.repeat(1_000_000)) });
    store(model, entity, { id: 'empty', address: '{}', tags: '[]', anything: 'false', vip: 0 });
    const random = seededRandom(1);
    for (let count = 0; count < 60; count += 1) {
      store(model, entity, { id: `${count} ${hostileText(random)}` });
    }
    store(model, entity, { id: '' });
    store(model, entity, { id: Array.from({ length: 160 }, () => random().toString(36)).join('') });
    await desk.publishSame();
    // Once more, as changes of what is there.
    for (const row of entity.rows.values()) {
      const values = Object.fromEntries(
        entity.columns.map(({ name }, index) => [name, row.values[index] ?? null]),
      );
      store(model, entity, { ...values, vip: 1 }, row.extra);
    }
    await desk.publishSame();
    expect(await desk.problems()).toEqual([]);
  });

  it.runIf(isWhole)('tells apart names that are long, reserved, or alike', async ({ folder }) => {
    await using desk = await begin(folder);
    const { model } = desk;
    const columns = ['id', 'select', 'user', 'table', 'a'.repeat(40)];
    const names = ['order', 'table', 'a', 'a_current', 'b'.repeat(40), `${'b'.repeat(39)}c`];
    for (const name of names) {
      const connector = `group-${'c'.repeat(34)}`;
      const typed = columns.map((column): Column => ({ name: column, type: 'string' }));
      const entity = addEntity(model, name, typed, ['id'], connector);
      store(model, entity, Object.fromEntries(columns.map((column) => [column, `${name} ${column}`])));
    }
    await desk.publishSame();
    for (const entity of model.entities.values()) store(model, entity, { id: 'more' });
    await desk.publishSame();
    expect(await desk.problems()).toEqual([]);
  });

  it.runIf(isWhole)(
    'forgets publications that were the newest too long ago, never the newest',
    async ({ folder }) => {
      await using desk = await begin(folder);
      const { model, target } = desk;
      const entity = people(model, 2);
      for (const day of [1, 2, 3, 4]) {
        store(model, entity, { id: 'p1', visits: day });
        await desk.publish({ createdAt: `2026-01-0${day}T00:00:00.000Z` });
      }
      await target.prune(null, false);
      const kept = async (): Promise<readonly number[]> => {
        const numbers: number[] = [];
        for await (const { manifest } of target.manifests(1)) numbers.push(manifest.publication);
        return numbers;
      };
      expect(await kept()).toEqual([1, 2, 3, 4]);
      // Publication 2 was the newest one until the third day.
      expect((await target.prune(Date.parse('2026-01-03T00:00:00.000Z'), true)).publications).toBe(1);
      expect(await kept()).toEqual([1, 2, 3, 4]);
      expect((await target.prune(Date.parse('2026-01-03T00:00:00.000Z'), false)).publications).toBe(1);
      expect(await kept()).toEqual([2, 3, 4]);
      expect((await target.prune(Date.parse('2026-02-01T00:00:00.000Z'), false)).publications).toBe(2);
      expect(await kept()).toEqual([4]);
      expect(await desk.problems()).toEqual([]);
      store(model, entity, { id: 'p2' });
      await desk.publishSame();
    },
  );
}

/** Each who comes waits until `count` are there. */
function meeting(count: number): () => Promise<void> {
  let arrived = 0;
  let allow = (): void => undefined;
  const all = new Promise<void>((resolve) => {
    allow = resolve;
  });
  return async () => {
    arrived += 1;
    if (arrived === count) allow();
    await all;
  };
}
