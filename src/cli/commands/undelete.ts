import type { Command } from 'commander';
import { usage } from '../../core/usage-error.ts';
import { connectorNamed } from '../../settings/chosen-connectors.ts';
import { isConnectorId, type EntityName } from '../../core/names.ts';
import { noCounts, type EntityTable } from '../../core/records.ts';
import { knownSchema } from '../../engine/prepare/schema-policy.ts';
import { runRepair, type RepairWork } from '../../engine/repair/run-repair.ts';
import type { ConnectorSettings } from '../../settings/settings.ts';
import type { ConnectorStatus, RunSummary } from '../../sinks/ledger-reader.ts';
import type { ConnectorIdentity, Sink } from '../../sinks/sink.ts';
import { count, counted } from '../../telemetry/progress-text.ts';
import type { CommandContext, Enter } from '../command-context.ts';
import { connectorIdentity } from '../../app/connector-identity.ts';
import { exitCodes, type ExitCode } from '../output/exit-codes.ts';
import { findRun } from '../find-run.ts';
import { loadConfig } from '../load-config.ts';
import { openSink, statusOf } from '../../sinks/registry.ts';

/** Of one transaction: readers wait for none of them longer than for a page. */
const batchRows = 1000;
const command = 'connector-sync undelete';

export function addUndelete(command: Command, enter: Enter): void {
  command
    .argument('<connector>', 'its name in the config')
    .requiredOption('--run <id>', 'the run that marked the records as deleted, as "runs" shows it')
    .addHelpText(
      'after',
      `
Rows that were written since stay as they are. Records that really do not exist are found again by the next full sync.

Example:
  $ connector-sync undelete newsletter --run 20261121T152528492Z-4b72c77d`,
    )
    .action((name: string, { run }: { readonly run: string }) =>
      enter((context) => runUndelete(context, name, run)),
    );
}

async function runUndelete(context: CommandContext, name: string, id: string): Promise<ExitCode> {
  const { terminal, clock, program } = context;
  const settings = loadConfig(context);
  const connector = connectorNamed(settings, name);
  const found = await findRun(settings, id, program);
  if (found.run.connector !== connector.name || found.sink.name !== connector.sink.name) {
    throw usage(`Run ${id} is one of ${found.run.connector} in sink ${found.sink.name}, not of ${name}.`);
  }
  await using sink = await openSink(connector.sink, context);
  if (!sink.repair.canUndelete) {
    throw usage(
      `Sink ${connector.sink.name} (${connector.sink.type}) keeps only the key of a deleted record, so its deletes cannot be taken back. Records that still exist come back with "${program} sync ${name} --full", or one by one with "${program} refetch".`,
    );
  }
  const status = await statusOf(sink.history, connector.name);
  if (status === null) throw usage(`Sink ${connector.sink.name} has no data of ${name}.`);
  const revived = new Map<EntityName, number>();
  const report = await runRepair(
    {
      kind: 'undelete',
      sink,
      identity: identityOf(connector, status, context),
      tables: await storedTables(connector, sink),
      clock,
      costs: () => ({ calls: 0, retries: 0, waitedMs: 0, bytes: 0 }),
    },
    () => Promise.resolve(reviving(sink, found.run, revived, context.signal)),
  );
  const rows = [...revived.values()].reduce((sum, one) => sum + one, 0);
  terminal.printJson({ connector: name, of: id, run: report?.run ?? null, rows, entities: revived });
  terminal.print(
    rows === 0
      ? `${name}: run ${id} has no deletes left to undo.`
      : `${name}: ${counted(rows, 'delete')} taken back (run ${report?.run ?? ''})`,
  );
  for (const [entity, one] of revived) terminal.print(`  ${entity}: ${count(one)}`);
  return exitCodes.ok;
}

function reviving(
  sink: Sink,
  of: RunSummary,
  revived: Map<EntityName, number>,
  signal: AbortSignal,
): RepairWork {
  return async (lease, run, onDone) => {
    for (let isDone = false; !isDone;) {
      signal.throwIfAborted();
      const batch = await sink.repair.undelete(lease, run, of.run, batchRows);
      for (const { entity, rows } of batch.rows) {
        revived.set(entity, (revived.get(entity) ?? 0) + rows);
        onDone({ entity, counts: noCounts, deleted: 0 });
      }
      isDone = batch.isDone;
    }
  };
}

/** As whoever stored the records: nobody is asked anything. */
function identityOf(
  connector: ConnectorSettings,
  { baseUrl, connectorId }: ConnectorStatus,
  { clock }: Pick<CommandContext, 'clock'>,
): ConnectorIdentity {
  if (!isConnectorId(connectorId)) throw usage(`The ledger holds no id of ${connector.name}.`);
  return connectorIdentity(connector, { baseUrl, connectorId }, { clock, command });
}

/** Of the entities that were stored so far, with the columns that were added. */
async function storedTables(
  { name, definition, entities }: ConnectorSettings,
  sink: Sink,
): Promise<readonly EntityTable[]> {
  const stored = new Set((await sink.history.freshness(name)).map(({ entity }) => entity));
  const schema = await knownSchema(definition, entities, sink.drift, name);
  return [...schema.definition.entities.values()]
    .flatMap(({ table, explodedTable }) => (explodedTable === null ? [table] : [table, explodedTable]))
    .filter(({ entity }) => stored.has(entity));
}
