import * as z from 'zod';
import { readJson } from '../core/json.ts';

/*
 * The journal of a run: its newest requests and log lines, and what it waited for. It holds no value of a record, a
 * parameter or a credential; messages are those of errors. Times are milliseconds.
 */

const waits = z.object({
  /** Empty: checks, and other calls that are of no entity. */
  entity: z.string(),
  requests: z.number(),
  /** Requests, and pauses after those that failed. */
  apiMs: z.number(),
  /** Limits of the config and of the service. */
  limitMs: z.number(),
  /** Commits of pages. */
  sinkMs: z.number(),
});

const journal = z.object({
  /** The command whose process made the run, without its arguments, and the machine. */
  command: z.string(),
  host: z.string(),
  /** Newest last, as the lines are. */
  requests: z.array(
    z.object({
      at: z.number(),
      method: z.string(),
      address: z.string(),
      /** Null: no answer came. */
      status: z.number().nullable(),
      ms: z.number(),
      /** Null: the answer was no page of records. */
      records: z.number().nullable(),
      bytes: z.number(),
    }),
  ),
  lines: z.array(z.object({ at: z.number(), level: z.enum(['info', 'warn', 'error']), text: z.string() })),
  /** How often each status came, those of requests that are no longer listed among them; 0: no answer. */
  statuses: z.record(z.string(), z.number()),
  slowestMs: z.number(),
  /** Pauses that the service asked for. */
  pausedMs: z.number(),
  waits: z.array(waits),
  /** As far as the run was when this was written. */
  progress: z.object({
    elapsedMs: z.number(),
    /** Why no call goes through; null: they do. */
    wait: z.string().nullable(),
    /** Rows that were marked as deleted. */
    deleted: z.number().default(0),
    entities: z.array(
      z.object({
        entity: z.string(),
        /** Records that were read; one that came twice counts once. */
        rows: z.number(),
        /** Listings that are being read. */
        open: z.number(),
        setAside: z.number(),
        /** Records in all, as the service counts them; null: it does not. */
        expected: z.number().nullable(),
      }),
    ),
  }),
});
export type RunJournal = Readonly<z.infer<typeof journal>>;

/** Null for one that another version of the program has written. */
export function parseJournal(text: string): RunJournal | null {
  return journal.safeParse(readJson(text)).data ?? null;
}

/** The line with which the search for deleted rows begins. */
export const sweepLine = 'looks for deleted rows';

/** Requests and lines that a journal keeps at most, each. */
export const mostJournaled = 500;
export const mostJournalBytes = 1024 * 1024;
