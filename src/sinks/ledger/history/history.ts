import type { Instant } from '../../../core/clock.ts';
import { grouped } from '../../../core/grouped.ts';
import { keyPartsOf, type Column, type EntityTable } from '../../../core/records.ts';
import type { ConnectorName, EntityName, OfEntity, RunId } from '../../../core/names.ts';
import { cellOf, columnOf, type Tx, quoted } from '../../../sql/database.ts';
import { completenessOf, type DoubtedListings, type ListingsOf } from '../../run-report.ts';
import { isHeldBy, mergeDrift, type SeenDrift } from '../../decisions/drift-columns.ts';
import { standing } from '../../decisions/becoming-due.ts';
import type { DriftRow, MissingRow, RowFacts } from '../../readings.ts';
import type { StoredIdentity } from '../../lease.ts';
import type { ConnectorStatus, EntityStatus, FileStatus, QuarantineRow } from '../../ledger-reader.ts';
import type { Absence, Doubt, Partition, WalkMode } from '../../partition.ts';
import { historyName } from '../../records/own-names.ts';
import { parseDoubt, parseFailure, parseFileFailure, parseHolder, parseParams } from '../../stored-json.ts';
import { readActions } from '../noted-actions.ts';
import {
  among,
  hasIdentity,
  readCopies,
  readUnfinishedCopy,
  storedOrigins,
  storedRawKey,
} from '../held-connectors.ts';
import { countsOfRun } from '../counts.ts';
import { isCounted, readsAgree, withPartition } from '../deletes/noted-rows.ts';
import type { RecordTables } from '../driver.ts';
import { readOutbox } from '../notices/ledger-notices.ts';
import { readPurgeWork, readPurgeNotes } from '../purges/purge-notes.ts';
import { hasBegun, readJournal, readScopeChanges } from '../runs/run-chains.ts';
import { knownTables, openStoredTable, storedTable, versionedEntities, readMasks } from '../tables.ts';
import * as overview from './overview.ts';

/**
 * Questions of `status`, `runs` and people to a ledger. `read` gives each of them a separate state, or all of them the
 * same one.
 */
export function ledgerReader(
  records: RecordTables,
  read: <Result>(work: (tx: Tx) => Promise<Result>) => Promise<Result>,
) {
  const asked =
    <Given extends readonly unknown[], Result>(question: (tx: Tx, ...given: Given) => Promise<Result>) =>
    async (...given: Given): Promise<Result> =>
      await read(async (tx) => await question(tx, ...given));
  return {
    runs: asked(overview.readRuns),
    run: asked(overview.readRun),
    journal: asked(readJournal),
    recentRuns: asked(overview.readRecentRuns),
    changes: asked(overview.readChanges),
    scopeChanges: asked(readScopeChanges),
    counts: asked(countsOfRun),
    origins: asked(storedOrigins),
    doubts: asked(overview.readDoubts),
    /** Connectors by name; only these where they are given. One pass over the sink either way. */
    connectors: asked(async (tx, only?: readonly ConnectorName[]) => await readConnectors(tx, only, records)),
    /** The state of every connector, in a pass that stays cheap for ten thousand of them. */
    overview: asked((tx) => overview.readOverview(tx)),
    pauses: asked((tx) => overview.readPauses(tx)),
    pause: asked(overview.readPause),
    freshness: asked(overview.readFreshness),
    unfinishedCopy: asked(readUnfinishedCopy),
    copies: asked(readCopies),
    drift: asked(readDrift),
    actions: asked(readActions),
    rawKey: asked(storedRawKey),
    masks: asked(async (tx, connector: ConnectorName) => await readMasks(tx, { connector })),
    outbox: asked(readOutbox),
    purged: asked(readPurgeNotes),
    /** Unfinished purge steps of these connectors, in the sink and in targets. */
    purgeWork: asked((tx, only: readonly ConnectorName[]) => readPurgeWork(tx, only)),
    completeAfter: asked(readCompleteAfter),
    explain: asked((tx, connector: ConnectorName, table: EntityTable, keyText: string, mostChars?: number) =>
      readRowHistory(tx, records, connector, table, keyText, mostChars),
    ),
    missing: asked(
      async (tx, connector: ConnectorName, limit: number) => await readMissing(tx, records, connector, limit),
    ),
    /** Partitions that stay due. */
    failures: asked(readFailed('FROM _sync_partitions WHERE due_since IS NOT NULL', parseFailure)),
    /** Files that did not come. */
    fileFailures: asked(readFailed('FROM _sync_downloads WHERE is_wanted = 1', parseFileFailure)),
    quarantine: asked(readQuarantine),
    isCancelRequested: asked(async (tx, run: RunId) => {
      const sql = `SELECT 1 FROM _sync_runs WHERE run = :run AND cancel_requested IS NOT NULL`;
      return (await tx.first(sql, { run })) !== undefined;
    }),
    finishedWindows: asked(async (tx, connector: ConnectorName, backfill: string) => {
      const sql = `SELECT "window" FROM _sync_windows WHERE connector = :connector AND backfill = :backfill ORDER BY "window"`;
      return await columnOf<string>(tx, sql, { connector, backfill });
    }),
  };
}

