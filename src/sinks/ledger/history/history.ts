import type { ConnectorName, EntityName, RunId } from '../../../core/names.ts';
import type { EntityTable } from '../../../core/records.ts';
import { columnOf, type Tx } from '../../../sql/database.ts';
import { heldBy, mergeDrift, type SeenDrift } from '../../decisions/drift-columns.ts';
import type { DriftRow } from '../../drift.ts';
import type { FailedFile, PartitionFailure, QuarantineRow } from '../../ledger-reader.ts';
import { parseFailure, parseFileFailure, parseParams } from '../../stored-json.ts';
import { readActions } from '../actions.ts';
import { storedOrigins } from '../connectors.ts';
import { countsOfRun } from '../counts.ts';
import { readCopies, readUnfinishedCopy } from '../copies/read-copies.ts';
import { readDays } from '../days.ts';
import type { RecordTables } from '../driver.ts';
import { readMasks } from '../masks.ts';
import { readOutbox } from '../notices/outbox.ts';
import { readRemoval } from '../repair/read-removal.ts';
import { readProgress } from '../shown-progress.ts';
import { readCompleteAfter } from '../purges/retained.ts';
import { readPurgeWork } from '../purges/complete-steps.ts';
import { readPurgeNotes } from '../purges/purge-notes.ts';
import { knownTables } from '../tables.ts';
import { readConnectors } from './read-connectors.ts';
import { readFreshness, readOverview, readPause, readPauses } from './read-overview.ts';
import { readMissing, readRowHistory } from './read-row-history.ts';
import { readDoubts, readRecentRuns, readRun, readRuns, readScopeChanges } from './read-runs.ts';

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
    runs: asked(readRuns),
    run: asked(readRun),
    recentRuns: asked(readRecentRuns),
    scopeChanges: asked(readScopeChanges),
    counts: asked(countsOfRun),
    progress: asked(readProgress),
    origins: asked(storedOrigins),
    doubts: asked(readDoubts),
    /** By name; of these connectors alone where they are named. One pass over the sink either way. */
    connectors: asked(async (tx, only?: readonly ConnectorName[]) => await readConnectors(tx, only, records)),
    /** The state of every connector, in a pass that stays cheap for ten thousand of them. */
    overview: asked((tx) => readOverview(tx)),
    pauses: asked((tx) => readPauses(tx)),
    pause: asked(readPause),
    freshness: asked(readFreshness),
    unfinishedCopy: asked(readUnfinishedCopy),
    copies: asked(readCopies),
    removal: asked(readRemoval),
    drift: asked(readDrift),
    actions: asked(readActions),
    days: asked(readDays),
    masks: asked(readMasks),
    outbox: asked(readOutbox),
    purged: asked(readPurgeNotes),
    /** What purges of these connectors have left to do, in the sink and in targets. */
    purgeWork: asked((tx, only: readonly ConnectorName[]) => readPurgeWork(tx, only)),
    completeAfter: asked(readCompleteAfter),
    missing: asked(
      async (tx, connector: ConnectorName, limit: number) => await readMissing(tx, records, connector, limit),
    ),
    explain: asked(
      async (tx, connector: ConnectorName, table: EntityTable, keyText: string) =>
        await readRowHistory(tx, records, connector, table, keyText),
    ),
    failures: asked(readFailures),
    fileFailures: asked(readFileFailures),
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

/** Partitions that failed and stay due, newest failure first. */
async function readFailures(
  tx: Tx,
  connector: ConnectorName,
  limit: number,
): Promise<readonly PartitionFailure[]> {
  const failed = await tx.rows<FailedRow>(
    `SELECT entity, params, failure FROM _sync_partitions
     WHERE connector = :connector AND due_since IS NOT NULL AND failure IS NOT NULL
     ORDER BY failed_at DESC, id DESC LIMIT :limit`,
    { connector, limit },
  );
  return failed.map((row) => withParams(row, parseFailure));
}

/** Files that did not come when they were last asked for, and are wanted still; newest failure first. */
async function readFileFailures(
  tx: Tx,
  connector: ConnectorName,
  limit: number,
): Promise<readonly FailedFile[]> {
  const failed = await tx.rows<FailedRow>(
    `SELECT entity, params, failure FROM _sync_downloads
     WHERE connector = :connector AND is_wanted = 1 AND failure IS NOT NULL ORDER BY failed_at DESC, id LIMIT :limit`,
    { connector, limit },
  );
  return failed.map((row) => withParams(row, parseFileFailure));
}

function withParams<Failure>({ entity, params, failure }: FailedRow, parse: (text: string) => Failure) {
  return { entity, params: parseParams(params), failure: parse(failure) };
}

/** Quarantined records, newest first. */
async function readQuarantine(
  tx: Tx,
  connector: ConnectorName,
  limit: number,
): Promise<readonly QuarantineRow[]> {
  return await tx.rows<QuarantineRow>(
    `SELECT entity, reason, detail, record, first_seen_at
     FROM _sync_quarantine WHERE connector = :connector ORDER BY last_seen_at DESC, id DESC LIMIT :limit`,
    { connector, limit },
  );
}

/**
 * Undeclared and misfitting fields, by entity and name. A definition that has come to declare a field ends its drift.
 */
async function readDrift(tx: Tx, connector: ConnectorName): Promise<readonly DriftRow[]> {
  const seen = await tx.rows<Omit<SeenDrift, 'connector' | 'isEvolved' | 'canWiden'>>(
    `SELECT entity, field, kind, type, first_seen_at, first_run, is_refused FROM _sync_drift
     WHERE connector = :connector ORDER BY entity, field, kind DESC, first_seen_at, type`,
    { connector },
  );
  const entities = [...new Set(seen.map(({ entity }) => entity))];
  const tables = await knownTables(tx, { connector, entities });
  const drift = seen.flatMap((one): readonly SeenDrift[] => {
    const { evolved = [], declared = [] } = tables.get(one.entity) ?? {};
    const held = heldBy(evolved, one);
    const isDeclared = declared.some(({ name }) => name === one.field);
    return one.kind === 'undeclared' && isDeclared && !held.isEvolved ? [] : [{ ...one, connector, ...held }];
  });
  return mergeDrift(drift);
}
