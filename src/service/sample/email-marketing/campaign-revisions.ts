/** Something that a recipient did with a message. */
export interface Action {
  readonly at: number;
  readonly action: 'open' | 'click' | 'bounce';
  readonly url?: string;
  readonly type?: 'hard' | 'soft';
  readonly ip?: string;
}

/** Somebody who left through a campaign. */
export interface Departure {
  readonly index: number;
  readonly at: number;
}

/** What revisions made of a campaign. */
export interface CampaignRevisions {
  /** It left with a revision: all that was done with it is in `actions`. */
  readonly isSentLate: boolean;
  /** By the member index of the recipient, oldest first. */
  readonly actions: ReadonlyMap<number, readonly Action[]>;
  /** Oldest first. */
  readonly departures: readonly Departure[];
}

export const noCampaignRevisions: CampaignRevisions = {
  isSentLate: false,
  actions: new Map(),
  departures: [],
};

/** What the reports add up of the actions that came with revisions. */
export interface LateCounts {
  readonly opens: number;
  readonly openers: number;
  readonly clicks: number;
  readonly clickers: number;
  /** Null: none. */
  readonly lastOpen: number | null;
  readonly lastClick: number | null;
}

export function lateCounts({ actions }: CampaignRevisions): LateCounts {
  const timesOf = (wanted: Action['action']): readonly (readonly number[])[] =>
    [...actions.values()]
      .map((own) => own.flatMap(({ action, at }) => (action === wanted ? [at] : [])))
      .filter((times) => times.length > 0);
  const opens = timesOf('open');
  const clicks = timesOf('click');
  return {
    opens: opens.flat().length,
    openers: opens.length,
    clicks: clicks.flat().length,
    clickers: clicks.length,
    lastOpen: latest(opens.flat()),
    lastClick: latest(clicks.flat()),
  };
}

function latest(times: readonly number[]): number | null {
  return times.length === 0 ? null : Math.max(...times);
}