interface FailedRow {
  readonly entity: EntityName;
  readonly params: string;
  readonly failure: string;
}

/** Failures of items that are still wanted, newest first. */
function readFailed<Failure>(from: string, parse: (text: string) => Failure) {
  return async (tx: Tx, connector: ConnectorName, limit: number) => {
    const failed = await tx.rows<FailedRow>(
      `SELECT entity, params, failure ${from} AND connector = :connector AND failure IS NOT NULL
       ORDER BY failed_at DESC, id DESC LIMIT :limit`,
      { connector, limit },
    );
    return failed.map(({ entity, params, failure }) => {
      return { entity, params: parseParams(params), failure: parse(failure) };
    });
  };
}

/** Quarantined records, newest first; of one entity, and of each record so many characters, where they are given. */
async function readQuarantine(
  tx: Tx,
  connector: ConnectorName,
  limit: number,
  only?: { readonly entity: EntityName; readonly mostChars: number },
): Promise<readonly QuarantineRow[]> {
  const record = only === undefined ? 'record' : 'substr(CAST(record AS text), 1, :mostChars)';
  return await tx.rows<QuarantineRow>(
    `SELECT entity, reason, detail, ${record} AS record, first_seen_at
     FROM _sync_quarantine WHERE connector = :connector ${only === undefined ? '' : 'AND entity = :entity'} ORDER BY last_seen_at DESC, id DESC LIMIT :limit`,
    { connector, limit, ...only },
  );
}

/** Undeclared and misfitting fields, by entity and name. The drift of a field ends when a definition declares it. */
async function readDrift(tx: Tx, connector: ConnectorName): Promise<readonly DriftRow[]> {
  const seen = await tx.rows<Omit<SeenDrift, 'connector' | 'isEvolved'>>(
    `SELECT entity, field, kind, type, first_seen_at, first_run, is_refused FROM _sync_drift
     WHERE connector = :connector ORDER BY entity, field, kind DESC, first_seen_at, type`,
    { connector },
  );
  const entities = [...new Set(seen.map(({ entity }) => entity))];
  const tables = await knownTables(tx, { connector, entities });
  const drift = seen.flatMap((one): readonly SeenDrift[] => {
    const { evolved = [], declared = [] } = tables.get(one.entity) ?? {};
    const isEvolved = isHeldBy(evolved, one);
    const isDeclared = declared.some(({ name }) => name === one.field);
    return one.kind === 'undeclared' && isDeclared && !isEvolved ? [] : [{ ...one, connector, isEvolved }];
  });
  return mergeDrift(drift);
}

