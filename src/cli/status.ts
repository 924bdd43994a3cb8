import type { Command } from 'commander';
import { openExistingHistory, statusOf } from '../app.ts';
import type { ConnectorSettings } from '../settings/settings.ts';
import type { ConnectorStatus, PartitionFailure } from '../sinks/ledger-reader.ts';
import { printable } from '../telemetry/printable.ts';
import { count } from '../telemetry/progress-text.ts';
import { chosenConnectors } from './chosen-connectors.ts';
import type { CommandContext, Enter } from './command-context.ts';
import { exitCodes, type ExitCode } from './exit-codes.ts';
import { jsonText } from './json-text.ts';
import { loadConfig } from './load-config.ts';
import { textTable } from './tables/text-table.ts';

interface ShownStatus {
  readonly connector: ConnectorSettings;
  /** Null: nothing was ever synced. */
  readonly status: ConnectorStatus | null;
  readonly failures: readonly PartitionFailure[];
}

const failureLimit = 20;

export function addStatus(program: Command, enter: Enter): void {
  program
    .command('status')
    .description('What the sinks hold: rows, what is due, the last run, failures, quarantine.')
    .argument('[connector...]', 'names from the config; all of them where none is given')
    .addHelpText('after', '\nExample:\n  $ connector-sync status newsletter')
    .action((names: readonly string[]) => enter((context) => runStatus(context, names)));
}

async function runStatus(context: CommandContext, names: readonly string[]): Promise<ExitCode> {
  const connectors = chosenConnectors(loadConfig(context), names);
  const shown = connectors.map(readStatus);
  context.terminal.printJson({
    connectors: shown.map(({ connector, status, failures }) => ({
      connector: connector.name,
      sink: connector.sink.name,
      status,
      failures,
    })),
  });
  for (const one of shown) for (const line of statusText(one)) context.terminal.print(line);
  return exitCodes.ok;
}

function readStatus(connector: ConnectorSettings): ShownStatus {
  using history = openExistingHistory(connector.sink);
  if (history === null) return { connector, status: null, failures: [] };
  return {
    connector,
    status: statusOf(history, connector.name),
    failures: history.failures(connector.name, failureLimit),
  };
}

function statusText({ connector, status, failures }: ShownStatus): readonly string[] {
  const sink = `sink ${connector.sink.name}`;
  if (status === null) {
    return [`${connector.name}: nothing synced yet (${sink}); run "connector-sync sync ${connector.name}"`];
  }
  const { lastRun } = status;
  const last =
    lastRun === null
      ? 'no run yet'
      : `last run ${lastRun.state}, ${lastRun.finishedAt ?? `since ${lastRun.startedAt}`} (${lastRun.run})`;
  const rows = status.entities.map((entity) => [
    entity.entity,
    count(entity.rows),
    count(entity.partitions),
    count(entity.due),
    entity.quarantined === 0 ? '' : count(entity.quarantined),
    // Rows exploded out of another entity's records have no walks of their own.
    entity.lastSealedAt ?? (entity.partitions === 0 ? '' : 'never'),
  ]);
  return [
    `${connector.name}: ${last}, ${sink}`,
    ...textTable(columns, rows).map((line) => `  ${line}`),
    ...failures.map(
      ({ entity, params, failure }) =>
        `  ! ${entity} ${printable(jsonText(params))}: ${failure.code}: ${printable(failure.message)} (${failure.at})`,
    ),
  ];
}

const columns = [
  { title: 'entity', align: 'left' },
  { title: 'rows', align: 'right' },
  { title: 'partitions', align: 'right' },
  { title: 'due', align: 'right' },
  { title: 'quarantined', align: 'right' },
  { title: 'last sealed', align: 'left' },
] as const;
