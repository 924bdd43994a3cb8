import type Database from 'better-sqlite3';
import type { ConnectorName, EntityName } from '../../core/names.ts';
import type { LedgerReader, PartitionFailure, QuarantineRow } from '../ledger-reader.ts';
import { readCopies, readUnfinishedCopy } from './copies/read-copies.ts';
import { readFileFailures } from './downloads/note-downloads.ts';
import { readDrift } from './drift/note-drift.ts';
import { parseFailure, parseParams } from '../stored-json.ts';
import { readConnectors } from './read-connectors.ts';
import {
  isCancelRequested,
  readFinishedWindows,
  readFreshness,
  readPause,
  readPauses,
  readRun,
  readRuns,
} from './read-runs.ts';
import { readOverview } from './read-overview.ts';
import { readMissing, readRowHistory } from './read-row-history.ts';
import { toSinkError } from '../sqlite-next/sink-error.ts';

/**
 * Reads the ledger over the writer's connection or a read-only one. An open file may be of an older version and be migrated a moment later: statements
 * are made for each question, in the words of the version that it finds.
 */
export function openLedgerReader(db: Database.Database, file: string): LedgerReader {
  const once = async <Result>(work: () => Result): Promise<Result> => {
    try {
      return db.transaction(work).deferred();
    } catch (error) {
      throw toSinkError(error, file);
    }
  };
  return {
    runs: (filter) => once(() => readRuns(db, filter)),
    run: (id) => once(() => readRun(db, id)),
    connectors: (only) => once(() => readConnectors(db, only)),
    overview: () => once(() => readOverview(db)),
    failures: (connector, limit) => once(() => readFailures(db, connector, limit)),
    quarantine: (connector, limit) => once(() => readQuarantine(db, connector, limit)),
    pauses: () => once(() => readPauses(db)),
    pause: (connector) => once(() => readPause(db, connector)),
    isCancelRequested: (run) => once(() => isCancelRequested(db, run)),
    fileFailures: (connector, limit) => once(() => readFileFailures(db, connector, limit)),
    freshness: (connector) => once(() => readFreshness(db, connector)),
    finishedWindows: (connector, backfill) => once(() => readFinishedWindows(db, connector, backfill)),
    unfinishedCopy: (connector) => once(() => readUnfinishedCopy(db, connector)),
    copies: () => once(() => readCopies(db)),
    missing: (connector, limit) => once(() => readMissing(db, connector, limit)),
    explain: (connector, table, keyText) => once(() => readRowHistory(db, connector, table, keyText)),
    drift: (connector) => once(() => readDrift(db, connector)),
  };
}

interface FailureRow {
  readonly entity: EntityName;
  readonly params: string;
  readonly failure: string;
}

function readFailures(
  db: Database.Database,
  connector: ConnectorName,
  limit: number,
): readonly PartitionFailure[] {
  return db
    .prepare<[ConnectorName, number], FailureRow>(
      `SELECT entity, params, failure FROM _sync_partitions
       WHERE connector = ? AND due_since IS NOT NULL AND failure IS NOT NULL
       ORDER BY failed_at DESC, id DESC LIMIT ?`,
    )
    .all(connector, limit)
    .map(({ entity, params, failure }) => ({
      entity,
      params: parseParams(params),
      failure: parseFailure(failure),
    }));
}

function readQuarantine(
  db: Database.Database,
  connector: ConnectorName,
  limit: number,
): readonly QuarantineRow[] {
  return db
    .prepare<[ConnectorName, number], QuarantineRow>(
      `SELECT entity, reason, detail, record, first_seen_at AS firstSeenAt
       FROM _sync_quarantine WHERE connector = ? ORDER BY last_seen_at DESC, id DESC LIMIT ?`,
    )
    .all(connector, limit);
}
