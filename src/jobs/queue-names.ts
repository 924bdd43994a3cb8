import type { ConnectorName } from '../core/names.ts';

/** The one queue that schedulers produce into. Its name is part of Redis keys, as all names here are. */
export const ticksQueue = 'ticks';

/** A queue for each sink: a file belongs to one machine, so its jobs may only reach workers that can open it. */
export function syncsQueue(sinkId: string): string {
  return `syncs-${sinkId}`;
}

/** Scheduler ids carry the sink: a worker writes and removes the schedulers of its own sinks only. */
export function schedulerId(sinkId: string, connector: string): string {
  return `${sinkId}:${connector}`;
}

/** The connector of a scheduler id of this sink; null for any other. */
export function scheduledConnector(id: string, sinkId: string): string | null {
  return id.startsWith(`${sinkId}:`) ? id.slice(sinkId.length + 1) : null;
}

/** Hash from a sink's name to where its file is. */
export function sinksKey(prefix: string): string {
  return `${prefix}:sinks`;
}

/** Hash from a sink's id to when the config began whose schedules it has, and that config's fingerprint. */
export function schedulesKey(prefix: string): string {
  return `${prefix}:schedules`;
}

/** At most one sync and one backfill of a connector wait or run at a time. */
export function backfillKey(connector: ConnectorName): string {
  return `backfill:${connector}`;
}
