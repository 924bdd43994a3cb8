import { instant, type Instant } from '../../../core/clock.ts';
import { grouped } from '../../../core/grouped.ts';
import type { ConnectorName, RunId } from '../../../core/names.ts';
import type { JsonType, Quarantined } from '../../../core/records.ts';
import { cellOf, type Tx } from '../../../sql/database.ts';
import { isHeldBy } from '../../decisions/drift-columns.ts';
import { newForMs, newsName, type FieldNews } from '../../readings.ts';
import type { StoredIdentity } from '../../lease.ts';
import type {
  ChangesOfDay,
  EntityFreshness,
  PausedConnector,
  RunFacts,
  RunFilter,
  RunSummary,
} from '../../ledger-reader.ts';
import type { WithheldOf } from '../../requests.ts';
import type { RunReport } from '../../run-report.ts';
import { parseColumns, parseDeletes, parseReport } from '../../stored-json.ts';
import { hasWritten } from '../counts.ts';
import { among } from '../held-connectors.ts';
import { readKnownFields } from '../noted-actions.ts';
import { readPurgeWork } from '../purges/purge-notes.ts';
import { hasBegun, keptRuns } from '../runs/run-chains.ts';
import { SyncError } from '../../../core/errors.ts';

interface Of {
  readonly connector: ConnectorName;
}

/** Facts of the newest report of a connector. */
type Reported = Readonly<ReturnType<typeof reportedIn>>;

const nothingReported: Reported = {
  missing: [],
  partMissing: [],
  unconfirmed: [],
  error: null,
  failures: [],
  quarantined: [],
  resumeAt: null,
};

/**
 * The states of all connectors, or of `only` these. One statement for each kind of fact, whatever the number of
 * connectors; only those reports are read that say more than "everything is fine".
 */
export async function readOverview(tx: Tx, only?: readonly ConnectorName[]) {
  const identities = await tx.rows<StoredIdentity & Of>(
    `SELECT connector, definition, connector_id, base_url FROM _sync_connectors WHERE ${among(only)}`,
    { only: only ?? [] },
  );
  const identityOf = byConnector(
    identities.map(({ connector, ...identity }) => ({
      connector,
      identity: identity.baseUrl === '' ? null : identity,
    })),
  );
  const pauses = byConnector(await readPauses(tx, only));
  const { lastRuns, ended } = await readNewestRuns(tx, only);
  const ofEach = async <Row extends object>(sql: string) =>
    grouped(await tx.rows<Row & Of>(sql, { only: only ?? [] }), ({ connector }) => connector);
  const tables = await ofEach<EntityFreshness & { readonly rows: number }>(
    `SELECT connector, entity, as_of, rows - deleted AS rows FROM _sync_tables
     WHERE ${among(only)} ORDER BY connector, entity`,
  );
  const reported = await readReports(tx, only);
  const news = await readFieldNews(tx, await newSince(tx), only);
  const newFields = grouped(news, ({ connector }) => connector);
  const withheld = await ofEach<WithheldOf>(
    `SELECT connector, entity, withheld FROM _sync_retained
     WHERE withheld > 0 AND ${among(only)} ORDER BY connector, entity`,
  );
  const purgeWork = await readPurgeWork(tx, only);
  return [...new Set([...identityOf.keys(), ...pauses.keys()])].toSorted().map((connector) => {
    const ofTables = tables.get(connector) ?? [];
    const freshness: readonly EntityFreshness[] = ofTables;
    return {
      connector,
      /** Null where the connector is only paused, or no run of it could begin so far. */
      identity: identityOf.get(connector)?.identity ?? null,
      paused: pauses.get(connector) ?? null,
      /** The newest of kind `sync`. */
      lastRun: lastRuns.get(connector) ?? null,
      /** The newest of kind `sync` that has a report: neither in progress nor killed. */
      lastEnded: ended.get(connector) ?? null,
      freshness,
      /** Rows of all entities, without tombstones. */
      rows: ofTables.reduce((sum, { rows }) => sum + rows, 0),
      ...(reported.get(connector) ?? nothingReported),
      /** Fields met first in the last days (`newForMs`). */
      newFields: newFields.get(connector) ?? [],
      /** Data past its retention that a guard keeps, as of the last check. */
      withheldByAge: (withheld.get(connector) ?? []).map(({ connector: _connector, ...one }) => one),
      /** Unfinished purge work, as `LedgerReader.purgeWork`. */
      purgeWork: purgeWork.filter((one) => one.connector === connector),
    };
  });
}

