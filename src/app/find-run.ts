import { instant } from '../core/clock.ts';
import { SyncError } from '../core/errors.ts';
import { isRunId } from '../core/names.ts';
import { usage } from '../core/usage-error.ts';
import type { LocalSettings, SinkSettings } from '../settings/settings.ts';
import type { NotedAction } from '../sinks/actions.ts';
import type { Holder } from '../sinks/lease.ts';
import type { RunSummary } from '../sinks/ledger-reader.ts';
import { openExistingHistory, openSink, statusOf } from '../sinks/registry.ts';
import type { RunReport } from '../sinks/run-report.ts';
import type { LedgerReader, OpenHow } from '../sinks/sink-access.ts';
import { isGone } from './shared-work.ts';

export type FoundRun = Awaited<ReturnType<typeof findRun>>;

/** The run of that id, whichever sink holds it. Throws USAGE where none does. */
export async function findRun(settings: LocalSettings, id: string, program: string) {
  if (!isRunId(id)) throw usage(`Expected the id of a run, got "${id}". "${program} runs" lists them.`);
  let unreadable: SyncError | null = null;
  for await (const { sink, found: run, error } of askSinks(settings, (history) => history.run(id))) {
    if (run !== null) return { run, sink };
    unreadable ??= error;
  }
  // A sink that cannot be read may hold the run: its error comes before "not found".
  throw unreadable ?? usage(`No sink of the config has a run ${id}. "${program} runs" lists the runs.`);
}

/** Answers of each existing sink of the config; an error for one that cannot be read. */
async function* askSinks<Found>(settings: LocalSettings, ask: (history: LedgerReader) => Promise<Found>) {
  for (const sink of settings.sinks.values()) {
    try {
      await using history = await openExistingHistory(sink);
      if (history !== null) yield { sink, found: await ask(history), error: null };
    } catch (error) {
      if (!(error instanceof SyncError)) throw error;
      yield { sink, found: null, error };
    }
  }
}

/** Each sink of the config that exists, once. */
export async function fromEverySink<Result>(
  settings: LocalSettings,
  read: (history: LedgerReader, sink: SinkSettings) => Promise<Result>,
): Promise<readonly Result[]> {
  const results: Result[] = [];
  for (const sink of settings.sinks.values()) {
    await using history = await openExistingHistory(sink);
    if (history !== null) results.push(await read(history, sink));
  }
  return results;
}

/** Actions of people in all sinks, newest first, and the errors of sinks that cannot be read. */
export async function newestActions(settings: LocalSettings, query: Parameters<LedgerReader['actions']>[0]) {
  const found: SinkAction[] = [];
  const unreadable: SyncError[] = [];
  for await (const { sink, found: actions, error } of askSinks(settings, (history) =>
    history.actions(query),
  )) {
    for (const action of actions ?? []) found.push({ ...action, sink: sink.name });
    if (error !== null) unreadable.push(error);
  }
  found.sort((left, right) => (left.at < right.at ? 1 : -1));
  return { actions: found.slice(0, query.limit), unreadable };
}

type SinkAction = NotedAction & { readonly sink: string };

/** More than the ledger keeps. */
const mostRuns = 1000;

/**
 * The first reports of the same connectors, where those read everything; none where one is missing, or among `reports`.
 */
export async function firstReports(settings: LocalSettings, reports: readonly RunReport[]) {
  const oldest = await fromEverySink(settings, async (history) => {
    const runs = reports.map(({ connector }) => history.runs({ connector, kind: 'sync', limit: mostRuns }));
    return (await Promise.all(runs)).flatMap((all) => all.at(-1) ?? []);
  });
  const first = oldest.flat().flatMap(({ state, report }) => (state === 'ok' ? (report ?? []) : []));
  const isEarlier = first.every(({ run }) => reports.every((report) => report.run !== run));
  return isEarlier && first.length === reports.length ? first : [];
}

/**
 * Asks a run to end at its next page, in any process. Gives its process where that has already ended, else null. Throws
 * USAGE for a run that is not running.
 */
export async function cancelRun(found: FoundRun, how: Pick<OpenHow, 'clock' | 'signal' | 'who'>) {
  const { run, connector } = found.run;
  await using sink = await openSink(found.sink, how);
  const isAsked = await sink.requestCancel(run, instant(how.clock.now()));
  // It may have ended since it was found: the ledger's newest state counts.
  if (!isAsked) checkRunning((await sink.history.run(run)) ?? found.run);
  const holder = (await statusOf(sink.history, connector))?.lastHolder ?? null;
  return holder !== null && isGone(holder) ? holder : null;
}

/** What `cancelRun` has done. */
export function cancelledText({ run, connector }: RunSummary, ended: Holder | null): string {
  return ended === null
    ? `${connector}: run ${run} stops at its next page, within seconds; what is stored stays.`
    : `${connector}: the process of run ${run} (${ended.pid}) has ended; the next run resumes from what it stored.`;
}

/** Throws USAGE for a run that is not running. */
export function checkRunning({ run, connector, state, finishedAt }: RunSummary): void {
  if (state === 'running') return;
  const when = finishedAt === null ? '' : ` at ${finishedAt}`;
  throw new SyncError(`Run ${run} of ${connector} is not running: it ended ${state}${when}.`, {
    code: 'USAGE',
    recovery: 'stop',
    context: { run, state },
  });
}
