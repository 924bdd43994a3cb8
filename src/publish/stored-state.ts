import type { Instant } from '../core/clock.ts';
import type { ConnectorName } from '../core/names.ts';
import type { ConnectorSettings } from '../settings/settings.ts';
import type { RecordReader } from '../sinks/record-reader.ts';
import { checkCopied } from '../sinks/registry.ts';
import type { Manifest } from './manifest.ts';
import { publishedRun, type StoredConnector, type StoredEntity } from './plan-publication.ts';

/** What the sink holds of a connector, and what its ledger says of the run that was published last. Throws COPY_UNFINISHED where only a part of it is there. */
export async function readStoredConnector(
  reader: RecordReader,
  { name, definition }: ConnectorSettings,
  newest: Manifest | null,
): Promise<StoredConnector> {
  const { history } = reader;
  await checkCopied(history, name);
  const freshness = new Map((await history.freshness(name)).map(({ entity, asOf }) => [entity, asOf]));
  const declared = [...definition.entities.values()].flatMap(({ table, explodedTable }) =>
    explodedTable === null ? [table.entity] : [table.entity, explodedTable.entity],
  );
  const entities: StoredEntity[] = [];
  for (const entity of declared) {
    const table = await reader.table(name, entity);
    const tableId = await reader.tableId(name, entity);
    if (table === null || tableId === null) continue;
    entities.push({ table, tableId, asOf: freshness.get(entity) ?? null });
  }
  const [newestRun] = await history.runs({ connector: name, limit: 1 });
  const published = newest === null ? null : publishedRun(newest, name);
  const isKnown = published === null || (await history.run(published.run)) !== null;
  return {
    connector: name,
    newestSeq: await reader.newestSeq(name),
    newestRun: newestRun === undefined ? null : { run: newestRun.run, startedAt: newestRun.startedAt },
    oldestRunAt: isKnown ? null : await oldestRunAt(reader, name),
    isPublishedRunKnown: isKnown,
    hasReusedNumbers: newest !== null && isKnown && (await hasReusedNumbers(reader, name, entities, newest)),
    declared,
    entities,
  };
}

/** More than a ledger keeps of a connector. */
const mostRuns = 2_000;

async function oldestRunAt({ history }: RecordReader, connector: ConnectorName): Promise<Instant | null> {
  const runs = await history.runs({ connector, limit: mostRuns });
  return runs.map(({ startedAt }) => startedAt).toSorted()[0] ?? null;
}

/** Of the newest numbers that were published; and of the newest runs. */
const searchedNumbers = 200;
const searchedRuns = 20;

/**
 * A later run cannot have made a change that was published before it began. Where a row says so, the sink was restored from a backup that was made in the
 * middle of the published run, and has given its numbers again.
 */
async function hasReusedNumbers(
  reader: RecordReader,
  connector: ConnectorName,
  entities: readonly StoredEntity[],
  newest: Manifest,
): Promise<boolean> {
  const published = publishedRun(newest, connector);
  const runs = (await reader.history.runs({ connector, limit: searchedRuns })).map(({ run }) => run);
  const at = published === null ? 0 : runs.indexOf(published.run);
  const later = new Set(at === -1 ? runs : runs.slice(0, at));
  if (later.size === 0) return false;
  for (const { table, tableId } of entities) {
    const one = newest.entities.find(
      (other) => other.connector === connector && other.entity === table.entity,
    );
    // A table that was made again has numbers of its own.
    if (one?.tableId !== tableId) continue;
    for await (const records of reader.changes(
      connector,
      table,
      Math.max(0, one.through - searchedNumbers),
    )) {
      if (records.some(({ seq, run }) => seq <= one.through && later.has(run))) return true;
      if ((records.at(-1)?.seq ?? 0) > one.through) break;
    }
  }
  return false;
}