/**
 * Earliest time of a new field, from the time of the newest run, so that one pass stays cheap where many fields have
 * long been known.
 */
async function newSince(tx: Tx): Promise<Instant> {
  const newest = await cellOf<Instant>(tx, 'SELECT started_at FROM _sync_runs ORDER BY number DESC LIMIT 1');
  return newest === undefined ? '' : instant(Date.parse(newest) - newForMs);
}

/** Most connectors are not running: their newest run is the newest that ended. */
async function readNewestRuns(tx: Tx, asked: readonly ConnectorName[] | undefined) {
  const newest = await tx.rows<RunFacts & { readonly hasReport: boolean }>(
    `${newestRunsSql(`${runColumns}, run.report IS NOT NULL AS has_report`)} WHERE ${among(asked, 'known.connector')}`,
    { only: asked ?? [] },
  );
  const factsOf = (runs: typeof newest) =>
    byConnector(runs.map(({ hasReport: _hasReport, ...run }): RunFacts => run));
  const ended = factsOf(newest.filter(({ hasReport }) => hasReport));
  const only = newest.flatMap(({ connector, hasReport }) => (hasReport ? [] : [connector]));
  const earlier = await tx.rows<RunFacts>(
    `${newestRunsSql(runColumns, 'AND one.report IS NOT NULL')} WHERE known.connector IN {only text}`,
    { only },
  );
  return { lastRuns: factsOf(newest), ended: new Map([...ended, ...byConnector(earlier)]) };
}

const isWorthReading = `(run.state <> 'ok' OR run.report LIKE '%"partMissing":[{%'
  OR run.report LIKE '%"unconfirmed":[{%'
  OR replace(run.report, '"withheld":0', '') LIKE '%"withheld":%'
  OR replace(run.report, '"pending":0', '') LIKE '%"pending":%'
  OR replace(run.report, '"quarantined":0', '') LIKE '%"quarantined":%')`;

/** Parses the newest reports. Most hold nothing of the kind, and their text shows that before it is parsed. */
async function readReports(tx: Tx, only: readonly ConnectorName[] | undefined) {
  const reported = new Map<ConnectorName, Reported>();
  const newest = (begun: string, where: string) =>
    tx.rows<Of & { readonly report: string }>(
      `${newestRunsSql('run.connector, run.report', `AND one.report IS NOT NULL ${begun}`)}
       WHERE ${where} AND ${among(only, 'known.connector')}`,
      { only: only ?? [] },
    );
  for (const { connector, report } of await newest(`AND ${hasBegun}`, isWorthReading)) {
    reported.set(connector, reportedIn(parseReport(report)));
  }
  // The report of a run that could not begin has no records: the result of the one before it still holds.
  for (const { connector, report } of await newest('', `NOT ${hasBegun}`)) {
    const { error } = parseReport(report);
    const before = reported.get(connector) ?? nothingReported;
    reported.set(connector, { ...before, error, failures: [], resumeAt: null });
  }
  await addReasons(tx, reported);
  return reported;
}

/** Adds why records are in quarantine; only few connectors have any. */
async function addReasons(tx: Tx, reported: Map<ConnectorName, Reported>): Promise<void> {
  const only = [...reported].flatMap(([connector, { quarantined }]) =>
    quarantined.length > 0 ? [connector] : [],
  );
  if (only.length === 0) return;
  const known = await tx.rows<Of & Pick<Quarantined, 'entity' | 'reason'>>(
    'SELECT DISTINCT connector, entity, reason FROM _sync_quarantine WHERE connector IN {only text}',
    { only },
  );
  for (const connector of only) {
    const before = reported.get(connector) ?? nothingReported;
    const quarantined = before.quarantined.map((one) => {
      const own = known.filter((found) => found.connector === connector && found.entity === one.entity);
      return { ...one, reasons: own.map(({ reason }) => reason) };
    });
    reported.set(connector, { ...before, quarantined });
  }
}

