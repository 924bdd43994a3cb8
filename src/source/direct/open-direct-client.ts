import { systemClock, type Clock } from '../../core/clock.ts';
import type { Secret } from '../../core/secret.ts';
import type { Definition } from '../../definitions/definition.ts';
import { openCallGate } from '../../upstream/call-gate.ts';
import { openUpstream } from '../../upstream/open-upstream.ts';
import { openMachineSlots } from '../../upstream/machine-slots.ts';
import type { UpstreamAccount } from '../../upstream/upstream-account.ts';
import { openUpstreamTransport } from '../../upstream/upstream-transport.ts';

export interface DirectConnector {
  readonly name: string;
  readonly definition: Definition;
  readonly credentials: ReadonlyMap<string, Secret>;
}

/** What the direct connectors of a process share: connections, and the limits of each credential. */
export interface DirectClient extends AsyncDisposable {
  /** Asks nothing. Throws `TypeError` for a definition without `upstream`. The caller closes the account. */
  account(connector: DirectConnector): UpstreamAccount;
}

export interface DirectClientOptions {
  /** As of `UpstreamTransportOptions`. */
  readonly allowHosts: readonly string[];
  readonly clock?: Clock;
  /** A longer pause, or queue, is not waited for. */
  readonly maxThrottleWaitMs: number;
}

export function openDirectClient(options: DirectClientOptions): DirectClient {
  const { allowHosts, clock = systemClock, maxThrottleWaitMs } = options;
  const transport = openUpstreamTransport({ allowHosts });
  const gate = openCallGate({ clock, maxWaitMs: maxThrottleWaitMs, openShared: openMachineSlots(clock) });
  return {
    account: ({ name, definition, credentials }) =>
      openUpstream({
        definition,
        connector: name,
        gate,
        transport,
        clock,
        credentials: () =>
          Promise.resolve(
            Object.fromEntries([...credentials].map(([field, secret]) => [field, secret.reveal()])),
          ),
      }),
    async [Symbol.asyncDispose]() {
      await gate[Symbol.asyncDispose]();
      await transport[Symbol.asyncDispose]();
    },
  };
}
