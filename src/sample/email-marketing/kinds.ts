/** First throws of the dice, one per kind of thing, so that no two share their chances. */
export const kind = {
  list: 1,
  member: 2,
  campaign: 3,
  report: 4,
  activity: 5,
  automation: 6,
  segment: 7,
  interest: 8,
  unsubscribe: 9,
  revision: 10,
  campaignRevision: 11,
  interestRevision: 12,
} as const;
