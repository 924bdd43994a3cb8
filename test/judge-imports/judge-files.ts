import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { judgeFile, type Judgement } from './judge-file.ts';
import { trials, type Trial } from './trial.ts';
import { vendors } from './vendors.ts';

/**
 * `judge-files.ts <folder> [names]`: imports each `*.yaml` of the folder that `vendors` knows, reads it from a made-up
 * service in every trial, and prints what is equal. `MODES`, `TRIALS` and `SEED` choose.
 */
const [folder, ...names] = process.argv.slice(2);
if (folder === undefined) throw new Error('expected a folder of files: judge-files.ts <folder> [names]');
const seed = Number(process.env['SEED'] ?? 1);
const modes = (process.env['MODES'] ?? 'direct,hosted').split(',');
const chosen = process.env['TRIALS']?.split(',') ?? trials;
const passed = { direct: 0, hosted: 0 };
const failed = { direct: 0, hosted: 0 };
const sums = { direct: [0, 0], hosted: [0, 0] };

for (const file of readdirSync(folder).filter((one) => one.endsWith('.yaml'))) {
  const name = basename(file, '.yaml');
  const vendor = vendors[name];
  if (vendor === undefined || (names.length > 0 && !names.includes(name))) continue;
  const temporary = mkdtempSync(join(tmpdir(), 'judge-'));
  for (const mode of ['direct', 'hosted'] as const) {
    if (!modes.includes(mode)) continue;
    let result: Judgement;
    try {
      result = await judgeFile({
        file: resolve(folder, file),
        vendor,
        mode,
        trials: trials.filter((one: Trial) => chosen.includes(one)),
        seed,
        folder: join(temporary, mode),
      });
    } catch (error) {
      // The other files are judged all the same.
      failed[mode] += 1;
      console.log(`${name.padEnd(26)} ${mode.padEnd(6)}   failed  ${String(error)}`);
      continue;
    }
    const { equal, converted, isPassed } = result;
    if (isPassed) passed[mode] += 1;
    sums[mode] = [(sums[mode][0] ?? 0) + equal, (sums[mode][1] ?? 0) + converted];
    const states = result.trials.map(({ trial, failed: entities, claimed }) => {
      const found = trial === 'moving' ? ` (${claimed} called complete)` : '';
      return `${trial} ${entities.length === 0 ? 'ok' : 'NO'}${found}`;
    });
    console.log(
      `${name.padEnd(26)} ${mode.padEnd(6)} ${`${equal} / ${converted}`.padStart(8)}  ${states.join(', ')}`,
    );
    for (const line of result.notes) console.log(`    ${line}`);
    for (const { trial, failed: entities } of result.trials) {
      const known = new Set<string>();
      for (const [entity, why] of entities) {
        if (!known.has(why)) console.log(`    ${trial} ${entity}: ${why}`);
        known.add(why);
      }
    }
  }
  rmSync(temporary, { recursive: true, force: true });
}
for (const mode of ['direct', 'hosted'] as const) {
  const [equal = 0, converted = 0] = sums[mode];
  console.log(
    `${mode}: ${passed[mode]} files equal in all trials, ${equal} of ${converted} converted entities, ` +
      `${failed[mode]} files could not be judged`,
  );
}
