import { randomUUID } from 'node:crypto';
import { type Clock, type Instant, instant } from '../../core/clock.ts';
import { ApiError } from '../api-error.ts';
import { checkPlainName, foldedName, type StateFile } from './open-state-file.ts';

export interface Workspace {
  /** UUID. */
  readonly id: string;
  /** Its place in the order of creation, over all organizations. */
  readonly sequence: number;
  readonly organizationId: string;
  readonly name: string;
  /** An inactive one disables its connectors. */
  readonly status: 'active' | 'inactive';
  /** False: its connectors keep no indexed store. */
  readonly isCacheEnabled: boolean;
  readonly createdAt: Instant;
  readonly updatedAt: Instant;
}

interface WorkspaceQuery {
  /** Part of the name, in any case. */
  readonly nameContains: string | null;
  readonly status: Workspace['status'] | null;
  readonly limit: number;
  /** `sequence` of the last one of the page before, which may be deleted by now; 0: from the start. */
  readonly after: number;
}

/** More is a client that has lost its way: workspaces come into being by being named. */
const maxWorkspaces = 10_000;

export function createWorkspaces({ ask, run, write }: StateFile, clock: Clock) {
  const select = `SELECT id, organization_id, name, status, is_cache_enabled, created_at, updated_at, sequence
    FROM workspaces WHERE organization_id = :organizationId`;
  const byId = (organizationId: string, id: string): Workspace | null =>
    ask<Workspace>(`${select} AND id = :id`, { organizationId, id }).first ?? null;
  const byName = (organizationId: string, name: string): Workspace | null =>
    ask<Workspace>(`${select} AND name = :name`, { organizationId, name }).first ?? null;
  const stats = (organizationId: string): { readonly active: number; readonly inactive: number } => {
    const counts = { active: 0, inactive: 0 };
    const found = ask<{ status: Workspace['status']; number: number }>(
      'SELECT status, count(*) AS number FROM workspaces WHERE organization_id = :organizationId GROUP BY status',
      { organizationId },
    ).all;
    for (const { status, number } of found) counts[status] = number;
    return counts;
  };

  return {
    /** In the order of their creation, behind the one that `after` names. */
    list: (organizationId: string, { nameContains, ...query }: WorkspaceQuery): readonly Workspace[] =>
      ask<Workspace>(
        `${select} AND sequence > :after AND (:status IS NULL OR status = :status)
           AND (:part IS NULL OR instr(folded_name, :part) > 0)
         ORDER BY sequence LIMIT :limit`,
        { organizationId, ...query, part: nameContains === null ? null : foldedName(nameContains) },
      ).all,
    byId,
    byName,
    stats,
    /** The workspace of this name, made where there is none. Names are unique within an organization, case counts. */
    ensure: (organizationId: string, name: string): Workspace =>
      write(() => {
        const present = byName(organizationId, name);
        if (present !== null) return present;
        checkPlainName('workspace', name);
        const { active, inactive } = stats(organizationId);
        if (active + inactive >= maxWorkspaces) {
          throw new ApiError(409, `An organization has at most ${maxWorkspaces} workspaces.`, {
            errorCode: 'limit_reached',
          });
        }
        const made = { id: randomUUID(), organizationId, name, folded: foldedName(name) };
        run(
          `INSERT INTO workspaces (id, organization_id, name, folded_name, status, is_cache_enabled, created_at, updated_at)
           VALUES (:id, :organizationId, :name, :folded, 'active', 1, :now, :now)`,
          { ...made, now: instant(clock.now()) },
        );
        return ask<Workspace>(`${select} AND name = :name`, { organizationId, name }).one();
      }),
    /** Throws `ApiError` 409 for a name that another one has. */
    update: (present: Workspace, change: Pick<Workspace, 'name' | 'status' | 'isCacheEnabled'>): Workspace =>
      write(() => {
        const changed = { ...present, ...change, updatedAt: instant(clock.now()) };
        if (changed.name !== present.name) {
          checkPlainName('workspace', changed.name);
          if (byName(present.organizationId, changed.name) !== null) {
            throw new ApiError(409, 'Another workspace has this name.', {
              field: 'name',
              errorCode: 'name_taken',
            });
          }
        }
        run(
          `UPDATE workspaces SET name = :name, folded_name = :folded, status = :status, is_cache_enabled = :isCacheEnabled,
             updated_at = :updatedAt
           WHERE organization_id = :organizationId AND id = :id`,
          { ...changed, folded: foldedName(changed.name) },
        );
        return changed;
      }),
    /** With its scoped tokens; its connectors must have been deleted before. Gives when; null: there is none. */
    delete: (organizationId: string, id: string): Instant | null =>
      write(() => {
        const named = { organizationId, id };
        if (byId(organizationId, id) === null) return null;
        const connectors =
          'SELECT 1 FROM connectors WHERE organization_id = :organizationId AND workspace_id = :id LIMIT 1';
        if (ask(connectors, named).first !== undefined) {
          throw new ApiError(409, 'The workspace has connectors; delete them first.', {
            errorCode: 'not_empty',
          });
        }
        run('DELETE FROM workspaces WHERE organization_id = :organizationId AND id = :id', named);
        return instant(clock.now());
      }),
  };
}
