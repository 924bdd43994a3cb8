import type { Instant } from '../core/clock.ts';
import { entityOfHistory, historyName, type ConnectorName } from '../core/names.ts';
import type { EntityTable } from '../core/records.ts';
import type { ConnectorSettings } from '../settings/settings.ts';
import type { RecordReader } from '../sinks/sink-access.ts';
import { checkCopied } from '../sinks/registry.ts';
import type { Manifest, PublishedEntity } from './manifest.ts';

/** What the sink holds of the target's connectors, in one state. */
export interface StoredState {
  readonly sinkId: string;
  readonly connectors: readonly StoredConnector[];
  /** Published entities of which the sink holds nothing now, of connectors that the target does not have. */
  readonly removed: readonly PublishedEntity[];
}

export type StoredConnector = Readonly<Awaited<ReturnType<typeof readStoredConnector>>>;

export interface StoredEntity {
  readonly table: EntityTable;
  readonly tableId: string;
  readonly asOf: Instant | null;
  /** A row stands for several records of one key, so that others are missing. */
  readonly isColliding: boolean;
}

/**
 * What the sink holds of a connector, and what its ledger says of the run that was published last. Throws
 * COPY_UNFINISHED where only a part of it is there.
 */
export async function readStoredConnector(
  reader: RecordReader,
  { name, definition, entities: chosen }: ConnectorSettings,
  newest: Manifest | null,
) {
  const { history } = reader;
  await checkCopied(history, name);
  const freshness = new Map((await history.freshness(name)).map(({ entity, asOf }) => [entity, asOf]));
  const [status] = await history.connectors([name]);
  const colliding = new Set(
    status?.entities.flatMap(({ entity, partMissing }) =>
      partMissing?.doubt.kind === 'collision' ? [entity] : [],
    ),
  );
  const declared = [...definition.entities.values()].flatMap(({ table, explodedTable }) => {
    const settings = chosen.get(table.entity);
    if (settings === undefined) return [];
    const names = explodedTable === null ? [table.entity] : [table.entity, explodedTable.entity];
    return settings.history === null ? names : [...names, ...names.map(historyName)];
  });
  const entities: StoredEntity[] = [];
  for (const entity of declared) {
    const table = await reader.table(name, entity);
    const tableId = await reader.tableId(name, entity);
    if (table === null || tableId === null) continue;
    const owner = entityOfHistory(entity) ?? entity;
    const isColliding = colliding.has(owner);
    entities.push({ table, tableId, asOf: freshness.get(owner) ?? null, isColliding });
  }
  const [newestRun] = await history.runs({ connector: name, limit: 1 });
  const published = newest === null ? null : publishedRun(newest, name);
  const known = published === null ? null : await history.run(published.run);
  const doubts = await history.doubts([name]);
  const first = doubts[0] ?? null;
  const isKnown = published === null || known !== null;
  const publishedEnd = published?.finishedAt ?? null;
  return {
    connector: name,
    /** Its rows may be those of another account; null: that is not in doubt. */
    doubt: first && { run: first.run, toUndo: doubts.filter((one) => one.isToUndo).map(({ run }) => run) },
    newestSeq: await reader.newestSeq(name),
    /** Null: the ledger knows none. */
    newestRun:
      newestRun === undefined
        ? null
        : { run: newestRun.run, startedAt: newestRun.startedAt, finishedAt: newestRun.finishedAt },
    oldestRunAt: isKnown ? null : await oldestRunAt(reader, name),
    /** The ledger still has the run that the newest publication names; true where it names none. */
    isPublishedRunKnown: isKnown,
    /** The published run ended then as the ledger says; true where it had not ended, or is not known. */
    isPublishedEndKnown: known === null || publishedEnd === null || known.finishedAt === publishedEnd,
    /** Changes of a later run have numbers that were published before it began. */
    hasReusedNumbers: newest !== null && isKnown && (await hasReusedNumbers(reader, name, entities, newest)),
    /** Those of the settings, stored or not. */
    declared,
    entities,
  };
}

/** `StoredState.removed`, without those that were published as removed. */
export async function readRemoved(
  reader: RecordReader,
  connectors: readonly Pick<ConnectorSettings, 'name'>[],
  newest: Manifest | null,
): Promise<readonly PublishedEntity[]> {
  const names = new Set<string>(connectors.map(({ name }) => name));
  const removed: PublishedEntity[] = [];
  for (const one of newest?.entities ?? []) {
    if (names.has(one.connector) || (one.through === 0 && one.asOf === null)) continue;
    if ((await reader.tableId(one.connector, one.entity)) === null) removed.push(one);
  }
  return removed;
}

/** The newest run that the target's entities of a connector name. */
export function publishedRun(newest: Manifest, connector: ConnectorName): PublishedEntity['run'] {
  return newest.entities
    .filter((one) => one.connector === connector)
    .map(({ run }) => run)
    .reduce(
      (last, run) => (last === null || (run !== null && run.startedAt > last.startedAt) ? run : last),
      null,
    );
}

/** More than a ledger keeps of a connector. */
const mostRuns = 2_000;

async function oldestRunAt({ history }: RecordReader, connector: ConnectorName): Promise<Instant | null> {
  const runs = await history.runs({ connector, limit: mostRuns });
  return runs.map(({ startedAt }) => startedAt).toSorted()[0] ?? null;
}

/** Of the newest numbers that were published. */
const searchedNumbers = 200;

async function runsAfter(
  { history }: RecordReader,
  connector: ConnectorName,
  published: PublishedEntity['run'],
): Promise<ReadonlySet<string>> {
  // Mostly it is among the first: reports of runs take time to read.
  for (let limit = 20; ; limit *= 10) {
    const runs = (await history.runs({ connector, limit })).map(({ run }) => run);
    const at = published === null ? 0 : runs.indexOf(published.run);
    if (at !== -1) return new Set(runs.slice(0, at));
    if (runs.length < limit || limit > mostRuns) return new Set(runs);
  }
}

/**
 * A later run cannot have made a change that was published before it began. Where a row says so, the sink was restored
 * from a backup that was made in the middle of the published run, and has given its numbers again.
 */
async function hasReusedNumbers(
  reader: RecordReader,
  connector: ConnectorName,
  entities: readonly StoredEntity[],
  newest: Manifest,
): Promise<boolean> {
  const later = await runsAfter(reader, connector, publishedRun(newest, connector));
  if (later.size === 0) return false;
  for (const { table, tableId } of entities) {
    // A version keeps its number when a later run writes its row again.
    if (entityOfHistory(table.entity) !== null) continue;
    const one = newest.entities.find(
      (other) => other.connector === connector && other.entity === table.entity,
    );
    // A table that was dropped and created again has other numbers.
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
