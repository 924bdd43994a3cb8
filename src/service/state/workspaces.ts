import { randomUUID } from 'node:crypto';
import type { Connection } from '../../sql/sqlite/open-sqlite.ts';
import { type Clock, instant } from '../../core/clock.ts';
import { ApiError } from '../api-error.ts';
import type { StateFile } from './open-state-file.ts';
import { foldedName, isPlainName, plainNameRule } from './plain-name.ts';
import type { Workspace, WorkspaceQuery, Workspaces } from './service-state.ts';

/** More is a client that has lost its way: workspaces come into being by being named. */
const maxWorkspaces = 10_000;
const dayMs = 86_400_000;

export function createWorkspaces({ db, read, write }: StateFile, clock: Clock): Workspaces {
  const statements = workspaceStatements(db);
  const countOf = (organizationId: string): { active: number; inactive: number } => {
    const counts = { active: 0, inactive: 0 };
    for (const { status, number } of statements.countByStatus.all(organizationId)) counts[status] = number;
    return counts;
  };

  return {
    list: (organizationId, { nameContains, status, limit, after }) =>
      read(() => {
        const place = after === null ? 0 : statements.placeOf.get({ organizationId, id: after });
        if (place === undefined) throw unknownPlace();
        const part = nameContains === null ? null : foldedName(nameContains);
        return statements.page.all({ organizationId, place, status, part, limit }).map(workspaceOf);
      }),
    byId: (organizationId, id) => orNull(read(() => statements.byId.get(organizationId, id))),
    byName: (organizationId, name) => orNull(read(() => statements.byName.get(organizationId, name))),
    ensure: (organizationId, name) =>
      write(() => {
        const present = statements.byName.get(organizationId, name);
        if (present !== undefined) return workspaceOf(present);
        checkName(name);
        const { active, inactive } = countOf(organizationId);
        if (active + inactive >= maxWorkspaces) throw tooMany();
        const now = instant(clock.now());
        const row: WorkspaceRow = {
          id: randomUUID(),
          organizationId,
          name,
          status: 'active',
          isCacheEnabled: 1,
          createdAt: now,
          updatedAt: now,
        };
        statements.add.run({ ...row, folded: foldedName(name) });
        return workspaceOf(row);
      }),
    update: (organizationId, id, { name, status, isCacheEnabled }) =>
      write(() => {
        const present = statements.byId.get(organizationId, id);
        if (present === undefined) return null;
        const row: WorkspaceRow = {
          ...present,
          name: name ?? present.name,
          status: status ?? present.status,
          isCacheEnabled: Number(isCacheEnabled ?? present.isCacheEnabled),
          updatedAt: instant(clock.now()),
        };
        if (row.name !== present.name) {
          checkName(row.name);
          if (statements.byName.get(organizationId, row.name) !== undefined) throw nameTaken();
        }
        statements.change.run({ ...row, folded: foldedName(row.name) });
        return workspaceOf(row);
      }),
    delete: (organizationId, id) =>
      write(() => {
        if (statements.byId.get(organizationId, id) === undefined) return null;
        if (statements.hasConnectors.get(organizationId, id) !== undefined) throw notEmpty();
        const now = clock.now();
        statements.forgetPlaces.run(instant(now - dayMs));
        statements.keepPlace.run(instant(now), organizationId, id);
        statements.drop.run(organizationId, id);
        return instant(now);
      }),
    stats: (organizationId) => read(() => countOf(organizationId)),
  };
}

function workspaceOf(row: WorkspaceRow): Workspace {
  return { ...row, isCacheEnabled: row.isCacheEnabled === 1 };
}

function orNull(row: WorkspaceRow | undefined): Workspace | null {
  return row === undefined ? null : workspaceOf(row);
}

function checkName(name: string): void {
  if (isPlainName(name)) return;
  throw new ApiError(400, `Expected as the name of a workspace ${plainNameRule}.`, {
    field: 'name',
    errorCode: 'invalid_name',
  });
}

function unknownPlace(): ApiError {
  return new ApiError(400, 'The cursor names no workspace that is or was there. Begin again without it.', {
    field: 'query.cursor',
    errorCode: 'invalid_parameter',
  });
}

function nameTaken(): ApiError {
  return new ApiError(409, 'Another workspace has this name.', { field: 'name', errorCode: 'name_taken' });
}

function notEmpty(): ApiError {
  return new ApiError(409, 'The workspace has connectors; delete them first.', { errorCode: 'not_empty' });
}

function tooMany(): ApiError {
  return new ApiError(409, `An organization has at most ${maxWorkspaces} workspaces.`, {
    errorCode: 'limit_reached',
  });
}

interface WorkspaceRow extends Omit<Workspace, 'isCacheEnabled'> {
  readonly isCacheEnabled: number;
}

const columns = `id, organization_id AS organizationId, name, status, is_cache_enabled AS isCacheEnabled,
  created_at AS createdAt, updated_at AS updatedAt`;

/** What is asked and written of workspaces. Each look-up names the organization first. */
function workspaceStatements(db: Connection) {
  return {
    page: db.prepare<
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
    ),
    placeOf: db
      .prepare<{ organizationId: string; id: string }, number>(
        `SELECT sequence FROM workspaces WHERE organization_id = @organizationId AND id = @id
       UNION ALL SELECT sequence FROM gone_workspaces WHERE organization_id = @organizationId AND id = @id`,
      )
      .pluck(),
    byId: db.prepare<[string, string], WorkspaceRow>(
      `SELECT ${columns} FROM workspaces WHERE organization_id = ? AND id = ?`,
    ),
    byName: db.prepare<[string, string], WorkspaceRow>(
      `SELECT ${columns} FROM workspaces WHERE organization_id = ? AND name = ?`,
    ),
    countByStatus: db.prepare<[string], { status: Workspace['status']; number: number }>(
      'SELECT status, count(*) AS number FROM workspaces WHERE organization_id = ? GROUP BY status',
    ),
    add: db.prepare<[WorkspaceRow & { folded: string }]>(
      `INSERT INTO workspaces (id, organization_id, name, folded_name, status, is_cache_enabled, created_at, updated_at)
     VALUES (@id, @organizationId, @name, @folded, @status, @isCacheEnabled, @createdAt, @updatedAt)`,
    ),
    change: db.prepare<[WorkspaceRow & { folded: string }]>(
      `UPDATE workspaces SET name = @name, folded_name = @folded, status = @status, is_cache_enabled = @isCacheEnabled,
       updated_at = @updatedAt
     WHERE organization_id = @organizationId AND id = @id`,
    ),
    keepPlace: db.prepare(
      `INSERT INTO gone_workspaces (id, organization_id, sequence, deleted_at)
     SELECT id, organization_id, sequence, ? FROM workspaces WHERE organization_id = ? AND id = ?`,
    ),
    drop: db.prepare('DELETE FROM workspaces WHERE organization_id = ? AND id = ?'),
    forgetPlaces: db.prepare('DELETE FROM gone_workspaces WHERE deleted_at < ?'),
    hasConnectors: db
      .prepare<[string, string], number>(
        'SELECT 1 FROM connectors WHERE organization_id = ? AND workspace_id = ? LIMIT 1',
      )
      .pluck(),
  };
}
