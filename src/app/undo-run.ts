import { isConnectorId, type EntityName, type RunId } from '../core/names.ts';
import { noCounts, type EntityTable } from '../core/records.ts';
import { usage } from '../core/errors.ts';
import { knownSchema } from '../engine/prepare/schema-policy.ts';
import { runRepair, type RepairWork } from '../engine/run.ts';
import type { ConnectorSettings, LocalSettings } from '../settings/settings.ts';
import { openSink, statusOf } from '../sinks/registry.ts';
import type { EntityReport, RunReport } from '../sinks/run-report.ts';
import type { OpenHow, Sink } from '../sinks/sink-access.ts';
import { counted } from '../telemetry/format.ts';
import type { AppOptions } from './app.ts';
import type { FoundRun } from './find-run.ts';
import { connectorIdentity, tellEnd } from './run-connector.ts';

/** Rows of one transaction: readers wait no longer for it than for a page. */
const batchRows = 1000;

/** Undone rows of an entity. */
type UndoneEntity = Omit<Awaited<ReturnType<Sink['repair']['undo']>>, 'next'>;

/** Throws USAGE where the config has no such connector in the sink of the run. */
export function connectorOfRun(settings: LocalSettings, { run, sink }: FoundRun): ConnectorSettings {
  const connector = settings.connectors.get(run.connector);
  if (connector?.sink.name === sink.name) return connector;
  throw usage(
    `Run ${run.run} is one of ${run.connector} in sink ${sink.name}, which the config does not have.`,
  );
}

/**
 * Undoes the changes of one run, in a separate run; an interrupted undo is completed by the next. Returns the entities
 * in which it has found rows. Throws USAGE if the sink holds nothing of the connector.
 */
export async function undoRun(
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
  // Identity of the stored records: the API is not called.
  const { baseUrl, connectorId } = status;
  if (!isConnectorId(connectorId)) throw usage(`The ledger holds no id of ${name}.`);
  const entities = new Map<EntityName, UndoneEntity>();
  const tables = await storedTables(connector, sink);
  const repair = (): Promise<RunReport | null> =>
    runRepair(
      {
        kind: 'undo',
        act: { action: 'undo', detail: { run: of } },
        sink,
        identity: connectorIdentity(connector, { baseUrl, connectorId }, options),
        tables,
        clock,
        costs: () => ({ calls: 0, retries: 0, waitedMs: 0, bytes: 0 }),
      },
      () => Promise.resolve(undoing({ sink, of, tables }, entities, options.signal)),
    );
  return { run: (await tellEnd(options, connector, {}, repair))?.run ?? null, entities };
}

function undoing(
  { sink, of, tables }: { readonly sink: Sink; readonly of: RunId; readonly tables: readonly EntityTable[] },
  undone: Map<EntityName, UndoneEntity>,
  signal: AbortSignal,
): RepairWork {
  return async (lease, run, onDone) => {
    for (const { entity } of tables) {
      for (let after: number | null = 0; after !== null;) {
        signal.throwIfAborted();
        const { next, ...batch } = await sink.repair.undo(lease, run, of, {
          entity,
          after,
          limit: batchRows,
        });
        after = next;
        const sum = addUp(undone.get(entity) ?? batch, undone.has(entity) ? batch : null);
        if (rowsUndone(sum) + sum.kept.rows > 0) undone.set(entity, sum);
        onDone({ entity, counts: noCounts, deleted: sum.deleted });
      }
    }
  };
}

function addUp(one: UndoneEntity, more: UndoneEntity | null): UndoneEntity {
  if (more === null) return one;
  return {
    deleted: one.deleted + more.deleted,
    revived: one.revived + more.revived,
    restored: one.restored + more.restored,
    kept: {
      rows: one.kept.rows + more.kept.rows,
      keys: [...one.kept.keys, ...more.kept.keys].slice(0, 1_000),
    },
  };
}

/** Rows that are as they were before the run. */
export function rowsUndone({ deleted, revived, restored }: UndoneEntity): number {
  return deleted + revived + restored;
}

/** Whether there may be something to undo. */
export function hasWritten({ deleted, counts }: Pick<EntityReport, 'deleted' | 'counts'>): boolean {
  return deleted + counts.inserted + counts.updated > 0;
}

/** For people: what became of the rows of an entity. */
export function undoneTexts(entity: EntityName, { deleted, revived, restored, kept }: UndoneEntity) {
  const { rows, keys } = kept;
  const named = `${counted(rows, 'row')} (${keys.slice(0, 10).join(' ')}${rows > 10 ? ' ...' : ''})`;
  const parts = [
    deleted > 0 && `${counted(deleted, 'inserted row')} marked as deleted`,
    revived > 0 && `${counted(revived, 'delete')} taken back`,
    restored > 0 && `${counted(restored, 'row')} restored from the history`,
    rows > 0 && `as the run left them until the next run reads them again: ${named}`,
  ];
  return parts.filter((part) => part !== false).map((part) => `${entity}: ${part}`);
}

/** Tables of the stored entities, including added columns. */
async function storedTables({ name, definition, entities }: ConnectorSettings, sink: Sink) {
  const stored = new Set((await sink.history.freshness(name)).map(({ entity }) => entity));
  const schema = await knownSchema(definition, entities, sink.drift, name);
  return [...schema.definition.entities.values()]
    .flatMap(({ table, explodedTable }) => (explodedTable === null ? [table] : [table, explodedTable]))
    .filter(({ entity }) => stored.has(entity));
}
