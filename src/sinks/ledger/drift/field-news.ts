import type { Instant } from '../../../core/clock.ts';
import { knownOrMade } from '../../../core/known-or-made.ts';
import type { ConnectorName } from '../../../core/names.ts';
import type { JsonType } from '../../../core/records.ts';
import { heldBy } from '../../decisions/drift-columns.ts';
import type { Tx } from '../../../sql/database.ts';
import { newsName, type FieldNews } from '../../drift.ts';
import { parseColumns } from '../../stored-json.ts';
import { actionsOf } from '../actions.ts';

/**
 * What was met for the first time since then, of all connectors or of `only` these. What the chain of runs that stored
 * an entity's first rows has met is no news, nor is what a run has met that is no longer kept. A definition that has
 * come to declare a field ends its drift.
 */
export async function readFieldNews(
  tx: Tx,
  since: Instant,
  only?: readonly ConnectorName[],
): Promise<readonly FieldNews[]> {
  const found = await tx.rows<
    Omit<FieldNews, 'hasColumn' | 'canWiden'> & Readonly<Record<'declared' | 'evolved' | 'types', string>>
  >(
    `SELECT d.connector, d.entity, d.field, d.kind, min(d.first_seen_at) AS since, string_agg(d.type, ' ') AS types, t.declared, t.evolved
     FROM _sync_drift AS d JOIN _sync_runs AS run ON run.run = d.first_run
       JOIN _sync_tables AS t ON t.connector = d.connector AND t.entity = d.entity
     WHERE d.first_seen_at >= :since ${only === undefined ? '' : 'AND d.connector IN {only text}'}
       AND (t.first_origin IS NULL OR t.first_origin <> run.origin)
       AND NOT EXISTS (SELECT 1 FROM _sync_drift AS old
         WHERE old.connector = d.connector AND old.entity = d.entity AND old.field = d.field AND old.kind = d.kind
           AND old.first_seen_at < :since)
     GROUP BY d.connector, d.entity, d.field, d.kind, t.declared, t.evolved
     ORDER BY d.connector, d.entity, d.field, d.kind`,
    { since, ...(only === undefined ? {} : { only }) },
  );
  return found.flatMap(({ declared, evolved, types, ...news }) => {
    const columns = parseColumns(evolved);
    // `as`: they are what `noteDrift` has written.
    const held = types.split(' ').map((type) => heldBy(columns, { ...news, type: type as JsonType }));
    const hasColumn = held.every(({ isEvolved }) => isEvolved);
    const canWiden = held.some((one) => one.canWiden);
    const isIn = (text: string): boolean => parseColumns(text).some(({ name }) => name === news.field);
    return news.kind === 'undeclared' && !hasColumn && isIn(declared)
      ? []
      : [{ ...news, hasColumn, canWiden }];
  });
}

/** Which news a person has acknowledged, of these connectors: by name, so that no clock decides it. */
export async function readAcknowledged(
  tx: Tx,
  connectors: Iterable<ConnectorName>,
): Promise<(news: FieldNews) => boolean> {
  const known = new Map<ConnectorName, Set<unknown>>();
  for (const { connector, detail } of await actionsOf(tx, 'acknowledge-fields', [...new Set(connectors)])) {
    const names = knownOrMade(known, connector, () => new Set());
    const { fields } = detail;
    for (const name of Array.isArray(fields) ? fields : []) names.add(name);
  }
  return (news) => known.get(news.connector)?.has(newsName(news)) === true;
}