function reportedIn({ entities, partMissing, unconfirmed, error, failures, resumeAt }: RunReport) {
  return {
    /**
     * Rows that seemed deleted in the newest run that began and ended, and are kept; entities without such rows are
     * left out. `withheld`: by a guard, so that a person must check; `pending`: for a `get` or another full walk.
     */
    missing: entities
      .map(({ entity, withheld, pending }) => ({ entity, withheld, pending }))
      .filter(({ withheld, pending }) => withheld + pending > 0),
    /** Listings that ended with a doubt in the same run; entities without such listings are left out. */
    partMissing: partMissing.map(({ entity, listings, doubt }) => {
      return { entity, listings, ...(doubt.kind === 'unproven' ? { isUnproven: true as const } : {}) };
    }),
    /** Listings read to their end without proof in the same run; entities without such listings are left out. */
    unconfirmed,
    /** Error that ended `lastEnded`; null if it did not fail. */
    error,
    /** Reasons why listings or files of `lastEnded` were set aside, each code once, with its entities. */
    failures: [...grouped(failures, ({ code }) => code)].map(([code, some]) => ({
      code,
      recovery: some.at(-1)?.recovery ?? 'retry',
      entities: [...new Set(some.map(({ entity }) => entity))],
    })),
    /** Records of the run that `missing` is of, and why records of their entities are in quarantine. */
    quarantined: entities.flatMap(({ entity, counts: { quarantined: records } }) =>
      records > 0 ? [{ entity, records, reasons: [] as readonly Quarantined['reason'][] }] : [],
    ),
    /** Time until which the service asked for no calls, in `lastEnded`. */
    resumeAt,
  };
}

export async function readPauses(tx: Tx, only?: readonly ConnectorName[]) {
  const sql = `SELECT connector, since, reason, (SELECT who FROM _sync_actions AS act
      WHERE act.connector = pause.connector AND act.action = 'pause' ORDER BY id DESC LIMIT 1) AS who
    FROM _sync_pauses AS pause WHERE ${among(only)} ORDER BY connector`;
  return await tx.rows<PausedConnector>(sql, { only: only ?? [] });
}

export async function readPause(tx: Tx, connector: ConnectorName): Promise<PausedConnector | null> {
  const [pause = null] = await readPauses(tx, [connector]);
  return pause;
}

/** Start of the newest chain that read each entity completely; entities that were never begun are left out. */
export async function readFreshness(tx: Tx, connector: ConnectorName): Promise<readonly EntityFreshness[]> {
  const sql = `SELECT entity, as_of FROM _sync_tables WHERE connector = :connector ORDER BY entity`;
  return await tx.rows(sql, { connector });
}

function byConnector<Row extends Of>(rows: readonly Row[]): ReadonlyMap<ConnectorName, Row> {
  return new Map(rows.map((row) => [row.connector, row]));
}

/** The state of one connector. */
export type ConnectorOverview = Readonly<Awaited<ReturnType<typeof readOverview>>[number]>;

export type Overview = ReadonlyMap<ConnectorName, ConnectorOverview>;

/**
 * Text of each connector that was ever held, which changes with every transaction of a holder. Null: the connector was
 * held, and nothing was committed.
 */
export type LastCommits = readonly {
  readonly connector: ConnectorName;
  readonly lastCommit: string | null;
}[];

/** Overview of all connectors, with the last commit of each when it was read. */
interface KnownOverview {
  readonly overview: Overview;
  /** Null: unknown, so that everything is read again. */
  readonly commits: ReadonlyMap<ConnectorName, string | null> | null;
}

/**
 * Renews an overview: reads the connectors that were written to since, and all pauses, because these are written
 * without holding a connector. Returns the same object and entries where nothing was written.
 */
