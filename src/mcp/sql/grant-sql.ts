import { usage } from '../../core/usage-error.ts';
import { sinksOf } from '../../settings/chosen-connectors.ts';
import type { LocalSettings } from '../../settings/settings.ts';
import { connectorsOf, shownEntities } from '../shown-entities.ts';
import { offeredIn } from './open-sql.ts';

const defaultUser = 'connector_sync_agents';

/**
 * Statements that make the role with which agents query PostgreSQL sinks, for a person to run: it reads what agents
 * see, and nothing else. Throws USAGE where there is no such sink, and what opening a sink throws.
 */
export async function grantSql(settings: LocalSettings): Promise<readonly string[]> {
  const shown = shownEntities(connectorsOf(settings));
  const { listViews, grantViews, makeRole } = await import('../../sinks/postgres/query-views.ts');
  const user = settings.mcp.sqlRole?.user ?? defaultUser;
  const grants: string[] = [];
  for (const sink of sinksOf(shown.connectors)) {
    if (sink.type !== 'postgres') continue;
    const offered = offeredIn(sink, shown);
    grants.push(...grantViews(user, sink.schema, await listViews(sink, offered)));
  }
  if (grants.length > 0) return [...makeRole(user), ...grants];
  throw usage('mcp grant is for PostgreSQL sinks, and no connector that agents see is stored in one.');
}
