import { hostname } from 'node:os';
import { instant, type Clock } from '../core/clock.ts';
import type { ConnectorId } from '../core/names.ts';
import type { ConnectorSettings } from '../settings/settings.ts';
import type { ConnectorIdentity } from '../sinks/sink.ts';

/** As whom a command takes a connector; `command` is what the second one to want it is told. */
export function connectorIdentity(
  { name, definition }: ConnectorSettings,
  origin: { readonly baseUrl: string; readonly connectorId: ConnectorId },
  { clock, command }: { readonly clock: Clock; readonly command: string },
): ConnectorIdentity {
  return {
    connector: name,
    ...origin,
    definition: definition.name,
    definitionHash: definition.contentHash,
    holder: { pid: process.pid, host: hostname(), command, since: instant(clock.now()) },
  };
}
