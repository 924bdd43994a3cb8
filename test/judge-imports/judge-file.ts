import { join } from 'node:path';
import { importFile } from './imported.ts';
import { readPublicFile } from './public-file.ts';
import { runTrial, type Trial } from './trial.ts';
import type { Vendor } from './vendor.ts';

export interface Judgement {
  /** Entities that pass every trial. */
  readonly equal: number;
  readonly converted: number;
  /** Every converted entity passes every trial. */
  readonly isPassed: boolean;
  readonly trials: readonly JudgedTrial[];
  /** What could not be judged. */
  readonly notes: readonly string[];
}

export interface JudgedTrial {
  readonly trial: Trial;
  readonly failed: readonly (readonly [string, string])[];
  /** Entities that the product calls complete. */
  readonly claimed: number;
}

interface JudgeOptions {
  readonly file: string;
  readonly vendor: Vendor;
  readonly mode: 'direct' | 'hosted';
  readonly trials: readonly Trial[];
  readonly seed: number;
  readonly folder: string;
}

/** Imports a public file, and reads what it makes of it from a service that pages as the vendor documents it. */
export async function judgeFile(options: JudgeOptions): Promise<Judgement> {
  const { file, vendor, mode, seed, folder } = options;
  const { direct, hosted, outcomes } = await importFile(file, join(folder, 'imported'));
  const own = Object.entries(outcomes[mode]);
  const converted = own.flatMap(([entity, outcome]) => (outcome === 'converted' ? [entity] : []));
  const notes = [
    ...own.flatMap(([entity, outcome]) =>
      outcome !== 'converted' && vendor.entities[entity] !== undefined ? [`${entity}: ${outcome}`] : [],
    ),
    ...converted.flatMap((entity) =>
      vendor.entities[entity] === undefined ? [`${entity}: not judged`] : [],
    ),
  ];
  const nothing = { equal: 0, converted: converted.length, isPassed: false, trials: [], notes };
  if (direct === null || (mode === 'hosted' && hosted === null)) return nothing;
  // The API calls the service as the direct definition says.
  const served = converted.filter((entity) => outcomes.direct[entity] === 'converted');
  const passing = new Set(served.filter((entity) => vendor.entities[entity] !== undefined));
  const publicFile = readPublicFile(file);
  const results: JudgedTrial[] = [];
  let calls = 3;
  for (const [index, trial] of options.trials.entries()) {
    const tried = await runTrial({
      folder: join(folder, trial),
      vendor,
      file: publicFile,
      direct,
      hosted: mode === 'hosted' ? hosted : null,
      trial,
      calls,
      seed: seed + index,
    });
    const { verdicts, claimed } = tried;
    if (trial === 'plain') ({ calls } = tried);
    const failed = [...verdicts].flatMap(([entity, why]) => (why === null ? [] : [[entity, why] as const]));
    for (const entity of passing) if (verdicts.get(entity) !== null) passing.delete(entity);
    results.push({ trial, failed, claimed });
  }
  const equal = passing.size;
  return { equal, converted: converted.length, isPassed: equal === converted.length, trials: results, notes };
}
