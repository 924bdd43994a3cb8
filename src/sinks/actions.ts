import { hostname, userInfo } from 'node:os';
import type { Instant } from '../core/clock.ts';
import type { JsonObject } from '../core/json.ts';
import type { ConnectorName, EntityName, RunId } from '../core/names.ts';

/** Actions of a person, as recorded in the ledger. */
export type ActionName =
  | 'pause'
  | 'resume'
  | 'cancel'
  | 'reset'
  | 'remove'
  | 'adopt'
  | 'undo'
  | 'purge'
  | 'refetch'
  | 'allow-deletes'
  | 'read-in-full'
  | 'run-now'
  | 'publish-now'
  | 'copy-from'
  | 'copy-to'
  | 'copy-discarded'
  | 'copy-reopened';

/** Something that a person did, or asked for. */
export interface Action {
  readonly action: ActionName;
  /** Null: it concerned no connector alone. */
  readonly connector: ConnectorName | null;
  readonly entity?: EntityName | null;
  /** Further facts for a reader, such as the reason of a pause; never contains secrets. */
  readonly detail?: JsonObject;
  /** The run that does it, or that it was about. */
  readonly run?: RunId | null;
  /** User who asked another process for the action; by default `OpenHow.who` of the process that carries it out. */
  readonly who?: string;
}

export interface NotedAction extends Required<Action> {
  readonly id: number;
  readonly at: Instant;
  /** The user and host of a command (`anna@laptop`), or the name of a token. */
  readonly who: string;
}

/** The user of this process, as `_sync_actions` names who did something: `anna@laptop`. */
export function processUser(): string {
  return `${userName()}@${hostname()}`;
}

function userName(): string {
  try {
    return userInfo().username;
  } catch {
    // A container may run as a number that its list of users does not have.
    return String(process.getuid?.() ?? 'unknown');
  }
}
