import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { commitsOf, toldBy, type Commits } from '../support/power-loss/commits.ts';
import { contentsAfter } from '../support/power-loss/disk.ts';
import { examine, type Examined } from '../support/power-loss/examine.ts';
import { whyNoRecorder } from '../support/power-loss/record-syncs.ts';
import type { Contents, Recording } from '../support/power-loss/recording.ts';
import {
  cleanRepair,
  openPowerLossWorld,
  sinkPaths,
  type PowerLossWorld,
  type SinkCase,
} from '../support/power-loss/world.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { isLong, repeats, startSeed } from '../support/trials.ts';

const trials = repeats('TRIALS', { share: 1, full: 300 });
const seed = startSeed();
const whyNot = whyNoRecorder();
if (whyNot !== null) console.log(`The loss of power is not tested: ${whyNot}.`);

const isThorough = isLong || process.env['TRIALS'] !== undefined;
const repairTrials = Math.ceil(trials / 3);

let world: PowerLossWorld;

beforeAll(async () => {
  if (whyNot === null) world = await openPowerLossWorld();
});

afterAll(async () => {
  if (whyNot === null) await world[Symbol.asyncDispose]();
});

const cases: readonly SinkCase[] = isThorough
  ? (['sqlite', 'jsonl'] as const).flatMap((type) =>
      (['full', 'normal'] as const).map((durability) => ({ type, durability })),
    )
  : // Its ledger is a SQLite file, beside which its lines are.
    [{ type: 'jsonl', durability: 'full' }];

/** The test of the test: a program that leaves these syncs out must be found out. */
const unsynced = {
  sqlite: [{ what: 'the database', isIgnored: (at: string) => at.startsWith('test.db') }],
  jsonl: [
    { what: 'the ledger', isIgnored: (at: string) => at.includes('_ledger.db') },
    { what: 'the lines', isIgnored: (at: string) => at.endsWith('.jsonl.part') },
    { what: 'the folders', isIgnored: (at: string) => !at.includes('.') },
  ],
};

describe.skipIf(whyNot !== null).each(cases)(
  'a loss of power during syncs into $type with durability $durability',
  (sink) => {
    let recording: Recording;
    let commits: Commits;

    /**
     * A first sync that stops midway, one that resumes it, a full one of a changed account, and one after a reset of an
     * entity.
     */
    beforeAll(async () => {
      recording = await world.record(sink, [
        { revision: 0, isFull: false, stopAt: 90 },
        { revision: 0, isFull: false, isSameSink: true },
        { revision: 1, isFull: true, isSameSink: true },
        { revision: 1, isFull: true, isSameSink: true, resets: 'list_members' },
      ]);
      commits = commitsOf(recording, sinkPaths[sink.type].ledger);
    });

    // Proves promise 1.5
    it(`leaves whole commits, with durability full all that were reported, and the next sync completes them (${trials} points, seed ${seed})`, async () => {
      await losePower({ sink, recording, commits, points: trials });
    }, 1_800_000);

    // Proves promise 1.5
    it(`does the same where power is lost again during the sync that completes it (${repairTrials} points, seed ${seed})`, async () => {
      const { contents, revision } = lossToRepair({ sink, recording, commits });
      const repairing = await world.record(sink, [{ revision, isFull: revision > 0 }], contents);
      const again = commitsOf(repairing, sinkPaths[sink.type].ledger);
      await losePower({ sink, recording: repairing, commits: again, points: repairTrials });
    }, 1_800_000);

    // Proves promise 1.5
    it.each(unsynced[sink.type])(
      'breaks these promises where the syncs of $what are left out',
      ({ isIgnored }) => {
        let faults: readonly string[] = [];
        for (let trial = 0; trial < 60 && faults.length === 0; trial += 1) {
          faults = lossAt({ sink, recording, commits }, trial, isIgnored).examined.faults;
        }
        expect(faults).not.toEqual([]);
      },
    );
  },
);

interface Losing {
  readonly sink: SinkCase;
  readonly recording: Recording;
  readonly commits: Commits;
}

/** Loses power at so many points, each time with other losses, and repairs what remains. */
async function losePower({ points, ...losing }: Losing & { readonly points: number }): Promise<void> {
  const { sink, recording } = losing;
  const seen: Examined[] = [];
  for (let trial = 0; trial < points; trial += 1) {
    const { count, contents, examined, revision } = lossAt(losing, trial);
    const where = { seed, trial, count };
    expect({ ...where, faults: examined.faults }).toEqual({ ...where, faults: [] });
    const repaired = await world.repair(sink, contents, revision);
    expect({ ...where, ...repaired }).toEqual({ ...where, ...cleanRepair });
    seen.push(examined);
  }
  const rolledBack = seen.map((one) => one.rolledBack);
  console.log(
    `${sink.type}, ${sink.durability}: 0 faults at ${points} points of ${recording.operations.length}; ` +
      `commits lost at ${rolledBack.filter((commits) => commits > 0).length} (at most ${Math.max(0, ...rolledBack)}) (seed ${seed})`,
  );
}

interface Lost {
  readonly count: number;
  readonly contents: Contents;
  readonly examined: Examined;
  /** Of the account that was being read. */
  readonly revision: number;
}

/** The first of the losses that leaves something to repair: a log of the ledger. */
function lossToRepair(losing: Losing): Lost {
  const { ledger } = sinkPaths[losing.sink.type];
  for (let trial = 0; trial < 1_000; trial += 1) {
    const lost = lossAt(losing, trial);
    const log = lost.contents.get(`${ledger}-wal`)?.length ?? 0;
    if (log > 0) return lost;
  }
  throw new Error('no loss leaves anything to repair');
}

function lossAt(
  { sink, recording, commits }: Losing,
  trial: number,
  ignoresSyncOf?: (path: string) => boolean,
): Lost {
  const random = seededRandom(seed * 1_000 + trial);
  const count = pointOf(recording, random);
  const contents = contentsAfter(recording, count, { random, ignoresSyncOf });
  const told = toldBy(recording, count);
  const isDurable = sink.durability === 'full';
  const examined = examine({ contents, ...sinkPaths[sink.type], isDurable, commits, count, told });
  return { count, contents, examined, revision: told.revision };
}

/** Half of the points beside a write, half beside what is rarer: a sync, a rename, a new file. */
function pointOf({ operations }: Recording, random: () => number): number {
  const isRare = random() < 0.5;
  const points = [...operations.entries()].filter(
    ([, { kind }]) => kind !== 'told' && (kind !== 'written') === isRare,
  );
  const [index] = points[Math.floor(random() * points.length)] ?? [0];
  return index + Math.floor(random() * 2);
}
