/** Whether `npm run test:long` runs. */
export const isLong = process.env['TEST_LONG'] === '1';

/**
 * How often a test repeats what it tries: a share in `npm test`, the full number in `npm run test:long`. `KILLS=50`,
 * `TRIALS=50` or `RUNS=50` in the environment sets another number.
 */
export function repeats(
  variable: 'KILLS' | 'TRIALS' | 'RUNS',
  { share, full }: { share: number; full: number },
): number {
  return Number(process.env[variable] ?? (isLong ? full : share));
}

/**
 * Whether suites of kills run that repeat what a crash at every step and kills at random show, for a single feature: in
 * `npm run test:long`, and where `KILLS` is set.
 */
export const hasMoreKills = isLong || process.env['KILLS'] !== undefined;

/**
 * Kinds of sinks that whole commands and guards are tried over. The contract of sinks has what is different between
 * them, so `npm test` has time for one: `npm run test:long` tries all.
 */
export const triedSinks = (['sqlite', 'jsonl', 'postgres'] as const).filter(
  (kind) => isLong || kind === 'sqlite',
);

/**
 * The first seed of a test's random choices: fixed, unless the environment has a `SEED`. `npm run test:long` makes one
 * up.
 */
export function startSeed(fixed = 1): number {
  return Number(process.env['SEED'] ?? fixed);
}

/** Runs before all test files: one seed for all of them, printed before anything can fail. */
export function setup(): void {
  if (isLong) process.env['SEED'] ??= String(Date.now() % 1_000_000);
  const seed = process.env['SEED'];
  console.log(seed === undefined ? 'fixed seeds' : `SEED=${seed} repeats the random choices of this run`);
}
