import { type Clock, instant } from '../../core/clock.ts';
import { SyncError } from '../../core/errors.ts';
import { createApplications } from './applications.ts';
import { createConnectors } from './connectors.ts';
import { openStateFile, type StateFile } from './open-state-file.ts';
import { createSealer } from './seal.ts';
import { atRestCost, inMemoryCost } from './secret-hash.ts';
import type { AuditEntry, AuditLog, ServiceState } from './service-state.ts';
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
 * Opens what the service remembers, making it where there is nothing yet. One service at a time: the kernel's lock is
 * held until it is disposed of, unless it is shared. Throws `SyncError` USAGE where another process has the folder,
 * SINK_INCOMPATIBLE for a file of another program, of a newer version, or with credentials that were sealed with
 * another key, and SINK_FAILED where it cannot be read or written.
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

interface AuditRow extends Omit<AuditEntry, 'fields'> {
  readonly fields: string;
}

/** Of one organization, so that no other one can push its entries out. */
const maxAuditEntries = 10_000;
const keptMs = 400 * 86_400_000;
/** Looking at every note what is too much would cost more than the note. */
const notesBetweenLooks = 100;
const maxTextLength = 255;

function createAuditLog({ db, read, write }: StateFile, clock: Clock): AuditLog {
  const add = db.prepare(
    `INSERT INTO audit (at, organization_id, actor, token_kind, action, target, fields)
     VALUES (@at, @organizationId, @actor, @tokenKind, @action, @target, @fields)`,
  );
  const dropOld = db.prepare('DELETE FROM audit WHERE at < ?');
  const dropMany = db.prepare(
    `DELETE FROM audit WHERE organization_id = @organizationId AND sequence <=
       (SELECT sequence FROM audit WHERE organization_id = @organizationId ORDER BY sequence DESC LIMIT 1 OFFSET @kept)`,
  );
  const newest = db.prepare<[string, number], AuditRow>(
    `SELECT at, organization_id AS organizationId, actor, token_kind AS tokenKind, action, target, fields
     FROM audit WHERE organization_id = ? ORDER BY sequence DESC LIMIT ?`,
  );
  const organizations = db.prepare<[], string>('SELECT DISTINCT organization_id FROM audit').pluck();
  const prune = (): void => {
    dropOld.run(instant(clock.now() - keptMs));
    for (const organizationId of organizations.all()) dropMany.run({ organizationId, kept: maxAuditEntries });
  };

  let notes = 0;
  return {
    note: ({ organizationId, clientId, kind }, action, target, fields = []) =>
      write(() => {
        // The first one looks too: a process may never live to see a hundred.
        if (notes % notesBetweenLooks === 0) prune();
        notes += 1;
        add.run({
          organizationId,
          tokenKind: kind ?? null,
          action,
          at: instant(clock.now()),
          actor: clientId.slice(0, maxTextLength),
          target: target.slice(0, maxTextLength),
          fields: JSON.stringify(fields.slice(0, maxTextLength).map((name) => name.slice(0, maxTextLength))),
        });
      }),
    list: (organizationId, limit) =>
      read(() => newest.all(organizationId, Math.min(limit, maxAuditEntries))).map((row) => ({
        ...row,
        fields: readFields(row.fields),
      })),
  };
}

function readFields(text: string): readonly string[] {
  const value: unknown = JSON.parse(text);
  if (Array.isArray(value) && value.every((name) => typeof name === 'string')) return value;
  throw new SyncError("The service's data is damaged: expected names of fields.", {
    code: 'SINK_FAILED',
    recovery: 'stop',
  });
}
