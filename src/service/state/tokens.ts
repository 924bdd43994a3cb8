import { createHash, randomBytes } from 'node:crypto';
import type { Clock } from '../../core/clock.ts';
import { SyncError } from '../../core/errors.ts';
import { ApiError, notFound } from '../api-error.ts';
import { checkRate, createRateLimit } from '../rate-limit.ts';
import type { StateFile } from './open-state-file.ts';
import type { IssuedToken, Principal, Tokens } from './service-state.ts';

interface TokenOptions {
  readonly clock: Clock;
  readonly tokenTtlSeconds: number;
  readonly scopedTokenTtlSeconds: number;
  /** Live tokens of one application. */
  readonly maxTokens: number;
  /** New tokens of one application. */
  readonly tokensPerSecond: number;
}

type PrincipalRow = Omit<Principal, 'tokenName'>;

const tokenBytes = 32;

export function createTokens({ db, read, write }: StateFile, options: TokenOptions): Tokens {
  const { clock, maxTokens } = options;
  const dropExpired = db.prepare('DELETE FROM tokens WHERE expires_at <= ?');
  const dropOldest = db.prepare(
    `DELETE FROM tokens WHERE client_id = @clientId AND sequence <=
       (SELECT sequence FROM tokens WHERE client_id = @clientId ORDER BY sequence DESC LIMIT 1 OFFSET @maxTokens)`,
  );
  const add = db.prepare(
    'INSERT INTO tokens (hash, kind, client_id, workspace_id, expires_at) VALUES (?, ?, ?, ?, ?)',
  );
  const isApplicationThere = db
    .prepare<[string, string], number>(
      'SELECT 1 FROM applications WHERE client_id = ? AND organization_id = ?',
    )
    .pluck();
  const isWorkspaceThere = db
    .prepare<[string, string], number>('SELECT 1 FROM workspaces WHERE id = ? AND organization_id = ?')
    .pluck();
  const byHash = db.prepare<[Buffer, number], PrincipalRow>(
    `SELECT kind, client_id AS clientId, organization_id AS organizationId, organizations.name AS organizationName,
       workspace_id AS workspaceId
     FROM tokens JOIN applications USING (client_id) JOIN organizations ON organizations.id = organization_id
     WHERE hash = ? AND expires_at > ?`,
  );

  /** As if by a token of the whole organization. */
  const byClient = db.prepare<[string], PrincipalRow>(
    `SELECT 'application' AS kind, client_id AS clientId, organization_id AS organizationId,
       organizations.name AS organizationName, NULL AS workspaceId
     FROM applications JOIN organizations ON organizations.id = organization_id WHERE client_id = ?`,
  );
  const rate = createRateLimit(options.tokensPerSecond, clock);
  const unstored = createUnstoredTokens(maxTokens);

  const issue = (
    { clientId, organizationId }: Pick<Principal, 'clientId' | 'organizationId'>,
    workspaceId: string | null,
  ): IssuedToken => {
    checkRate(rate, clientId);
    const token = randomBytes(tokenBytes).toString('base64url');
    const expiresInSeconds = workspaceId === null ? options.tokenTtlSeconds : options.scopedTokenTtlSeconds;
    const now = clock.now();
    const store = (): void => {
      dropExpired.run(now);
      if (isApplicationThere.get(clientId, organizationId) === undefined) {
        throw new ApiError(401, 'The application is not there any more.', { errorCode: 'unauthorized' });
      }
      if (workspaceId !== null && isWorkspaceThere.get(workspaceId, organizationId) === undefined) {
        throw notFound('There is no such workspace.');
      }
      const kind: Principal['kind'] = workspaceId === null ? 'application' : 'scoped';
      add.run(hashOf(token), kind, clientId, workspaceId, now + expiresInSeconds * 1000);
      dropOldest.run({ clientId, maxTokens });
    };
    try {
      write(store);
    } catch (error) {
      const isFull = error instanceof SyncError && error.code === 'SINK_FULL';
      if (!isFull || workspaceId !== null) throw error;
      unstored.add(hashOf(token), { clientId, expiresAt: now + expiresInSeconds * 1000 }, now);
    }
    return { token, expiresInSeconds };
  };

  return {
    issueApplication: (application) => issue(application, null),
    issueScoped: (principal, workspaceId) => {
      if (principal.kind === 'application') return issue(principal, workspaceId);
      throw new ApiError(403, 'A scoped token cannot ask for further tokens; use an application token.', {
        errorCode: 'forbidden',
      });
    },
    find(token) {
      const hash = hashOf(token);
      const now = clock.now();
      const clientId = unstored.clientOf(hash, now);
      const row = read(() => (clientId === null ? byHash.get(hash, now) : byClient.get(clientId)));
      return row === undefined ? null : { ...row, tokenName: hash.toString('hex').slice(0, 12) };
    },
  };
}

interface UnstoredToken {
  readonly clientId: string;
  /** Milliseconds since 1970. */
  readonly expiresAt: number;
}

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

function hashOf(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}
