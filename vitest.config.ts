import { readFileSync } from 'node:fs';
import path from 'node:path';
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';
import { longFiles, nameIn, reportTimes } from './test/support/times.ts';

/** Replace modules, so each needs its own module graph. */
const withMocks = ['test/sinks/{jsonl/durability,shared-sinks}.test.ts'];

const isLong = process.env['TEST_LONG'] === '1';

/** Runs of the engine into a single sink, once more with PostgreSQL as that sink. */
const onPostgres = ['test/e2e/{hostile-service,walks}.test.ts'];

/** `npm run test:times`. */
const isTimed = process.env['TEST_TIMES'] === '1';

/**
 * Long files begin first, the longest of all foremost, so that the last worker to end has a short one. Before them come
 * the files that need a module graph of their own: vitest keeps a worker with its modules only where the next file in
 * the queue may share them.
 */
class LongFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const long = JSON.parse(readFileSync(longFiles, 'utf8')) as readonly string[];
    const ranks = new Map(long.map((name, index) => [name, index]));
    const rankOf = ({ moduleId, project: { name, config } }: TestSpecification): number => {
      const file = path.relative(import.meta.dirname, moduleId);
      const rank = ranks.get(nameIn(name, file)) ?? long.length;
      return config.isolate ? rank - 2 * long.length : rank;
    };
    return (await super.sort(files)).sort((one, other) => rankOf(one) - rankOf(other));
  }
}

const shared = {
  pool: 'forks',
  testTimeout: 60_000,
  hookTimeout: 60_000,
  unstubEnvs: true,
  // Twice the usual space for new objects: a twentieth of the processor time less for collecting garbage.
  execArgv: ['--max-semi-space-size=32'] as string[],
  // Hosted machines stall for seconds at times. The report marks a test that passed at its second try.
  retry: process.env['CI'] === undefined ? 0 : 1,
} as const;

/** What only `npm run test:long` repeats: the project translates and loads all modules anew. */
const repeated = {
  test: {
    ...shared,
    name: 'on PostgreSQL',
    include: onPostgres,
    setupFiles: ['test/support/on-postgres.ts'],
  },
};

export default defineConfig({
  test: {
    reporters: isTimed ? ['default', reportTimes()] : ['default'],
    globalSetup: [
      'test/support/folder-in-memory.ts',
      'test/support/trials.ts',
      'test/support/ensure-built.ts',
      'test/support/ensure-servers.ts',
    ],
    // Many tests wait for processes and clocks: five use what two cores have.
    maxWorkers: 5,
    sequence: { sequencer: LongFirst },
    projects: [
      // Loading the modules anew for each file takes longer than most files' tests.
      {
        test: { ...shared, name: 'all', include: ['test/**/*.test.ts'], exclude: withMocks, isolate: false },
      },
      { test: { ...shared, name: 'mocks', include: withMocks } },
      ...(isLong ? [repeated] : []),
    ],
  },
});
