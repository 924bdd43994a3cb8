import { fork } from 'node:child_process';
import { once } from 'node:events';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { ObjectStore } from '../../src/publish/object-store.ts';
import type { Target } from '../../src/publish/target.ts';
import { testProgram } from '../support/ensure-built.ts';
import {
  copyObjects,
  fakePlace,
  startFakeS3,
  type FakeS3,
  type S3Fault,
} from '../support/publish/fake-s3.ts';
import { openPublishWorld, type PublishWorld } from '../support/publish/publish-world.ts';
import { lakeManifests, readLake, seqsOf } from '../support/publish/read-lake.ts';
import { openStore } from '../support/publish/s3-place.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { hasMoreKills, isLong, repeats, startSeed } from '../support/trials.ts';

const program = testProgram('support/publish/publisher-process.mjs');
const noSignal = new AbortController().signal;

let world: PublishWorld;
let fake: FakeS3;

beforeEach(async () => {
  world = openPublishWorld();
  fake = await startFakeS3();
});

afterEach(async () => {
  await world[Symbol.asyncDispose]();
  await fake[Symbol.asyncDispose]();
});

async function openTarget(idleTimeoutMs = 20_000): Promise<Target> {
  const store = await openStore(fakePlace(fake.endpoint), { partBytes: 500, idleTimeoutMs });
  return world.target('jsonl', (): ObjectStore => store);
}

/**
 * What a reader of the newest publication has, from a copy of the bucket. Throws where a file is torn, or a change came
 * twice.
 */
async function seen(): Promise<{ readonly publication: number; readonly rows: object }> {
  copyObjects(fake, world.lake);
  const manifests = lakeManifests(world.lake);
  const publication = manifests.at(-1)?.publication ?? 0;
  return { publication, rows: publication === 0 ? {} : seqsOf(readLake(world.lake, manifests, publication)) };
}

async function expectWhole(): Promise<void> {
  expect((await seen()).rows).toEqual(seqsOf(await world.rows()));
  await using target = await openTarget();
  expect((await target.check(noSignal)).problems).toEqual([]);
}

let runs = 0;

/** Some members, at times so many that their file has parts. */
async function change(random: () => number): Promise<void> {
  runs += 1;
  const size = 1 + Math.floor(random() * 12);
  const upserts = Array.from({ length: size }, (_, index) => [`${index}`, `Name ${runs}`] as const);
  await world.run({ upserts, deletes: [`${size}`] });
}

const faults: readonly S3Fault[] = ['slow-down', 'cut-before', 'cut-after', 'cut-within', 'silence', 'late'];

describe('publications in a bucket', () => {
  // Proves promise 20.2
  it(
    'are whole whatever happens to requests, and every change is in one of them',
    { timeout: 900_000 },
    async () => {
      const random = seededRandom(startSeed());
      const states: object[] = [];
      for (let round = 0; round < repeats('TRIALS', { share: 2, full: 150 }); round += 1) {
        await change(random);
        const sink = seqsOf(await world.rows());
        states.push(sink);
        // So many at times that all attempts of a request fail.
        const share = isLong && random() < 0.3 ? 0.6 : 0.1;
        fake.fault = () => (random() < share ? (faults[Math.floor(random() * faults.length)] ?? null) : null);
        const end = await world
          .publish({ isSnapshotAsked: random() < 0.2 }, await openTarget(100))
          .catch((error: unknown) => error);
        fake.fault = () => null;
        if (end instanceof Error) {
          expect(end).toMatchObject({ code: 'TARGET_FAILED', recovery: 'retry' });
        } else {
          expect((await seen()).rows).toEqual(sink);
        }
        const { publication, rows } = await seen();
        if (publication > 0) expect(states).toContainEqual(rows);
      }
      await world.publish({}, await openTarget());
      await expectWhole();
    },
  );

  // Proves promise 20.2
  it('of two publishers at once follow one another without a gap', { timeout: 900_000 }, async () => {
    const random = seededRandom(startSeed());
    fake.delayMs = () => random() * 3;
    let published = 0;
    for (let round = 0; round < repeats('TRIALS', { share: 2, full: 200 }); round += 1) {
      await change(random);
      const ends = await Promise.all(
        [await openTarget(), await openTarget()].map(async (target) => await world.publish({}, target)),
      );
      published += ends.filter(({ kind }) => kind === 'published').length;
      expect((await seen()).publication).toBe(published);
    }
    await expectWhole();
  });

  // Proves promise 20.2
  it.each(['overwrites', 'refuses the header'])(
    'are refused by a server that %s, before any file is there',
    async (how) => {
      if (how === 'overwrites') {
        fake.keepsConditions = false;
      } else {
        fake.fault = ({ headers }) =>
          headers['if-none-match'] === undefined ? null : { status: 501, code: 'NotImplemented' };
      }
      await change(seededRandom(startSeed()));
      const refused = {
        code: 'TARGET_INCOMPATIBLE',
        message: expect.stringContaining('If-None-Match') as string,
      };
      await expect(world.publish({}, await openTarget())).rejects.toMatchObject(refused);
      await using target = await openTarget();
      await expect(target.probe()).rejects.toMatchObject(refused);
      expect([...fake.objects.keys()].filter((key) => !key.endsWith('/_conditions'))).toEqual([]);
    },
  );

  // Proves promise 20.2
  it.runIf(hasMoreKills)('continue after publishers that were killed', { timeout: 900_000 }, async () => {
    const random = seededRandom(startSeed());
    const path = world.sink.type === 'sqlite' ? world.sink.path : '';
    for (let kill = 0; kill < repeats('KILLS', { share: 0, full: 60 }); kill += 1) {
      await change(random);
      const before = await seen();
      const sink = seqsOf(await world.rows());
      const child = fork(program, [path, fake.endpoint], {
        env: { ...process.env, TMPDIR: world.folder },
      });
      await once(child, 'message');
      const killAt = fake.requests.length + 1 + Math.floor(random() * 14);
      fake.fault = () => {
        if (fake.requests.length === killAt) child.kill('SIGKILL');
        return null;
      };
      const ended = Promise.race([once(child, 'exit'), once(child, 'message')]);
      child.send({ snapshot: random() < 0.3 });
      await ended;
      child.kill('SIGKILL');
      fake.fault = () => null;
      const { publication, rows } = await seen();
      expect({ publication, rows }).toEqual(
        publication === before.publication ? before : { publication: before.publication + 1, rows: sink },
      );
    }
    await world.publish({}, await openTarget());
    await expectWhole();
  });
});