/** History of one row and of the partition that shows it; null where the key is not stored. */
async function readRowHistory(
  tx: Tx,
  records: RecordTables,
  connector: ConnectorName,
  { entity }: EntityTable,
  keyText: string,
  mostChars?: number,
) {
  const of = { connector, entity };
  const stored = await storedTable(tx, of);
  const opened = await openStoredTable(tx, records, of);
  const found = (await opened?.rowsOf(tx, [keyText]))?.get(keyText);
  if (stored === undefined || found === undefined) return null;
  const { row, owner } = found;
  const facts = await tx.first<ChangeFacts & { readonly changedByRun: RunId }>(
    `SELECT _first_seen_at AS first_seen_at, _changed_at AS changed_at, _run_id AS changed_by_run,
       _deleted_at AS deleted_at, _seq AS seq
     FROM ${quoted(records.tableName(connector, entity))} WHERE _row = :row`,
    { row },
  );
  if (facts === undefined) return null;
  const missing = await tx.first<Omit<MissingRow, 'keyText'>>(
    `SELECT m.entity, m.since AS missing_since, m.missed AS missed_walks,
       CASE WHEN ${readsAgree} THEN 'nothing' ELSE m.needs END AS needs
     FROM _sync_missing AS m JOIN _sync_partitions AS p ON p.id = m.partition
     WHERE m.missed > 0 AND p.gone IN (${standing.live}, ${standing.emptied})
       AND m.connector = :connector AND m.entity = :entity AND m.row = :row`,
    { connector, entity, row },
  );
  const versions = await readRowVersions(tx, records, of, { row, columns: stored.columns, mostChars });
  return {
    ...facts,
    row,
    missing: missing === undefined ? null : { ...missing, keyText },
    /** Null: stored outside a walk. */
    partition: owner === null ? null : await readPartition(tx, owner),
    /** The newest ones, newest first. Absent where versions of the entity's rows are not kept. */
    ...(versions === null ? {} : { versions }),
  };
}

type ChangeFacts = Pick<RowFacts, 'firstSeenAt' | 'changedAt' | 'deletedAt' | 'seq'>;

/** The first rows that look deleted, by entity and row. */
async function readMissing(tx: Tx, records: RecordTables, connector: ConnectorName, limit: number) {
  const found = await tx.rows<Pick<MissingRow, 'entity' | 'missingSince'> & { readonly row: number }>(
    `SELECT m.entity, m.row, m.since AS missing_since FROM ${withPartition}
     WHERE m.connector = :connector AND ${isCounted} ORDER BY m.entity, m.row LIMIT :limit`,
    { connector, limit },
  );
  const named: Pick<MissingRow, 'entity' | 'missingSince' | 'keyText'>[] = [];
  for (const [entity, rows] of grouped(found, (one) => one.entity)) {
    const opened = await openStoredTable(tx, records, { connector, entity });
    const numbers = rows.map(({ row }) => row);
    const keyed = await opened?.rows(tx, numbers);
    for (const { row, missingSince } of rows) {
      const keyText = keyed?.get(row)?.keyText;
      if (keyText !== undefined) named.push({ entity, missingSince, keyText });
    }
  }
  return named;
}

interface PartitionRow extends Pick<Partition, 'entity' | 'watermark'> {
  readonly mode: WalkMode | null;
  readonly marker: string | null;
  /** Confirmation that a row needs which its newest full walk did not meet; null: that walk proves nothing. */
  readonly absence: Absence;
  readonly sealedAt: Instant | null;
  readonly sealedRun: RunId | null;
  /** Beginning of the chain that made the newest full walk. */
  readonly fullAt: Instant | null;
  readonly foundAt: Instant;
  readonly dueSince: Instant | null;
  readonly params: string;
  readonly failure: string | null;
  readonly gone: number;
}

async function readPartition(tx: Tx, id: number) {
  const found = await tx.first<PartitionRow>(
    `SELECT entity, params, mode, watermark, marker, absence, sealed_at, sealed_run, full_at, found_at, due_since, failure, gone
     FROM _sync_partitions WHERE id = :id`,
    { id },
  );
  if (found === undefined) return null;
  const { params, failure, gone, ...partition } = found;
  return {
    ...partition,
    params: parseParams(params),
    failure: failure === null ? null : parseFailure(failure),
    isGone: gone === standing.ended || gone === standing.emptied,
  };
}

