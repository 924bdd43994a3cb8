import { createHash } from 'node:crypto';
import type { WatchedSinks } from '../app/watch-sinks.ts';
import type { Clock } from '../core/clock.ts';
import type { LocalSettings } from '../settings/settings.ts';
import type { OverviewQuery } from './read-overview-page.ts';

/** What an address says that an act is about; what it does not say is empty. */
export interface ActQuery extends Pick<OverviewQuery, 'q' | 'state'> {
  /** Empty: all that `q` and `state` match, as on the overview. */
  readonly connector: string;
  readonly run: string;
  readonly target: string;
}

export interface ActWorld {
  readonly settings: LocalSettings;
  readonly watched: WatchedSinks;
  readonly program: string;
  readonly clock: Clock;
  /** Ends what takes long. */
  readonly signal: AbortSignal;
}

/** An act that can be done now. */
export interface PreparedAct {
  /** `Pause newsletter`. */
  readonly title: string;
  /** Exactly what will happen. */
  readonly says: readonly string[];
  /** What it would change: the names of connectors, a run, a target. */
  readonly of: readonly string[];
  /** Where to go on from it, as the overview links there. */
  readonly back: string;
  /** A person may say why. */
  readonly asksReason?: true;
  /** Does it, with the function of the command; `tell` is called with each thing that was done. */
  readonly act: (how: ActHow) => Promise<void>;
}

interface ActHow {
  readonly who: string;
  readonly reason: string;
  readonly tell: (line: string) => void;
}

/** Throws `SyncError`, mostly USAGE, for what cannot be done now; then nothing was done. */
export type Prepare = (query: ActQuery, world: ActWorld) => Promise<PreparedAct>;

/** A form that carries another one was made before something changed: it does nothing. */
export function fingerprint({ title, of }: PreparedAct): string {
  return createHash('sha256')
    .update(JSON.stringify([title, of]))
    .digest('base64url');
}
