import { instant } from '../core/clock.ts';
import { SyncError } from '../core/errors.ts';
import { statusOf, openSink } from '../sinks/registry.ts';
import type { Holder } from '../sinks/lease.ts';
import type { RunSummary } from '../sinks/ledger-reader.ts';
import type { OpenHow } from '../sinks/sink-access.ts';
import type { FoundRun } from './find-run.ts';
import { isGone } from './shared-work.ts';

/**
 * Asks a run to end at its next page, in whatever process it is. Gives its process where that has ended already, else
 * null. Throws USAGE for a run that is not running.
 */
export async function cancelRun(
  found: FoundRun,
  how: Pick<OpenHow, 'clock' | 'signal'>,
): Promise<Holder | null> {
  const { run, connector } = found.run;
  await using sink = await openSink(found.sink, how);
  const isAsked = await sink.requestCancel(run, instant(how.clock.now()));
  // It may have ended since it was found: the ledger's newest word counts.
  if (!isAsked) throw notRunning((await sink.history.run(run)) ?? found.run);
  const holder = (await statusOf(sink.history, connector))?.lastHolder ?? null;
  return holder !== null && isGone(holder) ? holder : null;
}

function notRunning({ run, connector, state, finishedAt }: RunSummary): SyncError {
  const when = finishedAt === null ? '' : ` at ${finishedAt}`;
  return new SyncError(`Run ${run} of ${connector} is not running: it ended ${state}${when}.`, {
    code: 'USAGE',
    recovery: 'stop',
    context: { run, state },
  });
}
