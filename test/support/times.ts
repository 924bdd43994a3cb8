import { writeFileSync } from 'node:fs';
import type { Reporter } from 'vitest/node';

/** Files that take less are in the sum alone. */
const leastShownMs = 1_000;
const leastLongMs = 6_000;
/** Fewer files are a part of the tests. */
const leastFiles = 100;

export const longFiles = 'test/long-files.json';

/** How `longFiles` names a file of a project: other projects than `all` repeat some files. */
export function nameIn(project: string, file: string): string {
  return project === 'all' ? file : `${file} (${project})`;
}

/**
 * Prints how long each test file takes (`npm run test:times`). After a run of all files it stores which of them take
 * long; these begin first (`vitest.config.ts`).
 */
export function reportTimes(): Reporter {
  return {
    onTestRunEnd: (modules) => {
      const files = modules
        .map((module) => {
          const { duration, collectDuration } = module.diagnostic();
          return {
            name: nameIn(module.project.name, module.relativeModuleId),
            ms: duration + collectDuration,
          };
        })
        .toSorted((left, right) => right.ms - left.ms);
      for (const { name, ms } of files) if (ms >= leastShownMs) console.log(`${seconds(ms)}  ${name}`);
      console.log(`${seconds(files.reduce((sum, { ms }) => sum + ms, 0))}  all ${files.length} files`);
      if (files.length < leastFiles) return;
      const long = files.filter(({ ms }) => ms >= leastLongMs).map(({ name }) => name);
      writeFileSync(longFiles, `${JSON.stringify(long, null, 2)}\n`);
    },
  };
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`.padStart(10);
}
