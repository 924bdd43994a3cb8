/** Records of one walk that are told apart: 100,000 of them take some 8 MB. */
const mostMarks = 100_000;

/** Counts the different records of a walk exactly, for as long as its process lives and their number allows. */
export interface SeenMarks {
  /**
   * `before`: what this gave for the page before, 0 at the beginning. Null: not all records before the page were
   * remembered.
   */
  add(before: number | null, marks: readonly string[]): number | null;
}

export function openSeenMarks(): SeenMarks {
  const seen = new Set<string>();
  return {
    add(before, marks) {
      if (before === 0) seen.clear();
      if (before !== seen.size || seen.size + marks.length > mostMarks) return null;
      for (const mark of marks) seen.add(mark);
      return seen.size;
    },
  };
}
