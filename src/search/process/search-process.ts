import { statSync } from 'node:fs';
import { Worker } from 'node:worker_threads';
import { systemClock } from '../../core/clock.ts';
import { SyncError } from '../../core/errors.ts';
import { builtModule } from '../../core/program-files.ts';
import { openSearch, type Search } from '../open-search.ts';
import type { SearchAnswer } from '../search-request.ts';
import type {
  FromSearchProcess,
  ProcessSettings,
  SearchCall,
  ToSearchProcess,
} from './start-search-process.ts';
import type { SentError } from './fork-module.ts';

/**
 * The entry point of a search process: answers one call after the other until its parent disconnects. Its argument is
 * the process id of the parent.
 */
const files = openFiles();
let settings: ProcessSettings | null = null;

process.on('disconnect', () => process.exit());
// Ctrl-C reaches every process of a terminal, and it is for the one that started this one to end it, in its time.
process.on('SIGINT', () => undefined);
process.on('SIGTERM', () => undefined);
process.on('message', (message: ToSearchProcess) => {
  if (message.kind === 'settings') settings = message.settings;
  else void answer(message.call);
});
new Worker(builtModule('search/process/watch-parent'), {
  workerData: Number(process.argv[2]),
}).unref();
send({ kind: 'ready' });

async function answer(call: SearchCall): Promise<void> {
  try {
    send({ kind: 'answer', answer: await searchOnce(call) });
  } catch (error) {
    send({ kind: 'failed', error: sentError(error, call) });
  }
}

async function searchOnce({ file, connector, entity, params, scope }: SearchCall): Promise<SearchAnswer> {
  if (settings === null) throw new Error('a call came before the settings');
  return await files
    .of(file)
    .search({ connector, entity }, params, { ...settings, scope, clock: systemClock });
}

function sentError(error: unknown, { file, entity }: SearchCall): SentError {
  if (error instanceof SyncError) {
    const { message, code, recovery, context } = error;
    return { message, code, recovery, context };
  }
  const { name, message } = error instanceof Error ? error : new Error(String(error));
  return {
    message: `The search of "${entity.name}" failed unexpectedly (${name}: ${message.slice(0, 200)}). This is a bug: report it with the query.`,
    code: 'INTERNAL',
    recovery: 'stop',
    context: { file, entity: entity.name },
  };
}

/** Without a channel there is no reader of the answer. */
function send(message: FromSearchProcess): void {
  if (process.connected) process.send?.(message);
}

/** What a process holds open of the files it searched last; each costs memory for its pages. */
const maxFiles = 4;

interface OpenFiles extends Disposable {
  /** The file's connection, opened where it is not open yet. Throws as `openSearch` does. */
  of(file: string): Search;
}

/**
 * Keeps the last few files open; one that was removed, or replaced by another of its name, is let go at the next call.
 */
function openFiles(): OpenFiles {
  const open = new Map<string, { readonly search: Search; readonly identity: string | null }>();
  const close = (file: string): void => {
    open.get(file)?.search[Symbol.dispose]();
    open.delete(file);
  };
  return {
    of: (file) => {
      for (const [name, { identity }] of open) {
        if (identity === null || identityOf(name) !== identity) close(name);
      }
      const there = open.get(file);
      // Taken before it is opened: where it is replaced in between, the next call sees that it is another.
      const one = there ?? { identity: identityOf(file), search: openSearch(file) };
      open.delete(file);
      open.set(file, one);
      const [oldest] = open.keys();
      if (open.size > maxFiles && oldest !== undefined) close(oldest);
      return one.search;
    },
    [Symbol.dispose]: () => {
      for (const file of open.keys()) close(file);
    },
  };
}

/** While a file is held open no other gets its number. Null: it is not there. */
function identityOf(file: string): string | null {
  const stats = statSync(file, { throwIfNoEntry: false, bigint: true });
  return stats === undefined ? null : `${stats.dev}:${stats.ino}`;
}
