import { undatedLines } from '../../wording/run-report-table.ts';
import { knownOverviews } from '../list-page.ts';
import type { EntityGlobs } from '../../app/app.ts';
import { overviewOf } from '../../app/connector-states.ts';
import { planSync, openSharingApp } from '../../app/open-app.ts';
import { shareWork } from '../../app/shared-work.ts';
import { hasCode } from '../../core/errors.ts';
import { usage } from '../../core/usage-error.ts';
import { selectEntities } from '../../engine/chosen-entities.ts';
import type { CallEstimate } from '../../engine/plan-run.ts';
import { chosenConnectors } from '../../settings/choices.ts';
import { withParts } from '../../settings/load-settings.ts';
import type { ConnectorSettings } from '../../settings/settings.ts';
import { count, counted } from '../../telemetry/format.ts';
import { command, type CommandContext } from '../command.ts';
import { logLevel } from '../environment.ts';
import { exitCodes, gravestExitCode } from '../output/exit-codes.ts';
import { showRunEnd } from '../output/show-run.ts';
import { indentedTable, leftColumns, rightColumns } from '../output/text-table.ts';
import { openPublicationsAfterSync } from './publish/publish-after-sync.ts';
import { askedRuns, type ChosenConnector, syncAll } from './sync/sync-all.ts';

const examples = `
Examples:
  $ connector-sync sync                                  every connector, one after another
  $ connector-sync sync newsletter wiki                  these two
  $ connector-sync sync newsletter --select 'list*'      entities by name, with the parents they are found through
  $ connector-sync sync newsletter --exclude email_activity
  $ connector-sync sync --dry-run                        what would be read, and about how many calls it takes
  $ connector-sync sync --full newsletter                everything again from scratch; also finds deletes
  $ connector-sync sync --max-calls 500 --budget 10m     part of the work; the next sync resumes

A limit of time or calls is for all connectors of the command together: the connector that was read longest ago goes
first. A run that the limit ends is "partial", which is not a failure (exit code 0).
--max-calls counts calls for records, repeated ones included, but not those for tokens and for looking up connectors.

Several connectors: after an interruption (at most half an hour ago) the same command resumes the connector that it was in
and does not read again those that it had finished. Of several commands with the same flags at the same time each takes
what is free, waits for the others, and ends with 0 when all of it was done. A single busy connector is exit code 5.

Deletes: a row that a full read does not find is marked as deleted. More than the limits of the config (guards) are kept
instead, with exit code 6; --allow-deletes deletes them, those that later runs still have to check included:
it need not be repeated.`;

export const sync = command({
  argument: ['[connector...]', 'names from the config (default: all)'],
  options: {
    '--select <glob...>': 'only entities that match',
    '--exclude <glob...>': 'leave out entities that match, and what is found through them',
    '--full':
      'read everything again from scratch, ignoring saved progress; rows edited in the sink stay (audit finds them)',
    '--allow-deletes': 'delete rows even beyond the limits of the config (guards)',
    '--budget <duration>': 'stop after this time, for all connectors together: 90s, 10m, 1h30m',
    '--max-calls <n>': 'stop after this many calls for records, for all connectors together',
    '--dry-run': 'print the plan with an estimate of calls, read nothing',
  },
  help: examples,
  run: async (context, flags, names) => {
    const local = await context.settings();
    // Before anything is read: a mistake in it would otherwise be reported once for each connector.
    logLevel(context.env);
    const { select, exclude, full, allowDeletes } = flags;
    const all = narrowConnectors(chosenConnectors(local, names), { select, exclude });
    const chosen = all.flatMap(({ connector, globs }): ChosenConnector[] => {
      if (globs !== null) return [{ connector, globs }];
      context.terminal.note(`${connector.name}: skipped, no selected entity`);
      return [];
    });
    const asked = askedRuns(flags, context.clock);
    if (flags.dryRun) return await showPlans(chosen, full, context);
    const settings = withParts(local, 'access', 'redis');
    const shared =
      chosen.length < 2
        ? null
        : await shareWork(
            chosen.map(({ connector }) => connector),
            { select, exclude, full, allowDeletes },
            context.clock,
          );
    const publications = openPublicationsAfterSync(context, settings);
    await using app = await openSharingApp({
      settings,
      clock: context.clock,
      command: 'connector-sync sync',
      note: (line) => context.terminal.note(line),
      onRunEnd: (end) => {
        showRunEnd(context, end);
        publications.onRunEnd(end);
      },
      ...(shared === null ? {} : { work: shared.work }),
    });
    const ordered = asked.isBudgeted ? await longestAgoFirst(chosen) : chosen;
    const codes = await syncAll({ app, asked, shared, context }, ordered);
    await publications.publish();
    if (!context.signal.aborted) return gravestExitCode(codes);
    context.terminal.note('Stopped; everything read so far is stored. Run the same command again to resume.');
    return gravestExitCode([...codes, exitCodes.interrupted]);
  },
});

