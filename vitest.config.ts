import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    pool: 'forks',
    globalSetup: ['test/support/ensure-redis-server.ts'],
    testTimeout: 30_000,
    hookTimeout: 30_000,
    // One more than the cores of the smallest machine: much of the time goes into waiting for locks, schedules and outages.
    maxWorkers: 3,
  },
});
