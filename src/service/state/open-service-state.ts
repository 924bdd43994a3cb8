import { createApplications, createTokens, type TokenOptions } from './applications.ts';
import { createConnectors } from './connectors.ts';
import { openStateFile } from './open-state-file.ts';
import { openServiceSealer } from './service-key.ts';
import { createWorkspaces } from './workspaces.ts';

export interface ServiceStateOptions extends TokenOptions {
  /** Holds `service.db`; made for its owner alone. Null: everything is in memory and ends with the process. */
  readonly folder: string | null;
  /** A service may be running on the folder, now or later. Default false: this process has it alone. */
  readonly isShared?: boolean;
  /** 32 bytes that credentials are sealed with. Null: none are sealed or opened (for work on applications alone). */
  readonly key: Buffer | null;
}

/**
 * All that the service remembers, in one SQLite file: who may call it, workspaces and connectors. Every look-up names
 * the organization that asks; nothing of another one is ever found, under whatever id. Synchronous, every change is one
 * transaction. Throws `SyncError` SINK_FAILED where the file cannot be read or written.
 */
export type ServiceState = ReturnType<typeof openServiceState>;

/**
 * Opens what the service remembers, making it where there is nothing yet. One service at a time: the kernel's lock is
 * held until it is disposed of, unless it is shared. Throws `SyncError` USAGE where another process has the folder,
 * SINK_INCOMPATIBLE for a file of another program, of a newer version, or with credentials that were sealed with
 * another key, and SINK_FAILED where it cannot be read or written.
 */
export function openServiceState(options: ServiceStateOptions) {
  const { folder, key, clock, isShared = false, ...tokens } = options;
  const file = openStateFile(folder, clock, isShared);
  try {
    const connectors = createConnectors(file, openServiceSealer(key), clock);
    if (key !== null) connectors.checkKey();
    return {
      applications: createApplications(file, clock),
      tokens: createTokens(file, { clock, ...tokens }),
      workspaces: createWorkspaces(file, clock),
      connectors,
      [Symbol.dispose]: () => file.close(),
    };
  } catch (error) {
    file.close();
    throw error;
  }
}
