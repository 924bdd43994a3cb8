import type Database from 'better-sqlite3';
import type { Workspace, WorkspaceQuery } from './service-state.ts';

export interface WorkspaceRow extends Omit<Workspace, 'isCacheEnabled'> {
  readonly isCacheEnabled: number;
}

const columns = `id, organization_id AS organizationId, name, status, is_cache_enabled AS isCacheEnabled,
  created_at AS createdAt, updated_at AS updatedAt`;

/** What is asked and written of workspaces. Each look-up names the organization first. */
export function workspaceStatements(db: Database.Database) {
  const page = db.prepare<
    [
      { organizationId: string; place: number; part: string | null } & Pick<
        WorkspaceQuery,
        'status' | 'limit'
      >,
    ],
    WorkspaceRow
  >(
    `SELECT ${columns} FROM workspaces
     WHERE organization_id = @organizationId AND sequence > @place AND (@status IS NULL OR status = @status)
       AND (@part IS NULL OR instr(folded_name, @part) > 0)
     ORDER BY sequence LIMIT @limit`,
  );
  const placeOf = db
    .prepare<{ organizationId: string; id: string }, number>(
      `SELECT sequence FROM workspaces WHERE organization_id = @organizationId AND id = @id
       UNION ALL SELECT sequence FROM gone_workspaces WHERE organization_id = @organizationId AND id = @id`,
    )
    .pluck();
  const byId = db.prepare<[string, string], WorkspaceRow>(
    `SELECT ${columns} FROM workspaces WHERE organization_id = ? AND id = ?`,
  );
  const byName = db.prepare<[string, string], WorkspaceRow>(
    `SELECT ${columns} FROM workspaces WHERE organization_id = ? AND name = ?`,
  );
  const countByStatus = db.prepare<[string], { status: Workspace['status']; number: number }>(
    'SELECT status, count(*) AS number FROM workspaces WHERE organization_id = ? GROUP BY status',
  );
  const add = db.prepare<[WorkspaceRow & { folded: string }]>(
    `INSERT INTO workspaces (id, organization_id, name, folded_name, status, is_cache_enabled, created_at, updated_at)
     VALUES (@id, @organizationId, @name, @folded, @status, @isCacheEnabled, @createdAt, @updatedAt)`,
  );
  const change = db.prepare<[WorkspaceRow & { folded: string }]>(
    `UPDATE workspaces SET name = @name, folded_name = @folded, status = @status, is_cache_enabled = @isCacheEnabled,
       updated_at = @updatedAt
     WHERE organization_id = @organizationId AND id = @id`,
  );
  const keepPlace = db.prepare(
    `INSERT INTO gone_workspaces (id, organization_id, sequence, deleted_at)
     SELECT id, organization_id, sequence, ? FROM workspaces WHERE organization_id = ? AND id = ?`,
  );
  const drop = db.prepare('DELETE FROM workspaces WHERE organization_id = ? AND id = ?');
  const forgetPlaces = db.prepare('DELETE FROM gone_workspaces WHERE deleted_at < ?');
  const hasConnectors = db
    .prepare<[string, string], number>(
      'SELECT 1 FROM connectors WHERE organization_id = ? AND workspace_id = ? LIMIT 1',
    )
    .pluck();
  return {
    page,
    placeOf,
    byId,
    byName,
    countByStatus,
    add,
    change,
    keepPlace,
    drop,
    forgetPlaces,
    hasConnectors,
  };
}
