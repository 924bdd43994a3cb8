import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    pool: 'forks',
    globalSetup: ['test/support/ensure-redis-server.ts'],
    testTimeout: 30_000,
    hookTimeout: 30_000,
    // Many tests wait for processes and clocks: three use what two cores have.
    maxWorkers: 3,
  },
});
