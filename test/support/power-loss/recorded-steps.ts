import type { RunEvent } from '../../../src/core/events.ts';
import type { SinkOptions } from '../../../src/sinks/sink-access.ts';
import type { SyncOnce } from '../sync-once.ts';

/** What the recorded process does, as JSON in its first argument. */
export interface RecordedSteps extends Pick<SyncOnce, 'baseUrl' | 'connectorId'> {
  readonly definition: string;
  readonly sink: SinkOptions;
  readonly steps: readonly RecordedStep[];
}

/** One sync. */
export interface RecordedStep {
  /** Of the account; asked for before the sync begins. */
  readonly revision: number;
  readonly isFull: boolean;
  /** The run is left without its end after so many steps. */
  readonly stopAt?: number;
  /** All steps of which this is true use one open sink, as a worker does; each other one has its own, as a command. */
  readonly isSameSink?: boolean;
  /** This entity is reset with its data before the sync begins. */
  readonly resets?: string;
}

/** Between two revisions the clock moves on by this: fields that change all the time are stored again after a day. */
export const laterMsPerRevision = 25 * 60 * 60 * 1000;

/** What the recorded process writes to its standard output, one line each. */
export type ToldLine = RunEvent | { readonly kind: 'step-begins'; readonly revision: number };
