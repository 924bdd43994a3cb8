import type { LedgerReader } from '../../ledger-reader.ts';
import type { OpenHistory } from '../../sink-access.ts';
import { openLedgerToRead, type PostgresPlace } from '../../postgres/open-ledger.ts';
import type { Tx } from '../../../sql/postgres/session.ts';
import { readCopies, readUnfinishedCopy } from '../copies/read-copies.ts';
import { readConnectors } from './read-connectors.ts';
import { readDrift } from './read-drift.ts';
import { readOverview } from './read-overview.ts';
import { readMissing, readRowHistory } from './read-row-history.ts';
import {
  isCancelRequested,
  readFailures,
  readFileFailures,
  readFinishedWindows,
  readFreshness,
  readPause,
  readPauses,
  readQuarantine,
  readRun,
  readRuns,
} from './read-runs.ts';

/** Opens the ledger of a sink that is there, for reading alone. Throws `SyncError` SINK_FAILED where there is none. */
export async function openPostgresHistory(at: PostgresPlace): Promise<OpenHistory> {
  const ledger = await openLedgerToRead(at);
  return {
    ...ledgerReader(ledger.at, (work) => ledger.server.read(work)),
    sinkId: ledger.sinkId,
    [Symbol.asyncDispose]: async () => await ledger.server[Symbol.asyncDispose](),
  };
}

/** `read` gives every question a state of its own, or all of them the same one. */
export function ledgerReader(
  at: string,
  read: <Result>(work: (tx: Tx) => Promise<Result>) => Promise<Result>,
): LedgerReader {
  return {
    runs: (filter) => read((tx) => readRuns(tx, at, filter)),
    run: (id) => read((tx) => readRun(tx, at, id)),
    connectors: (only) => read((tx) => readConnectors(tx, at, only)),
    overview: () => read((tx) => readOverview(tx, at)),
    failures: (connector, limit) => read((tx) => readFailures(tx, at, connector, limit)),
    quarantine: (connector, limit) => read((tx) => readQuarantine(tx, at, connector, limit)),
    pauses: () => read((tx) => readPauses(tx, at)),
    pause: (connector) => read((tx) => readPause(tx, at, connector)),
    isCancelRequested: (run) => read((tx) => isCancelRequested(tx, at, run)),
    fileFailures: (connector, limit) => read((tx) => readFileFailures(tx, at, connector, limit)),
    freshness: (connector) => read((tx) => readFreshness(tx, at, connector)),
    finishedWindows: (connector, backfill) => read((tx) => readFinishedWindows(tx, at, connector, backfill)),
    unfinishedCopy: (connector) => read((tx) => readUnfinishedCopy(tx, at, connector)),
    copies: () => read((tx) => readCopies(tx, at)),
    missing: (connector, limit) => read((tx) => readMissing(tx, at, connector, limit)),
    explain: (connector, table, keyText) => read((tx) => readRowHistory(tx, at, connector, table, keyText)),
    drift: (connector) => read((tx) => readDrift(tx, at, connector)),
  };
}
