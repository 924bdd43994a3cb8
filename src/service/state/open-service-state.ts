import { randomUUID, createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { openStateFile, type StateFile, isPlainName, plainNameRule } from './open-state-file.ts';
import { openServiceSealer } from './service-key.ts';
import { type Clock, type Instant, instant } from '../../core/clock.ts';
import { ApiError, notFound } from '../api-error.ts';
import { SyncError, usage } from '../../core/errors.ts';
import { readJson, writeJson, isJsonObject, type JsonObject } from '../../core/json.ts';
import { hasAtMostCharacters } from '../../core/names.ts';
import type { Sealer } from '../../files/sealer.ts';
import { scopedTokenSeconds } from '../server-limits.ts';

export interface ServiceStateOptions extends TokenOptions {
  /** Holds `service.db`; made for its owner alone. Null: everything is in memory and ends with the process. */
  readonly folder: string | null;
  /** A service may be running on the folder, now or later. Default false: this process has it alone. */
  readonly isShared?: boolean;
  /** 32 bytes that credentials are sealed with. Null: none are sealed or opened (for work on applications alone). */
  readonly key: Buffer | null;
}

/**
 * State of the service, in one SQLite file: its clients, workspaces and connectors. Every look-up names the
 * organization that asks; it never finds anything of another one, under any id. Synchronous, every change is one
 * transaction. Throws `SyncError` SINK_FAILED where the file cannot be read or written.
 */
export type ServiceState = ReturnType<typeof openServiceState>;

/**
 * Opens the service's state, making it where there is none. One service at a time: the kernel's lock is held until it
 * is disposed of, unless it is shared. Throws `SyncError` USAGE where another process has the folder, SINK_INCOMPATIBLE
 * for a file of another program, of a newer version, or with credentials that were sealed with another key, and
 * SINK_FAILED where it cannot be read or written.
 */
export function openServiceState({ folder, key, clock, isShared = false, ...tokens }: ServiceStateOptions) {
  const file = openStateFile(folder, isShared);
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

export interface Workspace {
  /** UUID. */
  readonly id: string;
  readonly organizationId: string;
  readonly name: string;
  readonly createdAt: Instant;
  readonly updatedAt: Instant;
}

/** Workspaces, and connectors; more of either is a client that has lost its way. */
const mostOfOrganization = 10_000;

/** Throws `ApiError` 409 where the organization has as many as it may have. */
function checkRoom({ ask }: StateFile, table: 'workspaces' | 'connectors', organizationId: string): void {
  const count = `SELECT count(*) AS number FROM ${table} WHERE organization_id = :organizationId`;
  if (ask<{ number: number }>(count, { organizationId }).one().number < mostOfOrganization) return;
  const message = `An organization has at most ${mostOfOrganization} ${table}.`;
  throw new ApiError(409, message, { errorCode: 'limit_reached' });
}

function createWorkspaces(file: StateFile, clock: Clock) {
  const { ask, run, write } = file;
  const select = `SELECT id, organization_id, name, created_at, updated_at
    FROM workspaces WHERE organization_id = :organizationId`;
  const byId = (organizationId: string, id: string): Workspace | null =>
    ask<Workspace>(`${select} AND id = :id`, { organizationId, id }).first ?? null;
  const byName = (organizationId: string, name: string): Workspace | null =>
    ask<Workspace>(`${select} AND name = :name`, { organizationId, name }).first ?? null;
  return {
    /** Workspaces in the order of their creation. */
    list: (organizationId: string): readonly Workspace[] =>
      ask<Workspace>(`${select} ORDER BY sequence`, { organizationId }).all,
    byId,
    byName,
    /** The workspace of this name, made where there is none. Names are unique within an organization, case counts. */
    ensure: (organizationId: string, name: string): Workspace =>
      write(() => {
        const present = byName(organizationId, name);
        if (present !== null) return present;
        checkRoom(file, 'workspaces', organizationId);
        run(
          `INSERT INTO workspaces (id, organization_id, name, created_at, updated_at)
           VALUES (:id, :organizationId, :name, :now, :now)`,
          { id: randomUUID(), organizationId, name, now: instant(clock.now()) },
        );
        return ask<Workspace>(`${select} AND name = :name`, { organizationId, name }).one();
      }),
    /** Throws `ApiError` 409 for a name that another one has. */
    rename: (present: Workspace, name: string): Workspace =>
      write(() => {
        if (name !== present.name && byName(present.organizationId, name) !== null) {
          throw new ApiError(409, 'Another workspace has this name.', {
            field: 'name',
            errorCode: 'name_taken',
          });
        }
        const renamed = { ...present, name, updatedAt: instant(clock.now()) };
        run(
          `UPDATE workspaces SET name = :name, updated_at = :updatedAt
           WHERE organization_id = :organizationId AND id = :id`,
          renamed,
        );
        return renamed;
      }),
    /**
     * Deletes a workspace with its scoped tokens; its connectors must have been deleted before. Returns the time; null:
     * there is none.
     */
    delete: (organizationId: string, id: string): Instant | null =>
      write(() => {
        const named = { organizationId, id };
        if (byId(organizationId, id) === null) return null;
        const connectors =
          'SELECT 1 FROM connectors WHERE organization_id = :organizationId AND workspace_id = :id LIMIT 1';
        if (ask(connectors, named).first !== undefined) {
          throw new ApiError(409, 'The workspace has connectors; delete them first.', {
            errorCode: 'not_empty',
          });
        }
        run('DELETE FROM workspaces WHERE organization_id = :organizationId AND id = :id', named);
        return instant(clock.now());
      }),
  };
}

export interface StoredConnector {
  readonly id: string;
  readonly organizationId: string;
  readonly workspaceId: string;
  /** Name of the definition. */
  readonly definition: string;
  readonly name: string;
  /** Account at the third party, from its creation on, as `ProviderCheck` has it; null: a sample account. */
  readonly account: string | null;
  /** Addresses that its credentials were given for, as `placesOfCredentials` has them; null: none. */
  readonly address: string | null;
  readonly createdAt: Instant;
  readonly updatedAt: Instant;
}

/** `id`: generated (a UUID) where none is given. */
type NewConnector = Partial<Pick<StoredConnector, 'id'>> &
  Omit<StoredConnector, 'id' | 'createdAt' | 'updatedAt'> & { readonly credentials: JsonObject | null };

const select = `SELECT id, organization_id, workspace_id, definition, name, account, address, created_at, updated_at
  FROM connectors`;
const ofOne = 'WHERE organization_id = :organizationId AND id = :id';

/** Each look-up names the organization first. */
function createConnectors(file: StateFile, sealer: Sealer, clock: Clock) {
  const { ask, run, write } = file;
  const seal = (credentials: JsonObject | null, organizationId: string, id: string) =>
    credentials === null ? null : sealer.seal(writeJson(credentials), ownerOf(organizationId, id));
  /**
   * Opened with the key of this service; null: none were given. Throws `SyncError` SINK_INCOMPATIBLE under another key.
   */
  const credentials = (organizationId: string, id: string): JsonObject | null => {
    const stored = `SELECT credentials FROM connectors ${ofOne}`;
    const row = ask<{ credentials: Buffer | null }>(stored, { organizationId, id }).first;
    const sealed = row?.credentials ?? null;
    return sealed === null ? null : readObject(sealer.open(sealed, ownerOf(organizationId, id)));
  };
  const put = (credentials: JsonObject | null, organizationId: string, id: string): void => {
    const sealed = seal(credentials, organizationId, id);
    run(`UPDATE connectors SET credentials = :sealed ${ofOne}`, { sealed, organizationId, id });
  };
  const byId = (organizationId: string, id: string): StoredConnector | null =>
    ask<StoredConnector>(`${select} ${ofOne}`, { organizationId, id }).first ?? null;
  return {
    byId,
    credentials,
    /** Connectors in the order of their creation. */
    inWorkspace: ({ organizationId, id }: Workspace, definition: string | null): readonly StoredConnector[] =>
      ask<StoredConnector>(
        `${select} WHERE organization_id = :organizationId AND workspace_id = :id
           AND (:definition IS NULL OR definition = :definition) ORDER BY sequence`,
        { organizationId, id, definition },
      ).all,
    /** Connectors of every organization: for the stores. */
    all: (): readonly StoredConnector[] => ask<StoredConnector>(`${select} ORDER BY sequence`).all,
    /** Throws `SyncError` USAGE for an id that is taken. */
    create: (connector: NewConnector): StoredConnector =>
      write(() => {
        const { id = randomUUID(), organizationId, credentials } = connector;
        if (ask('SELECT 1 FROM connectors WHERE id = :id', { id }).first !== undefined) {
          throw usage(`Two connectors have the id ${id}.`);
        }
        checkRoom(file, 'connectors', organizationId);
        run(
          `INSERT INTO connectors
             (id, organization_id, workspace_id, definition, name, credentials, account, address, created_at, updated_at)
           VALUES (:id, :organizationId, :workspaceId, :definition, :name, :credentials, :account, :address, :now, :now)`,
          {
            ...connector,
            id,
            credentials: seal(credentials, organizationId, id),
            now: instant(clock.now()),
          },
        );
        return ask<StoredConnector>(`${select} ${ofOne}`, { organizationId, id }).one();
      }),
    /** Does nothing where there is none. */
    update: (
      organizationId: string,
      id: string,
      change: Partial<Pick<NewConnector, 'name' | 'credentials' | 'address'>>,
    ): void =>
      write(() => {
        const present = byId(organizationId, id);
        if (present === null) return;
        const { name, address } = { ...present, ...change };
        const now = instant(clock.now());
        run(`UPDATE connectors SET name = :name, address = :address, updated_at = :now ${ofOne}`, {
          name,
          address,
          now,
          organizationId,
          id,
        });
        if (change.credentials !== undefined) put(change.credentials, organizationId, id);
      }),
    /** False: there is none. */
    delete: (organizationId: string, id: string): boolean =>
      run(`DELETE FROM connectors ${ofOne}`, { organizationId, id }) > 0,
    /** Replaces the credentials, if they still are `before`: sealed, and on the disk when it returns. */
    renewCredentials: (organizationId: string, id: string, before: JsonObject, renewed: JsonObject): void =>
      write(() => {
        const present = credentials(organizationId, id);
        if (present === null || writeJson(present) !== writeJson(before)) return;
        put(renewed, organizationId, id);
      }),
    /** Throws `SyncError` SINK_INCOMPATIBLE where there are credentials that this key does not open. */
    checkKey(): void {
      const sealed = 'SELECT credentials FROM connectors WHERE credentials IS NOT NULL';
      for (const { credentials } of ask<{ credentials: Buffer }>(sealed).all) sealer.checkKey(credentials);
    },
  };
}

/** Context that sealed credentials are bound to: moved to another connector, they do not open. */
function ownerOf(organizationId: string, id: string): string {
  return JSON.stringify(['credentials', organizationId, id]);
}

function readObject(text: string): JsonObject {
  const value = readJson(text);
  if (isJsonObject(value)) return value;
  throw new SyncError("The service's data is damaged: expected a JSON object.", {
    code: 'SINK_FAILED',
    recovery: 'stop',
  });
}

/** Limit on remembered keys, so that memory is bounded: the key that was quiet for longest is forgotten. */
const maxKeys = 10_000;

/**
 * A bucket for each key: `perSecond` requests a second, and as many at once after a second of quiet. The returned
 * function takes one request of a key's share; it throws `ApiError` 429 with Retry-After once that is used up.
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
    throw new ApiError(429, 'Too many requests per second. Retry after the seconds in Retry-After.', {
      errorCode: 'too_many_requests',
      headers: { 'retry-after': String(Math.max(1, Math.ceil(waitMs / 1000))) },
    });
  };
}

interface TokenOptions {
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
        'SELECT 1 FROM workspaces WHERE organization_id = :organizationId AND id = :workspaceId';
      if (workspaceId !== null && ask(workspace, { organizationId, workspaceId }).first === undefined) {
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
              `SELECT kind, client_id, organization_id, workspace_id FROM tokens JOIN applications USING (client_id)
               WHERE hash = :hash AND expires_at > :now`,
              { hash, now },
            ).first
          : ask<Omit<Principal, 'tokenName'>>(
              `SELECT 'application' AS kind, client_id, organization_id, NULL AS workspace_id
               FROM applications WHERE client_id = :clientId`,
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

/** Hash of a secret that is too long to be guessed. */
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

type ApplicationRow = Application & { readonly secret: Buffer };

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
      checkName('the name of an organization', organizationName);
      checkName('a client id', clientId);
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

function checkName(what: string, name: string): void {
  if (!isPlainName(name)) throw usage(`Expected as ${what} ${plainNameRule}.`);
}

function checkSecret(secret: string): void {
  if (secret.length > 0 && hasAtMostCharacters(secret, maxSecretLength) && secret.isWellFormed()) return;
  throw usage(
    `Expected a client secret of 1 to ${maxSecretLength} characters, got ${secret.isWellFormed() ? Array.from(secret).length : 'half a character'}.`,
  );
}
