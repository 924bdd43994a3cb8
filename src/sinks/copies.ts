import type { Instant } from '../core/clock.ts';
import type { ConnectorName, EntityName } from '../core/names.ts';
import type { Holder } from './lease.ts';

/** Names of the sinks in the config, for people. */
export interface CopyWay {
  readonly from: string;
  readonly to: string;
}

export interface CopyHow extends CopyWay {
  readonly connector: ConnectorName;
  readonly holder: Holder;
  /** The copy continues when it has resolved, and ends where it rejects. */
  readonly onProgress: (progress: CopyProgress) => void | Promise<void>;
  readonly signal: AbortSignal;
}

/** After each batch. */
export interface CopyProgress {
  /** The entity whose records are copied; null: the sync state. */
  readonly entity: EntityName | null;
  /** Rows stored in the target, deleted ones and those of earlier processes included. */
  readonly rows: number;
  /** Rows in the source. */
  readonly allRows: number;
}

/** A copy that has begun and is not finished. The data of the connector stored so far is used for nothing else. */
export interface UnfinishedCopy extends CopyWay {
  readonly connector: ConnectorName;
  readonly since: Instant;
}

/** A connector whose syncs continue in the sink that it was copied into. The data stored here stays as it was. */
export interface CopiedAway extends CopyWay {
  readonly connector: ConnectorName;
  readonly at: Instant;
}

/** A sink's copies, by connector. */
export interface SinkCopies {
  /** Into this sink. */
  readonly unfinished: ReadonlyMap<ConnectorName, UnfinishedCopy>;
  /** Out of this sink. */
  readonly away: ReadonlyMap<ConnectorName, CopiedAway>;
}
