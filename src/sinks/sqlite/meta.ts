import { randomUUID } from 'node:crypto';
import type { Instant } from '../../core/clock.ts';
import type { ConnectorName } from '../../core/names.ts';
import { cellOf, type Tx } from '../../sql/database.ts';
import type { Connection } from '../../sql/sqlite/open-sqlite.ts';
import type { Stamp } from '../ledger/record-table.ts';
import type { LastCommits } from '../ledger/known-overview.ts';

/**
 * Tables that every SQLite file of a sink has besides those of the ledger. `seq` is the change counter of the whole
 * file; `last_commit`: random text of the newest transaction that held the connector, kept when the connector is
 * forgotten.
 */
export const metaSql = `
CREATE TABLE _sync_meta (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  sink_id TEXT NOT NULL,
  kind TEXT NOT NULL,
  created_at TEXT NOT NULL,
  seq INTEGER NOT NULL
) STRICT;

CREATE TABLE _sync_commits (
  connector TEXT PRIMARY KEY,
  last_commit TEXT NOT NULL
) STRICT, WITHOUT ROWID;
`;

/** Makes the sink's id. */
export function insertMeta(db: Connection, kind: string, now: Instant): void {
  db.prepare('INSERT INTO _sync_meta (one, sink_id, kind, created_at, seq) VALUES (1, ?, ?, ?, 0)').run(
    randomUUID(),
    kind,
    now,
  );
}

export function storedKind(db: Connection): string | undefined {
  return db.prepare<[], string>('SELECT kind FROM _sync_meta').pluck().get();
}

export function storedId(db: Connection): string {
  return db.prepare<[], string>('SELECT sink_id FROM _sync_meta').pluck().get() ?? '';
}

/**
 * The change counter of the file, in one transaction: it has the write lock, so numbers are given in the order of
 * commits, and never twice. `save` is called at its end.
 */
export function takeSeqsOf(tx: Tx): Pick<Stamp, 'takeSeqs'> & { readonly save: () => void } {
  let stored: Promise<number> | null = null;
  let taken = 0;
  return {
    takeSeqs: async (count) => {
      stored ??= newestSeq(tx);
      const seq = await stored;
      const first = seq + taken + 1;
      taken += count;
      return first;
    },
    save: () => {
      if (taken > 0) tx.put('UPDATE _sync_meta SET seq = seq + :taken', { taken });
    },
  };
}

/** In every transaction that holds the connector. */
export function noteCommit(tx: Tx, connector: ConnectorName): void {
  tx.put(
    `INSERT INTO _sync_commits (connector, last_commit) VALUES (:connector, :token)
     ON CONFLICT (connector) DO UPDATE SET last_commit = excluded.last_commit`,
    { connector, token: randomUUID() },
  );
}

/** `ServedSink.lastCommits`. */
export async function lastCommits(tx: Tx): Promise<LastCommits> {
  return await tx.rows('SELECT connector, last_commit FROM _sync_commits');
}

/** The newest change number of the file, whatever the connector. */
export async function newestSeq(tx: Tx): Promise<number> {
  return (await cellOf<number>(tx, 'SELECT seq FROM _sync_meta')) ?? 0;
}

/** Its next one is above `least`. */
export async function raiseSeq(tx: Tx, _connector: ConnectorName, least: number): Promise<void> {
  await tx.run('UPDATE _sync_meta SET seq = :least WHERE seq < :least', { least });
}
