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
