import { fork, type ChildProcess } from 'node:child_process';
import { SyncError } from '../../core/errors.ts';
import type { JsonObject, JsonValue } from '../../core/json.ts';
import type { SearchAnswer } from '../search-answer.ts';
import type { FromSearchProcess, ProcessSettings, SearchCall, ToSearchProcess } from './search-message.ts';

/** Enough for the largest answer; more than that and the process ends instead of the machine's memory. */
const maxHeapMiB = 512;

/** One process that searches. */
export interface SearchProcess {
  /** Resolves when it can be asked; rejects with `SyncError` SINK_FAILED where it ends before. */
  readonly ready: Promise<void>;
  /** Resolves when it is gone, for whatever reason. */
  readonly gone: Promise<void>;
  /** It is gone, or about to be: not to be asked any more. */
  readonly isEnding: () => boolean;
  /** One at a time. Rejects with the `SyncError` that the search threw, or SINK_FAILED when the process ended meanwhile. */
  readonly ask: (call: SearchCall) => Promise<SearchAnswer>;
  /** Ends it at once, whatever it does. */
  readonly kill: () => void;
}

/** Whoever waits for the next message. */
interface Waiting {
  resolve(message: FromSearchProcess): void;
  reject(error: Error): void;
}

/** `entry`: the module to run, with the number of this process as its argument. */
export function startSearchProcess(entry: URL, settings: ProcessSettings): SearchProcess {
  const child = fork(entry, [String(process.pid)], {
    serialization: 'advanced',
    execArgv: [`--max-old-space-size=${maxHeapMiB}`],
    env: processEnvironment(),
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
  });
  let isEnding = false;
  let how: string | null = null;
  let waiting: Waiting | null = null;
  const kill = (): void => {
    isEnding = true;
    child.kill('SIGKILL');
  };
  const gone = new Promise<void>((resolve) => {
    const end = (by: string): void => {
      isEnding = true;
      how = by;
      waiting?.reject(endedByItself(by));
      resolve();
    };
    child.once('exit', (code, signal) => end(signal ?? `exit code ${code}`));
    child.on('error', ({ message }) => {
      // A process that could not be started never exits; one that cannot be talked to is of no use.
      if (child.pid === undefined) end(message);
      else kill();
    });
  });
  child.on('message', (message: FromSearchProcess) => waiting?.resolve(message));
  const reply = (): Promise<FromSearchProcess> =>
    new Promise((resolve, reject) => {
      if (how === null) waiting = { resolve, reject };
      else reject(endedByItself(how));
    });
  const ready = reply().then(() => undefined);
  // Whoever started it may have let it go before it was ready.
  ready.catch(() => undefined);
  send(child, { kind: 'settings', settings });
  return {
    ready,
    gone,
    isEnding: () => isEnding,
    ask: async (call) => {
      const next = reply();
      send(child, { kind: 'search', call });
      return answerIn(await next);
    },
    kill,
  };
}

function answerIn(message: FromSearchProcess): SearchAnswer {
  switch (message.kind) {
    case 'answer':
      return message.answer;
    case 'failed': {
      const { message: text, ...options } = message.error;
      throw new SyncError(text, options);
    }
    case 'ready':
      throw new Error('a search process said twice that it is ready');
  }
}

/** What is not said here a search has no use for; large sorts go to a temporary file. */
function processEnvironment(): NodeJS.ProcessEnv {
  const names = ['TMPDIR', 'SQLITE_TMPDIR', 'TZ', 'SystemRoot'];
  return Object.fromEntries(
    names.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]]])),
  );
}

/** That a message could not be sent says the process is about to be gone, which is told there. */
function send(child: ChildProcess, message: ToSearchProcess): void {
  if (child.connected) child.send(message, () => undefined);
}

function endedByItself(how: string): SyncError {
  return new SyncError(
    `The process that was to search ended by itself (${how}). Search again; if it ends again, ask for less: ` +
      `fewer fields, a lower limit. It may use ${maxHeapMiB} MiB.`,
    { code: 'SINK_FAILED', recovery: 'retry', context: { how } },
  );
}

/** Above what any search may be, so that what is too much of what can be said where it is read. */
const maxDepth = 64;
const maxChars = 128 * 1024;

/**
 * Refuses parameters that are not worth handing to another process, where copying them would cost as much as they are large or
 * overflow the stack. Throws `SyncError` SEARCH_INVALID.
 */
export function checkCallSize(params: JsonObject): void {
  let chars = 0;
  const waiting: { readonly value: JsonValue; readonly depth: number }[] = [{ value: params, depth: 1 }];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const { value, depth } = next;
    chars += typeof value === 'string' ? value.length : 1;
    if (typeof value === 'object' && value !== null) {
      if (depth > maxDepth) throw invalid(`it is nested deeper than ${maxDepth}`);
      for (const [name, member] of Object.entries(value)) {
        chars += Array.isArray(value) ? 1 : name.length;
        waiting.push({ value: member, depth: depth + 1 });
      }
    }
    if (chars > maxChars) throw invalid(`it has more than ${maxChars} characters`);
  }
}

function invalid(why: string): SyncError {
  return new SyncError(`A search of the usual size was expected, but ${why}. Ask for less in one search.`, {
    code: 'SEARCH_INVALID',
    recovery: 'stop',
    context: { path: 'query' },
  });
}
