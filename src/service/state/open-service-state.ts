import type { Clock } from '../../core/clock.ts';
import { createApplications } from './applications.ts';
import { createAuditLog } from './audit-log.ts';
import { createConnectors } from './connectors.ts';
import { openStateFile } from './open-state-file.ts';
import { createSealer } from './seal.ts';
import { atRestCost, inMemoryCost } from './secret-hash.ts';
import type { ServiceState } from './service-state.ts';
import { createTokens } from './tokens.ts';
import { createWorkspaces } from './workspaces.ts';

export interface ServiceStateOptions {
  /** Holds `service.db`; made for its owner alone. Null: everything is in memory and ends with the process. */
  readonly folder: string | null;
  /** A service may be running on the folder, now or later. Default false: this process has it alone. */
  readonly isShared?: boolean;
  /** 32 bytes that credentials are sealed with. Null: none are sealed or opened (for work on applications alone). */
  readonly key: Buffer | null;
  readonly clock: Clock;
  readonly tokenTtlSeconds: number;
  readonly scopedTokenTtlSeconds: number;
  /** Live tokens of one application; the oldest one goes when another is asked for. */
  readonly maxTokens: number;
  /** New tokens of one application. */
  readonly tokensPerSecond: number;
}

/**
 * Opens what the service remembers, making it where there is nothing yet. One service at a time: the kernel's lock is held
 * until it is disposed of, unless it is shared. Throws `SyncError` USAGE where another process has the folder, SINK_INCOMPATIBLE for a file of
 * another program, of a newer version, or with credentials that were sealed with another key, and SINK_FAILED where it
 * cannot be read or written.
 */
export function openServiceState(options: ServiceStateOptions): ServiceState {
  const { folder, key, clock, isShared = false, ...tokens } = options;
  const file = openStateFile(folder, clock, isShared);
  try {
    const sealer = createSealer(key);
    const connectors = createConnectors(file, { sealer, clock });
    if (key !== null) connectors.checkKey();
    return {
      applications: createApplications(file, { clock, cost: folder === null ? inMemoryCost : atRestCost }),
      tokens: createTokens(file, { clock, ...tokens }),
      workspaces: createWorkspaces(file, clock),
      connectors,
      audit: createAuditLog(file, clock),
      [Symbol.dispose]: () => file.close(),
    };
  } catch (error) {
    file.close();
    throw error;
  }
}
