import type Database from 'better-sqlite3';
import type { Instant } from '../../core/clock.ts';
import type { ConnectorName, RunId } from '../../core/names.ts';
import type { EarlierRun, NewRun } from '../decisions/resume-run.ts';
import { readFlags, type Flagged } from './statement.ts';
import type { RunOutcome } from '../run-report.ts';
import type { ConnectorIdentity, Holder } from '../lease.ts';
import { writeJson } from '../../core/json-text.ts';
import { parseHolder } from '../stored-json.ts';

export function prepareRuns(db: Database.Database) {
  const newest = db.prepare<[string, string], Flagged<EarlierRun>>(
    `SELECT run, origin, json_extract(report, '$.resumeAt') AS resumeAt, scope, state,
       can_continue AS canContinue, is_full AS isFull,
       EXISTS (SELECT 1 FROM _sync_counts WHERE run = newest.run) AS hasStored,
       coalesce((
         SELECT coalesce(json_extract(report, '$.resumeAt'), started_at) FROM _sync_runs AS chain
         WHERE connector = newest.connector AND number >= newest.origin AND origin = newest.origin
           AND (number = origin OR EXISTS (SELECT 1 FROM _sync_counts WHERE run = chain.run))
         ORDER BY number DESC LIMIT 1
       ), started_at) AS progressAt
     FROM _sync_runs AS newest WHERE connector = ? AND chain = ? ORDER BY number DESC LIMIT 1`,
  );
  const insert = db.prepare<[Readonly<Record<string, string | number | null>>]>(
    `INSERT INTO _sync_runs (run, connector, origin, scope, continues, can_continue, state, started_at, kind, chain, is_full)
     VALUES (:run, :connector, :origin, :scope, :continues, 1, 'running', :startedAt, :kind, :window, :isFull)`,
  );
  const ownOrigin = db.prepare<[number | bigint]>('UPDATE _sync_runs SET origin = number WHERE number = ?');
  return {
    newest: (connector: ConnectorName, window: string): EarlierRun | undefined => {
      const row = newest.get(connector, window);
      return row === undefined ? undefined : readFlags(row, 'canContinue', 'isFull', 'hasStored');
    },
    chainStartedAt: db
      .prepare<[origin: number], Instant>('SELECT started_at FROM _sync_runs WHERE number = ?')
      .pluck(),
    /** Begins a chain, or resumes the one of `earlier`; gives the number of the chain's first run. */
    start: (run: NewRun, earlier: EarlierRun | null): number => {
      const begun = { origin: earlier?.origin ?? 0, continues: earlier?.run ?? null };
      const { lastInsertRowid } = insert.run({ ...run, ...begun, isFull: run.isFull ? 1 : 0 });
      if (earlier !== null) return earlier.origin;
      ownOrigin.run(lastInsertRowid);
      return Number(lastInsertRowid);
    },
    finish: db.prepare<[state: RunOutcome, finishedAt: Instant, report: string, run: RunId]>(
      'UPDATE _sync_runs SET state = ?, finished_at = ?, report = ? WHERE run = ?',
    ),
    /** Changes a row when the run is `running`; the first request's time stays. */
    requestCancel: db.prepare<[at: Instant, run: RunId]>(
      "UPDATE _sync_runs SET cancel_requested = coalesce(cancel_requested, ?) WHERE run = ? AND state = 'running'",
    ),
    interruptRunning: db.prepare<[ConnectorName]>(
      "UPDATE _sync_runs SET state = 'interrupted' WHERE connector = ? AND state = 'running'",
    ),
    forbidContinuing: db.prepare<[ConnectorName]>(
      'UPDATE _sync_runs SET can_continue = 0 WHERE connector = ?',
    ),
  };
}

/** `_sync_pauses`: connectors that are not to be run, whether they were ever synced or not. */
export function preparePauses(db: Database.Database) {
  return {
    /** Keeps `since` where the connector is paused already. */
    pause: db.prepare<[ConnectorName, Instant, reason: string]>(
      `INSERT INTO _sync_pauses (connector, since, reason) VALUES (?, ?, ?)
       ON CONFLICT (connector) DO UPDATE SET reason = excluded.reason`,
    ),
    resume: db.prepare<[ConnectorName]>('DELETE FROM _sync_pauses WHERE connector = ?'),
  };
}

/** `_sync_connectors`: who each connector is and who held it last. */
export function prepareConnectors(db: Database.Database) {
  const identity = db.prepare<[string], Pick<ConnectorIdentity, 'baseUrl' | 'connectorId' | 'definition'>>(
    'SELECT base_url AS baseUrl, connector_id AS connectorId, definition FROM _sync_connectors WHERE connector = ?',
  );
  const one = (what: string): string => `SELECT ${what} FROM _sync_connectors WHERE connector = ?`;
  const epoch = db.prepare<[string], number>(one('epoch')).pluck();
  // Of a copy that goes on there is nothing else yet.
  const holder = db
    .prepare<[string, string], string>(
      `${one('holder')} UNION ALL SELECT holder FROM _sync_copies WHERE connector = ? AND finished_at IS NULL`,
    )
    .pluck();
  const rival = db
    .prepare<[string, string], string>(
      "SELECT connector FROM _sync_connectors WHERE connector <> ? AND replace(connector, '-', '_') = replace(?, '-', '_')",
    )
    .pluck();
  const holdOnly = db.prepare<[string, string]>('UPDATE _sync_connectors SET holder = ? WHERE connector = ?');
  const copiedTo = db.prepare<[to: string, ConnectorName]>(
    'UPDATE _sync_connectors SET copied_to = ? WHERE connector = ?',
  );
  const reopen = db.prepare<[ConnectorName]>(
    'UPDATE _sync_connectors SET copied_to = NULL WHERE connector = ? AND copied_to IS NOT NULL',
  );
  const hold = db
    .prepare<[Omit<ConnectorIdentity, 'holder'> & { readonly holder: string }], number>(
      `INSERT INTO _sync_connectors (connector, base_url, connector_id, definition, definition_hash, epoch, holder)
       VALUES (:connector, :baseUrl, :connectorId, :definition, :definitionHash, 1, :holder)
       ON CONFLICT (connector) DO UPDATE SET definition_hash = excluded.definition_hash, epoch = epoch + 1,
         holder = excluded.holder
       RETURNING epoch`,
    )
    .pluck();
  return {
    identity,
    /** 0 for an unknown connector. */
    epoch: (connector: ConnectorName): number => epoch.get(connector) ?? 0,
    holder: (connector: ConnectorName): Holder | null => {
      const text = holder.get(connector, connector);
      return text === undefined ? null : parseHolder(text);
    },
    /** For the message that the next one gets; the epoch stays. */
    noteHolder: (connector: ConnectorName, given: Holder): void =>
      void holdOnly.run(writeJson(given), connector),
    /** Where the connector goes on, as `parseCopiedTo` reads it. */
    noteCopied: (connector: ConnectorName, to: string): void => void copiedTo.run(to, connector),
    /** False where it was not copied away. */
    reopen: (connector: ConnectorName): boolean => reopen.run(connector).changes > 0,
    /** Another connector whose table names would be the same (`a-b` and `a_b`). */
    rival: (connector: ConnectorName): string | undefined => rival.get(connector, connector),
    /** Writes the new holder and definition hash and raises the epoch; gives the new one. */
    hold: (given: ConnectorIdentity): number => hold.get({ ...given, holder: writeJson(given.holder) }) ?? 0,
  };
}
