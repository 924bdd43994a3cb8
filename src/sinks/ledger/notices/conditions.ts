import { grouped } from '../../../core/grouped.ts';
import type { ConnectorName } from '../../../core/names.ts';
import type { Tx } from '../../../sql/database.ts';
import type { Condition, FoundState, NoticeChanges } from '../../notices.ts';
import { readFieldNews } from '../drift/field-news.ts';
import { readOverview } from '../history/read-overview.ts';

/**
 * `_sync_conditions`: what was found to be wrong when it was last compared. `connector` is '' where a condition
 * concerns none alone, `subject` is an entity, a field or a target, or ''.
 */
export const conditionsSql = `
CREATE TABLE _sync_conditions (
  connector TEXT NOT NULL,
  kind TEXT NOT NULL,
  subject TEXT NOT NULL,
  since TEXT NOT NULL,
  detail TEXT NOT NULL,
  PRIMARY KEY (connector, kind, subject)
);
`;

export async function readFound(
  tx: Tx,
  connectors: readonly ConnectorName[],
  nowMs: number,
): Promise<FoundState> {
  const overviews = await readOverview(tx, connectors);
  return {
    overviews: new Map(overviews.map((one) => [one.connector, one])),
    fields: grouped(await readFieldNews(tx, '', connectors), ({ connector }) => connector),
    conditions: grouped(
      await tx.rows<Condition>(
        `SELECT connector, kind, subject, since, detail FROM _sync_conditions
         WHERE connector IN {connectors text} ORDER BY connector, kind, subject`,
        { connectors: [...connectors, ''] },
      ),
      ({ connector }) => connector,
    ),
    nowMs,
  };
}

export function writeConditions(tx: Tx, { stored, dropped }: Omit<NoticeChanges, 'messages'>): void {
  if (dropped.length > 0) {
    tx.put(
      `DELETE FROM _sync_conditions WHERE EXISTS (SELECT 1 FROM {v: connector text, kind text, subject text}
       WHERE v.connector = _sync_conditions.connector AND v.kind = _sync_conditions.kind
         AND v.subject = _sync_conditions.subject)`,
      { v: dropped },
    );
  }
  if (stored.length === 0) return;
  tx.put(
    `INSERT INTO _sync_conditions (connector, kind, subject, since, detail)
     SELECT v.connector, v.kind, v.subject, v.since, v.detail
     FROM {v: connector text, kind text, subject text, since text, detail text}
     ORDER BY v.connector, v.kind, v.subject
     ON CONFLICT (connector, kind, subject) DO UPDATE SET since = excluded.since, detail = excluded.detail`,
    { v: stored },
  );
}
