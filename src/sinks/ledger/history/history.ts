import type { ConnectorName, EntityName } from '../../../core/names.ts';
import { columnOf, type Tx } from '../../../sql/database.ts';
import { mergeDrift, type SeenDrift } from '../../decisions/drift-columns.ts';
import type { DriftRow } from '../../drift.ts';
import type { LedgerReader } from '../../ledger-reader.ts';
import { parseFailure, parseFileFailure, parseParams } from '../../stored-json.ts';
import { readActions } from '../actions.ts';
import { countsOfRun } from '../counts.ts';
import { readCopies, readUnfinishedCopy } from '../copies/read-copies.ts';
import { readDays } from '../days.ts';
import type { RecordTables } from '../driver.ts';
import { readMasks } from '../masks.ts';
import { readOutbox } from '../notices/outbox.ts';
import { readRemoval } from '../repair/read-removal.ts';
import { readProgress } from '../shown-progress.ts';
import { readCompleteAfter, readWithheld } from '../purges/retained.ts';
import { readPurgeNotes } from '../purges/purge-notes.ts';
import { knownTables } from '../tables.ts';
import { readConnectors } from './read-connectors.ts';
import { readFreshness, readOverview, readPause, readPauses } from './read-overview.ts';
import { readMissing, readRowHistory } from './read-row-history.ts';
import { readRecentRuns, readRun, readRuns, readScopeChanges } from './read-runs.ts';

/** `read` gives each query a separate state, or all of them the same one. */
export function ledgerReader(
  records: RecordTables,
  read: <Result>(work: (tx: Tx) => Promise<Result>) => Promise<Result>,
): LedgerReader {
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
    connectors: asked(readConnectors),
    overview: asked((tx) => readOverview(tx)),
    pauses: asked(readPauses),
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
    completeAfter: asked(readCompleteAfter),
    withheldByAge: asked(async (tx, connector) => (await readWithheld(tx, [connector])).get(connector) ?? []),
    missing: asked(async (tx, connector, limit) => await readMissing(tx, records, connector, limit)),
    explain: asked(
      async (tx, connector, table, keyText) => await readRowHistory(tx, records, connector, table, keyText),
    ),
    failures: asked(async (tx, connector, limit) => {
      const failed = await tx.rows<FailedRow>(
        `SELECT entity, params, failure FROM _sync_partitions
         WHERE connector = :connector AND due_since IS NOT NULL AND failure IS NOT NULL
         ORDER BY failed_at DESC, id DESC LIMIT :limit`,
        { connector, limit },
      );
      return failed.map((row) => withParams(row, parseFailure));
    }),
    fileFailures: asked(async (tx, connector, limit) => {
      const failed = await tx.rows<FailedRow>(
        `SELECT entity, params, failure FROM _sync_downloads
         WHERE connector = :connector AND is_wanted = 1 AND failure IS NOT NULL ORDER BY failed_at DESC, id LIMIT :limit`,
        { connector, limit },
      );
      return failed.map((row) => withParams(row, parseFileFailure));
    }),
    quarantine: asked(
      async (tx, connector, limit) =>
        await tx.rows(
          `SELECT entity, reason, detail, record, first_seen_at
           FROM _sync_quarantine WHERE connector = :connector ORDER BY last_seen_at DESC, id DESC LIMIT :limit`,
          { connector, limit },
        ),
    ),
    isCancelRequested: asked(async (tx, run) => {
      const sql = `SELECT 1 FROM _sync_runs WHERE run = :run AND cancel_requested IS NOT NULL`;
      return (await tx.first(sql, { run })) !== undefined;
    }),
    finishedWindows: asked(async (tx, connector, backfill) => {
      const sql = `SELECT "window" FROM _sync_windows WHERE connector = :connector AND backfill = :backfill ORDER BY "window"`;
      return await columnOf(tx, sql, { connector, backfill });
    }),
  };
}

interface FailedRow {
  readonly entity: EntityName;
  readonly params: string;
  readonly failure: string;
}

function withParams<Failure>({ entity, params, failure }: FailedRow, parse: (text: string) => Failure) {
  return { entity, params: parseParams(params), failure: parse(failure) };
}

/** A definition that has come to declare a field ends its drift. */
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
    const isEvolved = evolved.some(({ name }) => name === one.field);
    const isDeclared = declared.some(({ name }) => name === one.field);
    return one.kind === 'undeclared' && isDeclared && !isEvolved ? [] : [{ ...one, connector, isEvolved }];
  });
  return mergeDrift(drift);
}
