import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

const main = new URL('../../dist/main.js', import.meta.url).pathname;
/** From /proc/<pid>/stat. */
const ticksPerSecond = 100;

export interface Figures {
  readonly rssMiB: number;
  readonly peakMiB: number;
  readonly cpuS: number;
}

export interface MeasuredWorker {
  readonly startedMs: number;
  readonly readyMs: number;
  figures(): Figures;
  /** Has it read its config again; resolves with the milliseconds until it serves that one. Rejects for a refused one. */
  reload(): Promise<number>;
  /** How the runs ended so far, by outcome, and how many readings of the config were in use at most. */
  ended(): { readonly outcomes: Readonly<Record<string, number>>; readonly mostConfigs: number };
  stop(): Promise<void>;
}

/** Starts `connector-sync worker` from the built program; resolves when it is ready for scheduled runs. */
export async function startMeasuredWorker(
  config: string,
  port: number,
  options: readonly string[] = [],
): Promise<MeasuredWorker> {
  const startedMs = Date.now();
  const args = [main, 'worker', '--http', `127.0.0.1:${port}`, '--config', config, ...options];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'pipe'] });
  const ended = once(child, 'close');
  const lines = createInterface({ input: child.stderr });
  const lastLines: string[] = [];
  const outcomes: Record<string, number> = {};
  let [configs, mostConfigs] = [1, 1];
  lines.on('line', (line) => {
    if (line.includes('"msg":"run ended"')) {
      const outcome = /"outcome":"([^"]*)"/.exec(line)?.[1] ?? 'none';
      outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
    }
    if (line.includes('"msg":"the config was read again"')) configs += 1;
    if (line.includes('"msg":"the runs of the older config are over"')) configs -= 1;
    mostConfigs = Math.max(mostConfigs, configs);
  });
  await new Promise<void>((resolve, reject) => {
    lines.on('line', (line) => {
      lastLines.push(line);
      lastLines.splice(0, lastLines.length - 5);
      if (line.includes('"ready for scheduled runs"')) resolve();
    });
    void ended.then(() => reject(new Error(`the worker ended: ${lastLines.join('\n').slice(0, 2000)}`)));
  });
  const readyMs = Date.now();
  return {
    startedMs,
    readyMs,
    figures: () => figuresOf(child),
    reload: async () => {
      const askedMs = performance.now();
      const done = new Promise<void>((resolve, reject) => {
        const onLine = (line: string): void => {
          if (line.includes('"the config was read again"')) resolve();
          if (line.includes('cannot be used')) reject(new Error(line.slice(0, 2000)));
        };
        lines.on('line', onLine);
        void ended.then(() => reject(new Error('the worker ended')));
      });
      child.kill('SIGHUP');
      await done;
      return performance.now() - askedMs;
    },
    ended: () => ({ outcomes, mostConfigs }),
    stop: async () => {
      child.kill('SIGTERM');
      await ended;
    },
  };
}

/** Linux only: reads /proc. */
function figuresOf({ pid = 0 }: ChildProcess): Figures {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const mebibytes = (name: string): number =>
    Math.round(Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1] ?? 0) / 1024);
  // The program name may contain spaces, so count the fields after it.
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
  const cpuS = (Number(fields[11]) + Number(fields[12])) / ticksPerSecond;
  return { rssMiB: mebibytes('VmRSS'), peakMiB: mebibytes('VmHWM'), cpuS };
}

export interface MeasuredCommand {
  readonly code: number | null;
  readonly wallS: number;
  readonly cpuS: number;
  readonly outputBytes: number;
  readonly error: string;
}

const tellUsage = `data:text/javascript,${encodeURIComponent(
  `process.on('exit', () => { const { user, system } = process.cpuUsage(); process.getBuiltinModule('fs').writeSync(2, '\\ncpu ' + (user + system) / 1e6 + '\\n'); });`,
)}`;

/** Runs a command of the built program until it ends or the timeout passes. */
export async function measureCommand(args: readonly string[], mostMs: number): Promise<MeasuredCommand> {
  const startedMs = performance.now();
  const child = spawn(process.execPath, ['--import', tellUsage, main, ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: mostMs,
  });
  let outputBytes = 0;
  let error = '';
  child.stdout.on('data', (chunk: Buffer) => (outputBytes += chunk.length));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (error = (error + text).slice(-4000)));
  const [code] = await once(child, 'close');
  return {
    code: typeof code === 'number' ? code : null,
    wallS: (performance.now() - startedMs) / 1000,
    cpuS: Number(/\ncpu ([\d.]+)\n$/.exec(error)?.[1] ?? Number.NaN),
    outputBytes,
    error: error.replace(/\ncpu [\d.]+\n$/, ''),
  };
}
