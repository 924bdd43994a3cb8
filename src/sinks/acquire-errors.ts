import { SyncError } from '../core/errors.ts';
import type { ConnectorName } from '../core/names.ts';
import type { Holder } from './sink.ts';

/** Another process, or another lease of this one, holds the connector. `holder` is null when it has not introduced itself yet. */
export class ConnectorBusyError extends SyncError {
  override readonly name = 'ConnectorBusyError';
  readonly holder: Holder | null;

  constructor(connector: ConnectorName, holder: Holder | null) {
    const who =
      holder === null
        ? 'another process'
        : `process ${holder.pid} on ${holder.host} since ${holder.since} (${holder.command})`;
    super(
      `Connector "${connector}" is held by ${who}; one run at a time may write it. Wait for that run to end, or stop it.`,
      {
        code: 'CONNECTOR_BUSY',
        recovery: 'stop',
        context:
          holder === null
            ? { connector }
            : {
                connector,
                pid: holder.pid,
                host: holder.host,
                since: holder.since,
                command: holder.command,
              },
      },
    );
    this.holder = holder;
  }
}

/** The sink holds this connector's records under another identity; mixing the two would corrupt both. */
export class IdentityChangedError extends SyncError {
  override readonly name = 'IdentityChangedError';

  constructor(connector: ConnectorName, differences: readonly IdentityDifference[]) {
    const changes = differences
      .map(({ what, stored, given }) => `${what} was ${stored} and is now ${given}`)
      .join('; ');
    super(
      `Connector "${connector}" already has records of another origin in this sink: ${changes}. ` +
        'Use another connector name for the new origin, or drop what is stored of the old one: ' +
        `connector-sync reset ${connector} --data --yes`,
      {
        code: 'IDENTITY_CHANGED',
        recovery: 'stop',
        context: { connector, changed: differences.map(({ what }) => what).join(', ') },
      },
    );
  }
}

export interface IdentityDifference {
  readonly what: 'base URL' | 'connector id' | 'definition';
  readonly stored: string;
  readonly given: string;
}
