import type { RunId } from '../../../core/names.ts';
import type { LocalSettings } from '../../../settings/settings.ts';
import type { RunSummary } from '../../../sinks/ledger-reader.ts';
import { timeOfDay } from '../../output/about-time.ts';
import type { CommandContext } from '../../command-context.ts';
import { exitCodes, type ExitCode } from '../../output/exit-codes.ts';
import { fromEverySink } from '../../find-run.ts';
import { endText } from '../../output/run-report-text.ts';

const everyMs = 1000;
/** More than can begin in a second. */
const newestLimit = 50;

/** A run that began or ended since the last look. */
interface RunChange {
  readonly change: 'started' | 'ended';
  readonly run: RunSummary;
}

/** A line whenever a run starts or ends in any sink of the config, until the command is interrupted: then it ends with 0. */
export async function followRuns(context: CommandContext, settings: LocalSettings): Promise<ExitCode> {
  const { terminal, clock, signal } = context;
  const width = Math.max(0, ...[...settings.connectors.keys()].map((name) => name.length));
  let known = statesOf(await newestRuns(settings, new Map()));
  while (await isOver(clock.sleep(everyMs, signal))) {
    const runs = await newestRuns(settings, known);
    for (const { change, run } of changesSince(known, runs)) {
      terminal.printJson({ change, run });
      terminal.print(changeText(change, run, width));
    }
    known = new Map([...known, ...statesOf(runs)]);
  }
  return exitCodes.ok;
}

/** False: interrupted. */
function isOver(slept: Promise<void>): Promise<boolean> {
  return slept.then(
    () => true,
    () => false,
  );
}

type StateByRun = ReadonlyMap<RunId, RunSummary['state']>;

/** Oldest first; with those that were running at the last look, however many have begun since. */
async function newestRuns(settings: LocalSettings, known: StateByRun): Promise<readonly RunSummary[]> {
  const running = [...known].flatMap(([run, state]) => (state === 'running' ? [run] : []));
  const found = await fromEverySink(settings, async (history) => {
    const newest = await history.runs({ limit: newestLimit });
    const known = await Promise.all(running.map((id) => history.run(id)));
    return [...newest, ...known.filter((run) => run !== null)];
  });
  return [...new Map(found.flat().map((run) => [run.run, run])).values()].sort((left, right) =>
    left.startedAt < right.startedAt ? -1 : 1,
  );
}

function statesOf(runs: readonly RunSummary[]): StateByRun {
  return new Map(runs.map(({ run, state }) => [run, state]));
}

function changesSince(known: StateByRun, runs: readonly RunSummary[]): readonly RunChange[] {
  return runs.flatMap((run): readonly RunChange[] => {
    const before = known.get(run.run);
    const started: readonly RunChange[] = before === undefined ? [{ change: 'started', run }] : [];
    const hasEnded = run.state !== 'running' && (before === undefined || before === 'running');
    return hasEnded ? [...started, { change: 'ended', run }] : started;
  });
}

/** The end names no run: of one connector only one goes on at a time, and the line fits a narrow screen. */
function changeText(change: RunChange['change'], run: RunSummary, width: number): string {
  const { startedAt, finishedAt } = run;
  const connector = run.connector.padEnd(width);
  if (change === 'started') {
    const goesOn = run.continues === null ? '' : `, resumed ${run.continues}`;
    return `${timeOfDay(Date.parse(startedAt))}  ${connector}  started: ${run.run}${goesOn}`;
  }
  const endedMs = Date.parse(finishedAt ?? startedAt);
  const what = run.report === null ? `${run.state}, its process ended without a report` : endText(run.report);
  return `${timeOfDay(endedMs)}  ${connector}  ${what}`;
}
