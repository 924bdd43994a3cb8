import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    pool: 'forks',
    globalSetup: ['test/support/ensure-built.ts', 'test/support/ensure-redis-server.ts'],
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // Many tests wait for processes and clocks: three use what two cores have.
    maxWorkers: 3,
  },
});
