import type { Clock } from '../core/clock.ts';
import type { ConnectorName, EntityName } from '../core/names.ts';
import { usage } from '../core/usage-error.ts';
import type { ConnectorSettings, LocalSettings, SinkSettings } from '../settings/settings.ts';
import { storedTo, type CopySource, type CopyTarget, type SinkCopies } from '../sinks/copies.ts';
import type { Holder } from '../sinks/lease.ts';
import { accessSink, openExistingHistory, openSink } from '../sinks/registry.ts';
import type { Sink } from '../sinks/sink.ts';
import { holderOf } from './run-connector.ts';

export interface CopyRequest {
  readonly connector: ConnectorName;
  readonly from: SinkSettings;
  readonly to: SinkSettings;
  readonly clock: Clock;
  readonly onProgress: (progress: CopyProgress) => void;
  readonly signal: AbortSignal;
}

/** After each batch. */
export interface CopyProgress {
  /** The entity whose records are copied; null: the sync state. */
  readonly entity: EntityName | null;
  /** Rows that are stored in the target, deleted ones included; of those before this process too. */
  readonly rows: number;
  /** Rows in the source. */
  readonly allRows: number;
}

export type CopyEnd = Awaited<ReturnType<typeof copyBetween>>;

/**
 * Copies a connector with all that its sink knows of it into another sink, or resumes an unfinished copy.
 * Reads nothing from the API. Holds the connector in both sinks. Rejects with what `Copies` throws, and with the
 * signal's reason once that is aborted.
 */
export async function copyConnector(request: CopyRequest): Promise<CopyEnd> {
  const { from, to, clock, signal } = request;
  if (from.name === to.name) throw usage(`--from and --to both name sink ${from.name}. Name two sinks.`);
  if (!(await accessSink(from).isThere())) {
    throw usage(`Sink ${from.name} is empty: nothing was synced into it yet, so there is nothing to copy.`);
  }
  await using source = await openSink(from, { clock, signal });
  await using target = await openSink(to, { clock, signal });
  if (source.id === target.id) {
    throw usage(`Sinks ${from.name} and ${to.name} are one and the same place. Name two sinks.`);
  }
  return await copyBetween(source, target, request);
}

/** Between sinks that are open. */
export async function copyBetween(
  source: Sink,
  target: Sink,
  request: Omit<CopyRequest, 'from' | 'to'> & Readonly<Record<'from' | 'to', Pick<SinkSettings, 'name'>>>,
) {
  const { connector, from, to, clock } = request;
  const holder = copyHolder(connector, clock);
  await using reading = await source.copies.openSource(connector, holder);
  const names = { from: from.name, to: to.name };
  await using writing = await target.copies.openTarget(reading.connector, { ...names, holder });
  if (writing.state !== 'done') await copyAll(reading, writing, request);
  await reading.noteCopied(names);
  const { tables, sinkId, newestSeq, pause } = reading.connector;
  const status = await target.history.connectors([connector]);
  const entities = status[0]?.entities ?? [];
  return {
    connector,
    /** `done`: an earlier copy was complete, and nothing has changed in the source since. */
    state: writing.state,
    rows: tables.reduce((sum, { rows }) => sum + rows, 0),
    deleted: tables.reduce((sum, { deleted }) => sum + deleted, 0),
    entities: tables.length,
    /** Entities whose earlier versions the target does not take. */
    withoutVersions: tables
      .filter(({ hasVersions }) => hasVersions && !writing.keepsVersions)
      .map(({ entity }) => entity),
    /** Ids of the sinks: `export` gives them. */
    fromSink: sinkId,
    toSink: target.id,
    /** The highest change number of the source; later changes get higher ones in the target. */
    newestSeq,
    /** In the folder for downloads; nothing is copied there. */
    files: entities.reduce((sum, { files }) => sum + (files?.stored ?? 0), 0),
    isPaused: pause !== null,
  };
}

async function copyAll(
  reading: CopySource,
  writing: CopyTarget,
  { onProgress, signal }: Pick<CopyRequest, 'onProgress' | 'signal'>,
): Promise<void> {
  const { tables } = reading.connector;
  const allRows = tables.reduce((sum, { rows }) => sum + rows, 0);
  let stored = 0;
  for (const table of tables) {
    const { entity, rows, lastRow } = table;
    const after = storedTo(tables, writing.progress, entity);
    // Row numbers have few gaps: exact enough for a progress display.
    const before = stored;
    stored += after === null ? rows : Math.min(rows, after);
    onProgress({ entity, rows: stored, allRows });
    if (after === null || after >= lastRow) {
      stored = before + rows;
    } else {
      for await (const batch of reading.records(table, after)) {
        signal.throwIfAborted();
        await writing.storeRecords(table, batch);
        stored += batch.length;
        onProgress({ entity, rows: stored, allRows });
      }
    }
    const to = await writing.versionsTo(table);
    if (to === null) continue;
    for await (const batch of reading.versions(table, to)) {
      signal.throwIfAborted();
      await writing.storeVersions(table, batch);
    }
  }
  for await (const batch of reading.facts()) {
    signal.throwIfAborted();
    await writing.storeFacts(batch);
    onProgress({ entity: null, rows: allRows, allRows });
  }
  signal.throwIfAborted();
  await writing.finish();
}

/** Those that the config stores in the sink, as far as they are there. Throws USAGE where there are none. */
export async function connectorsHeld(
  settings: Pick<LocalSettings, 'connectors'>,
  from: SinkSettings,
): Promise<readonly ConnectorSettings[]> {
  const own = [...settings.connectors.values()].filter(({ sink }) => sink.name === from.name);
  const held = own.length === 0 ? new Set() : await heldConnectors(from);
  const connectors = own.filter(({ name }) => held.has(name));
  if (connectors.length > 0) return connectors;
  throw usage(
    own.length === 0
      ? `No connector of the config has "sink: ${from.name}"; name the connectors to copy.`
      : `Sink ${from.name} holds none of the config's connectors yet; there is nothing to copy.`,
  );
}

/** Connectors that a sink holds whole; none where there is no sink. */
export async function heldConnectors(sink: SinkSettings): Promise<ReadonlySet<ConnectorName>> {
  await using history = await openExistingHistory(sink);
  const held = (await history?.overview()) ?? [];
  return new Set(held.flatMap(({ connector, identity }) => (identity === null ? [] : [connector])));
}

/**
 * None where the sink cannot be read: one that no connector uses need not exist yet, and others are reported
 * elsewhere.
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
 * `discard` removes what an unfinished copy has left in the sink; `reopen` lets syncs write to a sink again that the
 * connector was copied from. False where there is no such thing.
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
