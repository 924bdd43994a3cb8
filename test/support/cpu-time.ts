import { existsSync, readFileSync } from 'node:fs';
import { afterAll, beforeEach } from 'vitest';

/*
 * Set-up of `npm run test:times`, once for each test file: how much processor time the file and each of its tests took,
 * in the test's process and in the processes that it started and saw end.
 */

declare module 'vitest' {
  interface TaskMeta {
    cpuMs?: number;
  }
}

/** Before the test file is loaded. */
const cpuMsBefore = cpuMs();

// oxlint-disable-next-line no-empty-pattern -- vitest reads from the pattern which fixtures this one needs.
afterAll(({}, suite) => {
  suite.file.meta.cpuMs = cpuMs() - cpuMsBefore;
});

beforeEach(({ task }) => {
  const cpuMsBeforeTest = cpuMs();
  return () => {
    task.meta.cpuMs = cpuMs() - cpuMsBeforeTest;
  };
});

/** Linux counts in ticks of 10 ms; elsewhere processes that were started are left out. */
function cpuMs(): number {
  const { user, system } = process.cpuUsage();
  const stat = existsSync('/proc/self/stat') ? readFileSync('/proc/self/stat', 'utf8') : '';
  const fields = stat.split(') ')[1]?.split(' ') ?? [];
  const childrenMs = (Number(fields[13] ?? 0) + Number(fields[14] ?? 0)) * 10;
  return (user + system) / 1000 + childrenMs;
}
