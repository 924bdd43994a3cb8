import type { ConnectorName } from '../../core/names.ts';
import type { Tx } from '../../sql/database.ts';
import type { Pause } from '../lease.ts';
import type { ConnectorOverview } from '../ledger-reader.ts';
import { readAcknowledged } from './drift/field-news.ts';
import { byConnector, readOverview, readPauses } from './history/read-overview.ts';

export type Overview = ReadonlyMap<ConnectorName, ConnectorOverview>;

/**
 * For each connector that was ever held, a text that is another one after every transaction of a holder. Null: it was
 * held, and committed nothing.
 */
export type LastCommits = readonly {
  readonly connector: ConnectorName;
  readonly lastCommit: string | null;
}[];

/** What was read of all connectors, and by which commits it changes. */
export interface KnownOverview {
  readonly overview: Overview;
  /** Null: unknown, so that everything is read again. */
  readonly commits: ReadonlyMap<ConnectorName, string | null> | null;
}

/**
 * The same as of now: reads the connectors that were written to since, all pauses, and what people have
 * acknowledged: these are written without holding a connector. The same object and entries where nothing was written.
 */
export async function renewOverview(
  tx: Tx,
  known: KnownOverview,
  lastCommits: (tx: Tx) => Promise<LastCommits>,
): Promise<KnownOverview> {
  const [last, pauses] = await Promise.all([lastCommits(tx), readPauses(tx)]);
  const commits = new Map(last.map((one) => [one.connector, one.lastCommit]));
  if (known.commits === null) {
    return { overview: byConnector(await readOverview(tx)), commits };
  }
  const paused = byConnector(pauses);
  const news = [...known.overview.values()].flatMap(({ newFields }) => newFields);
  const isAcknowledged = await readAcknowledged(
    tx,
    news.map(({ connector }) => connector),
  );
  const held = [...commits].filter(([name, commit]) => known.commits?.get(name) !== commit);
  const changed = new Set([
    ...held.map(([name]) => name),
    // A target is cleaned without holding the connector.
    ...[...known.overview.values()].flatMap((one) => (one.purgeWork.length > 0 ? [one.connector] : [])),
    ...news.flatMap((one) => (isAcknowledged(one) ? [one.connector] : [])),
    ...pauses.flatMap((one) =>
      isSame(one, known.overview.get(one.connector)?.paused) ? [] : [one.connector],
    ),
    ...[...known.overview.values()].flatMap((one) =>
      one.paused === null || paused.has(one.connector) ? [] : [one.connector],
    ),
  ]);
  if (changed.size === 0) return { overview: known.overview, commits };
  const now = byConnector(await readOverview(tx, [...changed]));
  const overview = new Map(known.overview);
  for (const name of changed) {
    const one = now.get(name);
    if (one === undefined) overview.delete(name);
    else overview.set(name, one);
  }
  return { overview, commits };
}

function isSame(one: Pause, other: Pause | null | undefined): boolean {
  return one.since === other?.since && one.reason === other.reason;
}
