/**
 * How complete the stored records of an entity are, from the worst word to the best. `not-yet`: listings failed or are
 * left to read. `part-missing`: a listing ended with a doubt, so that the service may have records that it did not
 * show. `unconfirmed`: everything was read to its end, and the service offers no proof of that. `complete`: proven.
 */
export const completenessWords = ['not-yet', 'part-missing', 'unconfirmed', 'complete'] as const;
export type Completeness = (typeof completenessWords)[number];

/** What is known of an entity's own listings. */
export interface ListingFacts {
  /** Some failed, or are left to read. */
  readonly isUnread: boolean;
  /** Some ended with a doubt. */
  readonly isDoubted: boolean;
  /** Some were read in unknown order, and no total agreed. */
  readonly isUnordered: boolean;
}

/**
 * The one word for an entity, which every reader shows: the worst that holds of its own listings or, by `leading`, of
 * those that lead to them, as no listing below an unseen record was read.
 */
export function completenessOf(facts: ListingFacts, leading: readonly Completeness[]): Completeness {
  const { isUnread, isDoubted, isUnordered } = facts;
  const holds = new Set(leading);
  if (isUnread) holds.add('not-yet');
  if (isDoubted) holds.add('part-missing');
  if (isUnordered) holds.add('unconfirmed');
  return completenessWords.find((word) => holds.has(word)) ?? 'complete';
}
