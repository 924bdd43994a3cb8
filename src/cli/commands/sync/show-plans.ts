import type { EntityGlobs } from '../../../app/app.ts';
import { planSync } from '../../../app/open-app.ts';
import type { CallEstimate } from '../../../engine/estimate-calls.ts';
import type { ConnectorSettings } from '../../../settings/settings.ts';
import { count, counted } from '../../../telemetry/format.ts';
import type { CommandContext } from '../../command-context.ts';
import { exitCodes, type ExitCode } from '../../output/exit-codes.ts';
import { textTable, leftColumns, rightColumns } from '../../output/text-table.ts';

/** A connector, and which of its entities a person named. */
export interface ChosenConnector {
  readonly connector: ConnectorSettings;
  readonly globs: EntityGlobs;
}

/** What a sync would read, without reading it. */
export async function showPlans(
  chosen: readonly ChosenConnector[],
  isFull: boolean,
  { terminal }: CommandContext,
): Promise<ExitCode> {
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
    for (const line of textTable(planColumns, rows)) terminal.print(`  ${line}`);
    terminal.print(`  ${callsText(plan.estimates)}`);
  }
  return exitCodes.ok;
}

function callsText(estimates: readonly CallEstimate[]): string {
  const known = estimates.flatMap(({ calls }) => (calls === null ? [] : [calls]));
  if (known.length === 0) return 'the number of calls is known after the first run';
  const sum = known.reduce((left, right) => left + right, 0);
  return `about ${counted(sum, 'call')}${known.length < estimates.length ? ', plus an unknown number' : ''}`;
}

const planColumns = [...leftColumns('entity'), ...rightColumns('calls'), ...leftColumns('basis')];
