import { statSync } from 'node:fs';
import type { Clock } from '../core/clock.ts';
import type { ConnectorName } from '../core/names.ts';
import type { ServedSink } from '../jobs/served-sink.ts';
import type { LastRun } from '../jobs/worker-ledger.ts';
import type { SinkSettings } from '../settings/settings.ts';
import { fileAt } from '../sinks/ledger/file-place.ts';
import type { ConnectorOverview, EntityFreshness, LedgerReader } from '../sinks/ledger-reader.ts';
import { ledgerFile, openHistory } from '../sinks/open-history.ts';
import { servedSink } from './locate-sink.ts';
import { toOverview, type SinkOverview } from './read-overviews.ts';

/** The ledger of one sink, open for reading for as long as its file stays where it was. */
export interface ServedLedger extends Disposable {
  readonly sink: ServedSink;
  /**
   * Looks at the path now: null while the sink's file is there, else what is wrong. The file counts as back when it is there again,
   * or another one that holds the same sink (a restored backup).
   */
  lost(): string | null;
  /** While the file is lost: as it was. */
  pause(connector: ConnectorName): ReturnType<LedgerReader['pause']>;
  lastRun(connector: ConnectorName): LastRun | null;
  freshness(connector: ConnectorName): readonly EntityFreshness[];
  /** Read again only when the sink has changed; while the file is lost, as it was. */
  overview(): SinkOverview;
  /** What keeps it from being read, asked now; null while its file is lost, of which `lost` speaks. */
  problem(): string | null;
}

type State =
  | { readonly kind: 'open'; readonly history: LedgerReader & Disposable }
  /** `seen`: the foreign file as it was looked into, so that it is opened again only after a change. */
  | {
      readonly kind: 'lost';
      readonly last: SinkOverview;
      readonly seen: string | null;
      readonly why: string;
    };

/** Makes the sink where there is none. Throws what `openSink` throws. */
export async function openServedLedger(settings: SinkSettings, clock: Clock): Promise<ServedLedger> {
  const sink = await servedSink(settings, clock);
  const file = ledgerFile(settings);
  let state: State = { kind: 'open', history: openHistory(settings) };
  let place = placeOf(file);
  let log = placeOf(`${file}-wal`);
  let known: { readonly mark: number; readonly overview: SinkOverview } | null = null;

  /** The old file is closed before another one is opened: SQLite would take the files beside them for one and the same. */
  const lose = (seen: string | null, why: string): void => {
    const last = state.kind === 'open' ? lastOverview(state.history, known?.overview) : state.last;
    if (state.kind === 'open') state.history[Symbol.dispose]();
    state = { kind: 'lost', last, seen, why };
  };
  const openAgain = (found: string): void => {
    const seen = looks(file);
    // SQLite would read the log of the sink into the other file.
    if (found !== place && log !== null && placeOf(`${file}-wal`) === log) {
      return lose(seen, `another file is at ${sink.place}, and ${file}-wal is still that of the sink`);
    }
    try {
      const history = openHistory(settings);
      if (history.sinkId() === sink.id) {
        state = { kind: 'open', history };
        place = found;
        log = placeOf(`${file}-wal`);
        known = null;
        return;
      }
      history[Symbol.dispose]();
      lose(seen, `another sink is at ${sink.place}`);
    } catch (error) {
      lose(seen, `what is at ${sink.place} cannot be read: ${textOf(error)}`);
    }
  };
  const lost = (): string | null => {
    const found = placeOf(file);
    if (state.kind === 'open' && found === place) return null;
    if (found === null) lose(null, `nothing is at ${sink.place}`);
    else if (state.kind === 'open' || state.seen !== looks(file)) {
      lose(null, `another file is at ${sink.place}`);
      openAgain(found);
    }
    return state.kind === 'open' ? null : state.why;
  };
  const lastKnown = (connector: ConnectorName): ConnectorOverview | null =>
    state.kind === 'lost' ? (state.last.connectors.get(connector) ?? null) : null;

  return {
    sink,
    lost,
    pause: (connector) => {
      if (state.kind === 'open') return state.history.pause(connector);
      const paused = lastKnown(connector)?.paused ?? null;
      return paused === null ? null : { ...paused, connector };
    },
    lastRun: (connector) =>
      state.kind === 'open'
        ? (state.history.runs({ connector, kind: 'sync', limit: 1 })[0] ?? null)
        : (lastKnown(connector)?.lastRun ?? null),
    freshness: (connector) =>
      state.kind === 'open' ? state.history.freshness(connector) : (lastKnown(connector)?.freshness ?? []),
    overview: () => {
      lost();
      if (state.kind === 'lost') return state.last;
      // Taken before: what changes while it is read is read again the next time.
      const mark = state.history.changeMark();
      if (known?.mark !== mark) known = { mark, overview: toOverview(state.history) };
      return known.overview;
    },
    problem: () => {
      try {
        if (lost() === null && state.kind === 'open') state.history.pauses();
        return null;
      } catch (error) {
        return textOf(error);
      }
    },
    [Symbol.dispose]: () => {
      if (state.kind === 'open') state.history[Symbol.dispose]();
    },
  };
}

const nothing: SinkOverview = { id: null, connectors: new Map() };

/** Also a folder that may not be entered any more has lost the file. */
function placeOf(file: string): string | null {
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

function lastOverview(history: LedgerReader, known: SinkOverview | undefined): SinkOverview {
  try {
    return toOverview(history);
  } catch {
    // The disk itself may be gone: then what was read last is all there is.
    return known ?? nothing;
  }
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
