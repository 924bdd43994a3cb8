import { readFileSync, closeSync, mkdirSync, openSync, readdirSync, realpathSync, statSync } from 'node:fs';
import { relative, join } from 'node:path';
import type { RunEvent } from '../../../src/core/events.ts';
import type { SinkOptions } from '../../../src/sinks/sink-access.ts';
import type { SyncOnce } from '../../support/sync-once.ts';
import { execFileSync, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { testProgram } from '../../support/ensure-built.ts';

/** One step of the recorded process. `descriptor` means what the last `opened` of that number means. */
export type Operation =
  | {
      readonly kind: 'opened';
      readonly descriptor: number;
      readonly path: string;
      readonly isCreated: boolean;
      readonly isEmptied: boolean;
    }
  | { readonly kind: 'written'; readonly descriptor: number; readonly offset: number; readonly data: Buffer }
  | { readonly kind: 'truncated'; readonly descriptor: number; readonly length: number }
  /** Of a file or a folder. */
  | { readonly kind: 'synced'; readonly descriptor: number }
  | { readonly kind: 'renamed'; readonly from: string; readonly to: string }
  | { readonly kind: 'removed'; readonly path: string }
  | { readonly kind: 'folder-made'; readonly path: string }
  /** What the process wrote to its standard output: from here on its user had the report. */
  | { readonly kind: 'told'; readonly text: string };

/** What a folder holds: path -> content; null of a folder, which comes before what is in it. */
export type Contents = ReadonlyMap<string, Buffer | null>;

export interface Recording {
  /** The folder when the recording began. */
  readonly before: Contents;
  readonly operations: readonly Operation[];
}

const headBytes = 24;

/** What `record-writes.c` has appended to `log`, in order. Paths are relative to `folder`. */
export function readOperations(log: string, folder: string): readonly Operation[] {
  const bytes = readFileSync(log);
  const operations: Operation[] = [];
  for (let at = 0; at < bytes.length;) {
    const length = bytes.readUInt32LE(at + 20);
    operations.push(
      readOperation(bytes, at, bytes.subarray(at + headBytes, at + headBytes + length), folder),
    );
    at += headBytes + length;
  }
  return operations;
}

function readOperation(bytes: Buffer, at: number, data: Buffer, folder: string): Operation {
  const kind = bytes.readUInt32LE(at);
  const descriptor = bytes.readInt32LE(at + 4);
  const offset = Number(bytes.readBigInt64LE(at + 8));
  const flags = bytes.readUInt32LE(at + 16);
  const [path = '', other = ''] = [1, 5, 6, 7].includes(kind)
    ? data
        .toString()
        .split('\n')
        .map((name) => relative(folder, name))
    : [];
  switch (kind) {
    case 1:
      return {
        kind: 'opened',
        descriptor,
        path,
        isCreated: (flags & 1) > 0,
        isEmptied: (flags & 2) > 0,
      };
    case 2:
      return { kind: 'written', descriptor, offset, data };
    case 3:
      return { kind: 'truncated', descriptor, length: offset };
    case 4:
      return { kind: 'synced', descriptor };
    case 5:
      return { kind: 'renamed', from: path, to: other };
    case 6:
      return { kind: 'removed', path };
    case 7:
      return { kind: 'folder-made', path };
    case 8:
      return { kind: 'told', text: data.toString() };
    default:
      throw new Error(`${kind} at byte ${at} is no kind of operation`);
  }
}

/** What the recorded process does, as JSON in its first argument. */
export interface RecordedSteps extends Pick<SyncOnce, 'baseUrl' | 'connectorId'> {
  readonly definition: string;
  readonly sink: SinkOptions;
  readonly steps: readonly RecordedStep[];
}

/** One sync. */
export interface RecordedStep {
  /** Of the account; asked for before the sync begins. */
  readonly revision: number;
  readonly isFull: boolean;
  /** The run is left without its end after so many steps. */
  readonly stopAt?: number;
  /** All steps of which this is true use one open sink, as a worker does; each other one has its own, as a command. */
  readonly isSameSink?: boolean;
  /** This entity is reset with its data before the sync begins. */
  readonly resets?: string;
}

/** Between two revisions the clock moves on by this: fields that change all the time are stored again after a day. */
export const laterMsPerRevision = 25 * 60 * 60 * 1000;

/** What the recorded process writes to its standard output, one line each. */
export type ToldLine = RunEvent | { readonly kind: 'step-begins'; readonly revision: number };

const source = fileURLToPath(new URL('record-writes.c', import.meta.url));
const program = testProgram('e2e/power-loss/recorded-syncs.mjs');

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
