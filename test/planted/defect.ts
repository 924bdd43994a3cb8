/** The parts of the program that have planted defects. */
export type Room = 'sinks' | 'engine' | 'publish' | 'cli' | 'search' | 'jobs';

/** A mistake that a change of the program could make, and the test that finds it. */
export interface Defect {
  readonly id: string;
  readonly room: Room;
  /** The function, class or constant that has the mistake: it is looked for in all of `src`. */
  readonly name: string;
  /** Another name that the same file declares. Needed where several files have a `name` with this text. */
  readonly beside?: string;
  /** Occurs once in what `name` declares. White space counts as one blank, so that a line may be broken elsewhere. */
  readonly find: string;
  readonly replace: string;
  /** The harm to a user, as one sentence. */
  readonly because: string;
  /** The test file that fails with the defect and passes without it. */
  readonly foundBy: string;
  /** Part of the titles of the tests to run; absent: the whole file. */
  readonly titled?: string;
  /** The tests run the built program, in processes: it is built again with the defect. */
  readonly runsProgram?: true;
}
