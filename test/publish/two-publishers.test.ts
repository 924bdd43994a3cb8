import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { testProgram } from '../support/ensure-built.ts';
import { openPublishWorld, type PublishWorld } from '../support/publish/publish-world.ts';
import { lakeManifests, readLake, seqsOf, unnamedFiles } from '../support/publish/read-lake.ts';
import { duckdb, literal } from '../support/publish/duckdb.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { isLong, repeats, startSeed } from '../support/trials.ts';

const program = testProgram('support/publish/publisher-process.mjs');

let world: PublishWorld;
const children: ChildProcess[] = [];

beforeEach(() => {
  world = openPublishWorld();
});

afterEach(async () => {
  for (const child of children.splice(0)) child.kill('SIGKILL');
  await world[Symbol.asyncDispose]();
});

/** Publishes once, and says how it ended. In `npm test` two targets of this process stand for two processes. */
type Publisher = () => Promise<string>;

async function twoPublishers(): Promise<readonly Publisher[]> {
  if (!isLong) {
    const publish = async (): Promise<string> => (await world.publish()).kind;
    return [publish, publish];
  }
  const path = world.sink.type === 'sqlite' ? world.sink.path : '';
  const started = [0, 1].map(() => fork(program, [path, world.lake], { execArgv: [] }));
  children.push(...started);
  await Promise.all(started.map((child) => once(child, 'message')));
  return started.map((child) => async () => {
    const answer = once(child, 'message');
    child.send({ snapshot: false });
    return String((await answer)[0]);
  });
}

async function changeSomething(random: () => number): Promise<void> {
  const name = `Name ${random()}`;
  const some = Array.from({ length: 1 + Math.floor(random() * 20) }, () => String(Math.floor(random() * 40)));
  const deletes = [String(Math.floor(random() * 40))];
  await world.run({ upserts: [...new Set(some)].map((id) => [id, name]), deletes });
}

/** Every change in the files, by entity, in the order of the publications; each is where its manifest says. */
function publishedSeqs(): ReadonlyMap<string, readonly number[]> {
  const seqs = new Map<string, number[]>();
  for (const { entities } of lakeManifests(world.lake)) {
    for (const { entity, files, after, through } of entities) {
      const lines = files.flatMap(({ path }) =>
        readFileSync(join(world.lake, path), 'utf8').trim().split('\n'),
      );
      const found = lines.map((line) => (JSON.parse(line) as { _seq: number })._seq);
      expect(found.every((seq) => seq > after && seq <= through)).toBe(true);
      seqs.set(entity, [...(seqs.get(entity) ?? []), ...found]);
    }
  }
  return seqs;
}

// Proves promise 20
it('two publishers at once leave no gap in the numbers, and every change in exactly one publication', async () => {
  const random = seededRandom(startSeed());
  const rounds = repeats('TRIALS', { share: 10, full: 200 });
  const ends: string[] = [];
  await changeSomething(random);
  const publishers = await twoPublishers();
  for (let round = 0; round < rounds; round += 1) {
    const publishing = Promise.all(publishers.map((publish) => publish()));
    // In every second round, while they publish.
    if (round % 2 === 0) await changeSomething(random);
    ends.push(...(await publishing));
    if (round % 2 === 1) await changeSomething(random);
  }
  ends.push((await world.publish()).kind);
  const manifests = lakeManifests(world.lake);
  const publications = manifests.map(({ publication }) => publication);
  expect(publications).toEqual(publications.map((_, index) => index + 1));
  expect(ends.filter((end) => end === 'published')).toHaveLength(manifests.length);
  expect(ends.every((end) => end === 'published' || end === 'unchanged')).toBe(true);
  await using target = world.target();
  expect((await target.check(new AbortController().signal)).problems).toEqual([]);
  expect(unnamedFiles(world.lake)).toEqual([]);
  expect(seqsOf(readLake(world.lake, manifests, manifests.length))).toEqual(seqsOf(await world.rows()));
  for (const seqs of publishedSeqs().values()) {
    // Rising: none comes twice.
    expect(seqs).toEqual([...new Set(seqs)].toSorted((left, right) => left - right));
  }
}, 600_000);

