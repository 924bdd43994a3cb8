import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { testProgram } from './ensure-built.ts';

const script = testProgram('support/worker-process.mjs');

/** A line of the worker's log. */
export type LogLine = Readonly<Record<string, unknown>> & { readonly msg: string; readonly time: string };

export type WorkerProcess = ReturnType<typeof startWorkerProcess>;

/**
 * A worker as `connector-sync worker` starts it, from the built program, with shorter times than its own where they are
 * given: locks of 15 s would make every test of a crash as long as that.
 */
export function startWorkerProcess(
  world: { readonly config: string; readonly env: Readonly<Record<string, string>> },
  timings: Readonly<Record<string, number>> = {},
  options: {
    readonly listen?: { readonly host: string; readonly port: number };
    readonly concurrency?: number;
    readonly maxRuns?: number;
  } = {},
) {
  const child = spawn(process.execPath, [script, world.config, JSON.stringify({ timings, ...options })], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: process.env['PATH'] ?? '', ...world.env },
  });
  const lines: LogLine[] = [];
  const stray: string[] = [];
  const watchers = new Set<(line: LogLine) => void>();
  const read = (text: string): void => {
    const line = parseLine(text);
    if (line === null) stray.push(text);
    else {
      lines.push(line);
      for (const watch of watchers) watch(line);
    }
  };
  createInterface({ input: child.stdout }).on('line', (text) => stray.push(text));
  createInterface({ input: child.stderr }).on('line', read);
  const ended = once(child, 'close').then(([code, signal]) => ({
    code: code as number | null,
    signal: signal as string | null,
  }));
  return {
    pid: child.pid ?? 0,
    child,
    lines,
    /** What it wrote that is no log line. */
    stray,
    /** Resolves with code and signal when the process has ended and its output was read. */
    ended,
    /**
     * Resolves with the first line from this number on, past or to come, for which this holds; rejects when the process
     * ends without one.
     */
    until: (matches: (line: LogLine) => boolean, from = 0): Promise<LogLine> => {
      const past = lines.slice(from).find(matches);
      if (past !== undefined) return Promise.resolve(past);
      return new Promise((resolve, reject) => {
        const watch = (line: LogLine): void => {
          if (!matches(line)) return;
          watchers.delete(watch);
          resolve(line);
        };
        watchers.add(watch);
        void ended.then(() =>
          reject(
            new Error(
              `the worker ended without that line: ${JSON.stringify(lines.at(-1))} ${stray.join('\n')}`,
            ),
          ),
        );
      });
    },
  };
}

function parseLine(text: string): LogLine | null {
  try {
    return JSON.parse(text) as LogLine;
  } catch {
    return null;
  }
}

export const isRunStarted = (line: LogLine): boolean => line['event'] === 'run-started';
export const isRunFinished = (line: LogLine): boolean => line['event'] === 'run-finished';
