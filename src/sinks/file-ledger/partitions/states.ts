import { standing } from '../../decisions/standing.ts';

/**
 * `unknown`: no row. `idle`: not due. `unswept`: idle after a full walk, whose missing rows are still to be looked for.
 * The next four are due. `waiting`: until something leads to it, or a run reads its entity. `ready`: this chain of runs walks it.
 * `listed`: its own listing is read, listings inside its tree are not. `set-aside`: its walk failed.
 * The last three are named after `standing`.
 */
export type PartitionState =
  | 'unknown'
  | 'idle'
  | 'unswept'
  | 'waiting'
  | 'ready'
  | 'listed'
  | 'set-aside'
  | Exclude<keyof typeof standing, 'live'>;

/** The state of a row of `_sync_partitions`, as a SQL expression over its columns behind `row`. */
export function stateSql(row: string): string {
  const { ended, emptied, resting } = standing;
  return `CASE WHEN ${row}.gone = ${ended} THEN 'ended' WHEN ${row}.gone = ${emptied} THEN 'emptied'
    WHEN ${row}.gone = ${resting} THEN 'resting'
    WHEN ${row}.due_since IS NULL THEN iif(${row}.sweep_origin IS NULL, 'idle', 'unswept')
    WHEN ${row}.listed = 1 THEN 'listed' WHEN ${row}.ready = 1 THEN 'ready'
    WHEN ${row}.set_aside_run IS NOT NULL THEN 'set-aside' ELSE 'waiting' END`;
}

/** One statement that writes `_sync_partitions`, as printed in docs/partitions.md. `from`, `to`: states (no `to`: it stays). `by`: the only files that run it. */
export interface Transition<Values extends object = object, Row = unknown> {
  readonly what: string;
  readonly from: readonly PartitionState[];
  readonly to?: readonly PartitionState[];
  readonly by: readonly string[];
  readonly sql: string;
  /** For the compiler: what the statement is given, and a row that it returns. */
  readonly types?: (values: Values) => Row;
}

export function transition<Values extends object, Row = never>(
  one: Omit<Transition, 'types'>,
): Transition<Values, Row> {
  return one;
}

export const anyDue = ['waiting', 'ready', 'listed', 'set-aside'] as const;
export const anyLive = ['idle', 'unswept', ...anyDue] as const;
export const anyKnown = [...anyLive, 'ended', 'emptied', 'resting'] as const;
