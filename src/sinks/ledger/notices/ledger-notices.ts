import { randomUUID } from 'node:crypto';
import { grouped } from '../../../core/grouped.ts';
import type { ConnectorName } from '../../../core/names.ts';
import type { Tx } from '../../../sql/database.ts';
import type { NoticeChanges, Condition, FoundState } from '../../notices.ts';
import type { Claimed, ClaimedMessage, ClaimHow, NewMessage } from '../../outbox.ts';
import { readFieldNews } from '../drift/field-news.ts';
import { readOverview } from '../history/read-overview.ts';
import type { Ledger } from '../ledger.ts';
import { claimRow, dropDelivered, giveUpOld, headOf, noteFailed, outboxSql, putMessages } from './outbox.ts';

/**
 * The tables of what is wrong and of what is to be sent. `_sync_conditions`: what was found to be wrong when it was
 * last compared. `connector` is '' where a condition concerns none alone, `subject` is an entity, a field or a target,
 * or ''.
 */
export const noticesSql = `
CREATE TABLE _sync_conditions (
  connector TEXT NOT NULL,
  kind TEXT NOT NULL,
  subject TEXT NOT NULL,
  since TEXT NOT NULL,
  detail TEXT NOT NULL,
  PRIMARY KEY (connector, kind, subject)
);
${outboxSql}`;

/** What is wrong with a sink's connectors and targets, as found last, and an outbox of messages about it. */
export function ledgerNotices({ db, clock, alone }: Pick<Ledger, 'db' | 'clock' | 'alone'>) {
  const inTurn = async <Result>(work: (tx: Tx, nowMs: number) => Promise<Result>): Promise<Result> =>
    await db.transact(async (tx) => await work(tx, await alone(tx, '_sync_outbox')));
  return {
    /**
     * Compares what is wrong now with what was found last: `decide` gets both, and may be called again. What it decides
     * is stored in one transaction, which no other process makes at the same time, so that each change is found once.
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
     * The oldest message of a channel, which no other process sends meanwhile: it has `leaseMs` to say what became of
     * it. What was put into the outbox before `keepMs` is given up, and shown for another month.
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
        claimRow(tx, { id: message.id, claim, untilMs: nowMs + leaseMs });
        return { kind: 'message', message: { ...message, claim, attempts: message.attempts + 1 } };
      });
    },
    delivered: async (message: ClaimedMessage) =>
      await db.transact(async (tx) => Promise.resolve(dropDelivered(tx, message))),
    /** `pauseMs` null: it is given up. */
    failed: async (message: ClaimedMessage, error: string, pauseMs: number | null) =>
      await inTurn(async (tx, nowMs) => Promise.resolve(noteFailed(tx, message, { error, pauseMs, nowMs }))),
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
