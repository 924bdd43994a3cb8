/** `gone`: what has become of the record that led to a partition. The numbers are stored. */
export const standing = {
  /** It exists, or no record led here. */
  live: 0,
  /** It is tombstoned; the rows below follow. */
  ended: 1,
  /** It is tombstoned, and so is every row below, but for orphans that wait for a `get`. */
  emptied: 2,
  /** It exists, and listings leave it out (it is in the trash). */
  resting: 3,
} as const;
