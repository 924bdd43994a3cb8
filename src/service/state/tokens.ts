import { createHash, randomBytes } from 'node:crypto';
import type { Clock } from '../../core/clock.ts';
import { SyncError } from '../../core/errors.ts';
import { ApiError, notFound } from '../api-error.ts';
import { createRateLimit } from '../rate-limit.ts';
import type { StateFile } from './open-state-file.ts';

export interface TokenOptions {
  readonly clock: Clock;
  readonly tokenTtlSeconds: number;
  readonly scopedTokenTtlSeconds: number;
  /** Live tokens of one application; the oldest one is deleted when another is asked for. */
  readonly maxTokens: number;
  /** New tokens of one application. */
  readonly tokensPerSecond: number;
}

/** Whom a token stands for. */
export interface Principal {
  readonly kind: 'application' | 'scoped';
  readonly clientId: string;
  readonly organizationId: string;
  readonly organizationName: string;
  /** A scoped token sees this workspace alone; null: the whole organization. */
  readonly workspaceId: string | null;
  /** Names the token in limits and logs without giving it away: the start of its hash. */
  readonly tokenName: string;
}

type Issuer = Pick<Principal, 'clientId' | 'organizationId'>;

const tokenBytes = 32;

/**
 * Bearer tokens, kept as SHA-256 hashes only. Expired ones are removed with time. While the disk is full, new
 * application tokens are kept in memory and end with the process. Issuing throws `ApiError` 429 to an application that
 * asks too often.
 */
export function createTokens({ ask, run, write }: StateFile, options: TokenOptions) {
  const { clock, maxTokens } = options;
  const checkRate = createRateLimit(options.tokensPerSecond, clock);
  const unstored = createUnstoredTokens(maxTokens);
  const organization = `client_id, organization_id, organizations.name AS organization_name`;

  const issue = ({ clientId, organizationId }: Issuer, workspaceId: string | null) => {
    checkRate(clientId);
    const token = randomBytes(tokenBytes).toString('base64url');
    const expiresInSeconds = workspaceId === null ? options.tokenTtlSeconds : options.scopedTokenTtlSeconds;
    const now = clock.now();
    const expiresAt = now + expiresInSeconds * 1000;
    const store = (): void => {
      run('DELETE FROM tokens WHERE expires_at <= :now', { now });
      const application =
        'SELECT 1 FROM applications WHERE client_id = :clientId AND organization_id = :organizationId';
      if (ask(application, { clientId, organizationId }).first === undefined) {
        throw new ApiError(401, 'The application no longer exists.', { errorCode: 'unauthorized' });
      }
      const workspace =
        'SELECT 1 FROM workspaces WHERE id = :workspaceId AND organization_id = :organizationId';
      if (workspaceId !== null && ask(workspace, { workspaceId, organizationId }).first === undefined) {
        throw notFound('There is no such workspace.');
      }
      const kind: Principal['kind'] = workspaceId === null ? 'application' : 'scoped';
      run(
        `INSERT INTO tokens (hash, kind, client_id, workspace_id, expires_at)
         VALUES (:hash, :kind, :clientId, :workspaceId, :expiresAt)`,
        { hash: hashOf(token), kind, clientId, workspaceId, expiresAt },
      );
      run(
        `DELETE FROM tokens WHERE client_id = :clientId AND sequence <=
           (SELECT sequence FROM tokens WHERE client_id = :clientId ORDER BY sequence DESC LIMIT 1 OFFSET :maxTokens)`,
        { clientId, maxTokens },
      );
    };
    try {
      write(store);
    } catch (error) {
      const isFull = error instanceof SyncError && error.code === 'SINK_FULL';
      if (!isFull || workspaceId !== null) throw error;
      unstored.add(hashOf(token), { clientId, expiresAt }, now);
    }
    return { token, expiresInSeconds };
  };

  return {
    issueApplication: (application: Issuer) => issue(application, null),
    issueScoped(principal: Principal, workspaceId: string) {
      if (principal.kind === 'application') return issue(principal, workspaceId);
      throw new ApiError(403, 'A scoped token cannot ask for further tokens; use an application token.', {
        errorCode: 'forbidden',
      });
    },
    /** Null: unknown, expired, its application or its workspace deleted. */
    find(token: string): Principal | null {
      const hash = hashOf(token);
      const now = clock.now();
      const clientId = unstored.clientOf(hash, now);
      const row =
        clientId === null
          ? ask<Omit<Principal, 'tokenName'>>(
              `SELECT kind, ${organization}, workspace_id
               FROM tokens JOIN applications USING (client_id) JOIN organizations ON organizations.id = organization_id
               WHERE hash = :hash AND expires_at > :now`,
              { hash, now },
            ).first
          : ask<Omit<Principal, 'tokenName'>>(
              `SELECT 'application' AS kind, ${organization}, NULL AS workspace_id
               FROM applications JOIN organizations ON organizations.id = organization_id WHERE client_id = :clientId`,
              { clientId },
            ).first;
      return row === undefined ? null : { ...row, tokenName: hash.toString('hex').slice(0, 12) };
    },
  };
}

type UnstoredToken = Pick<Principal, 'clientId'> & { readonly expiresAt: number };

/** Application tokens that a full disk had no room for, the newest `max` of them, by their hashes. */
function createUnstoredTokens(max: number) {
  const tokens = new Map<string, UnstoredToken>();
  return {
    add: (hash: Buffer, token: UnstoredToken, now: number): void => {
      for (const [key, { expiresAt }] of tokens) {
        if (expiresAt <= now || tokens.size >= max) tokens.delete(key);
      }
      tokens.set(hash.toString('base64'), token);
    },
    clientOf: (hash: Buffer, now: number): string | null => {
      if (tokens.size === 0) return null;
      const token = tokens.get(hash.toString('base64'));
      return token === undefined || token.expiresAt <= now ? null : token.clientId;
    },
  };
}

/** Of what is too long to be guessed. */
export function hashOf(secret: string): Buffer {
  return createHash('sha256').update(secret).digest();
}
