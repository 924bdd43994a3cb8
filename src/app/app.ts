import type { Clock } from '../core/clock.ts';
import type { OnRunEvent } from '../core/events.ts';
import type { ConnectorName } from '../core/names.ts';
import type { SharedBudget } from '../core/shared-budget.ts';
import type { RunOptions } from '../engine/plan-run.ts';
import type { Notifier } from '../notify/open-notifier.ts';
import type { ConnectorSettings, ReadConnector, SettingsWith, SinkSettings } from '../settings/settings.ts';
import type { HolderWork, StoredIdentity } from '../sinks/lease.ts';
import type { RunReport } from '../sinks/run-report.ts';
import type { ApiClient } from '../source/api/open-api-client.ts';
import type { ApiSourceOptions } from '../source/api/open-api-source.ts';
import type { ConnectorOrigin, ConnectorSource } from '../source/source.ts';

export interface AppOptions {
  readonly settings: SettingsWith<'access'>;
  readonly clock: Clock;
  /**
   * The command that holds the connector, shown to a command that finds it busy. Has no arguments, because they may
   * contain anything.
   */
  readonly command: string;
  /** The work over several connectors that the command's syncs are parts of. */
  readonly work?: HolderWork;
  /** Stands in the ledger for the API's address where that changes from run to run (a local service on a free port). */
  readonly identityBaseUrl?: string;
  /** The connector whose credentials may go to another address than its stored rows came from: a person accepts it. */
  readonly adopts?: ConnectorName;
  /**
   * The longest pause that a call waits for, in milliseconds, when the service asks for one; a run ends before a longer
   * one, as `partial`, and says when to resume. Without it 30 s, because a person waits; less where other runs wait for
   * the place.
   */
  readonly maxThrottleWaitMs?: number;
  /** The sink that a run must find at its place; null: whichever is there, and a new one where there is none. */
  readonly sinkIdOf?: (sink: SinkSettings) => string | null;
  /** Opens the rate that a connector's calls share with other processes; null: they share none. */
  readonly openBudget?: (connector: ReadConnector, account: ConnectorOrigin) => SharedBudget | null;
  /** Called for calls that are retried or have to wait, and belong to no run. */
  readonly onWait?: OnRunEvent;
  /** Called at the end of every run that the app makes, except for `readAside`. */
  readonly onRunEnd?: OnRunEnd;
  /** Called with each problem that prevents notifications (`notify` of the settings), for a person or for a log. */
  readonly noteTrouble?: (line: string) => void;
}

/** The end of a run. `failed`: none could begin, or a repair failed; the caller's promise rejects with `error`. */
export type RunEnd = { readonly connector: ConnectorSettings; readonly asked: AskedRun } & (
  | { readonly kind: 'ended'; readonly report: RunReport }
  | { readonly kind: 'failed'; readonly error: unknown }
);

/**
 * Called after the report is stored and the connector is free again. Must neither throw nor reject. A promise that it
 * returns is waited for up to five seconds, so that a command does not exit before; a listener that takes longer
 * continues while the process lives.
 */
export type OnRunEnd = (end: RunEnd) => void | Promise<void>;

/** Options of a run beyond those of an ordinary one; the guards come from the settings. */
export type AskedRun = Partial<Omit<RunOptions, 'guards'>>;

export interface EntityGlobs {
  /** Empty: every entity of the connector. */
  readonly select: readonly string[];
  readonly exclude: readonly string[];
}

export interface SyncRequest {
  readonly globs: EntityGlobs;
  readonly onEvent: OnRunEvent;
  readonly run?: AskedRun;
  /**
   * Aborting it ends the run after a checkpoint, with the outcome `interrupted`; so does a cancel request in the
   * ledger, within about a second.
   */
  readonly signal: AbortSignal;
}

/** The rooms wired together for one process that reads connectors. Connects to nothing before a call needs it. */
export interface App extends AsyncDisposable {
  readonly settings: SettingsWith<'access'>;
  /** Each of its calls rejects with USAGE where the config has no API. */
  readonly client: ApiClient;
  /** Notifies people of problems. The ends of syncs reach it without a call. */
  readonly notifier: Notifier;
  /**
   * Rejects with `IdentityChangedError`, before a request, where the stored rows came from another address.
   */
  openSource(
    connector: ReadConnector,
    signal: AbortSignal,
    more?: Pick<ApiSourceOptions, 'onEvent' | 'maxCalls' | 'onExchange' | 'isTrial'> & {
      /** The origin of the rows in the connector's sink, where the caller knows it; null: none. */
      readonly stored?: StoredIdentity | null;
    },
  ): Promise<ConnectorSource>;
  /** One run of one connector, as `syncConnector` describes it. Throws where no run could begin. */
  sync(connector: ConnectorSettings, request: SyncRequest): Promise<RunReport>;
  /** A run that `repair` makes itself (null: there was nothing to do). Its end is reported like that of a sync. */
  repair<Report extends RunReport | null>(
    connector: ConnectorSettings,
    repair: () => Promise<Report>,
  ): Promise<Report>;
  /**
   * The same as `sync`, into a temporary sink instead of the connector's own: not a run of it, so `onRunEnd` is not
   * called.
   */
  readAside(connector: ConnectorSettings, request: SyncRequest): Promise<RunReport>;
}
