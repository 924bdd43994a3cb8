import { setTimeout as pause } from 'node:timers/promises';
import { seededRandom } from '../support/seeded-random.ts';
import { compareSinks, type Compared } from './compare-sinks.ts';
import { faults, type Fault, type FaultContext } from './faults.ts';
import { findOverlaps, slotDelays } from './run-spans.ts';
import { openSoakWorld } from './soak-world.ts';
import { startCrew, type UnexpectedExit } from './worker-crew.ts';

export interface SoakOptions {
  readonly durationMs: number;
  /** Determines the random choices: which fault, when, on which worker, for how long. */
  readonly seed: number;
  readonly connectors: number;
  readonly workers: number;
  readonly tell: (line: string) => void;
}

export interface SoakResult {
  readonly runsByOutcome: ReadonlyMap<string, number>;
  /** Sorted. */
  readonly slotDelaysMs: readonly number[];
  readonly faultsByName: ReadonlyMap<string, number>;
  /** Kinds of faults that this machine does not allow, and why. */
  readonly skipped: readonly string[];
  readonly callsRefused: number;
  readonly restarts: number;
  readonly unexpectedExits: readonly UnexpectedExit[];
  /** Output of workers that is not a log line. */
  readonly stray: readonly string[];
  readonly recoveryMs: number;
  /** Connectors without an `ok` run after the last fault. */
  readonly notRecovered: readonly string[];
  /** Exit codes or signals of the workers after SIGTERM. */
  readonly ends: readonly (number | string | null)[];
  readonly overlaps: readonly string[];
  readonly compared: Compared;
}

const recoverMostMs = 120_000;

/**
 * Runs workers under faults, then without faults until every connector has run, then compares what they have stored.
 */
export async function runSoak(options: SoakOptions): Promise<SoakResult> {
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
  const compared = await compareSinks(world);
  return {
    runsByOutcome,
    slotDelaysMs: slotDelays(crew.all),
    faultsByName,
    skipped: faults.flatMap(({ name, unavailable }) => {
      const why = unavailable(world);
      return why === null ? [] : [`${name}: ${why}`];
    }),
    callsRefused: world.api.refused(),
    restarts: crew.restarts(),
    unexpectedExits: crew.unexpectedExits,
    stray: crew.stray(),
    recoveryMs,
    notRecovered,
    ends,
    overlaps,
    compared,
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