async function renewOverview(tx: Tx, known: KnownOverview, lastCommits: (tx: Tx) => Promise<LastCommits>) {
  const [last, pauses] = await Promise.all([lastCommits(tx), readPauses(tx)]);
  const commits = new Map(last.map((one) => [one.connector, one.lastCommit]));
  if (known.commits === null) {
    return { overview: byConnector(await readOverview(tx)), commits };
  }
  const pauseOf = byConnector(pauses);
  const held = [...commits].filter(([name, commit]) => known.commits?.get(name) !== commit);
  // A target is cleaned, and fields are marked as known, without holding the connector.
  const unheld = [...known.overview.values()].filter(
    ({ connector, paused, purgeWork, newFields }) =>
      purgeWork.length > 0 || newFields.length > 0 || (paused !== null && !pauseOf.has(connector)),
  );
  const paused = pauses.filter(({ connector, since, reason }) => {
    const before = known.overview.get(connector)?.paused;
    return since !== before?.since || reason !== before.reason;
  });
  const others = [...unheld, ...paused].map(({ connector }) => connector);
  const changed = new Set([...held.map(([name]) => name), ...others]);
  if (changed.size === 0) return { overview: known.overview, commits };
  const now = byConnector(await readOverview(tx, [...changed]));
  const overview = new Map(known.overview);
  for (const name of changed) {
    const one = now.get(name);
    if (one === undefined) overview.delete(name);
    else overview.set(name, one);
  }
  return { overview, commits };
}

export const runColumns = 'run, kind, run.connector, state, started_at, finished_at, continues';

export interface RunRow extends RunFacts {
  readonly report: string | null;
}

export function runSummary({ report, ...run }: RunRow): RunSummary {
  return { ...run, report: report === null ? null : parseReport(report) };
}

/** Runs, newest first. */
export async function readRuns(tx: Tx, filter: RunFilter): Promise<readonly RunSummary[]> {
  const { connectors, states, ...named } = filter;
  const { connector, kind, state, before } = named;
  const which = [
    among(connectors),
    ...(connector === undefined ? [] : ['connector = :connector']),
    ...(kind === undefined ? [] : ['kind = :kind']),
    ...(state === undefined ? [] : ['state = :state']),
    ...(states === undefined ? [] : ['state IN {states text}']),
    ...(before === undefined ? [] : ['run < :before']),
  ];
  const runs = await tx.rows<RunRow>(
    `SELECT ${runColumns}, report FROM _sync_runs AS run WHERE ${which.join(' AND ')}
     ORDER BY ${before === undefined ? 'number' : 'run'} DESC LIMIT :limit`,
    { ...named, only: connectors ?? [], states: states ?? [] },
  );
  return runs.map(runSummary);
}

/** Numbers of runs by state, of those whose ids are at least this one. */
export async function countRuns(tx: Tx, since: string, { connectors }: Pick<RunFilter, 'connectors'>) {
  return await tx.rows<{ readonly state: RunSummary['state']; readonly runs: number }>(
    `SELECT state, count(*) AS runs FROM _sync_runs WHERE run >= :since AND ${among(connectors)} GROUP BY state`,
    { since, only: connectors ?? [] },
  );
}

/**
 * The newest runs of each of these connectors, newest first, without their reports, which may be long. One search in
 * the index of runs for each connector.
 */
export async function readRecentRuns(tx: Tx, connectors: readonly ConnectorName[], limit: number) {
  const runs = await tx.rows<RunFacts>(
    `SELECT ${runColumns} FROM {v: connector text}
       JOIN _sync_runs AS run ON run.connector = v.connector AND run.number >= coalesce((
         SELECT number FROM _sync_runs AS one WHERE one.connector = v.connector
         ORDER BY number DESC LIMIT 1 OFFSET :before), 0)
     ORDER BY number DESC`,
    { v: connectors.map((connector) => ({ connector })), before: limit - 1 },
  );
  return grouped(runs, ({ connector }) => connector);
}

/**
 * Rows that a connector's runs since then have added, changed and deleted, by the day on which the run began. A report
 * is parsed only where it has deletes; `_sync_counts` has the rest, of a run in progress too.
 */
