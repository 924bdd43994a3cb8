import type { Command } from 'commander';
import { ledgerFile, openExistingHistory, statusOf } from '../app.ts';
import type { ConnectorSettings } from '../settings/settings.ts';
import type {
  ConnectorStatus,
  FailedFile,
  PartitionFailure,
  PausedConnector,
  QuarantineRow,
} from '../sinks/ledger-reader.ts';
import { printable } from '../telemetry/printable.ts';
import { count, counted } from '../telemetry/progress-text.ts';
import { toTheMinute } from './about-time.ts';
import { chosenConnectors } from './chosen-connectors.ts';
import type { CommandContext, Enter } from './command-context.ts';
import { exitCodes, type ExitCode } from './exit-codes.ts';
import { jsonText } from './json-text.ts';
import { loadConfig } from './load-config.ts';
import { fittingTable } from './tables/fitting-table.ts';

interface ShownStatus {
  readonly connector: ConnectorSettings;
  /** Null: nothing was ever synced. */
  readonly status: ConnectorStatus | null;
  readonly paused: PausedConnector | null;
  readonly failures: readonly PartitionFailure[];
  readonly fileFailures: readonly FailedFile[];
  /** The newest ones. */
  readonly quarantine: readonly QuarantineRow[];
}

const failureLimit = 20;
const quarantineLimit = 3;

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
    connectors: shown.map(({ connector, status, paused, failures, fileFailures, quarantine }) => ({
      connector: connector.name,
      sink: connector.sink.name,
      paused: paused === null ? null : { since: paused.since, reason: paused.reason },
      status,
      failures,
      fileFailures,
      // Without the records: they may be large, and personal.
      quarantine: quarantine.map(({ record: _record, ...row }) => row),
    })),
  });
  const { program, terminal } = context;
  const lines = shown.flatMap((one) => statusText(one, program, terminal.columns()));
  for (const line of lines) terminal.print(line);
  return exitCodes.ok;
}

function readStatus(connector: ConnectorSettings): ShownStatus {
  using history = openExistingHistory(connector.sink);
  if (history === null)
    return { connector, status: null, paused: null, failures: [], fileFailures: [], quarantine: [] };
  return {
    connector,
    status: statusOf(history, connector.name),
    paused: history.pauses().find((pause) => pause.connector === connector.name) ?? null,
    failures: history.failures(connector.name, failureLimit),
    fileFailures: history.fileFailures(connector.name, failureLimit),
    quarantine: history.quarantine(connector.name, quarantineLimit),
  };
}

function statusText(shown: ShownStatus, program: string, width: number | null): readonly string[] {
  const { connector, status, failures } = shown;
  const sink = `sink ${connector.sink.name}`;
  if (status === null) {
    const nothing = `${connector.name}: nothing synced yet (${sink}); run "${program} sync ${connector.name}"`;
    return [nothing, ...pauseText(shown)];
  }
  const { lastRun } = status;
  const last =
    lastRun === null
      ? 'no run yet'
      : `last run ${lastRun.state}, ${lastRun.finishedAt ?? `since ${lastRun.startedAt}`} (${lastRun.run})`;
  const rows = status.entities.map((entity) => [
    entity.entity,
    count(entity.rows),
    entity.deleted === 0 ? '' : count(entity.deleted),
    entity.missing === 0 ? '' : count(entity.missing),
    count(entity.partitions),
    count(entity.due),
    entity.quarantined === 0 ? '' : count(entity.quarantined),
    // Rows exploded out of another entity's records have no walks of their own.
    entity.lastSealedAt === null
      ? entity.partitions === 0
        ? ''
        : 'never'
      : toTheMinute(entity.lastSealedAt),
  ]);
  return [
    `${connector.name}: ${last}, ${sink}`,
    ...pauseText(shown),
    ...fittingTable(columns, rows, width === null ? null : width - 2).map((line) => `  ${line}`),
    ...failures.map(
      ({ entity, params, failure }) =>
        `  ! ${entity} ${printable(jsonText(params))}: ${failure.code}: ${printable(failure.message)} (${failure.at})`,
    ),
    ...filesText(shown, status),
    ...missingText(status, program),
    ...quarantineText(shown, status),
  ];
}

/** Wanted files may also be of entities whose files the settings do not ask for: they are named where they are. */
function filesText({ connector, fileFailures }: ShownStatus, status: ConnectorStatus): readonly string[] {
  const lines = status.entities.flatMap(({ entity, files }) => {
    const isFetched = connector.downloads?.entities.some((name) => name === entity) === true;
    if (files === null || (files.stored === 0 && !isFetched)) return [];
    const { stored, bytes, wanted, failed } = files;
    const parts = [
      `${counted(stored, 'file')} (${count(Math.round(bytes / 1024))} KiB)`,
      ...(wanted > 0 ? [`${count(wanted)} to be fetched`] : []),
      ...(failed > 0 ? [`${count(failed)} of them failed`] : []),
    ];
    return [`  ${entity}: ${parts.join(', ')}`];
  });
  return [
    ...lines,
    ...fileFailures.map(
      ({ entity, params, failure }) =>
        `  ! file of ${entity} ${printable(jsonText(params))}: ${failure.code}: ${printable(failure.message)} (${failure.at})`,
    ),
  ];
}

/** A row that is missing is still among the rows. */
function missingText(status: ConnectorStatus, program: string): readonly string[] {
  const missing = status.entities.reduce((sum, entity) => sum + entity.missing, 0);
  if (missing === 0) return [];
  const rows = `${counted(missing, 'row')} ${missing === 1 ? 'seems' : 'seem'} to be gone at the service`;
  return [
    `  ${rows}: kept until that is certain, or until "${program} sync ${status.connector} --allow-deletes" where a guard withholds them`,
  ];
}

function pauseText({ paused }: ShownStatus): readonly string[] {
  return paused === null
    ? []
    : [`  its schedule is paused since ${paused.since}: ${printable(paused.reason)}`];
}

function quarantineText({ connector, quarantine }: ShownStatus, status: ConnectorStatus): readonly string[] {
  const all = status.entities.reduce((sum, { quarantined }) => sum + quarantined, 0);
  if (all === 0) return [];
  const place = `the table _sync_quarantine of ${printable(ledgerFile(connector.sink))}`;
  return [
    `  ${counted(all, 'record')} in quarantine, kept whole in ${place}${all > quarantine.length ? '; the newest' : ''}:`,
    ...quarantine.map(({ entity, reason, detail }) => `    ${entity} ${printable(`${reason}: ${detail}`)}`),
  ];
}

const columns = [
  { title: 'entity', align: 'left' },
  { title: 'rows', align: 'right' },
  { title: 'deleted', align: 'right' },
  { title: 'missing', align: 'right' },
  { title: 'partitions', align: 'right' },
  { title: 'due', align: 'right' },
  { title: 'quarantined', align: 'right' },
  { title: 'last sealed', align: 'left' },
] as const;
