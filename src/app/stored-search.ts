import { createHash } from 'node:crypto';
import type { Clock } from '../core/clock.ts';
import type { JsonObject } from '../core/json.ts';
import { usage } from '../core/errors.ts';
import { openSearchProcesses } from '../search/process/open-search-processes.ts';
import type { StatedAnswer } from '../search/search-target.ts';
import type { EntityTarget } from '../settings/choices.ts';
import { storedIn } from './stored-fields.ts';

interface StoredSearch {
  readonly target: EntityTarget;
  /** As they came from outside: query, limit, cursor, fields. */
  readonly params: JsonObject;
  readonly signal: AbortSignal;
  /** Advice for a sink that cannot be searched, and for a sink without data. */
  readonly ofType: (directory: string) => string;
  readonly ofNothing: string;
  /** The columns that the search may read; left out: all. */
  readonly only?: ReadonlySet<string> | null;
  /** Whether the answer includes the state of the connector. */
  readonly withState?: boolean;
}

interface StoredSearches {
  readonly clock: Clock;
  readonly deadlineMs: number;
  readonly processes: number;
  readonly maxWaiting: number;
}

export type Searches = ReturnType<typeof openSearches>;

/**
 * Searches stored records, read-only, beside any writer. Searches of SQLite run in separate processes: a statement of
 * SQLite cannot be interrupted, and Ctrl-C must be. The caller disposes it.
 */
export function openSearches({ clock, deadlineMs, processes, maxWaiting }: StoredSearches) {
  // No secret, and none is needed: a cursor only has to fit the sink that it came from, which its scope says.
  const cursorKey = createHash('sha256').update('search cursor of a sink').digest();
  const pool = openSearchProcesses({ processes, maxWaiting, deadlineMs, cursorKey, clock });
  return {
    /** Rejects as `search` of the processes does, and with USAGE where there is nothing to search. */
    search: async (search: StoredSearch): Promise<StatedAnswer> => {
      const { target, params, signal, only, withState } = search;
      const { connector, entity, name } = target;
      const { sink, sinkId } = await searchedSink(search);
      const scope = `${sinkId} ${name}`;
      const searched = { connector: connector.name, entity, only: only ? [...only] : undefined, withState };
      if (sink.type === 'sqlite') {
        return await pool.search({ ...searched, file: sink.path, scope, params }, signal);
      }
      const { openPostgresSearch } = await import('../search/postgres-search.ts');
      await using opened = await openPostgresSearch(sink);
      return await opened.search(searched, params, { cursorKey, scope, clock, deadlineMs, signal });
    },
    [Symbol.asyncDispose]: () => pool[Symbol.asyncDispose](),
  };
}

async function searchedSink({ target, ofType, ofNothing }: StoredSearch) {
  const { name, connector } = target;
  const { sink } = connector;
  if (sink.type === 'jsonl') {
    throw usage(
      `${name} is in sink ${sink.name}, which cannot be searched (type jsonl): expected one of type sqlite or postgres. ${ofType(sink.directory)}`,
    );
  }
  const sinkId = await storedIn(target);
  if (sinkId === null) {
    throw usage(`Nothing of ${name} is stored in sink ${sink.name} yet. ${ofNothing}`);
  }
  return { sink, sinkId };
}
