import { randomUUID } from 'node:crypto';
import { instant } from '../../../core/clock.ts';
import { grouped } from '../../../core/grouped.ts';
import type { ConnectorName } from '../../../core/names.ts';
import type { Tx } from '../../../sql/database.ts';
import type {
  Claimed,
  ClaimedMessage,
  ClaimHow,
  Condition,
  FoundState,
  NewMessage,
  NoticeChanges,
  OutboxRow,
} from '../../notices.ts';
import { readFieldNews, readOverview } from '../history/overview.ts';
import type { Ledger } from '../ledger.ts';

/** Stores the problems of a sink's connectors and targets as last found, and an outbox of messages about them. */
export function ledgerNotices({ db, clock, alone }: Pick<Ledger, 'db' | 'clock' | 'alone'>) {
  const inTurn = async <Result>(work: (tx: Tx, nowMs: number) => Promise<Result>): Promise<Result> =>
    await db.transact(async (tx) => await work(tx, await alone(tx, '_sync_outbox')));
  return {
    /**
     * Compares the present problems with those found last: `decide` gets both, and may be called again. Its decisions
     * are stored in one transaction that excludes other processes, so that each change is found once.
     */
    update: async (
      connectors: readonly ConnectorName[],
      decide: (found: FoundState) => NoticeChanges | null,
    ): Promise<void> => {
      const before = await db.read(async (tx) => await readFound(tx, connectors, clock.now()));
      // Most comparisons find nothing new: they write nothing, and keep no other process waiting.
      if (decide(before) === null) return;
      await inTurn(async (tx, nowMs) => {
        const changes = decide(await readFound(tx, connectors, nowMs));
        if (changes === null) return;
        writeConditions(tx, changes);
        putMessages(tx, changes.messages, nowMs);
      });
    },
    /** Puts messages into the outbox that are about no change. */
    put: async (messages: readonly NewMessage[]) =>
      await inTurn(async (tx, nowMs) => Promise.resolve(putMessages(tx, messages, nowMs))),
    /**
     * Claims the oldest message of a channel. No other process sends it meanwhile: the caller has `leaseMs` to report
     * the outcome. Messages put into the outbox before `keepMs` are given up, and shown for another month.
     */
    claim: async (channel: string, { leaseMs, keepMs }: ClaimHow): Promise<Claimed> => {
      if ((await db.read(async (tx) => await headOf(tx, channel))) === undefined) return { kind: 'none' };
      return await inTurn(async (tx, nowMs) => {
        giveUpOld(tx, nowMs, keepMs);
        const head = await headOf(tx, channel);
        if (head === undefined) return { kind: 'none' };
        const { nextMs, claimedUntilMs, ...message } = head;
        const waitMs = Math.max(nextMs, claimedUntilMs) - nowMs;
        if (waitMs > 0) return { kind: 'later', ms: waitMs };
        const claim = randomUUID();
        tx.put(
          `UPDATE _sync_outbox SET claim = :claim, claimed_until_ms = :untilMs, attempts = attempts + 1 WHERE id = :id`,
          { id: message.id, claim, untilMs: nowMs + leaseMs },
        );
        return { kind: 'message', message: { ...message, claim, attempts: message.attempts + 1 } };
      });
    },
    delivered: async ({ id, claim }: ClaimedMessage) => {
      const sql = `DELETE FROM _sync_outbox WHERE id = :id AND claim = :claim`;
      await db.transact(async (tx) => await tx.run(sql, { id, claim }));
    },
    /** `pauseMs` null: it is given up. */
    failed: async ({ id, claim }: ClaimedMessage, error: string, pauseMs: number | null) =>
      await inTurn(async (tx, nowMs) => {
        await tx.run(
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
      }),
  };
}

async function readFound(tx: Tx, connectors: readonly ConnectorName[], nowMs: number): Promise<FoundState> {
  const overviews = await readOverview(tx, connectors);
  return {
    overviews: new Map(overviews.map((one) => [one.connector, one])),
    fields: grouped(await readFieldNews(tx, '', connectors), ({ connector }) => connector),
    conditions: grouped(
      await tx.rows<Condition>(
        `SELECT connector, kind, subject, since, detail FROM _sync_conditions
         WHERE connector IN {connectors text} ORDER BY connector, kind, subject`,
        { connectors: [...connectors, ''] },
      ),
      ({ connector }) => connector,
    ),
    nowMs,
  };
}

function writeConditions(tx: Tx, { stored, dropped }: Omit<NoticeChanges, 'messages'>): void {
  if (dropped.length > 0) {
    tx.put(
      `DELETE FROM _sync_conditions WHERE EXISTS (SELECT 1 FROM {v: connector text, kind text, subject text}
       WHERE v.connector = _sync_conditions.connector AND v.kind = _sync_conditions.kind
         AND v.subject = _sync_conditions.subject)`,
      { v: dropped },
    );
  }
  if (stored.length === 0) return;
  tx.put(
    `INSERT INTO _sync_conditions (connector, kind, subject, since, detail)
     SELECT v.connector, v.kind, v.subject, v.since, v.detail
     FROM {v: connector text, kind text, subject text, since text, detail text}
     ORDER BY v.connector, v.kind, v.subject
     ON CONFLICT (connector, kind, subject) DO UPDATE SET since = excluded.since, detail = excluded.detail`,
    { v: stored },
  );
}

const shownMs = 30 * 24 * 60 * 60 * 1_000;

function putMessages(tx: Tx, messages: readonly NewMessage[], nowMs: number): void {
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

/**
 * Gives up messages older than `keepMs`, also those of channels that no config has any more, and forgets shown ones.
 */
function giveUpOld(tx: Tx, nowMs: number, keepMs: number): void {
  const old = `UPDATE _sync_outbox SET given_up_at = :now, claim = NULL WHERE given_up_at IS NULL AND at < :before`;
  tx.put(old, { now: instant(nowMs), before: instant(nowMs - keepMs) });
  tx.put(`DELETE FROM _sync_outbox WHERE given_up_at < :before`, { before: instant(nowMs - shownMs) });
}

/** Messages that were not delivered yet and those that were given up, oldest first. */
export async function readOutbox(tx: Tx, limit: number): Promise<readonly OutboxRow[]> {
  return await tx.rows<OutboxRow>(
    `SELECT notice, channel, connector, kind, at, attempts, last_error, given_up_at FROM _sync_outbox
     ORDER BY id LIMIT :limit`,
    { limit },
  );
}
