import { randomUUID } from 'node:crypto';
import { type Clock, type Instant, instant } from '../../core/clock.ts';
import { SyncError, usage } from '../../core/errors.ts';
import { readJson, writeJson } from '../../core/json-text.ts';
import { isJsonObject, type JsonObject } from '../../core/json.ts';
import { isConnectorId } from '../../core/names.ts';
import { ApiError, notFound } from '../api-error.ts';
import { checkPlainName, type StateFile } from './open-state-file.ts';
import type { Workspace } from './workspaces.ts';
import type { Sealer } from '../../files/sealer.ts';

export interface StoredConnector {
  readonly id: string;
  readonly organizationId: string;
  readonly workspaceId: string;
  /** Name of the definition. */
  readonly definition: string;
  readonly name: string;
  readonly replicationConfig: JsonObject;
  /**
   * Which account at the third party it belongs to, from its creation on, as `ProviderCheck` has it; null: a sample
   * account.
   */
  readonly account: string | null;
  /** Addresses that its credentials were given for, as `placesOfCredentials` has them; null: none. */
  readonly address: string | null;
  readonly createdAt: Instant;
  readonly updatedAt: Instant;
}

export interface NewConnector extends Pick<
  StoredConnector,
  'organizationId' | 'workspaceId' | 'definition' | 'name' | 'replicationConfig'
> {
  /** Generated (a UUID) where none is given. */
  readonly id?: string;
  readonly credentials: JsonObject | null;
  /** Default null: a sample account. */
  readonly account?: string | null;
  /** Default null. */
  readonly address?: string | null;
}

type ConnectorRow = Omit<StoredConnector, 'replicationConfig'> & { readonly replicationConfig: string };

/** Of one organization. */
const maxConnectors = 10_000;

const select = `SELECT id, organization_id, workspace_id, definition, name, replication_config, account, address, created_at, updated_at
  FROM connectors`;
const ofOne = 'WHERE organization_id = :organizationId AND id = :id';

/** Each look-up names the organization first. */
export function createConnectors({ ask, run, write }: StateFile, sealer: Sealer, clock: Clock) {
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
  const byId = (organizationId: string, id: string): StoredConnector | null => {
    const row = ask<ConnectorRow>(`${select} ${ofOne}`, { organizationId, id }).first;
    return row === undefined ? null : connectorOf(row);
  };
  return {
    byId,
    credentials,
    /** In the order of their creation. */
    inWorkspace: ({ organizationId, id }: Workspace, definition: string | null): readonly StoredConnector[] =>
      ask<ConnectorRow>(
        `${select} WHERE organization_id = :organizationId AND workspace_id = :id
           AND (:definition IS NULL OR definition = :definition) ORDER BY sequence`,
        { organizationId, id, definition },
      ).all.map(connectorOf),
    /** Of every organization: for the stores. */
    all: (): readonly StoredConnector[] =>
      ask<ConnectorRow>(`${select} ORDER BY sequence`).all.map(connectorOf),
    /** Throws `SyncError` USAGE for an id that is taken. */
    create: (connector: NewConnector): StoredConnector =>
      write(() => {
        const { id = randomUUID(), organizationId, workspaceId, name, credentials } = connector;
        if (!isConnectorId(id)) {
          throw usage('Expected as the id of a connector 1 to 128 letters, digits, "-" and "_".');
        }
        checkPlainName('connector', name);
        if (ask('SELECT 1 FROM connectors WHERE id = :id', { id }).first !== undefined) {
          throw usage(`Two connectors have the id ${id}.`);
        }
        const workspace =
          'SELECT 1 FROM workspaces WHERE organization_id = :organizationId AND id = :workspaceId';
        if (ask(workspace, { organizationId, workspaceId }).first === undefined) {
          throw notFound('There is no such workspace.');
        }
        const count = 'SELECT count(*) AS number FROM connectors WHERE organization_id = :organizationId';
        if (ask<{ number: number }>(count, { organizationId }).one().number >= maxConnectors) {
          throw new ApiError(409, `An organization has at most ${maxConnectors} connectors.`, {
            errorCode: 'limit_reached',
          });
        }
        run(
          `INSERT INTO connectors
             (id, organization_id, workspace_id, definition, name, replication_config, credentials, account, address, created_at, updated_at)
           VALUES (:id, :organizationId, :workspaceId, :definition, :name, :replicationConfig, :credentials, :account, :address, :now, :now)`,
          {
            account: null,
            address: null,
            ...connector,
            id,
            replicationConfig: writeJson(connector.replicationConfig),
            credentials: seal(credentials, organizationId, id),
            now: instant(clock.now()),
          },
        );
        return connectorOf(ask<ConnectorRow>(`${select} ${ofOne}`, { organizationId, id }).one());
      }),
    /** Null: there is none. */
    update: (
      organizationId: string,
      id: string,
      change: Partial<Pick<NewConnector, 'name' | 'replicationConfig' | 'credentials' | 'address'>>,
    ): StoredConnector | null =>
      write(() => {
        const present = byId(organizationId, id);
        if (present === null) return null;
        const { name, replicationConfig, address } = { ...present, ...change };
        const now = instant(clock.now());
        checkPlainName('connector', name);
        run(
          `UPDATE connectors SET name = :name, replication_config = :replicationConfig, address = :address, updated_at = :now ${ofOne}`,
          { name, replicationConfig: writeJson(replicationConfig), address, now, organizationId, id },
        );
        if (change.credentials !== undefined) put(change.credentials, organizationId, id);
        return byId(organizationId, id);
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

/** What sealed credentials are bound to: moved to another connector they do not open. */
function ownerOf(organizationId: string, id: string): string {
  return JSON.stringify(['credentials', organizationId, id]);
}

function connectorOf(row: ConnectorRow): StoredConnector {
  return { ...row, replicationConfig: readObject(row.replicationConfig) };
}

function readObject(text: string): JsonObject {
  const value = readJson(text);
  if (isJsonObject(value)) return value;
  throw new SyncError("The service's data is damaged: expected a JSON object.", {
    code: 'SINK_FAILED',
    recovery: 'stop',
  });
}
