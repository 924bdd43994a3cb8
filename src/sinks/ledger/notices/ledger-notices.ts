import { randomUUID } from 'node:crypto';
import type { Tx } from '../../../sql/database.ts';
import type { NoticeChanges, Notices } from '../../notices.ts';
import type { Ledger } from '../ledger.ts';
import { conditionsSql, readFound, writeConditions } from './conditions.ts';
import { claimRow, dropDelivered, giveUpOld, headOf, noteFailed, outboxSql, putMessages } from './outbox.ts';

/** The tables of what is wrong and of what is to be sent. */
export const noticesSql = `${conditionsSql}${outboxSql}`;

/** `Notices` of a sink. */
export function ledgerNotices({ db, clock, alone }: Pick<Ledger, 'db' | 'clock' | 'alone'>): Notices {
  const inTurn = async <Result>(work: (tx: Tx, nowMs: number) => Promise<Result>): Promise<Result> =>
    await db.transact(async (tx) => await work(tx, await alone(tx, '_sync_outbox')));
  return {
    update: async (connectors, decide) => {
      const before = await db.read(async (tx) => await readFound(tx, connectors, clock.now()));
      // Most comparisons find nothing new: they write nothing, and keep no other process waiting.
      if (decide(before) === null) return;
      await inTurn(async (tx, nowMs) => {
        const changes: NoticeChanges | null = decide(await readFound(tx, connectors, nowMs));
        if (changes === null) return;
        writeConditions(tx, changes);
        putMessages(tx, changes.messages, nowMs);
      });
    },
    put: async (messages) =>
      await inTurn(async (tx, nowMs) => Promise.resolve(putMessages(tx, messages, nowMs))),
    claim: async (channel, { leaseMs, keepMs }) => {
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
    delivered: async (message) =>
      await db.transact(async (tx) => Promise.resolve(dropDelivered(tx, message))),
    failed: async (message, error, pauseMs) =>
      await inTurn(async (tx, nowMs) => Promise.resolve(noteFailed(tx, message, { error, pauseMs, nowMs }))),
  };
}
