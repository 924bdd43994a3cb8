import { statSync } from 'node:fs';
import { answerParent } from '../../child/answer-parent.ts';
import { systemClock } from '../../core/clock.ts';
import { SyncError } from '../../core/errors.ts';
import { openSearch, type Search } from '../open-search.ts';
import type { ProcessSettings, SearchCall, SearchCalls } from './open-search-processes.ts';

/** The entry point of a search process: answers one call after the other. */
const connectionTo = openFiles();
let settings: ProcessSettings | null = null;

const calls: SearchCalls = {
  settings: (given) => {
    settings = given;
  },
  search: async ({ file, connector, entity, only, withState, params, scope }) => {
    if (settings === null) throw new Error('a call came before the settings');
    return await connectionTo(file).search({ connector, entity, only, withState }, params, {
      ...settings,
      scope,
      clock: systemClock,
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

/** What a process holds open of the files it searched last; each costs memory for its pages. */
const maxFiles = 4;

/**
 * Gives the connection of a file, opened where it is not open yet. Throws as `openSearch` does. Keeps the last few
 * files open; one that was removed, or replaced by another of its name, is closed at the next call.
 */
function openFiles(): (file: string) => Search {
  const open = new Map<string, { readonly search: Search; readonly identity: string | null }>();
  const close = (file: string): void => {
    open.get(file)?.search[Symbol.dispose]();
    open.delete(file);
  };
  return (file) => {
    for (const [name, { identity }] of open) {
      if (identity === null || identityOf(name) !== identity) close(name);
    }
    // Taken before it is opened: where it is replaced in between, the next call sees that it is another.
    const one = open.get(file) ?? { identity: identityOf(file), search: openSearch(file) };
    open.delete(file);
    open.set(file, one);
    const [oldest] = open.keys();
    if (open.size > maxFiles && oldest !== undefined) close(oldest);
    return one.search;
  };
}

/** While a file is held open no other gets its number. Null: it does not exist. */
function identityOf(file: string): string | null {
  const stats = statSync(file, { throwIfNoEntry: false, bigint: true });
  return stats === undefined ? null : `${stats.dev}:${stats.ino}`;
}
