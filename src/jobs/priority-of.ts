/** Numbers of the queue's are at most 2^21: in steps of five minutes they last until 2045. */
const stepMs = 5 * 60 * 1000;
const first = Date.UTC(2026, 0, 1);
const lowest = 2 ** 21 - 1;

/**
 * The priority of a job whose data should be renewed by `deadlineMs`: the earliest deadline goes first. A deadline does not
 * move while its job waits, and that of every later job is later, so each comes to its turn however many there are. Jobs
 * without a priority, those that a person asked for, go before all of these.
 */
export function priorityOf(deadlineMs: number): number {
  const step = Math.floor((deadlineMs - first) / stepMs);
  return Math.min(lowest, Math.max(1, step));
}
