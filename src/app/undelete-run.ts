import { isConnectorId, type EntityName, type RunId } from '../core/names.ts';
import { noCounts, type EntityTable } from '../core/records.ts';
import { usage } from '../core/usage-error.ts';
import { knownSchema } from '../engine/prepare/schema-policy.ts';
import { runRepair, type RepairWork } from '../engine/repair/run-repair.ts';
import type { ConnectorSettings, LocalSettings } from '../settings/settings.ts';
import type { ConnectorStatus } from '../sinks/ledger-reader.ts';
import { openSink, statusOf } from '../sinks/registry.ts';
import type { RunReport } from '../sinks/run-report.ts';
import type { ConnectorIdentity } from '../sinks/lease.ts';
import type { Sink } from '../sinks/sink.ts';
import type { OpenHow } from '../sinks/sink-access.ts';
import type { AppOptions } from './app.ts';
import type { FoundRun } from './find-run.ts';
import { connectorIdentity, tellEnd } from './run-connector.ts';

/** Rows of one transaction: readers wait no longer for it than for a page. */
const batchRows = 1000;

export type Undeleted = Awaited<ReturnType<typeof undeleteRun>>;

/** Throws USAGE where the config has no such connector in the sink of the run. */
export function connectorOfRun(settings: LocalSettings, { run, sink }: FoundRun): ConnectorSettings {
  const connector = settings.connectors.get(run.connector);
  if (connector?.sink.name === sink.name) return connector;
  throw usage(
    `Run ${run.run} is one of ${run.connector} in sink ${sink.name}, which the config does not have.`,
  );
}

/** Takes back the deletes of one run, in a separate run. Throws USAGE where the sink holds nothing of the connector. */
export async function undeleteRun(
  connector: ConnectorSettings,
  of: RunId,
  options: Pick<AppOptions, 'clock' | 'command' | 'onRunEnd'> &
    Pick<OpenHow, 'who'> & {
      readonly signal: AbortSignal;
    },
) {
  const { name } = connector;
  const { clock } = options;
  await using sink = await openSink(connector.sink, options);
  const status = await statusOf(sink.history, name);
  if (status === null) throw usage(`Sink ${connector.sink.name} has no data of ${name}.`);
  const entities = new Map<EntityName, number>();
  const tables = await storedTables(connector, sink);
  const repair = (): Promise<RunReport | null> =>
    runRepair(
      {
        kind: 'undelete',
        act: { action: 'undelete', detail: { run: of } },
        sink,
        identity: identityOf(connector, status, options),
        tables,
        clock,
        costs: () => ({ calls: 0, retries: 0, waitedMs: 0, bytes: 0 }),
      },
      () => Promise.resolve(reviving(sink, of, entities, options.signal)),
    );
  const report = await tellEnd(options, connector, {}, repair);
  return { run: report?.run ?? null, entities };
}

function reviving(sink: Sink, of: RunId, revived: Map<EntityName, number>, signal: AbortSignal): RepairWork {
  return async (lease, run, onDone) => {
    for (let isDone = false; !isDone;) {
      signal.throwIfAborted();
      const batch = await sink.repair.undelete(lease, run, of, batchRows);
      for (const { entity, rows } of batch.rows) {
        revived.set(entity, (revived.get(entity) ?? 0) + rows);
        onDone({ entity, counts: noCounts, deleted: 0 });
      }
      isDone = batch.isDone;
    }
  };
}

/** Identity of the stored records: the API is not called. */
function identityOf(
  connector: ConnectorSettings,
  { baseUrl, connectorId }: ConnectorStatus,
  options: Pick<AppOptions, 'clock' | 'command'>,
): ConnectorIdentity {
  if (!isConnectorId(connectorId)) throw usage(`The ledger holds no id of ${connector.name}.`);
  return connectorIdentity(connector, { baseUrl, connectorId }, options);
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
