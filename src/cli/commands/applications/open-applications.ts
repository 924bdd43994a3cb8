import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Clock } from '../../../core/clock.ts';
import {
  defaultMaxTokens,
  defaultScopedTokenSeconds,
  defaultTokenSeconds,
} from '../../../service/server-limits.ts';
import type { Application } from '../../../service/state/applications.ts';
import type { ServiceState } from '../../../service/state/open-service-state.ts';

/** The applications in a service's data. */
export interface StoredApplications extends Disposable {
  /** Of one organization, or of all. */
  list(organizationName: string | null): readonly Application[];
  put: ServiceState['applications']['put'];
  delete: ServiceState['applications']['delete'];
}

/**
 * Opens the data of a service, which may be running on it. Null where there is none and none is to be made. `isShared`
 * false: throws `SyncError` USAGE, recovery `retry`, while a service runs on it.
 */
export async function openApplications(
  folder: string,
  clock: Clock,
  { isMade, isShared = true }: { readonly isMade: boolean; readonly isShared?: boolean },
): Promise<StoredApplications | null> {
  if (!isMade && !existsSync(join(folder, 'service.db'))) return null;
  // Loaded only where it is used: it would slow the start of every other command.
  const { openServiceState } = await import('../../../service/state/open-service-state.ts');
  const state = openServiceState({
    folder,
    isShared,
    key: null,
    clock,
    tokenTtlSeconds: defaultTokenSeconds,
    scopedTokenTtlSeconds: defaultScopedTokenSeconds,
    maxTokens: defaultMaxTokens,
    tokensPerSecond: 0,
  });
  return {
    list: (organizationName) =>
      state.applications
        .list()
        .filter(
          (application) => organizationName === null || application.organizationName === organizationName,
        ),
    put: (application) => state.applications.put(application),
    delete: (clientId) => state.applications.delete(clientId),
    [Symbol.dispose]: () => state[Symbol.dispose](),
  };
}
