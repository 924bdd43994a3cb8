import type Database from 'better-sqlite3';
import type { ConnectorName } from '../../../core/names.ts';
import type { CopiedAway, SinkCopies, UnfinishedCopy } from '../../copies.ts';
import { parseCopiedTo } from '../../stored-json.ts';
import { has } from '../read-runs.ts';

const unfinishedSql = `SELECT connector, source_name AS "from", target_name AS "to", since FROM _sync_copies WHERE finished_at IS NULL`;
const awaySql = 'SELECT connector, copied_to AS copiedTo FROM _sync_connectors WHERE copied_to IS NOT NULL';

interface AwayRow {
  readonly connector: ConnectorName;
  readonly copiedTo: string;
}

/** The copy that would have to be completed before the connector may be used; null where there is none. */
export function readUnfinishedCopy(db: Database.Database, connector: ConnectorName): UnfinishedCopy | null {
  if (!has(db, 'copies')) return null;
  const one = db.prepare<[ConnectorName], UnfinishedCopy>(`${unfinishedSql} AND connector = ?`);
  return one.get(connector) ?? null;
}

/** Where the connector was copied to, and goes on; null where it goes on here. */
export function readCopiedAway(db: Database.Database, connector: ConnectorName): CopiedAway | null {
  const row = db.prepare<[ConnectorName], AwayRow>(`${awaySql} AND connector = ?`).get(connector);
  return row === undefined ? null : copiedAway(row);
}

export function readCopies(db: Database.Database): SinkCopies {
  if (!has(db, 'copies')) return { unfinished: new Map(), away: new Map() };
  const unfinished = db.prepare<[], UnfinishedCopy>(unfinishedSql).all();
  const away = db.prepare<[], AwayRow>(awaySql).all().map(copiedAway);
  return {
    unfinished: new Map(unfinished.map((one) => [one.connector, one])),
    away: new Map(away.map((one) => [one.connector, one])),
  };
}

function copiedAway({ connector, copiedTo }: AwayRow): CopiedAway {
  return { connector, ...parseCopiedTo(copiedTo) };
}
