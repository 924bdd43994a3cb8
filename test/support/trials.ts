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
 * The first seed of a test's random choices: fixed in `npm test`, so that it means the same everywhere; from the clock in
 * `npm run test:long`, which prints it with a failure. `SEED=7` in the environment repeats a run.
 */
export function startSeed(fixed = 1): number {
  return Number(process.env['SEED'] ?? (isLong ? Date.now() % 1_000_000 : fixed));
}
