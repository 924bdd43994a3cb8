import { answerParent, explainedAs } from '../../child/start-child.ts';
import { usage } from '../../core/errors.ts';
import type { OfferedTable } from '../../sinks/records/offered-views.ts';
import { ofQuery, queryViews } from '../../sinks/sqlite/sqlite-query.ts';
import { fittingRows, mostColumns, mostCopyBytes, readStates } from './query-limits.ts';

export interface SqlQuery {
  /** The file of a SQLite sink. */
  readonly file: string;
  readonly offered: readonly OfferedTable[];
  readonly sql: string;
  readonly limit: number;
  readonly offset: number;
  /** A path for a copy of the data that the query reads. */
  readonly copy: string;
}

/** The process ends when it takes more memory: this build of SQLite sets no limit. */
const mostMiB = 768;

const calls = {
  query: async ({ limit, ...given }: SqlQuery) => {
    const { facts, found, views } = await queryViews({ ...given, mostCopyBytes }, readStates);
    const { columns, rows } = found;
    if (columns.length > mostColumns) {
      throw usage(
        `sql: the query has ${columns.length} columns: expected ${mostColumns} at most. Name those that you need.`,
      );
    }
    return { columns, read: facts, ...ofQuery(() => fittingRows(rows, limit), views) };
  },
};

/** Calls to a process that runs one query of an agent. */
export type SqlCalls = typeof calls;

answerParent(calls, {
  explain: explainedAs('The query failed', 'INTERNAL', 'stop'),
  isWatched: true,
  mostMiB,
});
