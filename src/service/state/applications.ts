import { createHash, randomBytes, randomUUID, timingSafeEqual } from 'node:crypto';
import { hasAtMostCharacters } from '../../core/characters.ts';
import { type Clock, type Instant, instant } from '../../core/clock.ts';
import { SyncError, usage } from '../../core/errors.ts';
import { ApiError, notFound } from '../api-error.ts';
import { scopedTokenSeconds } from '../server-limits.ts';
import { isPlainName, plainNameRule, type StateFile } from './open-state-file.ts';

/** Of more than so many the one that was quiet for longest is forgotten: memory is bounded whatever comes. */
const maxKeys = 10_000;

/**
 * A bucket for each key: `perSecond` requests a second, and as many at once after a second of quiet. What it returns
 * takes one request of a key's share; throws `ApiError` 429 with Retry-After where nothing of it is left.
 */
export function createRateLimit(perSecond: number, clock: Clock): (key: string) => void {
  const buckets = new Map<string, { readonly left: number; readonly at: number }>();
  return (key) => {
    const now = clock.now();
    const { left, at } = buckets.get(key) ?? { left: perSecond, at: now };
    // A clock that was put back gives nothing, and takes nothing.
    const filled = Math.min(perSecond, left + (Math.max(0, now - at) * perSecond) / 1000);
    const isAllowed = filled >= 1;
    buckets.delete(key);
    buckets.set(key, { left: isAllowed ? filled - 1 : filled, at: now });
    for (const quietest of buckets.keys()) {
      if (buckets.size <= maxKeys) break;
      buckets.delete(quietest);
    }
    if (isAllowed) return;
    const waitMs = Math.ceil(((1 - filled) * 1000) / perSecond);
    throw new ApiError(429, 'Too many requests a second. Wait as long as Retry-After says.', {
      errorCode: 'too_many_requests',
      headers: { 'retry-after': String(Math.max(1, Math.ceil(waitMs / 1000))) },
    });
  };
}

export interface TokenOptions {
  readonly clock: Clock;
  readonly tokenTtlSeconds: number;
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
    const expiresInSeconds = workspaceId === null ? options.tokenTtlSeconds : scopedTokenSeconds;
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

/**
 * An organization's client: the only way in. Its secret is kept as a SHA-256 hash alone: it is generated, or of at
 * least 16 random characters, so it cannot be guessed from the hash.
 */
export interface Application {
  readonly clientId: string;
  readonly organizationId: string;
  readonly organizationName: string;
  readonly createdAt: Instant;
}

type NewApplication = Pick<Application, 'organizationName' | 'clientId'> & { readonly clientSecret: string };

interface ApplicationRow extends Application {
  readonly secret: Buffer;
}

const maxSecretLength = 1_024;

export function createApplications({ ask, run, write }: StateFile, clock: Clock) {
  const select = `SELECT client_id, organization_id, organizations.name AS organization_name, applications.created_at, secret
    FROM applications JOIN organizations ON organizations.id = organization_id`;
  const byId = `${select} WHERE client_id = :clientId`;

  return {
    /**
     * Makes the application, and its organization where there is none of this name; one that already exists gets the
     * new secret. Throws `SyncError` USAGE for a client id of another organization.
     */
    put({ organizationName, clientId, clientSecret }: NewApplication): Application {
      checkNames(organizationName, clientId);
      checkSecret(clientSecret);
      const secret = hashOf(clientSecret);
      return write(() => {
        const present = ask<ApplicationRow>(byId, { clientId }).first;
        const now = instant(clock.now());
        if (present === undefined) {
          run(
            'INSERT INTO organizations (id, name, created_at) VALUES (:id, :organizationName, :now) ON CONFLICT (name) DO NOTHING',
            { id: randomUUID(), organizationName, now },
          );
          run(
            `INSERT INTO applications (client_id, organization_id, secret, created_at)
             SELECT :clientId, id, :secret, :now FROM organizations WHERE name = :organizationName`,
            { clientId, secret, now, organizationName },
          );
        } else if (present.organizationName !== organizationName) {
          throw usage(
            `The client id ${clientId} belongs to another organization than ${organizationName}. Choose another client id.`,
          );
        } else if (!secret.equals(present.secret)) {
          run('UPDATE applications SET secret = :secret WHERE client_id = :clientId', { secret, clientId });
          // Clients with the old secret are shut out now, not when their tokens expire.
          run('DELETE FROM tokens WHERE client_id = :clientId', { clientId });
        }
        return withoutSecret(ask<ApplicationRow>(byId, { clientId }).one());
      });
    },
    /** Null for an unknown id as for a wrong secret. */
    authenticate(clientId: string, clientSecret: string): Application | null {
      const row = ask<ApplicationRow>(byId, { clientId }).first;
      return row !== undefined && timingSafeEqual(hashOf(clientSecret), row.secret)
        ? withoutSecret(row)
        : null;
    },
    list: (): readonly Application[] =>
      ask<ApplicationRow>(`${select} ORDER BY sequence`).all.map(withoutSecret),
    /** Its tokens are deleted with it. False: there was none. */
    delete: (clientId: string): boolean =>
      run('DELETE FROM applications WHERE client_id = :clientId', { clientId }) > 0,
  };
}

function withoutSecret({ secret: _secret, ...application }: ApplicationRow): Application {
  return application;
}

function checkNames(organizationName: string, clientId: string): void {
  if (!isPlainName(organizationName)) {
    throw usage(`Expected as the name of an organization ${plainNameRule}.`);
  }
  if (!isPlainName(clientId)) throw usage(`Expected as a client id ${plainNameRule}.`);
}

function checkSecret(secret: string): void {
  if (secret.length > 0 && hasAtMostCharacters(secret, maxSecretLength) && secret.isWellFormed()) return;
  throw usage(
    `Expected a client secret of 1 to ${maxSecretLength} characters, got ${secret.isWellFormed() ? Array.from(secret).length : 'half a character'}.`,
  );
}