/** Versions shown to people. */
const mostShown = 10;

interface VersionRow extends Readonly<Record<`c${number}`, string | null>> {
  readonly seq: number;
  readonly validFrom: Instant;
  readonly validTo: Instant | null;
  readonly deletedAt: Instant | null;
}

/** The newest versions of a row, newest first; null where the entity's rows have none. */
async function readRowVersions(
  tx: Tx,
  records: Pick<RecordTables, 'tableName' | 'keepsVersions'>,
  { connector, entity }: OfEntity,
  how: { readonly row: number; readonly columns: readonly Column[]; readonly mostChars: number | undefined },
) {
  if (!records.keepsVersions || !(await versionedEntities(tx, connector)).has(entity)) return null;
  const { row, columns, mostChars } = how;
  const names = [...columns.map(({ name }) => name), '_extra'];
  const textOf = (name: string): string => {
    const text = `CAST(${quoted(name)} AS text)`;
    if (mostChars === undefined) return text;
    // The length tells most long values apart.
    const cut = `substr(${text}, 1, ${mostChars}) || '… (' || CAST(length(${text}) AS text) || ' characters)'`;
    return `CASE WHEN length(${text}) > ${mostChars} THEN ${cut} ELSE ${text} END`;
  };
  const found = await tx.rows<VersionRow>(
    `SELECT _seq AS seq, _valid_from AS valid_from, _valid_to AS valid_to, _deleted_at AS deleted_at,
       ${names.map((name, index) => `${textOf(name)} AS c${index}`).join(', ')}
     FROM ${quoted(historyName(records.tableName(connector, entity)))}
     WHERE _row = :row ORDER BY _seq DESC LIMIT :limit`,
    { row, limit: mostShown + 1 },
  );
  return found.slice(0, mostShown).map((version, index) => {
    const before = found[index + 1];
    const { seq, validFrom, validTo, deletedAt } = version;
    const changed =
      before &&
      names.flatMap((name, at) => {
        const [old, now] = [before[`c${at}`], version[`c${at}`]] as const;
        return old === now ? [] : [{ name, before: old ?? null, after: now ?? null }];
      });
    return {
      /** Number of the change with which it began. */
      seq,
      validFrom,
      /** Null: it is the current one. */
      validTo,
      isDeleted: deletedAt !== null,
      /** Fields in which it differs from the version before; null: none before it is kept. */
      changed: changed?.map(({ name }) => name) ?? null,
      /** The same with the beginnings of the values as texts, where they were asked for. */
      ...(mostChars === undefined ? {} : { differences: changed ?? [] }),
    };
  });
}

/**
 * Status of all connectors, or of the named ones. Runs one statement for each kind of fact, however many connectors
 * there are.
 */
