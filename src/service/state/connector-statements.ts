import type Database from 'better-sqlite3';
import type { StoredConnector } from './service-state.ts';

export interface ConnectorRow extends Omit<StoredConnector, 'replicationConfig' | 'hasCredentials'> {
  readonly replicationConfig: string;
  readonly hasCredentials: number;
}

const selectConnectors = `
SELECT connectors.id, connectors.organization_id AS organizationId, workspace_id AS workspaceId,
  workspaces.name AS workspaceName, definition, connectors.name, replication_config AS replicationConfig,
  credentials IS NOT NULL AS hasCredentials, connectors.created_at AS createdAt, connectors.updated_at AS updatedAt
FROM connectors JOIN workspaces ON workspaces.id = workspace_id`;

/** What is asked and written of connectors. Each look-up names the organization first. */
export function connectorStatements(db: Database.Database) {
  const chosen = db.prepare<
    [{ organizationId: string; workspaceId: string | null; definition: string | null }],
    ConnectorRow
  >(
    `${selectConnectors} WHERE connectors.organization_id = @organizationId
       AND (@workspaceId IS NULL OR workspace_id = @workspaceId) AND (@definition IS NULL OR definition = @definition)
     ORDER BY connectors.sequence`,
  );
  const every = db.prepare<[], ConnectorRow>(`${selectConnectors} ORDER BY connectors.sequence`);
  const byId = db.prepare<[string, string], ConnectorRow>(
    `${selectConnectors} WHERE connectors.organization_id = ? AND connectors.id = ?`,
  );
  const isTaken = db.prepare<[string], number>('SELECT 1 FROM connectors WHERE id = ?').pluck();
  const isWorkspaceThere = db
    .prepare<[string, string], number>('SELECT 1 FROM workspaces WHERE organization_id = ? AND id = ?')
    .pluck();
  const countOf = db
    .prepare<[string], number>('SELECT count(*) FROM connectors WHERE organization_id = ?')
    .pluck();
  const add = db.prepare(
    `INSERT INTO connectors
       (id, organization_id, workspace_id, definition, name, replication_config, credentials, created_at, updated_at)
     VALUES (@id, @organizationId, @workspaceId, @definition, @name, @replicationConfig, @credentials, @now, @now)`,
  );
  const change = db.prepare(
    `UPDATE connectors SET name = @name, replication_config = @replicationConfig, updated_at = @now
     WHERE organization_id = @organizationId AND id = @id`,
  );
  const changeCredentials = db.prepare(
    'UPDATE connectors SET credentials = ? WHERE organization_id = ? AND id = ?',
  );
  const drop = db.prepare('DELETE FROM connectors WHERE organization_id = ? AND id = ?');
  const sealedOf = db
    .prepare<[string, string], Buffer | null>(
      'SELECT credentials FROM connectors WHERE organization_id = ? AND id = ?',
    )
    .pluck();
  const allSealed = db
    .prepare<[], Buffer>('SELECT credentials FROM connectors WHERE credentials IS NOT NULL')
    .pluck();
  return {
    chosen,
    every,
    byId,
    isTaken,
    isWorkspaceThere,
    countOf,
    add,
    change,
    changeCredentials,
    drop,
    sealedOf,
    allSealed,
  };
}
