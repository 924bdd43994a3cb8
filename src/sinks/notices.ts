import type { Instant } from '../core/clock.ts';
import type { ConnectorName } from '../core/names.ts';
import type { FieldNews } from './drift.ts';
import type { ConnectorOverview } from './ledger-reader.ts';
import type { Claimed, ClaimedMessage, ClaimHow, NewMessage } from './outbox.ts';

/** What is wrong with a sink's connectors and targets, as found last, and an outbox of messages about it. */
export interface Notices {
  /**
   * Compares what is wrong now with what was found last: `decide` gets both, and may be called again. What it decides
   * is stored in one transaction, which no other process makes at the same time, so that each change is found once.
   */
  update(
    connectors: readonly ConnectorName[],
    decide: (found: FoundState) => NoticeChanges | null,
  ): Promise<void>;
  /** Puts messages into the outbox that are about no change. */
  put(messages: readonly NewMessage[]): Promise<void>;
  /**
   * The oldest message of a channel, which no other process sends meanwhile: it has `leaseMs` to say what became of it.
   * What was put into the outbox before `keepMs` is given up, and shown for another month.
   */
  claim(channel: string, how: ClaimHow): Promise<Claimed>;
  delivered(message: ClaimedMessage): Promise<void>;
  /** `pauseMs` null: it is given up. */
  failed(message: ClaimedMessage, error: string, pauseMs: number | null): Promise<void>;
}

/** Something that is wrong, or that a person should know; it holds until it is found no more. */
export interface Condition {
  /** '' where it concerns none alone. */
  readonly connector: ConnectorName | '';
  readonly kind: string;
  /** What of it: an entity, a field, a target; '' for all of the connector. */
  readonly subject: string;
  readonly since: Instant;
  /** For the text of messages; without secrets. */
  readonly detail: string;
}

export interface FoundState {
  readonly overviews: ReadonlyMap<ConnectorName, ConnectorOverview>;
  readonly fields: ReadonlyMap<ConnectorName, readonly FieldNews[]>;
  /** As they were stored last, of these connectors and of none; by `Condition.connector`. */
  readonly conditions: ReadonlyMap<Condition['connector'], readonly Condition[]>;
  /** By the clock that all processes of the sink share. */
  readonly nowMs: number;
}

export interface NoticeChanges {
  readonly stored: readonly Condition[];
  readonly dropped: readonly Pick<Condition, 'connector' | 'kind' | 'subject'>[];
  readonly messages: readonly NewMessage[];
}
