import type { Instant } from '../core/clock.ts';
import type { ConnectorId, ConnectorName } from '../core/names.ts';

/** Identity of a connector, as stored in a sink. */
export interface StoredIdentity {
  readonly baseUrl: string;
  readonly connectorId: string;
  readonly definition: string;
}

export interface ConnectorIdentity extends StoredIdentity {
  readonly connector: ConnectorName;
  readonly connectorId: ConnectorId;
  readonly definitionHash: string;
  readonly holder: Holder;
}

/** Process that holds a connector, named in the error that a second process gets. */
export interface Holder {
  readonly pid: number;
  readonly host: string;
  readonly command: string;
  readonly since: Instant;
  /** The command over several connectors that this one is a part of. Absent: it is part of none. */
  readonly work?: HolderWork;
}

/** Lets commands that do the same work at the same time, or after an interruption, share it. */
export interface HolderWork {
  /** A command that resumes an interrupted one has the same. */
  readonly id: string;
  /** Equal where the same is read in the same way: a hash of the flags. */
  readonly asked: string;
}

export interface Lease extends AsyncDisposable {
  readonly connector: ConnectorName;
  /** Raised by every acquire; checked inside every transaction. */
  readonly epoch: number;
}

export interface Pause {
  readonly since: Instant;
  /** Text for people: who paused the connector and why. */
  readonly reason: string;
}
