import type { Principal, ServiceState } from '../state/service-state.ts';

/** Writes into the audit log who changed what. `fields`: names of what was given, never a value. */
export function noteChange(
  state: ServiceState,
  principal: Principal,
  action: string,
  target: string,
  fields: readonly string[] = [],
): void {
  state.audit.note({
    organizationId: principal.organizationId,
    actor: principal.clientId,
    tokenKind: principal.kind,
    action,
    target,
    fields,
  });
}
