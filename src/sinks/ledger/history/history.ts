import type { LedgerReader } from '../../ledger-reader.ts';
import type { Tx } from '../../../sql/database.ts';
import type { RecordTables } from '../driver.ts';
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

/** `read` gives every question a state of its own, or all of them the same one. */
export function ledgerReader(
  records: RecordTables,
  read: <Result>(work: (tx: Tx) => Promise<Result>) => Promise<Result>,
): LedgerReader {
  return {
    runs: (filter) => read((tx) => readRuns(tx, filter)),
    run: (id) => read((tx) => readRun(tx, id)),
    connectors: (only) => read((tx) => readConnectors(tx, only)),
    overview: () => read((tx) => readOverview(tx)),
    failures: (connector, limit) => read((tx) => readFailures(tx, connector, limit)),
    quarantine: (connector, limit) => read((tx) => readQuarantine(tx, connector, limit)),
    pauses: () => read((tx) => readPauses(tx)),
    pause: (connector) => read((tx) => readPause(tx, connector)),
    isCancelRequested: (run) => read((tx) => isCancelRequested(tx, run)),
    fileFailures: (connector, limit) => read((tx) => readFileFailures(tx, connector, limit)),
    freshness: (connector) => read((tx) => readFreshness(tx, connector)),
    finishedWindows: (connector, backfill) => read((tx) => readFinishedWindows(tx, connector, backfill)),
    unfinishedCopy: (connector) => read((tx) => readUnfinishedCopy(tx, connector)),
    copies: () => read((tx) => readCopies(tx)),
    missing: (connector, limit) => read((tx) => readMissing(tx, records, connector, limit)),
    explain: (connector, table, keyText) =>
      read((tx) => readRowHistory(tx, records, connector, table, keyText)),
    drift: (connector) => read((tx) => readDrift(tx, connector)),
  };
}
