import type { Defect } from './defect.ts';
import { cliDefects } from './defects/cli.ts';
import { engineDefects } from './defects/engine.ts';
import { jobDefects } from './defects/jobs.ts';
import { publishDefects } from './defects/publish.ts';
import { searchDefects } from './defects/search.ts';
import { sinkDefects } from './defects/sinks.ts';

/** Mistakes that a restructuring could make, each found by a test: `plant.ts` plants them one by one. */
export const defects: readonly Defect[] = [
  ...sinkDefects,
  ...engineDefects,
  ...publishDefects,
  ...cliDefects,
  ...searchDefects,
  ...jobDefects,
];
