import { randomUUID } from 'node:crypto';
import type { Connection } from '../../sql/sqlite/open-sqlite.ts';
import { type Clock, instant } from '../../core/clock.ts';
import { SyncError } from '../../core/errors.ts';
import { readJson, writeJson } from '../../core/json-text.ts';
import { isJsonObject, type JsonObject } from '../../core/json.ts';
import { isConnectorId } from '../../core/names.ts';
import { usage } from '../../core/usage-error.ts';
import { ApiError, notFound } from '../api-error.ts';
import type { StateFile } from './open-state-file.ts';
import { isPlainName, plainNameRule } from './plain-name.ts';
import type { Sealer } from './seal.ts';
import type { Connectors, NewConnector, StoredConnector } from './service-state.ts';

/** Of one organization. */
const maxConnectors = 10_000;

export function createConnectors(
  { db, read, write }: StateFile,
  { sealer, clock }: { readonly sealer: Sealer; readonly clock: Clock },
): Connectors & { checkKey(): void } {
  const statements = connectorStatements(db);

  const find = (organizationId: string, id: string): StoredConnector | null => {
    const row = statements.byId.get(organizationId, id);
    return row === undefined ? null : connectorOf(row);
  };
  const seal = (credentials: JsonObject | null, organizationId: string, id: string): Buffer | null =>
    credentials === null ? null : sealer.seal(writeJson(credentials), ownerOf(organizationId, id));
  const open = (organizationId: string, id: string): JsonObject | null => {
    const sealed = statements.sealedOf.get(organizationId, id) ?? null;
    return sealed === null ? null : readObject(sealer.open(sealed, ownerOf(organizationId, id)));
  };

  return {
    list: (organizationId, { workspaceId, definition }) =>
      read(() =>
        statements.chosen
          .all({ organizationId, workspaceId: workspaceId ?? null, definition: definition ?? null })
          .map(connectorOf),
      ),
    byId: (organizationId, id) => read(() => find(organizationId, id)),
    all: () => read(() => statements.every.all()).map(connectorOf),
    create: (connector) =>
      write(() => {
        const { organizationId, workspaceId, definition, name, credentials } = connector;
        const id = connector.id ?? randomUUID();
        checkId(id);
        checkName(name);
        if (statements.isTaken.get(id) !== undefined) throw usage(`Two connectors have the id ${id}.`);
        if (statements.isWorkspaceThere.get(organizationId, workspaceId) === undefined) {
          throw notFound('There is no such workspace.');
        }
        if ((statements.countOf.get(organizationId) ?? 0) >= maxConnectors) throw tooMany();
        statements.add.run({
          id,
          organizationId,
          workspaceId,
          definition,
          name,
          replicationConfig: writeJson(connector.replicationConfig),
          credentials: seal(credentials, organizationId, id),
          account: connector.account ?? null,
          now: instant(clock.now()),
        });
        return found(find(organizationId, id));
      }),
    update: (organizationId, id, { name, replicationConfig, credentials }) =>
      write(() => {
        const present = find(organizationId, id);
        if (present === null) return null;
        checkName(name ?? present.name);
        statements.change.run({
          id,
          organizationId,
          name: name ?? present.name,
          replicationConfig: writeJson(replicationConfig ?? present.replicationConfig),
          now: instant(clock.now()),
        });
        if (credentials !== undefined) {
          statements.changeCredentials.run(seal(credentials, organizationId, id), organizationId, id);
        }
        return find(organizationId, id);
      }),
    renewCredentials: (organizationId, id, before, renewed) =>
      write(() => {
        const present = open(organizationId, id);
        if (present === null || writeJson(present) !== writeJson(before)) return;
        statements.changeCredentials.run(seal(renewed, organizationId, id), organizationId, id);
      }),
    delete: (organizationId, id) => write(() => statements.drop.run(organizationId, id).changes > 0),
    credentials: (organizationId, id) => read(() => open(organizationId, id)),
    /** Throws `SyncError` SINK_INCOMPATIBLE where there are credentials that this key does not open. */
    checkKey: () => read(() => statements.allSealed.all()).forEach((sealed) => sealer.checkKey(sealed)),
  };
}

/** What sealed credentials are bound to: moved to another connector they do not open. */
function ownerOf(organizationId: string, id: string): string {
  return JSON.stringify(['credentials', organizationId, id]);
}

