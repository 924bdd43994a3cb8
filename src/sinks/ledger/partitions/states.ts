import type { standing } from '../../decisions/standing.ts';

/**
 * `unknown`: no row. `idle`: not due. `unswept`: idle after a full walk, whose missing rows are still to be looked for.
 * The next four are due. `waiting`: until something leads to it, or a run reads its entity. `ready`: this chain of runs
 * walks it. `listed`: its own listing is read, listings inside its tree are not. `set-aside`: its walk failed. The last
 * three are named after `standing`.
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

/**
 * A statement that writes `_sync_partitions`, as docs/internals/partitions.md prints it, with the only files that run
 * it. `from`, `to`: states (no `to`: it stays).
 */
export interface Transition {
  readonly what: string;
  readonly from: readonly PartitionState[];
  readonly to?: readonly PartitionState[];
}

export function transition<Run extends object>({
  run,
  ...one
}: Transition & { readonly run: Run }): Run & Transition {
  return Object.assign(run, one);
}

export const anyDue = ['waiting', 'ready', 'listed', 'set-aside'] as const;
export const anyLive = ['idle', 'unswept', ...anyDue] as const;
export const anyKnown = [...anyLive, 'ended', 'emptied', 'resting'] as const;
