import { answerParent } from '../../child/start-child.ts';
import { systemClock } from '../../core/clock.ts';
import { SyncError } from '../../core/errors.ts';
import { openSearch } from '../open-search.ts';
import type { ProcessSettings, SearchCall, SearchCalls } from './open-search-processes.ts';

/* The entry point of a search process: answers one call after the other. */

/** The process is killed instead. */
const never = new AbortController().signal;
let settings: ProcessSettings | null = null;

const calls: SearchCalls = {
  settings: (given) => {
    settings = given;
  },
  search: async ({ file, isJsonl, params, scope, ...searched }) => {
    if (settings === null) throw new Error('a call came before the settings');
    const format = isJsonl ? (await import('../../sinks/jsonl/jsonl-sink.ts')).jsonlFormat : undefined;
    await using opened = openSearch(file, format);
    return await opened.search(searched, params, {
      ...settings,
      scope,
      clock: systemClock,
      signal: never,
    });
  },
};

answerParent(calls, { explain: unexpected, isWatched: true });

function unexpected(error: unknown, _name: string, given: unknown): SyncError {
  const { name, message } = error instanceof Error ? error : new Error(String(error));
  const { file, entity } = given as SearchCall;
  return new SyncError(
    `The search of "${entity.name}" failed unexpectedly (${name}: ${message.slice(0, 200)}). This is a bug: report it with the query.`,
    { code: 'INTERNAL', recovery: 'stop', context: { file, entity: entity.name } },
  );
}
