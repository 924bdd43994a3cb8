import { statfs } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { ConnectorName } from '../core/names.ts';
import { createNamedDirectory } from '../files/private-file.ts';
import { placeOf } from '../sql/postgres/place.ts';
import { NoSinkYetError, unfinishedCopyError } from './sink-errors.ts';
import type {
  LedgerReader,
  OpenedToRead,
  OpenHistory,
  OpenHow,
  RecordReader,
  ServedLedger,
  Sink,
  SinkAccess,
  SinkOptions,
  SinkPlace,
} from './sink-access.ts';
import { isSinkThere, type LedgerFormat } from './sqlite/open-database.ts';

/* Code is loaded when something is opened: a command that reads a ledger does not load the code that writes one. */

export function accessSink(sink: SinkPlace): SinkAccess {
  switch (sink.type) {
    case 'sqlite':
      return fileAccess({
        file: sink.path,
        place: sink.path,
        loadFormat: async () => (await import('./sqlite/sqlite-schema.ts')).sqliteFormat,
        open: async (how) => {
          const { openSqliteSink } = await import('./sqlite/sqlite-sink.ts');
          return await openSqliteSink({ ...how, file: sink.path });
        },
        openClosedFiles: async () => null,
      });
    case 'jsonl':
      return jsonlAccess(sink.directory);
    case 'postgres':
      return postgresAccess(sink);
  }
}

/** Ways to read a sink. Each throws as `open` does: `NoSinkYetError` where there is no sink. */
function readersOf(open: () => Promise<OpenedToRead>): Pick<SinkAccess, 'openHistory' | 'openRecords'> {
  return {
    openHistory: async () => {
      const { ledgerReader } = await import('./ledger/history/history.ts');
      const { db, records, sinkId } = await open();
      return {
        ...ledgerReader(records, (work) => db.read(work)),
        sinkId,
        [Symbol.asyncDispose]: async () => await db[Symbol.asyncDispose](),
      };
    },
    openRecords: async () => {
      const { recordReader } = await import('./ledger/read-records.ts');
      const { db, ...opened } = await open();
      await using _opening = db;
      return recordReader({ ...opened, snapshot: await db.openSnapshot() });
    },
  };
}

/** A worker keeps a ledger open for each sink: with SQLite's own 16 MiB, a hundred of them would take a gigabyte. */
const cacheKiB = 2048;

interface FileAccess extends Pick<SinkAccess, 'place' | 'open' | 'openClosedFiles'> {
  readonly file: string;
  readonly loadFormat: () => Promise<LedgerFormat>;
}

/** Access to a sink whose ledger and records are in one SQLite file. */
function fileAccess({ file, place, loadFormat, openClosedFiles, ...own }: FileAccess): SinkAccess {
  const open: SinkAccess['open'] = async (how) => {
    // A sink that must exist already is looked for where it was.
    if (how.sinkId === undefined) createNamedDirectory(dirname(file));
    return await own.open(how);
  };
  return {
    ...readersOf(async () => {
      const { openToRead } = await import('./sqlite/readers.ts');
      return openToRead({ file, format: await loadFormat(), cacheKiB });
    }),
    place,
    ledgerPlace: file,
    isThere: async () => isSinkThere(file),
    open,
    openWatched: async (sinkId) => {
      const readers = await import('./sqlite/readers.ts');
      return await readers.openServedFile({ file, format: await loadFormat(), cacheKiB, place }, sinkId);
    },
    openClosedFiles,
    freeBytes: async () => {
      const { bavail, bsize } = await statfs(dirname(place));
      return bavail * bsize;
    },
    check: async () => [],
  };
}

function jsonlAccess(directory: string): SinkAccess {
  const file = join(directory, '_ledger.db');
  return fileAccess({
    file,
    place: directory,
    loadFormat: async () => (await import('./jsonl/jsonl-sink.ts')).jsonlFormat,
    open: async (how) => {
      const { openJsonlSink } = await import('./jsonl/jsonl-sink.ts');
      return await openJsonlSink({ ...how, directory, file });
    },
    openClosedFiles: async () => {
      if (!isSinkThere(file)) return null;
      const { openJsonlClosedFiles } = await import('./jsonl/jsonl-sink.ts');
      return openJsonlClosedFiles(directory, file);
    },
  });
}

function postgresAccess(at: Extract<SinkPlace, { readonly type: 'postgres' }>): SinkAccess {
  const place = placeOf(at.connection, at.schema);
  const load = async () => await import('./postgres/postgres-schema.ts');
  return {
    ...readersOf(async () => await (await load()).openToRead(at)),
    place,
    ledgerPlace: place,
    isThere: async () => await (await load()).isSinkThere(at),
    open: async (how) => {
      const { openPostgresSink } = await import('./postgres/postgres-sink.ts');
      return await openPostgresSink(at, how);
    },
    openWatched: async () => await (await load()).openWatchedPostgres(at),
    openClosedFiles: async () => null,
    freeBytes: async () => null,
    check: async () => {
      const { checkServer } = await import('./postgres/check-server.ts');
      return await checkServer(at);
    },
  };
}

/**
 * Opens a sink for writing, or makes it; the caller disposes it. Throws SINK_INCOMPATIBLE, SINK_FULL, SINK_FAILED, and
 * SINK_MOVED where `sinkId` is not there.
 */
export async function openSink(options: SinkOptions, deps: Omit<OpenHow, 'durability'>): Promise<Sink> {
  return await accessSink(options).open({ ...options, ...deps });
}

/** Serves a sink for days, and makes it where there is none. Rejects as `openSink`. */
export async function openServed(place: SinkPlace, how: OpenHow): Promise<ServedLedger> {
  const access = accessSink(place);
  const sink = await access.open(how);
  await sink[Symbol.asyncDispose]();
  return await access.openWatched(sink.id);
}

/**
 * Opens a sink's record of its runs, read only; works while another process writes. Throws when there is no sink yet.
 */
export async function openHistory(sink: SinkPlace): Promise<OpenHistory> {
  return await accessSink(sink).openHistory();
}

/**
 * Opens the same; null when nothing has been synced into the sink yet. Throws where that cannot be determined, or
 * something else is there.
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

export async function statusOf(history: LedgerReader, connector: ConnectorName) {
  const [status = null] = await history.connectors([connector]);
  return status;
}

/** Throws COPY_UNFINISHED where only a part of the connector is in the sink so far. */
export async function checkCopied(history: LedgerReader, connector: ConnectorName): Promise<void> {
  const unfinished = await history.unfinishedCopy(connector);
  if (unfinished !== null) throw unfinishedCopyError(unfinished);
}

/**
 * Status of one connector in a sink; null where the sink holds nothing of it. Throws COPY_UNFINISHED where it holds
 * only a part.
 */
export async function storedStatus(of: { readonly name: ConnectorName; readonly sink: SinkPlace }) {
  await using history = await openExistingHistory(of.sink);
  if (history === null) return null;
  await checkCopied(history, of.name);
  return await statusOf(history, of.name);
}