export async function readConnectors(tx: Tx, only?: readonly ConnectorName[], records?: RecordTables) {
  const named = { only: only ?? [] };
  const known = await tx.rows<ConnectorRow>(
    `SELECT connector, definition, connector_id, base_url, holder FROM _sync_connectors
     WHERE ${among(only)} AND ${hasIdentity} ORDER BY connector`,
    named,
  );
  const entities = new Map<ConnectorName, EntityFacts[]>(known.map(({ connector }) => [connector, []]));
  const placeOf = ({ connector, entity }: OfEntity): string => `${connector}/${entity}`;
  const doubted = new Map(
    (await readDoubted(tx, { only, records })).map(
      ({ connector, entity, ...found }) => [placeOf({ connector, entity }), found] as const,
    ),
  );
  const unconfirmed = new Set((await readUnconfirmed(tx, { only })).map(placeOf));
  for (const row of await tx.rows<EntityRow>(entityStatusSql(only), named)) {
    const { connector, hasFiles, stored, bytes, wanted, failed, parents, ...others } = row;
    const { begun, complete, oldestReadAt, asOf, ...counts } = others;
    const place = placeOf(row);
    const files = hasFiles ? { stored, bytes, wanted, failed } : null;
    entities.get(connector)?.push({
      shown: { ...counts, partMissing: doubted.get(place) ?? null, files },
      isUnordered: unconfirmed.has(place),
      isRead: complete >= begun,
      // `as`: names of entities that this sink has written.
      parents: (parents?.split(',') ?? []) as EntityName[],
      oldestReadAt,
      asOf,
    });
  }
  const lastRunsSql = `${overview.newestRunsSql(`${overview.runColumns}, report`, `AND ${hasBegun}`)} WHERE ${among(only, 'known.connector')}`;
  const newest = await tx.rows<overview.RunRow>(lastRunsSql, named);
  const lastRuns = new Map(newest.map((run) => [run.connector, overview.runSummary(run)]));
  return known.map(({ holder, ...row }): ConnectorStatus => ({
    ...row,
    lastHolder: parseHolder(holder),
    lastRun: lastRuns.get(row.connector) ?? null,
    entities: entityStatuses(entities.get(row.connector) ?? []),
  }));
}

interface ConnectorRow extends StoredIdentity, Pick<ConnectorStatus, 'connector'> {
  readonly holder: string;
}

interface EntityRow
  extends
    Omit<EntityFacts['shown'], 'files' | 'partMissing'>,
    Pick<EntityFacts, 'oldestReadAt' | 'asOf'>,
    FileStatus {
  readonly connector: ConnectorName;
  /** Their names with commas in between. */
  readonly parents: string | null;
  readonly hasFiles: boolean;
  /** Listings that were read to their end, or are to be read. */
  readonly begun: number;
  /** Listings among `begun` that were read completely at least once. */
  readonly complete: number;
}

/**
 * Facts that `status` shows of each entity. Listings inside a tree and windows of backfills are temporary and not
 * counted, nor are rows below deleted records. Missing rows are counted without those that `get` has vouched for since,
 * and without those that go with their parent.
 */
function entityStatusSql(only: readonly ConnectorName[] | undefined): string {
  return `
WITH walked AS (
  SELECT connector, entity, CAST(sum(partitions) AS bigint) AS partitions, CAST(sum(due) AS bigint) AS due,
    max(last_sealed_at) AS last_sealed_at, CAST(sum(begun) AS bigint) AS begun, CAST(sum(complete) AS bigint) AS complete,
    min(oldest_read_at) AS oldest_read_at, string_agg(parent_entity, ',') AS parents
  FROM (
    SELECT connector, entity, parent_entity, count(*) AS partitions, count(due_since) AS due, max(sealed_at) AS last_sealed_at,
      count(coalesce(due_since, sealed_at)) AS begun, count(read_at) AS complete, min(read_at) AS oldest_read_at
    FROM (
      SELECT connector, entity, due_since, sealed_at, parent_entity, {json proof readAt} AS read_at
      FROM _sync_partitions
      WHERE ${among(only)} AND tree IS NULL AND backfill = '' AND gone = ${standing.live}
    ) AS one
    GROUP BY connector, entity, parent_entity
  ) AS of_parent
  GROUP BY connector, entity
), refused AS (
  SELECT connector, entity, count(*) AS quarantined FROM _sync_quarantine
  WHERE ${among(only)} GROUP BY connector, entity
), missed AS (
  SELECT m.connector, m.entity, count(*) AS missing
  FROM _sync_missing AS m JOIN _sync_partitions AS p ON p.id = m.partition
  WHERE ${among(only, 'm.connector')} AND m.missed > 0 AND p.gone IN (${standing.live}, ${standing.emptied})
  GROUP BY m.connector, m.entity
), kept AS (
  SELECT connector, entity, count(file) AS stored, CAST(coalesce(sum(bytes), 0) AS bigint) AS bytes, CAST(sum(is_wanted) AS bigint) AS wanted,
    count(*) FILTER (WHERE is_wanted = 1 AND failure IS NOT NULL) AS failed
  FROM _sync_downloads WHERE ${among(only)} GROUP BY connector, entity
), known AS (
  SELECT connector, entity FROM walked UNION SELECT connector, entity FROM refused
  UNION SELECT connector, entity FROM _sync_tables WHERE ${among(only)}
)
SELECT connector, entity, coalesce(t.rows - t.deleted, 0) AS rows, coalesce(t.deleted, 0) AS deleted,
  coalesce(missing, 0) AS missing, coalesce(partitions, 0) AS partitions, coalesce(due, 0) AS due,
  coalesce(quarantined, 0) AS quarantined, last_sealed_at,
  coalesce(begun, 0) AS begun, coalesce(complete, 0) AS complete, oldest_read_at, parents, t.as_of,
  kept.stored IS NOT NULL AS has_files, kept.stored, kept.bytes, kept.wanted, kept.failed
FROM known LEFT JOIN walked USING (connector, entity) LEFT JOIN refused USING (connector, entity)
  LEFT JOIN missed USING (connector, entity) LEFT JOIN kept USING (connector, entity)
  LEFT JOIN _sync_tables AS t USING (connector, entity)
ORDER BY connector, entity`;
}