/** With a budget, the last of them may get no turn: it must not be the same one every time. */
async function longestAgoFirst(chosen: readonly ChosenConnector[]): Promise<readonly ChosenConnector[]> {
  const overviews = await knownOverviews(chosen.map(({ connector }) => connector));
  const lastStart = ({ connector }: ChosenConnector): string =>
    overviewOf(overviews, connector)?.lastRun?.startedAt ?? '';
  return chosen.toSorted((left, right) => (lastStart(left) < lastStart(right) ? -1 : 1));
}

/**
 * What globs mean for several connectors together, which may be of different types: one that matches nowhere is USAGE,
 * one that matches in another connector only is no mistake. Null where they leave nothing of a connector to read.
 * Throws USAGE also where nothing at all remains.
 */
function narrowConnectors(connectors: readonly ConnectorSettings[], globs: EntityGlobs) {
  for (const glob of [...globs.select, ...globs.exclude]) {
    if (connectors.some((connector) => matchesIn(connector, glob))) continue;
    const entities = new Set(connectors.flatMap((one) => [...one.entities.keys()]));
    throw usage(`No entity matches "${glob}"; there are ${[...entities].join(', ')}.`);
  }
  const narrowed = connectors.map((connector) => ({ connector, globs: globsOf(connector, globs) }));
  if (narrowed.some((one) => one.globs !== null)) return narrowed;
  throw usage('Nothing to read: every selected entity, or its parent, is excluded.');
}

function globsOf(connector: ConnectorSettings, globs: EntityGlobs): EntityGlobs | null {
  const select = globs.select.filter((glob) => matchesIn(connector, glob));
  const exclude = globs.exclude.filter((glob) => matchesIn(connector, glob));
  if (select.length === 0 && globs.select.length > 0) return null;
  // Each glob matches here, so what cannot be selected is that nothing remains.
  return canSelect(connector, { select, exclude }) ? { select, exclude } : null;
}

function matchesIn(connector: ConnectorSettings, glob: string): boolean {
  return canSelect(connector, { select: [glob], exclude: [] });
}

function canSelect({ definition, entities }: ConnectorSettings, globs: EntityGlobs): boolean {
  try {
    selectEntities(definition, entities, globs);
    return true;
  } catch (error) {
    if (hasCode(error, 'USAGE')) return false;
    throw error;
  }
}

/** What a sync would read, without reading it. */
async function showPlans(
  chosen: readonly ChosenConnector[],
  isFull: boolean,
  { terminal }: CommandContext,
): Promise<void> {
  const plans = await Promise.all(
    chosen.map(async ({ connector, globs }) => ({
      connector,
      plan: await planSync(connector, globs, isFull),
    })),
  );
  terminal.printJson({
    connectors: plans.map(({ connector, plan }) => ({
      connector: connector.name,
      entities: plan.estimates,
      addedParents: plan.addedParents,
    })),
  });
  for (const { connector, plan } of plans) {
    terminal.print(
      `${connector.name}: would read ${counted(plan.estimates.length, 'entity', 'entities')} into ${connector.sink.name}`,
    );
    const rows = plan.estimates.map(({ entity, calls, basis }) => [
      entity,
      calls === null ? '?' : count(calls),
      plan.addedParents.includes(entity) ? `${basis}; added as a parent` : basis,
    ]);
    const notes = undatedLines(plan.ended).map((line) => `  ${line}`);
    terminal.print(...indentedTable(planColumns, rows), `  ${callsText(plan.estimates)}`, ...notes);
  }
}

function callsText(estimates: readonly CallEstimate[]): string {
  const known = estimates.flatMap(({ calls }) => (calls === null ? [] : [calls]));
  if (known.length === 0) return 'the number of calls is known after the first run';
  const sum = known.reduce((left, right) => left + right, 0);
  return `about ${counted(sum, 'call')}${known.length < estimates.length ? ', plus an unknown number' : ''}`;
}

const planColumns = [...leftColumns('entity'), ...rightColumns('calls'), ...leftColumns('basis')];