export async function readChanges(tx: Tx, connector: ConnectorName, since: Instant) {
  const of = { connector, since };
  const counted = await tx.rows<Omit<ChangesOfDay, 'deleted'>>(
    `SELECT substr(run.started_at, 1, 10) AS day, entity, CAST(sum(inserted) AS bigint) AS added,
       CAST(sum(updated) AS bigint) AS changed
     FROM _sync_runs AS run JOIN _sync_counts AS counted ON counted.run = run.run
     WHERE connector = :connector AND started_at >= :since AND inserted + updated > 0
     GROUP BY substr(run.started_at, 1, 10), entity`,
    of,
  );
  const reports = await tx.rows<{ readonly day: string; readonly report: string }>(
    `SELECT substr(started_at, 1, 10) AS day, report FROM _sync_runs
     WHERE connector = :connector AND started_at >= :since
       AND replace(report, '"deleted":0', '') LIKE '%"deleted":%'`,
    of,
  );
  const deletes = reports.flatMap(({ day, report }) =>
    parseDeletes(report)
      .entities.filter(({ deleted }) => deleted > 0)
      .map((one): ChangesOfDay => ({ day, ...one, added: 0, changed: 0 })),
  );
  const oldest = await cellOf<Instant>(
    tx,
    'SELECT started_at FROM _sync_runs WHERE connector = :connector ORDER BY number DESC LIMIT 1 OFFSET :kept',
    { connector, kept: keptRuns - 1 },
  );
  return {
    changes: [...counted.map((one): ChangesOfDay => ({ ...one, deleted: 0 })), ...deletes],
    /** When the oldest run began, where older ones may not be kept; null: all are there. */
    oldestKept: oldest ?? null,
  };
}

export async function readRun(tx: Tx, run: RunId): Promise<RunSummary | null> {
  const sql = `SELECT ${runColumns}, report FROM _sync_runs AS run WHERE run = :run`;
  const found = await tx.first<RunRow>(sql, { run });
  return found === undefined ? null : runSummary(found);
}

/**
 * Runs that ended with IDENTITY_CHANGED, and those that have written rows and that these resumed, newest first, until
 * that is settled: by `adopt`, or a later sync that ended well; where the run has written rows, by such a sync after
 * they were undone. `isToUndo`: the run has written rows that were not undone.
 */
export async function readDoubts(tx: Tx, connectors: readonly ConnectorName[]) {
  const found = await tx.rows<Of & { readonly run: RunId; readonly settled: number | null }>(
    `WITH doubted AS (
       SELECT DISTINCT run.connector, run.run, run.number, CASE
           WHEN NOT ${hasWritten} THEN run.number
           ELSE (SELECT max(undo.number) FROM _sync_actions AS act JOIN _sync_runs AS undo ON undo.run = act.run
             WHERE act.connector = run.connector AND act.action = 'undo' AND undo.state = 'ok'
               AND act.detail LIKE '%"' || run.run || '"%') END AS settled
       FROM _sync_runs AS failed JOIN _sync_runs AS run
         ON run.connector = failed.connector AND run.origin = failed.origin AND run.number <= failed.number
       WHERE failed.connector IN {connectors text} AND failed.state = 'failed'
         AND failed.report LIKE '%"code":"IDENTITY_CHANGED"%' AND (run.number = failed.number OR ${hasWritten})
         AND NOT EXISTS (SELECT 1 FROM _sync_actions AS act
           WHERE act.connector = failed.connector AND act.action = 'adopt' AND act.at >= failed.finished_at))
     SELECT connector, run, settled FROM doubted
     WHERE settled IS NULL OR NOT EXISTS (SELECT 1 FROM _sync_runs AS good
       WHERE good.connector = doubted.connector AND good.number > doubted.settled AND good.kind = 'sync'
         AND good.state IN ('ok', 'degraded'))
     ORDER BY number DESC`,
    { connectors },
  );
  return found.map(({ settled, ...doubt }) => ({ ...doubt, isToUndo: settled === null }));
}

