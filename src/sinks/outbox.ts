import type { Instant } from '../core/clock.ts';
import type { ConnectorName } from '../core/names.ts';

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
