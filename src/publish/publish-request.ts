import type { Clock } from '../core/clock.ts';
import type { ConnectorName, EntityName } from '../core/names.ts';
import type { PublishSettings } from '../settings/settings.ts';
import type { Manifest, StoredManifest } from './manifest.ts';

/** One publication into a target, or the finding that there is nothing new. */
export interface PublishRequest {
  readonly settings: Pick<PublishSettings, 'name' | 'connectors' | 'snapshotEveryMs' | 'keepMs'>;
  /** All rows besides the changes, due or not. */
  readonly isSnapshotAsked: boolean;
  /** Every entity starts from the beginning, whatever the target holds. */
  readonly isNewGenerationAsked: boolean;
  readonly by: Manifest['by'];
  readonly clock: Clock;
  /** Once it is aborted, `publishOnce` rejects with its reason, and the target is as before. */
  readonly signal: AbortSignal;
  readonly onProgress: (progress: PublishProgress) => void;
}

/** Reported after each batch of rows. */
export interface PublishProgress {
  readonly connector: ConnectorName;
  readonly entity: EntityName;
  /** Of the entity so far, those of its snapshot included. */
  readonly rows: number;
}

export type PublishEnd =
  | {
      readonly kind: 'published';
      readonly published: StoredManifest;
      readonly newGenerations: readonly NewGeneration[];
      readonly heldBack: readonly HeldBack[];
      /** In words: what failed after the publication was there. */
      readonly warnings: readonly string[];
    }
  /** Nothing has changed since this one. */
  | { readonly kind: 'unchanged'; readonly newest: StoredManifest; readonly heldBack: readonly HeldBack[] }
  /** The sink is not there yet, or holds nothing of the connectors, and nothing was published before. */
  | { readonly kind: 'nothing-stored' };

/** An entity whose rows stay as they were published, until it has been read completely again. */
export interface HeldBack {
  readonly connector: string;
  readonly entity: string;
}

export interface NewGeneration {
  readonly connector: ConnectorName;
  readonly entity: EntityName;
  /** For people: why the rows of before do not count. Null: it is published for the first time. */
  readonly reason: string | null;
}
