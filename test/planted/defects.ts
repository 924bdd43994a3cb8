import { cliDefects } from './defects/cli.ts';
import { engineDefects } from './defects/engine.ts';
import { jobDefects } from './defects/jobs.ts';
import { publishDefects } from './defects/publish.ts';
import { searchDefects } from './defects/search.ts';
import { sinkDefects } from './defects/sinks.ts';
import type { Defect } from './planting.ts';

const defectsByRoom: Readonly<Record<string, readonly Defect[]>> = {
  sinks: sinkDefects,
  engine: engineDefects,
  publish: publishDefects,
  cli: cliDefects,
  search: searchDefects,
  jobs: jobDefects,
};

/** Mistakes that a restructuring could make, each found by a test: `plant.ts` plants them one by one. */
export const defects = Object.entries(defectsByRoom).flatMap(([room, all]) =>
  all.map((one) => ({ ...one, room })),
);
