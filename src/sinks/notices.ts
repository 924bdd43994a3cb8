import type { Instant } from '../core/clock.ts';
import type { ConnectorName } from '../core/names.ts';
import type { FieldNews } from './readings.ts';
import type { ConnectorOverview } from './ledger/history/overview.ts';

/** Something that is wrong, or that a person should know; it holds until it is found no more. */
export interface Condition {
  /** '' where it concerns none alone. */
  readonly connector: ConnectorName | '';
  readonly kind: string;
  /** The field, target or config concerned; '' for the whole connector. */
  readonly subject: string;
  readonly since: Instant;
  /** Text for messages; never contains secrets. */
  readonly detail: string;
}

export interface FoundState {
  readonly overviews: ReadonlyMap<ConnectorName, ConnectorOverview>;
  readonly fields: ReadonlyMap<ConnectorName, readonly FieldNews[]>;
  /** Conditions stored last, of these connectors and of none; by `Condition.connector`. */
  readonly conditions: ReadonlyMap<Condition['connector'], readonly Condition[]>;
  /** Time by the clock that all processes of the sink share. */
  readonly nowMs: number;
}

export interface NoticeChanges {
  readonly stored: readonly Condition[];
  readonly dropped: readonly Pick<Condition, 'connector' | 'kind' | 'subject'>[];
  readonly messages: readonly NewMessage[];
}

export interface ClaimHow {
  readonly leaseMs: number;
  readonly keepMs: number;
}

export interface NewMessage {
  /** The receiver's id of it: a message that comes twice has the same. */
  readonly notice: string;
  readonly channel: string;
  readonly connector: ConnectorName | null;
  readonly kind: string;
  /** JSON. */
  readonly payload: string;
}

export interface ClaimedMessage extends NewMessage {
  readonly id: number;
  /** This one included. */
  readonly attempts: number;
  readonly claim: string;
}

export type Claimed =
  | { readonly kind: 'message'; readonly message: ClaimedMessage }
  /** Another process sends it, or it is not to be tried before. */
  | { readonly kind: 'later'; readonly ms: number }
  | { readonly kind: 'none' };

/** A message that was not delivered yet, or was given up. */
export interface OutboxRow extends Omit<NewMessage, 'payload'> {
  readonly at: Instant;
  readonly attempts: number;
  readonly lastError: string | null;
  readonly givenUpAt: Instant | null;
}