// Proves promise 20
it('a reader of all files, whatever the manifests say, never meets a torn one', async () => {
  const random = seededRandom(startSeed());
  const rounds = repeats('TRIALS', { share: 3, full: 200 });
  // Files never change: each is read when it is first seen.
  const known = new Set<string>();
  let reads = 0;
  const readAll = (): void => {
    const names = existsSync(world.lake)
      ? readdirSync(world.lake, { recursive: true, encoding: 'utf8' })
      : [];
    for (const name of names) {
      if (!/(?:^|\/)[^./][^/]*\.jsonl?$/.test(name) || known.has(name)) continue;
      const text = readFileSync(join(world.lake, name), 'utf8');
      expect(text.endsWith('\n')).toBe(true);
      for (const line of name.endsWith('l') ? text.trimEnd().split('\n') : [text]) JSON.parse(line);
      if (name !== '_latest.json') known.add(name);
    }
    reads += 1;
  };
  for (let round = 0; round < rounds; round += 1) {
    await changeSomething(random);
    await whileLooking(world.publish({ isSnapshotAsked: round % 3 === 0 }), readAll);
  }
  expect(reads).toBeGreaterThan(10 * rounds);
}, 600_000);

// Proves promise 20
it.skipIf(!isLong)(
  'DuckDB that reads all Parquet files of a folder in a loop never fails, and finds the newest row of each key',
  async () => {
    const random = seededRandom(startSeed());
    const rounds = repeats('TRIALS', { share: 2, full: 200 });
    await using target = world.target('parquet');
    const files = literal(join(world.lake, 'news/members/**/*.parquet'));
    const newest = `SELECT id, _seq FROM read_parquet(${files}, union_by_name = true)
      QUALIFY row_number() OVER (PARTITION BY list_id, id ORDER BY _seq DESC) = 1 AND NOT _deleted`;
    const stored = async (): Promise<object> => {
      const rows = seqsOf(await world.rows())['members'] ?? {};
      return Object.fromEntries(Object.entries(rows).map(([key, seq]) => [JSON.parse(key)[1], seq]));
    };
    const states: object[] = [];
    let reads = 0;
    const done = new AbortController();
    let reading = Promise.resolve();
    const read = async (): Promise<object> =>
      Object.fromEntries((await duckdb(newest)).map((row) => [row['id'], Number(row['_seq'])]));
    for (let round = 0; round < rounds; round += 1) {
      await changeSomething(random);
      states.push(await stored());
      await world.publish({ isSnapshotAsked: round % 3 === 0 }, target);
      // Between two publications, and at any moment of one, the files of an entity have the one or the other state.
      expect(await read()).toEqual(states.at(-1));
      if (round > 0) continue;
      reading = (async () => {
        while (!done.signal.aborted) {
          // The newest state may be published while DuckDB reads, and was not when it began.
          const from = Math.max(0, states.length - 2);
          const found = await read();
          expect(states.slice(from)).toContainEqual(found);
          reads += 1;
        }
      })();
      // It is awaited below.
      reading.catch(() => undefined);
    }
    done.abort();
    await reading;
    expect(reads).toBeGreaterThan(rounds);
  },
  600_000,
);

/** Looks as often as the process comes to it. */
async function whileLooking<Result>(work: Promise<Result>, look: () => void): Promise<Result> {
  const done = new AbortController();
  const ended = work.finally(() => {
    done.abort();
  });
  while (!done.signal.aborted) {
    look();
    await setImmediate();
  }
  return await ended;
}

// Proves promise 20
it('a publication shows one state of the sink, also where another process writes while it is made', async () => {
  await world.run({
    upserts: [
      ['1', 'Ada'],
      ['2', 'Bob'],
    ],
  });
  const before = seqsOf(await world.rows());
  let writing = Promise.resolve();
  await world.publish({
    onProgress: ({ entity }) => {
      if (entity === 'members') writing = world.run({ upserts: [['3', 'Cy']], deletes: ['1'] });
    },
  });
  await writing;
  expect(seqsOf(readLake(world.lake, lakeManifests(world.lake), 1))).toEqual(before);
  await world.publish();
  expect(seqsOf(readLake(world.lake, lakeManifests(world.lake), 2))).toEqual(seqsOf(await world.rows()));
});
