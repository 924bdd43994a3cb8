import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { lutimesSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { testProgram } from '../support/ensure-built.ts';
import { openPublishWorld, type Change, type PublishWorld } from '../support/publish/publish-world.ts';
import { lakeManifests, readLake, seqsOf, unnamedFiles } from '../support/publish/read-lake.ts';
import { StoppedError, stopStore } from '../support/publish/stop-store.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { isLong, repeats, startSeed } from '../support/trials.ts';

const program = testProgram('support/publish/publisher-process.mjs');
const noSignal = new AbortController().signal;
const dayMs = 24 * 3_600_000;

let world: PublishWorld;
let children: ChildProcess[];

beforeEach(() => {
  world = openPublishWorld();
  children = [];
});

afterEach(async () => {
  for (const child of children) child.kill('SIGKILL');
  await world[Symbol.asyncDispose]();
});

const begun: Change = { upserts: Array.from({ length: 5 }, (_, index) => [String(index), 'Ada']) };

/** What the newest publication's reader has, and its number; what is in the folder is whole. */
async function seen(): Promise<{ readonly publication: number; readonly rows: object }> {
  await using target = world.target();
  expect((await target.check(noSignal)).problems).toEqual([]);
  const manifests = lakeManifests(world.lake);
  const publication = manifests.at(-1)?.publication ?? 0;
  return { publication, rows: publication === 0 ? {} : seqsOf(readLake(world.lake, manifests, publication)) };
}

/** As if a day had passed since killed publishers left their files. */
async function pruneAll(): Promise<void> {
  for (const name of unnamedFiles(world.lake)) {
    const long = (Date.now() - 2 * dayMs) / 1_000;
    lutimesSync(join(world.lake, name), long, long);
  }
  await using target = world.target();
  await target.prune(null, false);
  expect(unnamedFiles(world.lake)).toEqual([]);
}

/** Leaves what a reader of the newest publication needs. */
async function pruneOld(): Promise<void> {
  await using target = world.target();
  await target.prune(Date.now(), false);
}

async function startPublisher(): Promise<ChildProcess> {
  const path = world.sink.type === 'sqlite' ? world.sink.path : '';
  const child = fork(program, [path, world.lake], { execArgv: [] });
  children.push(child);
  await once(child, 'message');
  return child;
}

const files = ['members changes', 'members snapshot', 'member_opens changes', 'member_opens snapshot'];
const steps = [
  ...files.flatMap((file) =>
    ['before stage', 'after stage', 'before put', 'after put'].map((step) => `${step} ${file}`),
  ),
  'before create _publications',
  'after create _publications',
];
/** `npm test` has time for these: files that are staged, files that have their names, the commit. */
const triedSteps = isLong ? steps.map((_, index) => index + 1) : [3, 12, 17, 18];

/** Without the numbers of a file's name. */
function stepOf(error: unknown): string {
  if (!(error instanceof StoppedError)) throw error;
  const [, step = '', name = ''] = /^step \d+, (\w+ \w+) (.*)$/.exec(error.message) ?? [];
  const [first, entity, , kind] = name.split('/');
  return kind === undefined ? `${step} ${first}` : `${step} ${entity} ${kind}`;
}

describe('a publisher that dies', () => {
  // Proves promise 20
  it('at any step leaves the publication before or the whole next one, and another publisher continues', async () => {
    await world.run(begun);
    await world.publish();
    for (const stopAt of triedSteps) {
      const before = await seen();
      await world.run({
        upserts: [
          ['1', `Bob ${stopAt}`],
          [`n${stopAt}`, 'Zoe'],
        ],
        deletes: [`n${stopAt - 1}`],
      });
      const sink = seqsOf(await world.rows());
      const { wrap } = stopStore(stopAt);
      const stopped = await world
        .publish({ isSnapshotAsked: true }, world.target('jsonl', wrap))
        .then(({ kind }) => kind, stepOf);
      expect(stopped).toBe(steps[stopAt - 1]);
      const now = await seen();
      expect({ stopAt, ...now }).toEqual({
        stopAt,
        ...(now.publication === before.publication
          ? before
          : { publication: before.publication + 1, rows: sink }),
      });
      await world.publish();
      expect((await seen()).rows).toEqual(sink);
    }
    await pruneAll();
    await seen();
  });

  // Proves promise 20
  it('by kill -9 at any moment leaves readers the rows of its last publication', async () => {
    const random = seededRandom(startSeed());
    const kills = repeats('KILLS', { share: 1, full: 300 });
    // Every state that the sink was in when a publication may have read it, by its newest number.
    const states = new Map<number, object>();
    await world.run(begun);
    let next = startPublisher();
    for (let kill = 0; kill < kills;) {
      const child = await next;
      // Starting takes longest.
      if (kill + 1 < kills) next = startPublisher();
      // It publishes several times before it is killed.
      for (let isAlive = true; isAlive;) {
        const name = `Name ${random()}`;
        const size = 1 + Math.floor(random() * 300);
        const upserts = Array.from({ length: size }, (_, index) => [String(index), name] as const);
        await world.run({ upserts, deletes: [String(size)] });
        const rows = seqsOf(await world.rows());
        states.set(Math.max(...Object.values(rows).flatMap((one) => Object.values(one))), rows);
        isAlive = random() < 0.3;
        const answer = once(child, isAlive ? 'message' : 'exit');
        child.send({ snapshot: random() < 0.2 });
        if (isAlive) {
          expect((await answer)[0]).toBe('published');
          continue;
        }
        await new Promise((resolve) => void setTimeout(resolve, random() * 60));
        child.kill('SIGKILL');
        await answer;
        kill += 1;
      }
      const { publication, rows } = await seen();
      if (publication > 0) {
        const newest = Math.max(
          ...Object.values(rows).flatMap((one: object) => Object.values(one) as number[]),
        );
        expect(rows).toEqual(states.get(newest));
      }
      if (kill % 10 === 0) await pruneOld();
    }
    await world.publish();
    expect((await seen()).rows).toEqual(seqsOf(await world.rows()));
    await pruneAll();
    await seen();
  }, 1_800_000);
});
