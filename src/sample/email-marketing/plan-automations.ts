import { dayMs, sampleStart } from '../times.ts';
import { diceFor } from '../dice.ts';
import { kind } from './kinds.ts';
import type { MailingList } from './mailing-plan.ts';

export type AutomationStatus = 'sending' | 'save' | 'paused';

export interface Automation {
  readonly seed: number;
  readonly index: number;
  /** Null in an account without lists. */
  readonly list: MailingList | null;
  readonly status: AutomationStatus;
  readonly createdAt: number;
  /** Null for one that was never started. */
  readonly startedAt: number | null;
  /** Sent by revisions, besides what it had sent before. */
  readonly sentSince: number;
}

const statuses = ['sending', 'save', 'paused'] as const;

export function planAutomations(lists: readonly MailingList[], count: number): readonly Automation[] {
  return Array.from({ length: count }, (_, index) => {
    const list = lists[index % lists.length] ?? null;
    const seed = list?.seed ?? 0;
    const status = originalStatus(index);
    const dice = diceFor(seed, kind.automation, index);
    dice.hex(10);
    const createdAt = sampleStart + index * 31 * dayMs + dice.below(86_400) * 1000;
    return {
      seed,
      index,
      list,
      status,
      createdAt,
      startedAt: status === 'save' ? null : createdAt + dayMs,
      sentSince: 0,
    };
  });
}

export function originalStatus(index: number): AutomationStatus {
  return statuses[index % statuses.length] ?? 'save';
}
