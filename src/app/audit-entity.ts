import { rmSync } from 'node:fs';
import { join } from 'node:path';
import type { EntityName } from '../core/names.ts';
import type { EntityTable, RowContent } from '../core/records.ts';
import { type RecordShape, explodedShape, recordShape, shortHash } from '../engine/prepare/prepare-record.ts';
import { compileContentText } from '../engine/prepare/row-content.ts';
import { makeTemporaryFolder } from '../files/private-file.ts';
import type { EntityTarget } from '../settings/choices.ts';
import type { ConnectorSettings, SinkSettings } from '../settings/settings.ts';
import { compareKeys, type KeyDifferences } from '../sinks/compare-keys.ts';
import type { ComparedRow } from '../sinks/readings.ts';
import type { LedgerReader } from '../sinks/sink-access.ts';
import { accessSink, openHistory, storedStatus } from '../sinks/registry.ts';
import type { RunReport } from '../sinks/run-report.ts';
import type { App, SyncRequest } from './app.ts';

export type Audit = Awaited<ReturnType<typeof auditEntity>>;

/**
 * Reads an entity in full, with the entities that lead to it, and compares it with the rows in the connector's sink.
 * Throws the errors of `compareAside`. `limit`: the number of keys to name for each difference.
 */
export async function auditEntity(
  app: App,
  { connector, entity, table, isExploded }: EntityTarget,
  { limit, ...how }: Pick<SyncRequest, 'onEvent' | 'signal'> & { readonly limit: number },
) {
  const asked = { globs: { select: [entity.name], exclude: [] }, run: { isFull: true }, ...how };
  const shape = isExploded ? explodedShape(entity) : recordShape(entity, undefined);
  return await compareAside(app, connector, asked, async (report, compare) => {
    const isRead = report.outcome === 'ok' || report.outcome === 'degraded';
    return {
      /** Report of the reading, which is in no sink's history. */
      report,
      /** Null if the reading was not completed. `missing`: records that the service has and the sink does not. */
      differences: isRead && shape !== null ? await compare(table, limit, shape) : null,
      /** Why the read may be incomplete; empty: it is complete. */
      doubts: isRead ? doubtsOf(report) : [],
    };
  });
}

/**
 * Reads a connector into a sink in a private folder, which is removed at the end. `work` may compare its tables with
 * those of the connector's own sink, naming at most `limit` keys of each difference. Writes nothing to the connector's
 * sink. Throws the errors of a sync and of reading the sink.
 */
export async function compareAside<T>(
  app: App,
  connector: ConnectorSettings,
  asked: SyncRequest,
  work: (
    report: RunReport,
    compare: (table: EntityTable, limit: number, shape: RecordShape) => Promise<KeyDifferences>,
  ) => Promise<T>,
): Promise<T> {
  // First, so that no call is spent if there is nothing to compare with.
  const rawKey = await storedRawKey(connector);
  await storedStatus(connector);
  using folder = await privateFolder();
  const sink: SinkSettings = {
    type: 'sqlite',
    name: 'read',
    path: join(folder.path, 'read.db'),
    durability: 'normal',
    lockTimeoutMs: 60_000,
  };
  // Only records are compared: its files stay where they are.
  const run = { ...asked.run, ...(rawKey === null ? {} : { rawKey }) };
  const report = await app.readAside({ ...connector, sink, downloads: null }, { ...asked, run });
  await using read = await accessSink(sink).openRecords();
  await using stored = await accessSink(connector.sink).openRecords();
  const { name } = connector;
  const purged = await stored.history.purged(name);
  return await work(report, async (table, limit, shape) => {
    const scratchFile = join(folder.path, `${table.entity}.compared.db`);
    const textOf = compileContentText(shape);
    const digestOf = (row: RowContent): string => shortHash(textOf(row));
    return await compareKeys(
      withoutPurged(read.rows(name, table, digestOf), table.entity, purged),
      stored.rows(name, table, digestOf),
      { scratchFile, limit },
    );
  });
}

/** The key of the hashes in the connector's sink; null: nothing of it is stored. */
async function storedRawKey({ name, sink }: ConnectorSettings): Promise<string | null> {
  await using history = await openHistory(sink);
  return await history.rawKey(name);
}

/** A purged record is missing on purpose. */
async function* withoutPurged(
  rows: AsyncIterable<readonly ComparedRow[]>,
  entity: EntityName,
  purged: Awaited<ReturnType<LedgerReader['purged']>>,
): AsyncGenerator<readonly ComparedRow[]> {
  for await (const batch of rows) {
    yield purged === null
      ? batch
      : batch.filter(({ keyText }) => purged.noteOf(entity, keyText)?.canReturn !== false);
  }
}

/** Doubts about the entity and the entities that lead to it: nothing else was read. */
function doubtsOf({ entities, partMissing }: RunReport): readonly string[] {
  return entities.flatMap(({ entity, setAside, unordered, depthLimited, isWhole }) => {
    const doubts = [
      ...(setAside > 0 ? [`${entity}: ${setAside} of its walks failed`] : []),
      ...(unordered > 0
        ? [`${entity}: ${unordered} of its listings are unconfirmed: their order is not known`]
        : []),
      ...partMissing
        .filter((found) => found.entity === entity)
        .map(
          ({ listings }) =>
            `${entity}: part missing, ${listings} of its listings may have records that they did not show`,
        ),
      ...(depthLimited > 0 ? [`${entity}: ${depthLimited} listings lie below the depth limit`] : []),
    ];
    return doubts.length > 0 || isWhole ? doubts : [`${entity}: it was not read whole`];
  });
}

/** Creates a folder that only this user can read. It is removed even if the process ends early. */
async function privateFolder() {
  const path = await makeTemporaryFolder('connector-sync-audit-');
  const remove = (): void => rmSync(path, { recursive: true, force: true });
  process.once('exit', remove);
  return {
    path,
    // Synchronous: a process that ends between two steps would leave the folder undeleted.
    [Symbol.dispose]: (): void => {
      remove();
      process.off('exit', remove);
    },
  };
}