/** Stored counts of an entity, and facts about the reading of its listings. */
interface EntityFacts {
  readonly shown: Omit<EntityStatus, 'lastCompleteReadAt' | 'completeness'>;
  /** Some of its listings were read in unknown order, and no total agreed. */
  readonly isUnordered: boolean;
  /** Every listing was read completely at least once. */
  readonly isRead: boolean;
  /** When the oldest of those complete reads was; null where there is none. */
  readonly oldestReadAt: Instant | null;
  /** The entities whose records led to them. */
  readonly parents: readonly EntityName[];
  /** When the newest chain began that read the entity whole. */
  readonly asOf: Instant | null;
}

/** Status of all entities of a connector, as shown by `status`: as complete as each and all that lead to it. */
function entityStatuses(facts: readonly EntityFacts[]): readonly EntityStatus[] {
  const byName = new Map(facts.map((one) => [one.shown.entity, one]));
  return facts.map(({ shown, oldestReadAt, asOf }): EntityStatus => {
    const names = new Set([shown.entity]);
    for (const name of names) for (const parent of byName.get(name)?.parents ?? []) names.add(parent);
    const leading = [...names].map((name) => byName.get(name));
    const completeness = completenessOf(
      {
        isUnread: leading.some((one) => one === undefined || one.shown.due > 0 || !one.shown.lastSealedAt),
        isDoubted: leading.some((one) => one?.shown.partMissing !== null),
        isUnordered: leading.some((one) => one?.isUnordered === true),
      },
      [],
    );
    const isWhole = leading.every((one) => one?.isRead !== false);
    return {
      ...shown,
      completeness: shown.partitions === 0 ? null : completeness,
      lastCompleteReadAt: isWhole ? oldestReadAt : earlier(oldestReadAt, asOf),
    };
  });
}

/**
 * Time since which an entity has been read completely, where a listing was never read completely, or may still be found
 * through an unread parent: it is new where a chain has read the entity completely before. Then the start of that chain
 * counts.
 */
function earlier(oldestReadAt: Instant | null, asOf: Instant | null): Instant | null {
  if (oldestReadAt === null || asOf === null) return null;
  return asOf < oldestReadAt ? asOf : oldestReadAt;
}

/** Selects listings of these connectors, or of all. `window`: the window of a backfill; '' for living listings. */
export interface OfListings {
  readonly only?: readonly ConnectorName[] | undefined;
  readonly window?: string;
  /** Tables in which colliding records are looked up; absent: records and listings that collide are not named. */
  readonly records?: RecordTables | undefined;
}

type Of<Found> = readonly (Found & { readonly connector: ConnectorName })[];

