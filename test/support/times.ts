import { writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import path from 'node:path';
import type { Reporter, TestModule } from 'vitest/node';

interface Sum {
  readonly ms: number;
  readonly loadMs: number;
  readonly cpuMs: number;
}

/** Of files and tests that are shown; what takes less is in the sums. */
const leastShownMs = 1_000;
const leastLongMs = 6_000;
/** Fewer files are a part of the tests. */
const leastFiles = 300;

export const longFiles = 'test/long-files.json';

/** How `longFiles` names a file of a project: other projects than `all` repeat some files. */
export function nameIn(project: string, file: string): string {
  return project === 'all' ? file : `${file} (${project})`;
}

/**
 * Prints where the tests' time goes (`npm run test:times`): by file, room, project and test. What a file does not
 * compute it waits: for servers, processes and clocks, and for the processor, which all workers share. After a run of
 * all files it stores which of them take long; these begin first (`vitest.config.ts`).
 */
export function reportTimes(): Reporter {
  const beginMs = Date.now();
  return {
    onTestRunEnd: (modules) => {
      const files = modules.map((module) => {
        const { duration, collectDuration: loadMs } = module.diagnostic();
        const { name: project } = module.project;
        const file = module.relativeModuleId;
        const name = nameIn(project, file);
        return { file, name, project, ms: duration + loadMs, loadMs, cpuMs: module.meta().cpuMs ?? 0 };
      });
      const room = ({ file }: (typeof files)[number]) => path.dirname(file).split('/').slice(0, 2).join('/');
      print(
        'file',
        sumsBy(files, ({ name }) => name),
        leastShownMs,
      );
      print('room', sumsBy(files, room));
      print(
        'project',
        sumsBy(files, ({ project }) => project),
      );
      console.log('\n   all s  computing s  test');
      for (const { title, ms, cpuMs } of longestFirst(modules.flatMap(testsOf))) {
        if (ms >= leastShownMs) console.log(`${seconds(ms)}${seconds(cpuMs, 13)}  ${title}`);
      }
      const wall = seconds(Date.now() - beginMs).trim();
      const run = `${files.length} files, in ${wall} s on ${availableParallelism()} cores`;
      print(
        'run',
        sumsBy(files, () => run),
      );
      if (files.length < leastFiles) return;
      const long = longestFirst(files.filter(({ ms }) => ms >= leastLongMs)).map(({ name }) => name);
      writeFileSync(longFiles, `${JSON.stringify(long, null, 2)}\n`);
    },
  };
}

function testsOf(module: TestModule) {
  return [...module.children.allTests()].map((test) => ({
    title: `${module.relativeModuleId}: ${test.name}`,
    ms: test.diagnostic()?.duration ?? 0,
    cpuMs: test.meta().cpuMs ?? 0,
  }));
}

function longestFirst<Timed extends { readonly ms: number }>(timed: readonly Timed[]): readonly Timed[] {
  return timed.toSorted((left, right) => right.ms - left.ms);
}

function sumsBy<File extends Sum>(files: readonly File[], keyOf: (file: File) => string) {
  const sums = new Map<string, Sum>();
  for (const file of files) {
    const { ms, loadMs, cpuMs } = sums.get(keyOf(file)) ?? { ms: 0, loadMs: 0, cpuMs: 0 };
    sums.set(keyOf(file), { ms: ms + file.ms, loadMs: loadMs + file.loadMs, cpuMs: cpuMs + file.cpuMs });
  }
  return sums;
}

function print(kind: string, sums: ReadonlyMap<string, Sum>, leastMs = 0): void {
  console.log(`\n   all s  load s  computing s  waiting s  ${kind}`);
  for (const { name, ms, loadMs, cpuMs } of longestFirst(
    [...sums].map(([name, sum]) => ({ name, ...sum })),
  )) {
    if (ms < leastMs) continue;
    const waiting = seconds(Math.max(0, ms - cpuMs), 11);
    console.log(`${seconds(ms)}${seconds(loadMs)}${seconds(cpuMs, 13)}${waiting}  ${name}`);
  }
}

function seconds(ms: number, width = 8): string {
  return (ms / 1000).toFixed(1).padStart(width);
}
