import { statSync } from 'node:fs';
import type Database from 'better-sqlite3';
import type { ConnectorName } from '../../core/names.ts';
import type { ConnectorOverview } from '../ledger-reader.ts';
import type { ServedLedger } from '../sink-access.ts';
import { fileAt } from '../sqlite-next/file-place.ts';
import { openReadonlyDatabase, storedId, type DatabaseOptions } from './open-database.ts';
import { readFreshness, readPause, readPauses, readLastRun } from './read-runs.ts';
import { readOverview } from './read-overview.ts';
import { toSinkError } from '../sqlite-next/sink-error.ts';

type Overview = ReadonlyMap<ConnectorName, ConnectorOverview>;

type State =
  | { readonly kind: 'open'; readonly db: Database.Database }
  /** `seen`: the foreign file as it was looked into, so that it is opened again only after a change. */
  | { readonly kind: 'lost'; readonly last: Overview; readonly seen: string | null; readonly why: string };

interface ServedFile extends Pick<DatabaseOptions, 'file' | 'kind' | 'cacheKiB'> {
  readonly sinkId: string;
  readonly place: string;
}

/** A file sink's ledger, open for reading as long as its file stays. It is back when that, or another file with the same sink (a backup), is there again. */
export function openServedFile({ sinkId, place, ...options }: ServedFile): ServedLedger {
  const { file } = options;
  let state: State = { kind: 'open', db: openReadonlyDatabase(options) };
  let opened = idOf(file);
  let log = idOf(`${file}-wal`);
  let known: { readonly mark: number; readonly overview: Overview } | null = null;

  /** The old file is closed before another one is opened: SQLite would take the files beside them for one and the same. */
  const lose = (seen: string | null, why: string): void => {
    const last = state.kind === 'open' ? lastOverview(state.db, known?.overview) : state.last;
    if (state.kind === 'open') state.db.close();
    state = { kind: 'lost', last, seen, why };
  };
  const openAgain = (found: string): void => {
    const seen = looks(file);
    // SQLite would read the log of the sink into the other file.
    if (found !== opened && log !== null && idOf(`${file}-wal`) === log) {
      lose(seen, `another file is at ${place}, and ${file}-wal is still that of the sink`);
      return;
    }
    try {
      const db = openReadonlyDatabase(options);
      if (storedId(db) === sinkId) {
        state = { kind: 'open', db };
        opened = found;
        log = idOf(`${file}-wal`);
        known = null;
        return;
      }
      db.close();
      lose(seen, `another sink is at ${place}`);
    } catch (error) {
      lose(seen, `what is at ${place} cannot be read: ${textOf(error)}`);
    }
  };
  const lost = (): string | null => {
    const found = idOf(file);
    if (state.kind === 'open' && found === opened) return null;
    if (found === null) lose(null, `nothing is at ${place}`);
    else if (state.kind === 'open' || state.seen !== looks(file)) {
      lose(null, `another file is at ${place}`);
      openAgain(found);
    }
    return state.kind === 'open' ? null : state.why;
  };
  const overview = (): Overview => {
    lost();
    if (state.kind === 'lost') return state.last;
    // Another number whenever another connection has written. Taken before: what changes during the reading is read again the next time.
    const mark = Number(state.db.pragma('data_version', { simple: true }));
    if (known?.mark !== mark) known = { mark, overview: overviewIn(state.db) };
    return known.overview;
  };
  const explained = <Result>(work: () => Result): Result => {
    try {
      return work();
    } catch (error) {
      throw toSinkError(error, file);
    }
  };
  /** From the file or, while it is lost, from what was read last. */
  const answer = async <Result>(
    read: (db: Database.Database) => Result,
    remembered: (last: Overview) => Result,
  ): Promise<Result> => {
    return explained(() => (state.kind === 'open' ? oneState(state.db, read) : remembered(state.last)));
  };

  return {
    sinkId,
    lost: async () => lost(),
    pause: (connector) =>
      answer(
        (db) => readPause(db, connector),
        (last) => last.get(connector)?.paused ?? null,
      ),
    paused: () =>
      answer(
        (db) => new Set(readPauses(db).map(({ connector }) => connector)),
        (last) => new Set([...last.values()].flatMap((one) => (one.paused === null ? [] : [one.connector]))),
      ),
    lastRun: (connector) =>
      answer(
        (db) => readLastRun(db, connector),
        (last) => last.get(connector)?.lastRun ?? null,
      ),
    freshness: (connector) =>
      answer(
        (db) => readFreshness(db, connector),
        (last) => last.get(connector)?.freshness ?? [],
      ),
    overview: async () => explained(overview),
    problem: async () => {
      try {
        if (lost() === null && state.kind === 'open') readPauses(state.db);
        return null;
      } catch (error) {
        return textOf(toSinkError(error, file));
      }
    },
    [Symbol.asyncDispose]: async () => {
      if (state.kind === 'open') state.db.close();
    },
  };
}

function oneState<Result>(db: Database.Database, read: (db: Database.Database) => Result): Result {
  return db.transaction(() => read(db)).deferred();
}

function overviewIn(db: Database.Database): Overview {
  return new Map(oneState(db, readOverview).map((one) => [one.connector, one]));
}

/** Also a folder that may not be entered any more has lost the file. */
function idOf(file: string): string | null {
  try {
    return fileAt(file);
  } catch {
    return null;
  }
}

/** Changes when the file is another one, or is written: a copy may be looked at before all of it is there. */
function looks(file: string): string | null {
  try {
    const { ino, size, mtimeMs } = statSync(file);
    return `${ino} ${size} ${mtimeMs}`;
  } catch {
    return null;
  }
}

function lastOverview(db: Database.Database, known: Overview | undefined): Overview {
  try {
    return overviewIn(db);
  } catch {
    // The disk itself may be gone: then what was read last is all there is.
    return known ?? new Map();
  }
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
