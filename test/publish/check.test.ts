import { cpSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { ObjectStore } from '../../src/publish/object-store.ts';
import { openPublishWorld, type PublishWorld } from '../support/publish/publish-world.ts';

const noSignal = new AbortController().signal;

let world: PublishWorld;

beforeEach(() => {
  world = openPublishWorld();
});

afterEach(async () => {
  await world[Symbol.asyncDispose]();
});

/** Six publications, of which a prune keeps the last three. */
async function publishSix(): Promise<void> {
  for (let run = 1; run <= 6; run += 1) {
    await world.run({ upserts: [['1', `Ada ${run}`]] });
    await world.publish({ isSnapshotAsked: run === 4 });
  }
}

/** Does `beside` before call number `at` that reads something, and before no other; `calls` counts them. */
function interrupted(at: number, beside: () => Promise<unknown>, calls: { count: number }) {
  const step = async (): Promise<void> => {
    calls.count += 1;
    if (calls.count === at) await beside();
  };
  return (store: ObjectStore): ObjectStore => ({
    ...store,
    read: async (name) => {
      await step();
      return await store.read(name);
    },
    stream: async function* (name) {
      await step();
      yield* store.stream(name);
    },
  });
}

const manifestOf = (publication: number): string =>
  join(world.lake, '_publications', `${String(publication).padStart(20, '0')}.json`);

describe('a check', () => {
  it('beside a prune finds no damage, whenever that comes', async () => {
    await publishSix();
    const copy = join(world.folder, 'copy');
    cpSync(world.lake, copy, { recursive: true, preserveTimestamps: true });
    const prune = async (): Promise<void> => {
      await using pruner = world.target();
      expect(await pruner.prune(world.clock.now(), false)).toMatchObject({ publications: 3 });
    };
    const calls = { count: Infinity };
    for (let at = 1; at <= calls.count; at += 1) {
      rmSync(world.lake, { recursive: true });
      cpSync(copy, world.lake, { recursive: true, preserveTimestamps: true });
      calls.count = 0;
      await using target = world.target('jsonl', interrupted(at, prune, calls));
      const check = await target.check(noSignal);
      expect({ at, problems: check.problems }).toEqual({ at, problems: [] });
      expect(check.publications).toBeGreaterThanOrEqual(3);
    }
    expect(calls.count).toBeGreaterThan(15);
  });

  it('finds what something else removes while it reads', async () => {
    await publishSix();
    const lost = filesOf('00000002')[0] ?? '';
    const removed = [
      { remove: async () => rmSync(manifestOf(3)), problems: ['publication 3 is missing'] },
      {
        remove: async () => rmSync(join(world.lake, lost)),
        problems: [`publication 2: ${lost} is missing`, 'publication 3 is missing'],
      },
    ];
    for (const { remove, problems } of removed) {
      // The first publication is being read.
      await using target = world.target('jsonl', interrupted(2, remove, { count: 0 }));
      expect((await target.check(noSignal)).problems).toEqual(problems);
    }
  });
});

function filesOf(publication: string): readonly string[] {
  return readdirSync(world.lake, { recursive: true, encoding: 'utf8' }).filter((name) =>
    name.includes(`/${publication}-`),
  );
}