interface DoubtedRow extends OfEntity {
  readonly listings: number;
  readonly params: string;
  readonly doubt: string;
}

/** Listings whose last walk ended with a doubt. */
export async function readDoubted(tx: Tx, of: OfListings): Promise<Of<DoubtedListings>> {
  const rows = await tx.rows<DoubtedRow>(
    `SELECT connector, entity, listings, params, doubt FROM (
       SELECT connector, entity, params, doubt, count(*) OVER of_entity AS listings,
         row_number() OVER (of_entity ORDER BY CAST({json doubt runs} AS numeric) DESC,
           CAST({json doubt total} AS numeric) - CAST({json doubt shown} AS numeric) DESC NULLS LAST, id) AS place
       FROM (SELECT id, connector, entity, params, {json proof doubt} AS doubt ${fromListings(of)}
         AND proof LIKE '%"doubt":%') AS doubted
       WINDOW of_entity AS (PARTITION BY connector, entity)
     ) AS placed WHERE place = 1 ORDER BY connector, entity`,
    { window: of.window ?? '', only: of.only ?? [] },
  );
  const { records } = of;
  return await Promise.all(
    rows.map(async ({ doubt: text, params, ...row }) => {
      const { runs, ...doubt } = parseDoubt(text);
      const named = records === undefined ? doubt : await nameCollision(tx, records, { ...row, doubt });
      return { ...row, params: parseParams(params), doubt: named, runs };
    }),
  );
}

/**
 * Adds the record's key and the other listing to a collision, while both exist. The ledger keeps only their numbers.
 */
async function nameCollision(tx: Tx, records: RecordTables, of: OfEntity & { readonly doubt: Doubt }) {
  const { doubt } = of;
  if (doubt.kind !== 'collision') return doubt;
  const row = (await (await openStoredTable(tx, records, of))?.rows(tx, [doubt.row]))?.get(doubt.row);
  const names = (await storedTable(tx, of))?.key ?? [];
  const parts = keyPartsOf(row?.keyText ?? '', names.length);
  const [other] = await columnOf<string>(tx, 'SELECT params FROM _sync_partitions WHERE id = :other', {
    other: doubt.other,
  });
  return {
    ...doubt,
    ...(parts && { key: Object.fromEntries(names.map((name, index) => [name, parts[index] ?? null])) }),
    ...(other !== undefined && { params: parseParams(other) }),
  };
}

/** Listings that were read to their end in unknown order, where no total agreed. */
export async function readUnconfirmed(tx: Tx, of: OfListings): Promise<Of<ListingsOf>> {
  return await tx.rows(
    `SELECT connector, entity, count(*) AS listings ${fromListings(of)}
       AND proof LIKE '%"isOrdered":false%' AND proof NOT LIKE '%"isCounted":true%' AND proof NOT LIKE '%"doubt":%'
     GROUP BY connector, entity ORDER BY connector, entity`,
    { window: of.window ?? '', only: of.only ?? [] },
  );
}

/** Leaves out roots of other settings, which nothing leads to now. */
function fromListings({ only }: OfListings): string {
  return `FROM _sync_partitions AS one
    WHERE ${among(only)} AND backfill = :window AND tree IS NULL
      AND gone = ${standing.live}
      AND (parent_key IS NOT NULL OR NOT EXISTS (SELECT 1 FROM _sync_partitions AS root
        WHERE root.connector = one.connector AND root.entity = one.entity AND root.backfill = one.backfill
          AND root.tree IS NULL AND root.parent_key IS NULL AND root.origin > one.origin))`;
}

/** Deletes of the entity up to this change number may have been removed; 0: none was. */
async function readCompleteAfter(tx: Tx, connector: ConnectorName, entity: EntityName): Promise<number> {
  const sql = `SELECT complete_after FROM _sync_retained WHERE connector = :connector AND entity = :entity`;
  return (await cellOf<number>(tx, sql, { connector, entity })) ?? 0;
}