function connectorOf(row: ConnectorRow): StoredConnector {
  return {
    ...row,
    replicationConfig: readObject(row.replicationConfig),
    hasCredentials: row.hasCredentials === 1,
  };
}

function readObject(text: string): JsonObject {
  const value = readJson(text);
  if (isJsonObject(value)) return value;
  throw new SyncError("The service's data is damaged: expected a JSON object.", {
    code: 'SINK_FAILED',
    recovery: 'stop',
  });
}

function found(connector: NonNullable<StoredConnector> | null): StoredConnector {
  if (connector !== null) return connector;
  throw new SyncError('A connector was lost.', { code: 'INTERNAL', recovery: 'stop' });
}

function checkId(id: string): void {
  if (isConnectorId(id)) return;
  throw usage('Expected as the id of a connector 1 to 128 letters, digits, "-" and "_".');
}

function checkName(name: NewConnector['name']): void {
  if (isPlainName(name)) return;
  throw new ApiError(400, `Expected as the name of a connector ${plainNameRule}.`, {
    field: 'name',
    errorCode: 'invalid_name',
  });
}

function tooMany(): ApiError {
  return new ApiError(409, `An organization has at most ${maxConnectors} connectors.`, {
    errorCode: 'limit_reached',
  });
}

interface ConnectorRow extends Omit<StoredConnector, 'replicationConfig' | 'hasCredentials'> {
  readonly replicationConfig: string;
  readonly hasCredentials: number;
}

const selectConnectors = `
SELECT connectors.id, connectors.organization_id AS organizationId, workspace_id AS workspaceId,
  workspaces.name AS workspaceName, definition, connectors.name, replication_config AS replicationConfig,
  credentials IS NOT NULL AS hasCredentials, account, connectors.created_at AS createdAt, connectors.updated_at AS updatedAt
FROM connectors JOIN workspaces ON workspaces.id = workspace_id`;

/** What is asked and written of connectors. Each look-up names the organization first. */
function connectorStatements(db: Connection) {
  return {
    chosen: db.prepare<
      [{ organizationId: string; workspaceId: string | null; definition: string | null }],
      ConnectorRow
    >(
      `${selectConnectors} WHERE connectors.organization_id = @organizationId
       AND (@workspaceId IS NULL OR workspace_id = @workspaceId) AND (@definition IS NULL OR definition = @definition)
     ORDER BY connectors.sequence`,
    ),
    every: db.prepare<[], ConnectorRow>(`${selectConnectors} ORDER BY connectors.sequence`),
    byId: db.prepare<[string, string], ConnectorRow>(
      `${selectConnectors} WHERE connectors.organization_id = ? AND connectors.id = ?`,
    ),
    isTaken: db.prepare<[string], number>('SELECT 1 FROM connectors WHERE id = ?').pluck(),
    isWorkspaceThere: db
      .prepare<[string, string], number>('SELECT 1 FROM workspaces WHERE organization_id = ? AND id = ?')
      .pluck(),
    countOf: db
      .prepare<[string], number>('SELECT count(*) FROM connectors WHERE organization_id = ?')
      .pluck(),
    add: db.prepare(
      `INSERT INTO connectors
       (id, organization_id, workspace_id, definition, name, replication_config, credentials, account, created_at, updated_at)
     VALUES (@id, @organizationId, @workspaceId, @definition, @name, @replicationConfig, @credentials, @account, @now, @now)`,
    ),
    change: db.prepare(
      `UPDATE connectors SET name = @name, replication_config = @replicationConfig, updated_at = @now
     WHERE organization_id = @organizationId AND id = @id`,
    ),
    changeCredentials: db.prepare(
      'UPDATE connectors SET credentials = ? WHERE organization_id = ? AND id = ?',
    ),
    drop: db.prepare('DELETE FROM connectors WHERE organization_id = ? AND id = ?'),
    sealedOf: db
      .prepare<[string, string], Buffer | null>(
        'SELECT credentials FROM connectors WHERE organization_id = ? AND id = ?',
      )
      .pluck(),
    allSealed: db
      .prepare<[], Buffer>('SELECT credentials FROM connectors WHERE credentials IS NOT NULL')
      .pluck(),
  };
}
