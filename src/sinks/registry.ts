import type { ConnectorName } from '../core/names.ts';
import { NoSinkYetError, unfinishedCopyError } from './acquire-errors.ts';
import { jsonlAccess } from './jsonl/jsonl-access.ts';
import { sqliteAccess } from './sqlite/sqlite-access.ts';
import type { ConnectorStatus } from './ledger-reader.ts';
import { postgresAccess } from './postgres/postgres-access.ts';
import type {
  LedgerReader,
  OpenHistory,
  OpenHow,
  RecordReader,
  Sink,
  SinkAccess,
  SinkOptions,
  SinkPlace,
} from './sink-access.ts';

export function accessSink(sink: SinkPlace): SinkAccess {
  switch (sink.type) {
    case 'sqlite':
      return sqliteAccess(sink.path);
    case 'jsonl':
      return jsonlAccess(sink.directory);
    case 'postgres':
      return postgresAccess(sink);
  }
}

/**
 * Opens a sink for writing, or makes it; the caller disposes it. Throws SINK_INCOMPATIBLE, SINK_FULL, SINK_FAILED, and
 * SINK_MOVED where `sinkId` is not there.
 */
export async function openSink(options: SinkOptions, deps: Omit<OpenHow, 'durability'>): Promise<Sink> {
  const { durability, lockTimeoutMs } = options;
  return await accessSink(options).open({
    durability,
    ...(lockTimeoutMs === undefined ? {} : { lockTimeoutMs }),
    ...deps,
  });
}

/**
 * Opens what a sink says of its runs, read only; works while another process writes. Throws when there is no sink yet.
 */
export async function openHistory(sink: SinkPlace): Promise<OpenHistory> {
  return await accessSink(sink).openHistory();
}

/**
 * The same; null when nothing has been synced into it yet. Throws where that cannot be known, or something else is
 * there.
 */
export async function openExistingHistory(sink: SinkPlace): Promise<OpenHistory | null> {
  return await nullWithoutSink(accessSink(sink).openHistory());
}

/**
 * The stored records in one state, read only, beside a process that writes; null when nothing has been synced into it
 * yet.
 */
export async function openExistingRecords(sink: SinkPlace): Promise<RecordReader | null> {
  return await nullWithoutSink(accessSink(sink).openRecords());
}

/** A check before the opening could find a file that another process is still making. */
async function nullWithoutSink<Opened>(opening: Promise<Opened>): Promise<Opened | null> {
  try {
    return await opening;
  } catch (error) {
    if (error instanceof NoSinkYetError) return null;
    throw error;
  }
}

export async function statusOf(
  history: LedgerReader,
  connector: ConnectorName,
): Promise<ConnectorStatus | null> {
  const [status = null] = await history.connectors([connector]);
  return status;
}

/** Throws COPY_UNFINISHED where only a part of the connector is in the sink so far. */
export async function checkCopied(history: LedgerReader, connector: ConnectorName): Promise<void> {
  const unfinished = await history.unfinishedCopy(connector);
  if (unfinished !== null) throw unfinishedCopyError(unfinished);
}

/**
 * What a sink says of one connector now; null where it holds nothing of it. Throws COPY_UNFINISHED where it holds only
 * a part.
 */
export async function storedStatus({
  name,
  sink,
}: {
  readonly name: ConnectorName;
  readonly sink: SinkPlace;
}): Promise<ConnectorStatus | null> {
  await using history = await openExistingHistory(sink);
  if (history === null) return null;
  await checkCopied(history, name);
  return await statusOf(history, name);
}
