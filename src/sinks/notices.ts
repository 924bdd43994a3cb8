import type { Instant } from '../core/clock.ts';
import type { ConnectorName } from '../core/names.ts';
import type { FieldNews } from './drift.ts';
import type { ConnectorOverview } from './ledger-reader.ts';
import type { NewMessage } from './outbox.ts';

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
