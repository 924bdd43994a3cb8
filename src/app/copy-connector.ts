import type { Clock } from '../core/clock.ts';
import type { ConnectorName } from '../core/names.ts';
import { usage } from '../core/errors.ts';
import type { LocalSettings, SinkSettings } from '../settings/settings.ts';
import type { CopyProgress, SinkCopies } from '../sinks/requests.ts';
import type { Holder } from '../sinks/lease.ts';
import { accessSink, openExistingHistory, openSink } from '../sinks/registry.ts';
import type { Sink } from '../sinks/sink-access.ts';
import { holderOf } from './run-connector.ts';

export interface CopyRequest {
  readonly connector: ConnectorName;
  readonly from: SinkSettings;
  readonly to: SinkSettings;
  readonly clock: Clock;
  readonly onProgress: (progress: CopyProgress) => void;
  readonly signal: AbortSignal;
}

export type CopyEnd = Awaited<ReturnType<Sink['copies']['into']>>;

/**
 * Copies a connector with all that its sink knows of it into another sink, or resumes an unfinished copy. Reads nothing
 * from the API. Holds the connector in both sinks. Rejects with what `copies.into` of a sink throws.
 */
export async function copyConnector(request: CopyRequest): Promise<CopyEnd> {
  const { connector, from, to, clock, onProgress, signal } = request;
  if (from.name === to.name) throw usage(`--from and --to both name sink ${from.name}. Name two sinks.`);
  if (!(await accessSink(from).isThere())) {
    throw usage(`Sink ${from.name} is empty: nothing was synced into it yet, so there is nothing to copy.`);
  }
  await using source = await openSink(from, { clock, signal });
  await using target = await openSink(to, { clock, signal });
  if (source.id === target.id) {
    throw usage(`Sinks ${from.name} and ${to.name} are one and the same place. Name two sinks.`);
  }
  const holder = copyHolder(connector, clock);
  const how = { connector, from: from.name, to: to.name, holder, onProgress, signal };
  return await source.copies.into(target.copies, how);
}

/** Connectors that the config stores in the sink and that exist there. Throws USAGE if there are none. */
export async function connectorsHeld(settings: Pick<LocalSettings, 'connectors'>, from: SinkSettings) {
  const own = [...settings.connectors.values()].filter(({ sink }) => sink.name === from.name);
  await using history = own.length === 0 ? null : await openExistingHistory(from);
  const held = ((await history?.overview()) ?? []).filter(({ identity }) => identity !== null);
  const connectors = own.filter(({ name }) => held.some(({ connector }) => connector === name));
  if (connectors.length > 0) return connectors;
  throw usage(
    own.length === 0
      ? `No connector of the config has "sink: ${from.name}"; name the connectors to copy.`
      : `Sink ${from.name} holds none of the config's connectors yet; there is nothing to copy.`,
  );
}

/**
 * Copies that the sink knows; none if it cannot be read: a sink that no connector uses need not exist yet, and other
 * failures are reported elsewhere.
 */
export async function readCopies(sink: SinkSettings): Promise<SinkCopies> {
  const none: SinkCopies = { unfinished: new Map(), away: new Map() };
  try {
    await using history = await openExistingHistory(sink);
    return (await history?.copies()) ?? none;
  } catch {
    return none; // As described above.
  }
}

/**
 * `discard` removes the data of an unfinished copy from the sink; `reopen` lets syncs write again to a sink that the
 * connector was copied from. False if there is no such copy.
 */
export async function undoCopy(
  how: 'discard' | 'reopen',
  settings: SinkSettings,
  connector: ConnectorName,
  clock: Clock,
): Promise<boolean> {
  if (!(await accessSink(settings).isThere())) return false;
  await using sink = await openSink(settings, { clock });
  return await sink.copies[how](connector, copyHolder(connector, clock));
}

function copyHolder(connector: ConnectorName, clock: Clock): Holder {
  return holderOf({ command: `connector-sync copy ${connector}`, clock });
}
