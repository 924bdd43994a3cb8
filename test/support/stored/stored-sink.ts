import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { RunId } from '../../../src/core/names.ts';
import { news, start, type Bench } from '../../contracts/sink/fixture.ts';
import { History } from '../histories/history.ts';
import type { SavedHistory, World } from '../histories/world.ts';
import { seededRandom } from '../seeded-random.ts';
import { deleteRest } from './half-deleted.ts';
import { odd, oddRecords, walkMembers, workByHand } from './hand-work.ts';
import { syncSamples, syncSamplesAgain, type Written } from './sample-work.ts';
import { seenState } from './seen-state.ts';

/** What is needed to continue with a stored sink. */
export interface SavedWork {
  readonly seed: number;
  readonly nowMs: number;
  readonly samplesMs: number;
  readonly history: {
    readonly lists: [string, { version: number; isHidden: boolean }][];
    readonly members: [string, { list: string; version: number; opens: number }][];
    readonly blocks: [string, { list: string; parent: string | null; version: number }][];
    readonly runs: number;
    readonly finished: readonly string[];
  };
}

/** What comes of continuing. */
export interface GoneOn {
  /** By sync. */
  readonly samples: Readonly<Record<string, Written>>;
  readonly odd: { readonly fetched: number; readonly written: number };
  /** Rows of deletes that were under way, by entity. */
  readonly deleted: readonly (readonly [string, number])[];
  /** As readers see `news`, after some more runs of its history. */
  readonly news: unknown;
}

const leastRuns = 14;
const mostRuns = 60;
const moreRuns = 4;

/** Fills a new sink with something of everything. Its last run of `news` was killed; `check` looks at the sink then. */
export async function fillSink(bench: Bench, seed: number, check: () => Promise<void>): Promise<SavedWork> {
  const { clock, folder } = bench;
  const options = bench.kind.options(folder);
  mkdirSync(join(folder, 'sink'), { recursive: true, mode: 0o700 });
  mkdirSync(join(folder, 'files'), { recursive: true, mode: 0o700 });
  const history = await History.begin(seededRandom(seed), [bench]);
  for (let run = 0; run < mostRuns; run += 1) {
    await history.run();
    if (run >= leastRuns && (await isKilled(bench))) break;
  }
  await history.release();
  await check();
  const { world, runs, finished } = history.saved();
  const sink = await bench.open();
  await workByHand(bench, sink);
  await bench.closeSinks();
  const samplesMs = await syncSamples(options, folder, start);
  return {
    seed,
    nowMs: clock.now(),
    samplesMs,
    history: {
      lists: [...world.lists],
      members: [...world.members],
      blocks: [...world.blocks],
      runs,
      finished,
    },
  };
}

async function isKilled(bench: Bench): Promise<boolean> {
  await using history = await bench.openHistory();
  const [newest] = await history.runs({ connector: news, limit: 1 });
  return newest?.report === null && newest.kind === 'sync';
}

/** The next runs of everything in a sink that was filled, by the program as it is now. */
export async function goOn(bench: Bench, saved: SavedWork): Promise<GoneOn> {
  const { clock, folder } = bench;
  clock.advance(saved.nowMs - clock.now());
  const sink = await bench.open();
  const { fetched, inserted, updated } = await walkMembers(bench, sink, {
    connector: odd,
    run: 'odd-2',
    records: oddRecords(60),
  });
  const deleted = await deleteRest(bench, sink);
  const history = await History.resume(seededRandom(saved.seed + 1), [bench], savedHistory(saved));
  for (let run = 0; run < moreRuns; run += 1) await history.run();
  await history.release();
  await bench.closeSinks();
  const options = bench.kind.options(folder);
  const samples = await syncSamplesAgain(options, folder, saved.samplesMs);
  return {
    samples,
    odd: { fetched, written: inserted + updated },
    deleted,
    news: newsOf(await seenState(options)),
  };
}

/** Without ids of tables: a reset makes random ones. */
function newsOf(state: unknown): unknown {
  const { connectors } = state as { readonly connectors: readonly { readonly connector: string }[] };
  const found = connectors.find(({ connector }) => connector === news);
  return JSON.parse(
    JSON.stringify(found, (name, value: unknown) => (name === 'tableId' ? undefined : value)),
  );
}

function savedHistory(saved: SavedWork): SavedHistory {
  // Continuing changes the world.
  const history = structuredClone(saved.history);
  const world: World = {
    lists: new Map(history.lists),
    members: new Map(history.members),
    blocks: new Map(history.blocks),
  };
  return { world, runs: history.runs, finished: history.finished as readonly RunId[] };
}
