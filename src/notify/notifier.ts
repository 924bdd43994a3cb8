import type { Clock } from '../core/clock.ts';
import type {
  ConnectorSettings,
  LocalSettings,
  NotifySettings,
  PublishSettings,
  SinkSettings,
} from '../settings/settings.ts';

export interface NotifierOptions {
  readonly settings: LocalSettings;
  readonly clock: Clock;
  /** As of an app: the sink that must be at its place. */
  readonly sinkIdOf?: ((sink: SinkSettings) => string | null) | undefined;
  /** What keeps notifications from being sent. A person may read it, or a log. */
  readonly note: (line: string) => void;
}

/** How a run ended. */
export interface EndedRun {
  readonly connector: ConnectorSettings;
  readonly kind: 'sync' | 'backfill';
  /** Why no run could begin; null: one has ended. */
  readonly error: unknown;
  /** Nothing was left out but what a limit of the caller left. */
  readonly isGood: boolean;
}

/** What a worker made of its config. */
export interface ReadConfig {
  readonly file: string;
  /** Why it keeps the config before; null: it has this one. */
  readonly refusal: string | null;
  /** It has begun with it. */
  readonly isStart?: boolean;
}

export interface TestedChannel {
  readonly channel: NotifySettings;
  /** Null: the message was delivered. */
  readonly error: string | null;
}

/**
 * Notifies people of what is wrong. What the ledger says is compared with what was found last; a change goes into the
 * ledger's outbox: nothing is lost where the process ends. Where the ledger is away, nothing is sent: a heartbeat that
 * does not come tells of that. None of its promises rejects.
 */
export interface Notifier extends AsyncDisposable {
  readonly runEnded: (ended: EndedRun) => Promise<void>;
  /** `error` null: it went well. */
  readonly publicationEnded: (target: PublishSettings, error: unknown) => Promise<void>;
  readonly configRead: (read: ReadConfig) => Promise<void>;
  /** Looks for what came about by itself, such as staleness, and sends what is waiting. */
  readonly look: (connectors: readonly ConnectorSettings[]) => Promise<void>;
  /**
   * Sends a message through each of these channels, by the outbox of the first sink that it hears of, and gives up to
   * ten seconds to all of them. Nothing is sent after it but what is tried again by then.
   */
  readonly test: (channels: readonly NotifySettings[]) => Promise<readonly TestedChannel[]>;
}
