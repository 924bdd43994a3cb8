import { instant, type Instant } from '../../core/clock.ts';
import { type JsonObject, readJson, writeJson } from '../../core/json.ts';
import type { ConnectorName } from '../../core/names.ts';
import type { Tx } from '../../sql/database.ts';
import type { Action, NotedAction } from '../requests.ts';
import type { Ledger } from './ledger.ts';

const keptDays = 400;
const dayMs = 24 * 60 * 60 * 1_000;

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

/** Drops actions past their retention: of the connector, and of none alone. */
export function pruneActions(tx: Tx, connector: ConnectorName, now: Instant): void {
  tx.put(`DELETE FROM _sync_actions WHERE (connector = :connector OR connector IS NULL) AND at < :before`, {
    connector,
    before: instant(Date.parse(now) - keptDays * dayMs),
  });
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
  // `as`: `noteAction` writes objects.
  return rows.map((row) => ({ ...row, detail: readJson(row.detail) as JsonObject }));
}
