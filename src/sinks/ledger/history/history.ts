import type { LedgerReader } from '../../ledger-reader.ts';
import type { Tx } from '../../../sql/database.ts';
import type { RecordTables } from '../driver.ts';
import { readCopies, readUnfinishedCopy } from '../copies/read-copies.ts';
import { readConnectors } from './read-connectors.ts';
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
import type { Instant } from '../../../core/clock.ts';
import type { ConnectorName, EntityName, RunId } from '../../../core/names.ts';
import type { FieldDrift, JsonType } from '../../../core/records.ts';
import type { DriftRow } from '../../drift.ts';
import { knownTables } from '../tables.ts';

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

interface SeenDrift {
  readonly entity: EntityName;
  readonly field: string;
  readonly kind: FieldDrift['kind'];
  readonly type: JsonType;
  readonly firstSeenAt: Instant;
  readonly firstRun: RunId;
  /** 1: only in quarantined records so far. */
  readonly isRefused: boolean;
}

/** A definition that has come to declare a field ends its drift. */
export async function readDrift(tx: Tx, connector: ConnectorName): Promise<readonly DriftRow[]> {
  const seen = await tx.rows<SeenDrift>(
    `SELECT entity, field, kind, type, first_seen_at, first_run, is_refused FROM _sync_drift
     WHERE connector = :connector ORDER BY entity, field, kind DESC, first_seen_at, type`,
    { connector },
  );
  const entities = [...new Set(seen.map(({ entity }) => entity))];
  const tables = await knownTables(tx, connector, entities);
  const namesOf = (entity: EntityName, which: 'declared' | 'evolved'): readonly string[] =>
    (tables.get(entity)?.[which] ?? []).map(({ name }) => name);
  const rows = new Map<string, { first: SeenDrift; all: SeenDrift[] }>();
  for (const one of seen) {
    const isEvolved = namesOf(one.entity, 'evolved').includes(one.field);
    const isDeclared = namesOf(one.entity, 'declared').includes(one.field);
    if (one.kind === 'undeclared' && isDeclared && !isEvolved) continue;
    const key = JSON.stringify([one.entity, one.field, one.kind]);
    const row = rows.get(key) ?? { first: one, all: [] };
    row.all.push(one);
    rows.set(key, row);
  }
  return [...rows.values()].map(({ first, all }): DriftRow => {
    const { entity, field, kind, firstSeenAt, firstRun } = first;
    const types = all.map(({ type }) => type);
    const isEvolved = namesOf(entity, 'evolved').includes(field);
    const place = placeOf(kind, isEvolved, all);
    return { connector, entity, field, types, kind, firstSeenAt, firstRun, place };
  });
}

/** A value that does not fit its column lies beside it, whoever added the column. */
function placeOf(
  kind: DriftRow['kind'],
  isEvolved: boolean,
  all: readonly Pick<SeenDrift, 'isRefused'>[],
): DriftRow['place'] {
  if (all.every(({ isRefused }) => isRefused)) return 'quarantine';
  return kind === 'undeclared' && isEvolved ? 'column' : 'extra';
}
