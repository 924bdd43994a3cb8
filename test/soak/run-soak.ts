import { setTimeout as pause } from 'node:timers/promises';
import { seededRandom } from '../support/seeded-random.ts';
import { compareSinks } from './compare-sinks.ts';
import { faults, type Fault, type FaultContext } from './faults.ts';
import { findOverlaps } from './run-spans.ts';
import { openSoakWorld } from './soak-world.ts';
import { startCrew } from './worker-crew.ts';

export interface SoakOptions {
  readonly durationMs: number;
  /** Determines the random choices: which fault, when, on which worker, for how long. */
  readonly seed: number;
  readonly connectors: number;
  readonly workers: number;
  readonly tell: (line: string) => void;
}

const recoverMostMs = 120_000;

/**
 * Runs workers under faults, then without faults until every connector has run, then compares what they have stored.
 * Gives all that is wrong by its kind, and figures to print.
 */
export async function runSoak(options: SoakOptions) {
  const { seed, tell } = options;
  await using world = await openSoakWorld({ connectors: options.connectors, seed });
  await using crew = startCrew(world, options.workers);
  await Promise.all(
    crew.all.map(({ worker }) => worker.until(({ msg }) => msg === 'ready for scheduled runs')),
  );
  const faultsByName = await makeFaults({ world, crew, random: seededRandom(seed) }, options);

  const calmMs = Date.now();
  const names = world.connectors.map(({ connector }) => connector);
  tell(`no more faults; waiting until each of ${names.length} connectors has run`);
  const notRecovered = await crew.untilAllRan(names, new Date(calmMs).toISOString(), recoverMostMs);
  const recoveryMs = Date.now() - calmMs;
  const ends = await crew.stop();
  const { overlaps, runsByOutcome } = findOverlaps(crew.all, world.sinks);
  tell('comparing the rows of every sink');
  const { rows, ...wrongRows } = await compareSinks(world);
  const unavailable = faults.flatMap(({ name, unavailable: why }) => {
    const reason = why(world);
    return reason === null ? [] : [[`skipped: ${name}`, reason] as const];
  });
  const wrong: Readonly<Record<string, readonly unknown[]>> = {
    ...wrongRows,
    'overlapping runs': overlaps,
    'connectors without a run after the last fault': notRecovered,
    'workers that did not shut down cleanly': ends.filter((end) => end !== 0),
    'workers that exited unexpectedly while Redis was up': crew.unexpectedExits.filter(
      ({ isRedisDown }) => !isRedisDown,
    ),
    'output lines that are not log lines': crew.stray(),
    'soaks that stored no row': rows === 0 ? [seed] : [],
    'soaks without a run that was ok': runsByOutcome.has('ok') ? [] : [seed],
  };
  const figures: Readonly<Record<string, string | number>> = {
    seed,
    ...Object.fromEntries([...runsByOutcome].map(([outcome, runs]) => [`runs ${outcome}`, runs])),
    ...Object.fromEntries([...faultsByName, ...unavailable]),
    'calls that the API rejected': world.api.refused(),
    'workers restarted': crew.restarts(),
    'of them after an unexpected exit': crew.unexpectedExits.length,
    'ms from the last fault until all synced': recoveryMs,
    'rows compared': rows,
    ...Object.fromEntries(Object.entries(wrong).map(([what, all]) => [what, all.length])),
  };
  const made = [...faultsByName.values()].reduce((sum, count) => sum + count, 0);
  return {
    wrong: Object.entries(wrong).flatMap(([what, all]) => all.map((one) => ({ [what]: one }))),
    faults: made,
    figures,
  };
}

/** One fault at a time at random times, each kind as often as its share in every round. */
async function makeFaults(
  context: FaultContext,
  { durationMs, tell }: SoakOptions,
): Promise<ReadonlyMap<string, number>> {
  const { random, world } = context;
  const startMs = Date.now();
  const endMs = startMs + durationMs;
  const possible = faults.filter(({ unavailable }) => unavailable(world) === null);
  const counts = new Map<string, number>();
  let round: Fault[] = [];
  while (Date.now() < endMs) {
    await pause(random() * 2000);
    if (round.length === 0) {
      round = possible.flatMap((fault) => Array.from({ length: fault.share }, () => fault));
    }
    const [fault] = round.splice(Math.floor(random() * round.length), 1);
    if (fault === undefined || Date.now() >= endMs) break;
    tell(`${((Date.now() - startMs) / 1000).toFixed(1)} s: ${fault.name}`);
    await fault.happen(context);
    counts.set(fault.name, (counts.get(fault.name) ?? 0) + 1);
  }
  return counts;
}