/** The newest of kind `sync`; null where there was none. */
async function readLastRun(tx: Tx, connector: ConnectorName): Promise<RunFacts | null> {
  const found = await tx.first<RunFacts>(
    `SELECT ${runColumns} FROM _sync_runs AS run WHERE connector = :connector AND kind = 'sync'
     ORDER BY number DESC LIMIT 1`,
    { connector },
  );
  return found ?? null;
}

/**
 * The newest of kind `sync` of each connector. One search in the index of runs for each: thousands of runs may be kept.
 */
export function newestRunsSql(columns: string, which = ''): string {
  return `SELECT ${columns} FROM _sync_connectors AS known JOIN _sync_runs AS run ON run.number = (
    SELECT number FROM _sync_runs AS one WHERE one.connector = known.connector AND one.kind = 'sync' ${which}
    ORDER BY number DESC LIMIT 1)`;
}

/**
 * Fields met for the first time since then, of all connectors or of `only` these. Fields met by the chain of runs that
 * stored an entity's first rows are no news, nor are fields met by a run that is no longer kept, nor those that a
 * person has marked as known. A definition that comes to declare a field ends its drift.
 */
export async function readFieldNews(tx: Tx, since: Instant, only?: readonly ConnectorName[]) {
  const found = await tx.rows<
    Omit<FieldNews, 'hasColumn' | 'types'> & Readonly<Record<'declared' | 'evolved' | 'types', string>>
  >(
    `SELECT d.connector, d.entity, d.field, d.kind, min(d.first_seen_at) AS since, string_agg(d.type, ' ') AS types, min(d.is_refused) = 1 AS is_refused, t.declared, t.evolved
     FROM _sync_drift AS d JOIN _sync_runs AS run ON run.run = d.first_run
       JOIN _sync_tables AS t ON t.connector = d.connector AND t.entity = d.entity
     WHERE d.first_seen_at >= :since AND ${among(only, 'd.connector')}
       AND (t.first_origin IS NULL OR t.first_origin <> run.origin)
       AND NOT EXISTS (SELECT 1 FROM _sync_drift AS old
         WHERE old.connector = d.connector AND old.entity = d.entity AND old.field = d.field AND old.kind = d.kind
           AND old.first_seen_at < :since)
     GROUP BY d.connector, d.entity, d.field, d.kind, t.declared, t.evolved
     ORDER BY d.connector, d.entity, d.field, d.kind`,
    { since, only: only ?? [] },
  );
  const known = await readKnownFields(tx, [...new Set(found.map(({ connector }) => connector))]);
  return found.flatMap(({ declared, evolved, types, ...news }) => {
    if (known.has(`${news.connector} ${newsName(news)}`)) return [];
    const columns = parseColumns(evolved);
    // `as`: `noteDrift` has written these values.
    const met = types.split(' ') as readonly JsonType[];
    const hasColumn = met.every((type) => isHeldBy(columns, { ...news, type }));
    const isIn = (text: string): boolean => parseColumns(text).some(({ name }) => name === news.field);
    return news.kind === 'undeclared' && !hasColumn && isIn(declared)
      ? []
      : [{ ...news, types: met, hasColumn }];
  });
}

/** The sink behind a ledger that is served for days. */
export interface ServedSink extends AsyncDisposable {
  readonly sinkId: string;
  /**
   * Checks the sink's place now: null while this sink is there, otherwise the problem. `losing` is called where the
   * sink has just been lost and the opened files can still be read, before they are closed. Rejects where the place
   * cannot be checked.
   */
  look(losing: () => Promise<void>): Promise<string | null>;
  read<Result>(work: (tx: Tx) => Promise<Result>): Promise<Result>;
  /**
   * Changes with every commit. Asked for after a look and in front of the read that it is the mark of; null where only
   * a read can show changes.
   */
  mark(): Promise<number | string | null>;
  readonly lastCommits: (tx: Tx) => Promise<LastCommits>;
}

interface Known extends KnownOverview {
  readonly mark: number | string | null;
}

/** Overview cached for outages: no older than this when the sink is lost, while callers ask for it. */
const rememberedMs = 10_000;

