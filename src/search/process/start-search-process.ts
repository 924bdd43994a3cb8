import { SyncError } from '../../core/errors.ts';
import type { JsonObject, JsonValue } from '../../core/json.ts';
import type { ConnectorName } from '../../core/names.ts';
import type { Entity } from '../../definitions/definition.ts';
import type { SearchAnswer } from '../search-request.ts';
import { forkModule, type SentError } from './fork-module.ts';

/** What is searched, and for what. */
export interface SearchCall {
  /** A SQLite sink. */
  readonly file: string;
  readonly connector: ConnectorName;
  readonly entity: Entity;
  /** As they came from outside. */
  readonly params: JsonObject;
  /** What a cursor belongs to. */
  readonly scope: string;
}

export interface ProcessSettings {
  readonly cursorKey: Buffer;
  readonly deadlineMs: number;
}

/** To a search process: first its settings, then one call after the answer to the one before. */
export type ToSearchProcess =
  | { readonly kind: 'settings'; readonly settings: ProcessSettings }
  | { readonly kind: 'search'; readonly call: SearchCall };

export type FromSearchProcess =
  | { readonly kind: 'ready' }
  | { readonly kind: 'answer'; readonly answer: SearchAnswer }
  | { readonly kind: 'failed'; readonly error: SentError };

/** Enough for the largest answer; more than that and the process ends instead of the machine's memory. */
const maxHeapMiB = 512;

/** One process that searches. */
export type SearchProcess = ReturnType<typeof startSearchProcess>;

/** Waits for the next message. */
interface Waiting {
  resolve(message: FromSearchProcess): void;
  reject(error: Error): void;
}

/** `entry`: the module to run, with the number of this process as its argument. */
export function startSearchProcess(entry: URL, settings: ProcessSettings) {
  let how: string | null = null;
  let waiting: Waiting | null = null;
  const child = forkModule<ToSearchProcess, FromSearchProcess>(entry, maxHeapMiB);
  child.listen((message) => waiting?.resolve(message));
  const gone = child.gone.then((by) => {
    how = by;
    waiting?.reject(endedByItself(by));
  });
  const reply = (): Promise<FromSearchProcess> =>
    new Promise((resolve, reject) => {
      if (how === null) waiting = { resolve, reject };
      else reject(endedByItself(how));
    });
  const ready = reply().then(() => undefined);
  // Avoid an unhandled rejection if the process is dropped before it was ready.
  ready.catch(() => undefined);
  child.send({ kind: 'settings', settings });
  return {
    /** Resolves when it can be asked; rejects with `SyncError` SINK_FAILED where it ends before. */
    ready,
    /** Resolves when it has ended, for any reason. */
    gone,
    /** It is gone, or about to be: not to be asked any more. */
    isEnding: child.isEnding,
    /**
     * One at a time. Rejects with the `SyncError` that the search threw, or SINK_FAILED when the process ended
     * meanwhile.
     */
    ask: async (call: SearchCall): Promise<SearchAnswer> => {
      const next = reply();
      child.send({ kind: 'search', call });
      return answerIn(await next);
    },
    /** Ends it at once, whatever it does. */
    kill: child.kill,
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
      throw new Error('a search process reported ready twice');
  }
}

function endedByItself(how: string): SyncError {
  return new SyncError(
    `The search process ended unexpectedly (${how}). Search again; if it ends again, ask for less: ` +
      `fewer fields, a lower limit. It may use ${maxHeapMiB} MiB.`,
    { code: 'SINK_FAILED', recovery: 'retry', context: { how } },
  );
}

/** Above the limits of a valid search: anything smaller is checked, with a better message, when it is read. */
const maxDepth = 64;
const maxChars = 128 * 1024;

/**
 * Refuses parameters that are not worth handing to another process, where copying them would cost as much as they are
 * large or overflow the stack. Throws `SyncError` SEARCH_INVALID.
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
