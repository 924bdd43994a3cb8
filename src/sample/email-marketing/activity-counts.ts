import { actionsOf } from './email-activity.ts';
import { emailsSent } from './campaign-counts.ts';
import type { Campaign } from './plan-campaigns.ts';

export const hourMs = 3_600_000;

/** What the rows of a campaign's email activity add up to. */
export interface ActivityCounts {
  readonly opens: number;
  readonly openers: number;
  readonly clicks: number;
  /** Links that recipients clicked, each once for a recipient. */
  readonly uniqueClicks: number;
  readonly clickers: number;
  readonly hardBounces: number;
  readonly softBounces: number;
  /** Milliseconds since the epoch; null: none. */
  readonly lastOpen: number | null;
  readonly lastClick: number | null;
  /** Recipients that opened or clicked for the first time in an hour, by the number of that hour since the epoch. */
  readonly firstOpens: ReadonlyMap<number, number>;
  readonly firstClicks: ReadonlyMap<number, number>;
}

/** A revision makes another object of a campaign that it changes, so what was counted stays true. */
const counted = new WeakMap<Campaign, ActivityCounts>();

/** Of a campaign that has left. Looks once at each of its recipients, who are few in every account. */
export function activityCounts(campaign: Campaign, sentAt: number): ActivityCounts {
  const known = counted.get(campaign);
  if (known !== undefined) return known;
  const counts = count(campaign, sentAt);
  counted.set(campaign, counts);
  return counts;
}

function count(campaign: Campaign, sentAt: number): ActivityCounts {
  const firstOpens: number[] = [];
  const firstClicks: number[] = [];
  const times = { open: [] as number[], click: [] as number[] };
  let [uniqueClicks, hardBounces, softBounces] = [0, 0, 0];
  const recipients = emailsSent(campaign);
  for (let index = 0; index < recipients; index += 1) {
    const actions = actionsOf(campaign, sentAt, index);
    const opens = actions.filter(({ action }) => action === 'open').map(({ at }) => at);
    const clicks = actions.filter(({ action }) => action === 'click');
    times.open.push(...opens);
    times.click.push(...clicks.map(({ at }) => at));
    if (opens[0] !== undefined) firstOpens.push(opens[0]);
    if (clicks[0] !== undefined) firstClicks.push(clicks[0].at);
    uniqueClicks += new Set(clicks.map(({ url }) => url)).size;
    hardBounces += actions.filter(({ type }) => type === 'hard').length;
    softBounces += actions.filter(({ type }) => type === 'soft').length;
  }
  return {
    opens: times.open.length,
    openers: firstOpens.length,
    clicks: times.click.length,
    uniqueClicks,
    clickers: firstClicks.length,
    hardBounces,
    softBounces,
    lastOpen: latest(times.open),
    lastClick: latest(times.click),
    firstOpens: byHour(firstOpens),
    firstClicks: byHour(firstClicks),
  };
}

function byHour(times: readonly number[]): ReadonlyMap<number, number> {
  const counts = new Map<number, number>();
  for (const at of times) {
    const hour = Math.floor(at / hourMs);
    counts.set(hour, (counts.get(hour) ?? 0) + 1);
  }
  return counts;
}

function latest(times: readonly number[]): number | null {
  return times.length === 0 ? null : times.reduce((left, right) => Math.max(left, right));
}
