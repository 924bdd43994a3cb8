import { instant } from '../../../core/clock.ts';
import type { Tx } from '../../../sql/database.ts';
import type { ClaimedMessage, NewMessage, OutboxRow } from '../../outbox.ts';

/**
 * `_sync_outbox`: messages that were not delivered yet, those of a channel in the order of their `id`. Times in
 * milliseconds are by the clock that all processes of the sink share (`LedgerDriver.alone`); `notice` is the message's
 * id for its receiver. A message that was given up has `given_up_at`, and stays for a month.
 */
export const outboxSql = `
CREATE TABLE _sync_outbox (
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  notice TEXT NOT NULL,
  channel TEXT NOT NULL,
  connector TEXT,
  kind TEXT NOT NULL,
  at TEXT NOT NULL,
  payload TEXT NOT NULL,
  attempts INTEGER NOT NULL,
  next_ms BIGINT NOT NULL,
  claimed_until_ms BIGINT NOT NULL,
  claim TEXT,
  last_error TEXT,
  given_up_at TEXT
);
CREATE INDEX _sync_outbox_channel ON _sync_outbox (channel, id) WHERE given_up_at IS NULL;
`;

const shownMs = 30 * 24 * 60 * 60 * 1_000;

export function putMessages(tx: Tx, messages: readonly NewMessage[], nowMs: number): void {
  for (const message of messages) {
    tx.put(
      `INSERT INTO _sync_outbox (notice, channel, connector, kind, at, payload, attempts, next_ms, claimed_until_ms)
       VALUES (:notice, :channel, :connector, :kind, :at, :payload, 0, 0, 0)`,
      { ...message, at: instant(nowMs) },
    );
  }
}

interface Head extends Omit<ClaimedMessage, 'claim'> {
  readonly nextMs: number;
  readonly claimedUntilMs: number;
}

/** The oldest message of a channel that is not given up. */
export async function headOf(tx: Tx, channel: string): Promise<Head | undefined> {
  return await tx.first<Head>(
    `SELECT id, notice, channel, connector, kind, payload, attempts, next_ms, claimed_until_ms FROM _sync_outbox
     WHERE channel = :channel AND given_up_at IS NULL ORDER BY id LIMIT 1`,
    { channel },
  );
}

export function claimRow(
  tx: Tx,
  claimed: { readonly id: number; readonly claim: string; readonly untilMs: number },
): void {
  tx.put(
    `UPDATE _sync_outbox SET claim = :claim, claimed_until_ms = :untilMs, attempts = attempts + 1 WHERE id = :id`,
    claimed,
  );
}

/** Gives up what is older than `keepMs`, of channels too that no config has any more; forgets what was shown. */
export function giveUpOld(tx: Tx, nowMs: number, keepMs: number): void {
  tx.put(
    `UPDATE _sync_outbox SET given_up_at = :now, claim = NULL WHERE given_up_at IS NULL AND at < :before`,
    {
      now: instant(nowMs),
      before: instant(nowMs - keepMs),
    },
  );
  tx.put(`DELETE FROM _sync_outbox WHERE given_up_at < :before`, { before: instant(nowMs - shownMs) });
}

export function dropDelivered(tx: Tx, { id, claim }: ClaimedMessage): void {
  tx.put(`DELETE FROM _sync_outbox WHERE id = :id AND claim = :claim`, { id, claim });
}

/** `pauseMs` null: it is given up. */
export function noteFailed(
  tx: Tx,
  { id, claim }: ClaimedMessage,
  failed: { readonly error: string; readonly pauseMs: number | null; readonly nowMs: number },
): void {
  const { error, pauseMs, nowMs } = failed;
  tx.put(
    `UPDATE _sync_outbox SET claim = NULL, claimed_until_ms = 0, last_error = :error, next_ms = :nextMs,
       given_up_at = :givenUpAt
     WHERE id = :id AND claim = :claim`,
    {
      id,
      claim,
      error,
      nextMs: nowMs + (pauseMs ?? 0),
      givenUpAt: pauseMs === null ? instant(nowMs) : null,
    },
  );
}

/** Messages that were not delivered yet and those that were given up, oldest first. */
export async function readOutbox(tx: Tx, limit: number): Promise<readonly OutboxRow[]> {
  return await tx.rows<OutboxRow>(
    `SELECT notice, channel, connector, kind, at, attempts, last_error, given_up_at FROM _sync_outbox
     ORDER BY id LIMIT :limit`,
    { limit },
  );
}
