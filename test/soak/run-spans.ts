import Database from 'better-sqlite3';
import { isRunFinished, isRunStarted } from '../support/worker-process.ts';
import type { SoakSink } from './soak-world.ts';
import type { CrewMember } from './worker-crew.ts';

interface Span {
  readonly connector: string;
  readonly run: string;
  readonly from: string;
  readonly to: string;
}

/** Pairs of overlapping runs of one connector, from the workers' logs and from the ledgers. */
export function findOverlaps(
  crew: readonly CrewMember[],
  sinks: readonly SoakSink[],
): { readonly overlaps: readonly string[]; readonly runsByOutcome: ReadonlyMap<string, number> } {
  const stored = sinks.flatMap(({ ledger }) => storedRuns(ledger));
  const runsByOutcome = new Map<string, number>();
  for (const { state } of stored) runsByOutcome.set(state, (runsByOutcome.get(state) ?? 0) + 1);
  const overlaps = [
    ...overlapping(loggedSpans(crew)).map((pair) => `log: ${pair}`),
    ...overlapping(storedSpans(stored)).map((pair) => `ledger: ${pair}`),
  ];
  return { overlaps, runsByOutcome };
}

/**
 * The time span of each run. A killed worker's run ends at the kill, which is later than its last log line. A run whose
 * end could not be stored (a full disk) has no end in the log; the end of its job, which is later, is used instead.
 */
function loggedSpans(crew: readonly CrewMember[]): readonly Span[] {
  return crew.flatMap(({ worker: { lines }, killedAt }) => {
    const last = killedAt ?? lines.at(-1)?.time ?? '';
    const spans: Span[] = [];
    const open = new Map<unknown, { readonly run: string; readonly from: string }>();
    const close = (connector: unknown, to: string): void => {
      const begun = open.get(connector);
      open.delete(connector);
      if (begun !== undefined) spans.push({ connector: String(connector), ...begun, to });
    };
    for (const line of lines) {
      const { connector, time } = line;
      const isEnd = isRunFinished(line) || line.msg === 'job ended';
      if (isRunStarted(line)) open.set(connector, { run: String(line['run']), from: time });
      else if (isEnd) close(connector, time);
    }
    for (const connector of open.keys()) close(connector, last);
    return spans;
  });
}

interface StoredRun {
  readonly connector: string;
  readonly run: string;
  readonly state: string;
  readonly startedAt: string;
  readonly finishedAt: string | null;
}

function storedRuns(file: string): readonly StoredRun[] {
  const db = new Database(file, { readonly: true });
  try {
    return db
      .prepare<[], StoredRun>(
        'SELECT connector, run, state, started_at AS startedAt, finished_at AS finishedAt FROM _sync_runs ORDER BY number',
      )
      .all();
  } finally {
    db.close();
  }
}

/** A killed worker's run has no end in the ledger: its span is empty. */
function storedSpans(stored: readonly StoredRun[]): readonly Span[] {
  return stored.map(({ connector, run, startedAt, finishedAt }) => ({
    connector,
    run,
    from: startedAt,
    to: finishedAt ?? startedAt,
  }));
}

function overlapping(spans: readonly Span[]): readonly string[] {
  const byConnector = new Map<string, Span[]>();
  for (const span of spans) {
    byConnector.set(span.connector, [...(byConnector.get(span.connector) ?? []), span]);
  }
  return [...byConnector.values()].flatMap((own) => {
    const pairs: string[] = [];
    let latest: Span | null = null;
    for (const span of own.toSorted((left, right) => (left.from < right.from ? -1 : 1))) {
      if (latest !== null && latest.to > span.from) {
        pairs.push(`${span.connector}: ${latest.run} until ${latest.to}, ${span.run} from ${span.from}`);
      }
      if (latest === null || span.to > latest.to) latest = span;
    }
    return pairs;
  });
}
