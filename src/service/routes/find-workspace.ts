import { notFound, type ApiError } from '../api-error.ts';
import { isSeen } from '../local-connectors.ts';
import type { Principal } from '../state/tokens.ts';
import type { ServiceState } from '../state/open-service-state.ts';
import type { Workspace } from '../state/workspaces.ts';

/** Throws `ApiError` 404 for a workspace that the principal does not see, in the words that an unknown one gets. */
export function workspaceById(state: ServiceState, principal: Principal, id: string): Workspace {
  return seen(principal, state.workspaces.byId(principal.organizationId, id));
}

/** As `workspaceById`. */
export function workspaceByName(state: ServiceState, principal: Principal, name: string): Workspace {
  return seen(principal, state.workspaces.byName(principal.organizationId, name));
}

/**
 * The workspace of this name, made where there is none: there is no other way to make one. A scoped token makes none:
 * any name but that of the token's workspace gives 404.
 */
export function ensureWorkspace(state: ServiceState, principal: Principal, name: string): Workspace {
  const known = state.workspaces.byName(principal.organizationId, name);
  if (known !== null || principal.kind === 'scoped') return seen(principal, known);
  const made = state.workspaces.ensure(principal.organizationId, name);
  state.audit.note(principal, 'workspace.created', made.id, ['name']);
  return made;
}

function seen(principal: Principal, workspace: Workspace | null): Workspace {
  if (workspace === null || !isSeen(principal, workspace.id)) throw noWorkspace();
  return workspace;
}

function noWorkspace(): ApiError {
  return notFound('There is no such workspace in the organization.');
}
