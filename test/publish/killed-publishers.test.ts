import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { lutimesSync, readdirSync, utimesSync, existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import { openTarget } from '../../src/publish/open-target.ts';
import type { Target } from '../../src/publish/target.ts';
import type { PublishPlace, PublishSettings } from '../../src/settings/settings.ts';
import { testProgram } from '../support/ensure-built.ts';
import { askPostgres, startPostgres, type PrivatePostgres } from '../support/postgres.ts';
import {
  allNamed,
  openPublishWorld,
  type Change,
  type PublishWorld,
} from '../support/publish/publish-world.ts';
import { askDuckdbFile } from '../support/publish/read-tables.ts';
import { untilEnd } from '../support/publish/stored-model.ts';
import type { Publishing } from './publisher-process.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { isLong, repeats, startSeed, hasMoreKills } from '../support/trials.ts';
import type { ObjectStore } from '../../src/publish/target.ts';

/** What a step that is never finished throws; everything after it throws it too, as after a death nothing runs. */
class StoppedError extends Error {
  override readonly name = 'StoppedError';
}

/** Counts every call that a target makes of its store, before and after the call, and calls `stop` at step `stopAt`. */
function stopStore(
  stopAt: number,
  stop: (step: string) => never = (step) => {
    throw new StoppedError(step);
  },
): { readonly wrap: (store: ObjectStore) => ObjectStore; readonly steps: () => number } {
  let steps = 0;
  const step = (name: string): void => {
    steps += 1;
    if (steps >= stopAt) stop(`step ${steps}, ${name}`);
  };
  const around = async <Result>(name: string, call: () => Promise<Result>): Promise<Result> => {
    step(`before ${name}`);
    const result = await call();
    step(`after ${name}`);
    return result;
  };
  return {
    steps: () => steps,
    wrap: (store) => ({
      maxFileBytes: store.maxFileBytes,
      list: (prefix, after) => store.list(prefix, after),
      sizes: (names) => store.sizes(names),
      read: (name) => store.read(name),
      stream: (name) => store.stream(name),
      stage: (name) => around(`stage ${name}`, () => store.stage(name)),
      put: (name, staged, facts) => around(`put ${name}`, () => store.put(name, staged, facts)),
      create: (name, text) => around(`create ${name}`, () => store.create(name, text)),
      replace: (name, text) => around(`replace ${name}`, () => store.replace(name, text)),
      remove: (names) => around(`remove ${names.join(' ')}`, () => store.remove(names)),
      leftovers: () => around('leftovers', () => store.leftovers()),
      [Symbol.asyncDispose]: () => store[Symbol.asyncDispose](),
    }),
  };
}

const program = testProgram('publish/publisher-process.mjs');
const dayMs = 24 * 3_600_000;

let world: PublishWorld;
const children: ChildProcess[] = [];

beforeEach(() => {
  world = openPublishWorld();
  // Ages of files are those of this machine.
  world.clock.advance(Date.now() - world.clock.now());
});

afterEach(async () => {
  for (const child of children.splice(0)) child.kill('SIGKILL');
  await world[Symbol.asyncDispose]();
});

/** A process that publishes, once it is ready. */
async function startPublisher(place = world.lake): Promise<ChildProcess> {
  const sink = world.sink.type === 'sqlite' ? world.sink.path : '';
  const child = fork(program, [sink, place], { execArgv: [] });
  children.push(child);
  await once(child, 'message');
  return child;
}

describe('a publisher that dies', () => {
  const begun: Change = { upserts: allNamed(5, 'Ada') };

  /** What the newest publication's reader has, and its number; what is in the folder is whole. */
  async function seen(): Promise<{ readonly publication: number; readonly rows: object }> {
    expect(await world.problems()).toEqual([]);
    return world.seen();
  }

  /** As if a day had passed since killed publishers left their files. */
  async function pruneAll(): Promise<void> {
    for (const name of world.unnamed()) {
      const long = (Date.now() - 2 * dayMs) / 1_000;
      lutimesSync(join(world.lake, name), long, long);
    }
    await using target = world.target();
    await target.prune(null, false);
    expect(world.unnamed()).toEqual([]);
  }

  /** Leaves what a reader of the newest publication needs. */
  async function pruneOld(): Promise<void> {
    await using target = world.target();
    await target.prune(Date.now(), false);
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

  // Proves promise 20
  it('at any step leaves the publication before or the whole next one, and another publisher continues', async () => {
    await world.run(begun);
    await world.publish();
    for (const stopAt of triedSteps) {
      const before = await seen();
      await world.run({
        upserts: { 1: `Bob ${stopAt}`, [`n${stopAt}`]: 'Zoe' },
        deletes: [`n${stopAt - 1}`],
      });
      const sink = await world.stored();
      const { wrap } = stopStore(stopAt);
      const stopped = await world
        .publish({ isSnapshotAsked: true }, world.target(wrap))
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

  // Proves promise 20.6
  it('while it tells how fresh a publication is leaves the time of before or the new one', async () => {
    await world.run(begun);
    await world.publish();
    await world.run(begun);
    const { wrap, steps: taken } = stopStore(Infinity);
    const newest = async () => await world.target(wrap).newest();
    const before = await newest();
    for (const stopAt of [1, 2]) {
      await expect(world.publish({}, world.target(stopStore(stopAt).wrap))).rejects.toThrow(
        'replace _latest',
      );
      expect((await newest())?.checkedAt === before?.checkedAt).toBe(stopAt === 1);
      expect(await seen()).toMatchObject({ publication: 1 });
    }
    expect(await world.publish()).toMatchObject({ kind: 'unchanged' });
    expect([taken(), (await seen()).rows]).toEqual([0, await world.stored()]);
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
        await world.run({ upserts: allNamed(size, name), deletes: [String(size)] });
        const rows = await world.stored();
        states.set(Math.max(...Object.values(rows).flatMap((one) => Object.values(one))), rows);
        isAlive = random() < 0.3;
        const answer = once(child, isAlive ? 'message' : 'exit');
        child.send({ isSnapshotAsked: random() < 0.2 });
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
    expect((await seen()).rows).toEqual(await world.stored());
    await pruneAll();
    await seen();
  }, 1_800_000);
});

describe('killed table publishers', () => {
  type TablePlace = Extract<PublishPlace, { readonly type: 'postgres' | 'duckdb' }>;

  /** The number of the newest publication, and the members that a reader finds in the same state. */
  interface Seen {
    readonly publication: number;
    readonly members: readonly string[];
  }

  const seenSql = (publications: string, members: string): string =>
    `SELECT (SELECT max(number) FROM ${publications}) AS publication, id || ' ' || name || ' ' || _seq AS member FROM ${members} WHERE NOT _deleted`;

  function seenOf(rows: readonly Readonly<Record<string, unknown>>[]): Seen {
    return {
      publication: Number(rows[0]?.['publication'] ?? 0),
      members: rows.map(({ member }) => String(member)).toSorted(),
    };
  }

  let server: PrivatePostgres | null = null;

  afterEach(async () => {
    await server?.stop();
    server = null;
  });

  const kinds = {
    postgres: {
      place: async (): Promise<TablePlace> => {
        server = await startPostgres();
        return { type: 'postgres', connection: server.connection, schema: 'mart', deletes: 'mark' };
      },
      see: async (): Promise<Seen> =>
        seenOf(await askPostgres(server?.url ?? '', seenSql('mart._publications', 'mart.news__members'))),
    },
    duckdb: {
      place: async (): Promise<TablePlace> => ({ type: 'duckdb', path: join(world.folder, 'desk.duckdb') }),
      see: async (): Promise<Seen> =>
        seenOf(
          await askDuckdbFile(join(world.folder, 'desk.duckdb'), seenSql('_publications', 'news.members')),
        ),
    },
  };

  async function opened(place: TablePlace): Promise<Target> {
    const settings = { ...place, name: 'desk', keepMs: null } as PublishSettings;
    return await openTarget(settings, { clock: systemClock, signal: untilEnd });
  }

  async function inSink(): Promise<readonly string[]> {
    const rows = [...((await world.rows()).get('members')?.values() ?? [])];
    return rows
      .filter(({ isDeleted }) => !isDeleted)
      .map(({ values, seq }) => `${String(values[1])} ${String(values[2])} ${seq}`)
      .toSorted();
  }

  describe.runIf(hasMoreKills).each(['postgres', 'duckdb'] as const)(
    'a publisher into %s that dies',
    (type) => {
      const { place: makePlace, see } = kinds[type];
      // Before and after the opening, two entities, and the commit.
      const steps = [1, 2, 3, 4, 5, 6, 7, 8];

      // Proves promise 20.5
      it('at any step leaves the publication before or the whole next one, and another publisher continues', async () => {
        const place = await makePlace();
        await world.run({ upserts: { 1: 'Ada' } });
        await world.publish({}, await opened(place));
        for (const stopAt of steps) {
          const before = await see();
          await world.run({
            upserts: { 1: `Bob ${stopAt}`, [`n${stopAt}`]: 'Zoe' },
            deletes: [`n${stopAt - 1}`].filter((id) =>
              before.members.some((one) => one.startsWith(`${id} `)),
            ),
          });
          const child = await startPublisher(JSON.stringify(place));
          const gone = once(child, 'exit');
          child.send({ stopAt, isNewGenerationAsked: stopAt % 2 === 0 } satisfies Publishing);
          expect(await gone).toEqual([null, 'SIGKILL']);
          const now = await see();
          const next = { publication: before.publication + 1, members: await inSink() };
          expect({ stopAt, ...now }).toEqual({
            stopAt,
            ...(now.publication === before.publication ? before : next),
          });
          expect(now.publication === before.publication + 1).toBe(stopAt === 8);
          await world.publish({}, await opened(place));
          expect((await see()).members).toEqual(await inSink());
        }
        await expectNothingLeft(place);
      }, 300_000);
    },
  );

  /** As if a day had passed since killed publishers left their files. */
  async function expectNothingLeft(place: TablePlace): Promise<void> {
    await using target = await opened(place);
    if (place.type === 'duckdb') {
      const long = (Date.now() - 2 * dayMs) / 1_000;
      for (const name of readdirSync(world.folder).filter((one) => one.includes('.new-'))) {
        utimesSync(join(world.folder, name), long, long);
      }
    }
    await target.prune(null, false);
    expect(readdirSync(world.folder).filter((name) => name.includes('.new-'))).toEqual([]);
    expect((await target.check(untilEnd)).problems).toEqual([]);
  }
});

describe('two publishers', () => {
  /** Publishes once, and says how it ended. In `npm test` two targets of this process stand for two processes. */
  type Publisher = () => Promise<string>;

  async function twoPublishers(): Promise<readonly Publisher[]> {
    if (!isLong) {
      const publish = async (): Promise<string> => (await world.publish()).kind;
      return [publish, publish];
    }
    const started = await Promise.all([startPublisher(), startPublisher()]);
    return started.map((child) => async () => {
      const answer = once(child, 'message');
      child.send({ isSnapshotAsked: false });
      return String((await answer)[0]);
    });
  }

  async function changeSomething(random: () => number): Promise<void> {
    const name = `Name ${random()}`;
    const some = Array.from({ length: 1 + Math.floor(random() * 20) }, () =>
      String(Math.floor(random() * 40)),
    );
    const deletes = [String(Math.floor(random() * 40))];
    await world.run({ upserts: Object.fromEntries(some.map((id) => [id, name])), deletes });
  }

  /** Every change in the files, by entity, in the order of the publications; each is where its manifest says. */
  function publishedSeqs(): ReadonlyMap<string, readonly number[]> {
    const seqs = new Map<string, number[]>();
    for (const { entities } of world.manifests()) {
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
    const manifests = world.manifests();
    const publications = manifests.map(({ publication }) => publication);
    expect(publications).toEqual(publications.map((_, index) => index + 1));
    expect(ends.filter((end) => end === 'published')).toHaveLength(manifests.length);
    expect(ends.every((end) => end === 'published' || end === 'unchanged')).toBe(true);
    expect(await world.problems()).toEqual([]);
    expect(world.unnamed()).toEqual([]);
    expect(world.seen()).toEqual({ publication: manifests.length, rows: await world.stored() });
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
    await world.run({ upserts: { 1: 'Ada', 2: 'Bob' } });
    const before = await world.stored();
    let writing = Promise.resolve();
    await world.publish({
      onProgress: ({ entity }) => {
        if (entity === 'members') writing = world.run({ upserts: { 3: 'Cy' }, deletes: ['1'] });
      },
    });
    await writing;
    expect(world.seen()).toEqual({ publication: 1, rows: before });
    await world.publish();
    expect(world.seen()).toEqual({ publication: 2, rows: await world.stored() });
  });
});
