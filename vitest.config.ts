import { defineConfig } from 'vitest/config';

/** Replace modules of Node.js or of ours, so each needs a module graph of its own. */
const withMocks = ['test/sinks/jsonl/durability.test.ts', 'test/service/revised-million.test.ts'];

const shared = {
  pool: 'forks',
  testTimeout: 60_000,
  hookTimeout: 60_000,
  unstubEnvs: true,
} as const;

export default defineConfig({
  test: {
    globalSetup: [
      'test/support/trials.ts',
      'test/support/ensure-built.ts',
      'test/support/ensure-redis-server.ts',
    ],
    // Many tests wait for processes and clocks: four use what two cores have.
    maxWorkers: 4,
    projects: [
      // Loading the modules anew for each file takes longer than most files' tests.
      {
        test: { ...shared, name: 'all', include: ['test/**/*.test.ts'], exclude: withMocks, isolate: false },
      },
      { test: { ...shared, name: 'mocks', include: withMocks } },
    ],
  },
});
