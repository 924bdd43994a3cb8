import { resolve } from 'node:path';
import { defects } from './defects.ts';
import { plantDefect, readSources, type Planted } from './planting.ts';
import { openTrialCopy, type TrialCopy } from './trial-copy.ts';
import type { TestResults } from './trial-process.ts';

/**
 * `plant.ts [ids and rooms]`: plants each defect in a copy of this project, runs the test that should find it, and
 * prints a table. Ends with 1 unless each is found: a test of its file fails that passes without the defect.
 * `COPIES` says how many are tried at the same time.
 */
const wanted = process.argv.slice(2);
const unknown = wanted.filter((word) => !defects.some(({ id, room }) => id === word || room === word));
if (unknown.length > 0) throw new Error(`expected ids or rooms of defects, got ${unknown.join(', ')}`);
const chosen = defects.filter(
  ({ id, room }) => wanted.length === 0 || wanted.includes(id) || wanted.includes(room),
);
const project = resolve(import.meta.dirname, '../..');
const sources = readSources(project);

/** Results without a defect: one run of each file. */
const sound = new Map<string, Promise<TestResults>>();

async function soundResults(copy: TrialCopy, foundBy: string): Promise<TestResults> {
  const titles = chosen.filter((one) => one.foundBy === foundBy).map(({ titled }) => titled);
  const known = sound.get(foundBy) ?? copy.run({ foundBy, titles, runsProgram: false }, []);
  sound.set(foundBy, known);
  return await known;
}

interface Tried {
  readonly defect: (typeof defects)[number];
  /** Titles of the tests that fail because of it. */
  readonly finding: readonly string[];
  /** Empty where it is found. */
  readonly problem: string;
  readonly seconds: number;
}

async function tryDefect(copy: TrialCopy, defect: Tried['defect']): Promise<Tried> {
  const { foundBy, titled, runsProgram = false } = defect;
  const without = await soundResults(copy, foundBy);
  const startedMs = performance.now();
  const tried = (finding: readonly string[], problem: string): Tried => {
    return { defect, finding, problem, seconds: Math.round((performance.now() - startedMs) / 1_000) };
  };
  if (without.passed.length === 0) return tried([], `no test passes without the defect: ${without.problem}`);
  let planted: Planted;
  try {
    planted = plantDefect(sources, defect);
  } catch (error) {
    return tried([], error instanceof Error ? error.message : String(error));
  }
  const { passed, failed, problem } = await copy.run({ foundBy, titles: [titled], runsProgram }, [planted]);
  const finding = failed.filter((title) => without.passed.includes(title));
  if (finding.length > 0) return tried(finding, '');
  return tried([], passed.length > 0 ? 'its tests pass with the defect' : `no test has run: ${problem}`);
}

const copies = Array.from({ length: Math.min(chosen.length, Number(process.env['COPIES'] ?? 2)) }, () =>
  openTrialCopy(project),
);
const all: Tried[] = [];
try {
  const waiting = chosen.values();
  await Promise.all(
    copies.map(async (copy) => {
      for (const defect of waiting) {
        const tried = await tryDefect(copy, defect);
        all.push(tried);
        print(tried);
      }
    }),
  );
} finally {
  await Promise.all(copies.map(async (copy) => await copy.remove()));
}

function print({ defect: { id, room, because, foundBy }, finding, problem, seconds }: Tried): void {
  const [first = '', ...more] = finding;
  const found = problem === '' ? `${first}${more.length === 0 ? '' : ` and ${more.length} more`}` : problem;
  console.log(
    [
      problem === '' ? 'found' : 'LOST ',
      id.padEnd(28),
      room.padEnd(8),
      because,
      foundBy,
      found,
      `${seconds} s`,
    ].join('  '),
  );
}

const lost = all.filter(({ problem }) => problem !== '');
console.log(`${all.length - lost.length} of ${chosen.length} defects found`);
if (lost.length > 0) {
  console.log(`not found: ${lost.map(({ defect }) => defect.id).join(', ')}`);
  process.exitCode = 1;
}
