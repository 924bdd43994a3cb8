import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openPublishWorld, type PublishWorld, type Rows } from '../support/publish/publish-world.ts';
import { lakeManifests, readLake } from '../support/publish/read-lake.ts';

let world: PublishWorld;

beforeEach(() => {
  world = openPublishWorld();
});

afterEach(async () => {
  await world[Symbol.asyncDispose]();
});

/** Entity -> key -> number of the newest change, of rows that are not deleted. */
function seqs(rows: ReadonlyMap<string, ReadonlyMap<string, { seq: number; isDeleted: boolean }>>) {
  return Object.fromEntries(
    [...rows].map(([entity, byKey]) => [
      entity,
      Object.fromEntries([...byKey].filter(([, row]) => !row.isDeleted).map(([key, { seq }]) => [key, seq])),
    ]),
  );
}

function published(rows: Rows): void {
  const manifests = lakeManifests(world.lake);
  expect(seqs(readLake(world.lake, manifests, manifests.length))).toEqual(seqs(rows));
}

describe('a publication', () => {
  it('holds what has changed since the one before, deletes included, and the sink is what a reader makes of all of them', async () => {
    await world.run({
      upserts: [
        ['1', 'Ada'],
        ['2', 'Bob'],
        ['3', 'Cy'],
      ],
    });
    expect(await world.publish()).toMatchObject({
      kind: 'published',
      published: { manifest: { publication: 1, previous: null } },
    });
    published(await world.rows());
    await world.run({ upserts: [['2', 'Bea']], deletes: ['3'] });
    expect(await world.publish()).toMatchObject({
      kind: 'published',
      newGenerations: [],
      published: { manifest: { publication: 2, entities: [{ upserts: 1, deletes: 1 }, { upserts: 1 }] } },
    });
    published(await world.rows());
    await using target = world.target();
    expect(await target.check(new AbortController().signal)).toMatchObject({ publications: 2, problems: [] });
  });
});
