import type { Instant } from '../../core/clock.ts';
import type { JsonObject } from '../../core/json.ts';

/**
 * All that the service remembers, in one SQLite file: who may call it, workspaces, connectors and what was changed by
 * whom. Every look-up names the organization that asks; nothing of another one is ever found, under whatever id.
 * Synchronous, every change is one transaction. Throws `SyncError` SINK_FAILED where the file cannot be read or
 * written.
 */
export interface ServiceState extends Disposable {
  readonly applications: Applications;
  readonly tokens: Tokens;
  readonly workspaces: Workspaces;
  readonly connectors: Connectors;
  readonly audit: AuditLog;
}

/** An organization's client: the only way in. Its secret is kept as a hash that takes long to guess against. */
export interface Application {
  readonly clientId: string;
  readonly organizationId: string;
  readonly organizationName: string;
  readonly createdAt: Instant;
}

export interface Applications {
  /**
   * Makes the application, and its organization where there is none of this name; one that is there gets the new
   * secret. Throws `SyncError` USAGE for a client id of another organization.
   */
  put(application: {
    readonly organizationName: string;
    readonly clientId: string;
    readonly clientSecret: string;
  }): Application;
  /**
   * Null for an unknown id as for a wrong secret, after the same work. `address`: where the request came from. Rejects
   * with `ApiError` 429 where too many wait to be checked.
   */
  authenticate(clientId: string, clientSecret: string, address: string): Promise<Application | null>;
  list(): readonly Application[];
  /** Its tokens go with it. False: there was none. */
  delete(clientId: string): boolean;
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

/**
 * Bearer tokens, kept as SHA-256 hashes only. Expired ones are removed with time. While the disk is full, new
 * application tokens are kept in memory and end with the process. Issuing throws `ApiError` 429 to an application that
 * asks too often.
 */
export interface Tokens {
  issueApplication(application: Application): IssuedToken;
  issueScoped(principal: Principal, workspaceId: string): IssuedToken;
  /** Null: unknown, expired, its application deleted or its workspace gone. */
  find(token: string): Principal | null;
}

export interface IssuedToken {
  readonly token: string;
  readonly expiresInSeconds: number;
}

export interface Workspace {
  /** UUID. */
  readonly id: string;
  readonly organizationId: string;
  readonly name: string;
  /** An inactive one disables its connectors. */
  readonly status: 'active' | 'inactive';
  /** False: its connectors keep no indexed store. */
  readonly isCacheEnabled: boolean;
  readonly createdAt: Instant;
  readonly updatedAt: Instant;
}

export interface Workspaces {
  /** In the order of their creation, behind the one that `after` names. */
  list(organizationId: string, query: WorkspaceQuery): readonly Workspace[];
  byId(organizationId: string, id: string): Workspace | null;
  byName(organizationId: string, name: string): Workspace | null;
  /** The workspace of this name, made where there is none. Names are unique within an organization, case counts. */
  ensure(organizationId: string, name: string): Workspace;
  /** Null: there is none. Throws `ApiError` 409 for a name that another one has. */
  update(
    organizationId: string,
    id: string,
    change: Partial<Pick<Workspace, 'name' | 'status' | 'isCacheEnabled'>>,
  ): Workspace | null;
  /** With its scoped tokens; its connectors must have been deleted before. Gives when; null: there is none. */
  delete(organizationId: string, id: string): Instant | null;
  stats(organizationId: string): { readonly active: number; readonly inactive: number };
}

export interface WorkspaceQuery {
  /** Part of the name, in any case. */
  readonly nameContains: string | null;
  readonly status: Workspace['status'] | null;
  readonly limit: number;
  /** Id of the last one of the page before. Null: from the start. */
  readonly after: string | null;
}

export interface StoredConnector {
  readonly id: string;
  readonly organizationId: string;
  readonly workspaceId: string;
  readonly workspaceName: string;
  /** Name of the definition. */
  readonly definition: string;
  readonly name: string;
  readonly replicationConfig: JsonObject;
  readonly hasCredentials: boolean;
  /** Which account at the third party it belongs to, from its creation on; null: a sample account. */
  readonly account: string | null;
  readonly createdAt: Instant;
  readonly updatedAt: Instant;
}

export interface NewConnector {
  /** Made up (a UUID) where none is given. */
  readonly id?: string;
  readonly organizationId: string;
  readonly workspaceId: string;
  readonly definition: string;
  readonly name: string;
  readonly replicationConfig: JsonObject;
  readonly credentials: JsonObject | null;
  /** Default null: a sample account. */
  readonly account?: string | null;
}

export interface Connectors {
  /** In the order of their creation. */
  list(
    organizationId: string,
    filter: { readonly workspaceId?: string; readonly definition?: string },
  ): readonly StoredConnector[];
  byId(organizationId: string, id: string): StoredConnector | null;
  /** Of every organization: for the stores. */
  all(): readonly StoredConnector[];
  /** Throws `SyncError` USAGE for an id that is taken. */
  create(connector: NewConnector): StoredConnector;
  update(
    organizationId: string,
    id: string,
    change: Partial<Pick<NewConnector, 'name' | 'replicationConfig' | 'credentials'>>,
  ): StoredConnector | null;
  /** Replaces the credentials, if they still are `before`: sealed, and on the disk when it returns. */
  renewCredentials(organizationId: string, id: string, before: JsonObject, renewed: JsonObject): void;
  /** False: there is none. */
  delete(organizationId: string, id: string): boolean;
  /**
   * Opened with the key of this service; null: none were given. Throws `SyncError` SINK_INCOMPATIBLE under another key.
   */
  credentials(organizationId: string, id: string): JsonObject | null;
}

/** Who changed what, when: never a secret, never a value of a credential. */
export interface AuditEntry {
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

export interface AuditLog {
  /** `who` changed `target`. `fields`: names of what was given, never a value. */
  note(
    who: Pick<Principal, 'organizationId' | 'clientId'> & { readonly kind?: Principal['kind'] },
    action: string,
    target: string,
    fields?: readonly string[],
  ): void;
  /** Newest first. */
  list(organizationId: string, limit: number): readonly AuditEntry[];
}
