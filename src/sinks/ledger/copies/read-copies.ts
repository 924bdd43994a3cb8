import type { ConnectorName } from '../../../core/names.ts';
import type { CopiedAway, SinkCopies, UnfinishedCopy } from '../../copies.ts';
import { parseCopiedTo } from '../../stored-json.ts';
import type { Tx } from '../../../sql/database.ts';

/**
 * Connectors that were copied into this sink from another one: `source_name` is that sink's name in the config and
 * `target_name` that of this one, `state` stands for what was copied, `runs` and `partitions` are added to numbers of
 * the source, `done` is how many tables are copied. While `finished_at` is null, the connector's rows in other tables
 * count for nothing: it has none in `_sync_connectors` and `_sync_tables`.
 */
export const copiesSql = `
CREATE TABLE _sync_copies (
  connector TEXT PRIMARY KEY,
  source_name TEXT NOT NULL,
  target_name TEXT NOT NULL,
  state TEXT NOT NULL,
  entities TEXT NOT NULL,
  runs BIGINT NOT NULL,
  partitions BIGINT NOT NULL,
  done BIGINT NOT NULL,
  holder TEXT NOT NULL,
  since TEXT NOT NULL,
  finished_at TEXT
);
`;

const unfinishedSql = (): string =>
  `SELECT connector, source_name AS "from", target_name AS "to", since FROM _sync_copies WHERE finished_at IS NULL`;
const awaySql = (): string => `SELECT connector, copied_to FROM _sync_connectors WHERE copied_to IS NOT NULL`;

interface AwayRow {
  readonly connector: ConnectorName;
  readonly copiedTo: string;
}

/** The copy that would have to be completed before the connector may be used; null where there is none. */
export async function readUnfinishedCopy(tx: Tx, connector: ConnectorName): Promise<UnfinishedCopy | null> {
  const sql = `${unfinishedSql()} AND connector = :connector`;
  return (await tx.first<UnfinishedCopy>(sql, { connector })) ?? null;
}

/** The sink that the connector was copied to, where its syncs continue; null where they continue in this one. */
export async function readCopiedAway(tx: Tx, connector: ConnectorName): Promise<CopiedAway | null> {
  const row = await tx.first<AwayRow>(`${awaySql()} AND connector = :connector`, { connector });
  return row === undefined ? null : copiedAway(row);
}

export async function readCopies(tx: Tx): Promise<SinkCopies> {
  const unfinished = await tx.rows<UnfinishedCopy>(unfinishedSql());
  const away = (await tx.rows<AwayRow>(awaySql())).map(copiedAway);
  return {
    unfinished: new Map(unfinished.map((one) => [one.connector, one])),
    away: new Map(away.map((one) => [one.connector, one])),
  };
}

function copiedAway({ connector, copiedTo }: AwayRow): CopiedAway {
  return { connector, ...parseCopiedTo(copiedTo) };
}
