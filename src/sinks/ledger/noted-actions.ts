import { instant, type Instant } from '../../core/clock.ts';
import { type JsonObject, readJson, writeJson } from '../../core/json.ts';
import type { ConnectorName, RunId } from '../../core/names.ts';
import { type Tx, cellOf, columnOf } from '../../sql/database.ts';
import type { Action, NotedAction } from '../requests.ts';
import type { Ledger } from './ledger.ts';
import type { Pause } from '../lease.ts';

const keptDays = 400;
const dayMs = 24 * 60 * 60 * 1_000;

/** Requests of people to a sink, which note themselves, and actions that other processes carry out. */
export function ledgerRequests(ledger: Ledger) {
  const { db } = ledger;
  return {
    /**
     * Notes that connectors, of any name, are not to be run until they are resumed, in one transaction. Paused again,
     * one keeps its `since` and takes the new reason.
     */
    pause: async (connectors: readonly ConnectorName[], pause: Pause) =>
      await db.transact(async (tx) => {
        const { since, reason } = pause;
        await tx.run(
          `INSERT INTO _sync_pauses (connector, since, reason)
           SELECT v.connector, v.since, v.reason FROM {v: connector text, since text, reason text} ORDER BY v.connector
           ON CONFLICT (connector) DO UPDATE SET reason = excluded.reason`,
          { v: connectors.map((connector) => ({ connector, since, reason })) },
        );
        const detail = { reason };
        for (const connector of connectors) noteAction(tx, ledger, { action: 'pause', connector, detail });
      }),
    /** Takes their pauses back; gives those that were paused. */
    resume: async (connectors: readonly ConnectorName[]): Promise<ReadonlySet<ConnectorName>> =>
      await db.transact(async (tx) => {
        const sql = `DELETE FROM _sync_pauses WHERE connector IN {connectors text} RETURNING connector`;
        const wasPaused = await columnOf<ConnectorName>(tx, sql, { connectors });
        for (const connector of wasPaused) noteAction(tx, ledger, { action: 'resume', connector });
        return new Set(wasPaused);
      }),
    /** Asks the process that is in this run to end it after a checkpoint; false where the run is not `running`. */
    requestCancel: async (run: RunId, now: Instant) =>
      await db.transact(async (tx) => {
        // The first request's time stays.
        const connector = await cellOf<ConnectorName>(
          tx,
          `UPDATE _sync_runs SET cancel_requested = coalesce(cancel_requested, :now)
           WHERE run = :run AND state = 'running' RETURNING connector`,
          { run, now },
        );
        if (connector === undefined) return false;
        noteAction(tx, ledger, { action: 'cancel', connector, run });
        return true;
      }),
    /**
     * Notes an action that a person asked another process for. Calls of this object note their own actions, in the
     * transaction that carries them out.
     */
    noteAction: async (action: Action) =>
      await db.transact(async (tx) => Promise.resolve(noteAction(tx, ledger, action))),
  };
}

/** Notes an action in the transaction that carries it out. */
export function noteAction(
  tx: Tx,
  ledger: Pick<Ledger, 'who' | 'clock'>,
  { action, connector, entity = null, detail = {}, run = null, who = ledger.who }: Action,
): void {
  tx.put(
    `INSERT INTO _sync_actions (at, who, action, connector, entity, detail, run)
     VALUES (:at, :who, :action, :connector, :entity, :detail, :run)`,
    { at: instant(ledger.clock.now()), who, action, connector, entity, detail: writeJson(detail), run },
  );
}

/** Drops actions past their retention: of the connector, and of none alone. Fields that are known stay so. */
export function pruneActions(tx: Tx, connector: ConnectorName, now: Instant): void {
  tx.put(
    `DELETE FROM _sync_actions
     WHERE (connector = :connector OR connector IS NULL) AND at < :before AND action <> 'mark-known'`,
    { connector, before: instant(Date.parse(now) - keptDays * dayMs) },
  );
}

/** The fields that a person has marked as known, as `newsName` writes them, each behind its connector. */
export async function readKnownFields(tx: Tx, connectors: readonly ConnectorName[]) {
  const noted = await tx.rows<Pick<ActionRow, 'detail'> & { readonly connector: ConnectorName }>(
    `SELECT connector, detail FROM _sync_actions WHERE connector IN {connectors text} AND action = 'mark-known'`,
    { connectors },
  );
  return new Set(
    noted.flatMap(({ connector, detail }) => {
      const { fields } = readDetail(detail);
      return Array.isArray(fields) ? fields.map((field) => `${connector} ${String(field)}`) : [];
    }),
  );
}

interface ActionRow extends Omit<NotedAction, 'detail'> {
  readonly detail: string;
}

/** Actions of people, newest first; those of one connector where it is named. */
export async function readActions(
  tx: Tx,
  { connector, limit }: { readonly connector?: ConnectorName; readonly limit: number },
): Promise<readonly NotedAction[]> {
  const rows = await tx.rows<ActionRow>(
    `SELECT id, at, who, action, connector, entity, detail, run FROM _sync_actions
     ${connector === undefined ? '' : 'WHERE connector = :connector'} ORDER BY id DESC LIMIT :limit`,
    { limit, ...(connector === undefined ? {} : { connector }) },
  );
  return rows.map((row) => ({ ...row, detail: readDetail(row.detail) }));
}

function readDetail(detail: string): JsonObject {
  // `as`: `noteAction` writes objects.
  return readJson(detail) as JsonObject;
}
