import * as z from 'zod';
import { type Clock, type Instant, instant } from '../../core/clock.ts';
import { createApplications } from './applications.ts';
import { createConnectors } from './connectors.ts';
import { openStateFile, type StateFile } from './open-state-file.ts';
import { openServiceSealer } from './service-key.ts';
import { createTokens, type Principal, type TokenOptions } from './tokens.ts';
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
 * All that the service remembers, in one SQLite file: who may call it, workspaces, connectors and what was changed by
 * whom. Every look-up names the organization that asks; nothing of another one is ever found, under whatever id.
 * Synchronous, every change is one transaction. Throws `SyncError` SINK_FAILED where the file cannot be read or
 * written.
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
    const sealer = openServiceSealer(key);
    const connectors = createConnectors(file, { sealer, clock });
    if (key !== null) connectors.checkKey();
    return {
      applications: createApplications(file, clock),
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

/** Who changed what, when: never a secret, never a value of a credential. */
interface AuditEntry {
  readonly at: Instant;
  readonly organizationId: string;
  /** Client id of the application. */
  readonly actor: string;
  readonly tokenKind: Principal['kind'] | null;
  /** For example `connector.created`, `workspace.updated`, `token.issued`. */
  readonly action: string;
  readonly target: string;
  /** Names of the fields that were changed, no values. */
  readonly fields: readonly string[];
}

/** Of one organization, so that no other one can push its entries out. */
const maxAuditEntries = 10_000;
const keptMs = 400 * 86_400_000;
/** To prune with every note would cost more than the note. */
const notesBetweenPrunes = 100;
const maxTextLength = 255;

function createAuditLog({ ask, run, write }: StateFile, clock: Clock) {
  const prune = (): void => {
    run('DELETE FROM audit WHERE at < :before', { before: instant(clock.now() - keptMs) });
    const found = ask<Pick<AuditEntry, 'organizationId'>>('SELECT DISTINCT organization_id FROM audit').all;
    for (const { organizationId } of found) {
      run(
        `DELETE FROM audit WHERE organization_id = :organizationId AND sequence <=
           (SELECT sequence FROM audit WHERE organization_id = :organizationId ORDER BY sequence DESC LIMIT 1 OFFSET :kept)`,
        { organizationId, kept: maxAuditEntries },
      );
    }
  };

  let notes = 0;
  return {
    /** `who` changed `target`. `fields`: names of what was given, never a value. */
    note: (
      { organizationId, clientId, kind }: Auditable,
      action: string,
      target: string,
      fields: readonly string[] = [],
    ): void =>
      write(() => {
        // The first one prunes too: a process may never live to see a hundred.
        if (notes % notesBetweenPrunes === 0) prune();
        notes += 1;
        run(
          `INSERT INTO audit (at, organization_id, actor, token_kind, action, target, fields)
           VALUES (:at, :organizationId, :actor, :kind, :action, :target, :fields)`,
          {
            organizationId,
            kind: kind ?? null,
            action,
            at: instant(clock.now()),
            actor: clientId.slice(0, maxTextLength),
            target: target.slice(0, maxTextLength),
            fields: JSON.stringify(
              fields.slice(0, maxTextLength).map((name) => name.slice(0, maxTextLength)),
            ),
          },
        );
      }),
    /** Newest first. */
    list: (organizationId: string, limit: number): readonly AuditEntry[] =>
      ask<Omit<AuditEntry, 'fields'> & { readonly fields: string }>(
        `SELECT at, organization_id, actor, token_kind, action, target, fields
         FROM audit WHERE organization_id = :organizationId ORDER BY sequence DESC LIMIT :limit`,
        { organizationId, limit: Math.min(limit, maxAuditEntries) },
      ).all.map((row) => ({ ...row, fields: z.array(z.string()).parse(JSON.parse(row.fields)) })),
  };
}

type Auditable = Pick<Principal, 'organizationId' | 'clientId'> & { readonly kind?: Principal['kind'] };