/**
 * The ledger of one sink for a process that serves it for days. While the sink is lost (moved, replaced, out of reach),
 * it answers with the data that was read last.
 */
export async function servedLedger(sink: ServedSink) {
  /** Reason why the sink is not there; null while it is. */
  let lostBecause: string | null = null;
  let known: Known = { overview: new Map(), commits: null, mark: null };
  let knownMs = -Infinity;

  /** Renews the overview; returns the same object while its content is the same. */
  const remember = async (): Promise<Overview> => {
    // Take the mark before the read: data that changes meanwhile is read again the next time.
    const mark = await sink.mark();
    if (mark === null || mark !== known.mark) {
      const now = await sink.read(async (tx) => await renewOverview(tx, known, sink.lastCommits));
      known = { ...now, mark };
    }
    knownMs = performance.now();
    return known.overview;
  };
  const answer = async <Result>(
    read: () => Promise<Result>,
    remembered: (last: Overview) => Result,
  ): Promise<Result> => {
    if (lostBecause !== null) return remembered(known.overview);
    try {
      return await read();
    } catch (error) {
      if (!isAway(error)) throw error;
      lostBecause = error.message;
      return remembered(known.overview);
    }
  };
  const lost = async (): Promise<string | null> => {
    try {
      lostBecause = await sink.look(async () => void (await remember().catch(() => undefined)));
    } catch (error) {
      lostBecause = textOf(error);
    }
    if (lostBecause !== null) {
      known = { ...known, mark: null };
    } else if (performance.now() - knownMs > rememberedMs) {
      // Where the sink exists and cannot be read, `problem` reports it.
      await answer(remember, (last) => last).catch(() => undefined);
    }
    return lostBecause;
  };

  await lost();
  return {
    sinkId: sink.sinkId,
    /** Checks the sink's place now: null while this sink is there, otherwise the problem, for the log. */
    lost,
    pause: (connector: ConnectorName) =>
      answer(
        () => sink.read((tx) => readPause(tx, connector)),
        (last) => last.get(connector)?.paused ?? null,
      ),
    paused: () =>
      answer(
        async () => new Set((await sink.read(readPauses)).map(({ connector }) => connector)),
        (last) => new Set([...last.values()].flatMap((one) => (one.paused === null ? [] : [one.connector]))),
      ),
    /** The newest of kind `sync`. */
    lastRun: (connector: ConnectorName) =>
      answer(
        () => sink.read((tx) => readLastRun(tx, connector)),
        (last) => last.get(connector)?.lastRun ?? null,
      ),
    freshness: (connector: ConnectorName) =>
      answer(
        () => sink.read((tx) => readFreshness(tx, connector)),
        (last) => last.get(connector)?.freshness ?? [],
      ),
    /**
     * The state of every connector; the same object until the sink has changed, the same entry until its connector has.
     */
    overview: async () => {
      await lost();
      return await answer(remember, (last) => last);
    },
    /** Renews the overview, and rejects where the sink is lost or cannot be read. */
    overviewNow: async () => {
      const why = await lost();
      if (why !== null) throw new SyncError(why, { code: 'SINK_FAILED', recovery: 'retry' });
      return await remember();
    },
    recentRuns: (connectors: readonly ConnectorName[], limit: number) =>
      sink.read((tx) => readRecentRuns(tx, connectors, limit)),
    runs: (filter: RunFilter) => sink.read((tx) => readRuns(tx, filter)),
    countRuns: (since: string, which: RunFilter) => sink.read((tx) => countRuns(tx, since, which)),
    /** Reason why the sink cannot be read, tried now; null while it can, or while the sink is lost. */
    problem: async () => {
      if ((await lost()) !== null) return null;
      try {
        await sink.read(readPauses);
        return null;
      } catch (error) {
        return textOf(error);
      }
    },
    [Symbol.asyncDispose]: async () => await sink[Symbol.asyncDispose](),
  };
}

/** Out of reach for now. */
function isAway(error: unknown): error is SyncError {
  return error instanceof SyncError && error.recovery === 'retry';
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
