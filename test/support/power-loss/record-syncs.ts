import { execFileSync, fork } from 'node:child_process';
import { closeSync, mkdirSync, openSync, readdirSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { once } from 'node:events';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { testProgram } from '../ensure-built.ts';
import type { RecordedSteps } from './recorded-steps.ts';
import { readOperations, type Contents, type Recording } from './recording.ts';

const source = fileURLToPath(new URL('record-writes.c', import.meta.url));
const program = testProgram('support/power-loss/recorded-syncs.mjs');

/** Why nothing can be recorded on this machine; null where it can. */
export function whyNoRecorder(): string | null {
  if (process.platform !== 'linux') {
    return `the recorder is preloaded as on Linux, and this is ${process.platform}`;
  }
  try {
    execFileSync('cc', ['--version'], { stdio: 'ignore' });
    return null;
  } catch {
    return 'there is no C compiler (cc)';
  }
}

/** Gives the library's path, in `folder`. */
export function compileRecorder(folder: string): string {
  const library = join(folder, 'record-writes.so');
  execFileSync('cc', [
    '-shared',
    '-fPIC',
    '-O1',
    '-Wall',
    '-Werror',
    '-o',
    library,
    source,
    '-ldl',
    '-lpthread',
  ]);
  return library;
}

interface RecordingOptions extends RecordedSteps {
  readonly library: string;
  /** Where the sink lies: what is done below it is recorded. */
  readonly folder: string;
  /** For the log and the output, outside `folder`. */
  readonly workFolder: string;
  readonly moveTo: (revision: number) => void;
}

/** Runs syncs in a process of their own and records what it does to the folder. */
export async function recordSyncs(options: RecordingOptions): Promise<Recording> {
  const { library, folder, workFolder, moveTo, ...steps } = options;
  mkdirSync(folder, { recursive: true });
  const before = readContents(folder);
  const log = join(workFolder, 'operations.log');
  const output = openSync(join(workFolder, 'output.log'), 'w');
  const child = fork(program, [JSON.stringify(steps)], {
    env: { ...process.env, LD_PRELOAD: library, RECORD_FOLDER: realpathSync(folder), RECORD_LOG: log },
    stdio: ['ignore', output, 'pipe', 'ipc'],
  });
  closeSync(output);
  let stderr = '';
  child.stderr?.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  child.on('message', (revision) => {
    moveTo(Number(revision));
    child.send('moved');
  });
  const [code] = (await once(child, 'close')) as [number | null];
  if (code !== 0) throw new Error(`the recorded process ended with ${code}: ${stderr}`);
  return { before, operations: readOperations(log, realpathSync(folder)) };
}

/** What lies in a folder now. */
export function readContents(folder: string): Contents {
  return new Map(
    readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .sort()
      .map((path) => {
        const full = join(folder, path);
        return [path, statSync(full).isDirectory() ? null : readFileSync(full)];
      }),
  );
}
