import { SyncError } from '../core/errors.ts';
import { sinksOf } from '../settings/chosen-connectors.ts';
import type { SinkSettings } from '../settings/settings.ts';
import type { ConnectorOverview, ConnectorStatus } from '../sinks/ledger-reader.ts';
import { checkCopied, openExistingRecords } from '../sinks/registry.ts';
import { readState, stateOf } from './entity-states.ts';
import type { ShownConnector, ShownEntity } from './shown-entities.ts';

/**
 * An entity in one state of its sink, whichever process writes. The caller disposes it. `reader` and `stored` are null
 * where nothing is stored. Throws COPY_UNFINISHED, and what reading the sink throws.
 */
export async function openEntity(shown: ShownEntity) {
  const { connector, table } = shown.target;
  const reader = await openExistingRecords(connector.sink);
  try {
    if (reader !== null) await checkCopied(reader.history, connector.name);
    return {
      reader,
      stored: (await reader?.table(connector.name, table.entity)) ?? null,
      state: reader === null ? stateOf(shown, null, []) : await readState(reader.history, shown),
      [Symbol.asyncDispose]: async () => await reader?.[Symbol.asyncDispose](),
    };
  } catch (error) {
    await reader?.[Symbol.asyncDispose]();
    throw error;
  }
}

/** How a connector stands in its sink. */
export interface StoredConnector {
  /** Null: nothing is stored. */
  readonly status: ConnectorStatus | null;
  readonly freshness: ConnectorOverview['freshness'];
  /** Why it cannot be read; null: it can. */
  readonly problem: string | null;
}

/** Each sink is read in one state. One that cannot be read does not hide the others. By the name of a connector. */
export async function readConnectors(
  connectors: readonly ShownConnector[],
): Promise<ReadonlyMap<string, StoredConnector>> {
  const found = new Map<string, StoredConnector>();
  for (const sink of sinksOf(connectors)) {
    const within = connectors.filter((one) => one.sink.name === sink.name);
    try {
      await readSink(sink, within, found);
    } catch (error) {
      if (!(error instanceof SyncError)) throw error;
      for (const { name } of within) found.set(name, { status: null, freshness: [], problem: error.message });
    }
  }
  return found;
}

async function readSink(
  sink: SinkSettings,
  within: readonly ShownConnector[],
  found: Map<string, StoredConnector>,
): Promise<void> {
  await using reader = await openExistingRecords(sink);
  const copies = await reader?.history.copies();
  const statuses = (await reader?.history.connectors(within.map(({ name }) => name))) ?? [];
  for (const { name } of within) {
    const isCopying = copies?.unfinished.has(name) === true;
    found.set(name, {
      status: statuses.find(({ connector }) => connector === name) ?? null,
      freshness: (await reader?.history.freshness(name)) ?? [],
      problem: isCopying ? 'Only a part of it is stored: it is being copied from another sink.' : null,
    });
  }
}
