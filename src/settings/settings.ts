import type { ConnectorId, ConnectorName, EntityName } from '../core/names.ts';
import type { Params } from '../core/records.ts';
import type { Problem } from '../core/problems.ts';
import type { Secret } from '../core/secret.ts';
import type { Definition } from '../definitions/definition.ts';

/** The config file and the environment, checked and frozen: with all parts, nothing of them missing. */
export type Settings = SettingsWith<PartName>;

/** The settings with the parts that the work at hand needs, from `withParts`. */
export type SettingsWith<Name extends PartName> = LocalSettings & Pick<SettingsParts, Name>;

/**
 * What does not do without secrets: a variable or secret file that only these name may be missing as long as nothing
 * needs the part. So commands that look at what is stored work where no credentials are.
 */
interface SettingsParts {
  /** For what only an API can do. */
  readonly api: ApiSettings;
  /** What connectors are read with: their credentials, and the API unless all of them have some (then null). */
  readonly access: ApiSettings | null;
  readonly redis: RedisSettings;
  readonly http: HttpSettings;
}

export type PartName = keyof SettingsParts;

/** What every command has, wherever it runs. */
export interface LocalSettings {
  /** Absolute path of the file it came from; relative paths inside are relative to its folder. */
  readonly file: string;
  /** For `withParts` and `describeSettings` alone: what is missing here is an empty text there. */
  readonly parts: Omit<SettingsParts, 'api' | 'access'> & { readonly api: ApiSettings | null };
  /**
   * What keeps a part from being whole; the path of each begins with the name of its part, or leads to credentials of a
   * connector or into a target.
   */
  readonly missing: readonly Problem[];
  readonly sinks: ReadonlyMap<string, SinkSettings>;
  readonly connectors: ReadonlyMap<ConnectorName, ConnectorSettings>;
  /** Where what is stored is published to, by name. */
  readonly publish: ReadonlyMap<string, PublishSettings>;
  /** Lower case. Hosts that direct connectors may reach at any address. */
  readonly allowUpstreamHosts: readonly string[];
  readonly guards: { readonly maxDeleteShare: number; readonly minDeleteRows: number };
  /** Every definition that is known, by name: the built-in ones and the user's. */
  readonly definitions: ReadonlyMap<string, Definition>;
}

export interface HttpSettings {
  readonly token: Secret | null;
  /** Which connectors have their own metrics: all, or those that need attention. */
  readonly connectorSeries: 'all' | 'attention';
}

export interface ApiSettings {
  /** Origin and path prefix without a trailing slash. https, or http on a loopback address. */
  readonly baseUrl: string;
  readonly clientId: string;
  readonly clientSecret: Secret;
  readonly organizationId: string | null;
  /** The one workspace that the calls may see; null: all that the credentials allow. */
  readonly scopedToWorkspace: string | null;
  /** How connectors are looked up before their runs: `cacheForMs` is how long an answer counts. */
  readonly lookups: {
    readonly requestsPerSecond: number;
    readonly concurrency: number;
    readonly cacheForMs: number;
  };
}

export interface RedisSettings {
  readonly url: Secret;
  /** False where the file says nothing: then only the worker looks for one, at the default address. */
  readonly isConfigured: boolean;
  /** Begins every key, so that deployments that know nothing of each other can share a Redis. */
  readonly prefix: string;
}

export type SinkSettings =
  | {
      readonly type: 'sqlite';
      readonly name: string;
      readonly path: string;
      readonly durability: 'full' | 'normal';
      readonly lockTimeoutMs: number;
    }
  | {
      readonly type: 'jsonl';
      readonly name: string;
      readonly directory: string;
      readonly durability: 'full' | 'normal';
      readonly lockTimeoutMs: number;
    }
  | {
      readonly type: 'postgres';
      readonly name: string;
      readonly connection: PostgresAddress;
      /** Around a pooler; null: there is none. */
      readonly direct: PostgresAddress | null;
      readonly schema: string;
      readonly connections: number;
      readonly durability: 'full' | 'normal';
    };

/** A PostgreSQL server, its database and who asks it. */
export interface PostgresAddress {
  /**
   * Tried in this order until one is no standby. A host is a name, an address, or the absolute path of a socket's
   * folder.
   */
  readonly hosts: readonly { readonly host: string; readonly port: number }[];
  readonly database: string;
  readonly user: string;
  readonly password: Secret | null;
  readonly sslmode: 'disable' | 'require' | 'verify-ca' | 'verify-full';
  /** Absolute path of the certificates to trust; null: the system's. */
  readonly rootCertificate: string | null;
}

export interface ConnectorSettings {
  readonly name: ConnectorName;
  readonly definition: Definition;
  readonly address:
    | { readonly kind: 'id'; readonly id: ConnectorId }
    | { readonly kind: 'workspace'; readonly workspace: string }
    | DirectAddress;
  readonly sink: SinkSettings;
  readonly schedule: Schedule | null;
  /** How old stored data may be before an operator is alerted; null: no limit. */
  readonly freshWithinMs: number | null;
  /** Partitions walked at a time. */
  readonly concurrency: number;
  readonly requestsPerSecond: number;
  /** The entities to read, with their settings; excluded ones are absent. */
  readonly entities: ReadonlyMap<EntityName, EntitySettings>;
  /** The files that are fetched after each sync; null: none. */
  readonly downloads: DownloadSettings | null;
}

/** The service itself, with no API in between. */
export interface DirectAddress {
  readonly kind: 'direct';
  /** Fit one of the definition's ways to sign in, unless one is missing here. */
  readonly credentials: ReadonlyMap<string, Secret>;
}

export interface DownloadSettings {
  /** Absolute; files lie in `<directory>/<connector>/<entity>/`. */
  readonly directory: string;
  /** Of the connector's entities, those whose files are fetched. Not empty. */
  readonly entities: readonly EntityName[];
  /** A larger file is not fetched, and counts as failed. */
  readonly maxBytes: number;
}

export type Schedule = (
  | { readonly kind: 'cron'; readonly pattern: string; readonly timezone: string }
  | { readonly kind: 'every'; readonly everyMs: number }
) & {
  /** The longest delay after the due time; each connector has a fixed delay below it. 0: none. */
  readonly jitterMs: number;
  /** A run whose time passed while no worker was there: made up for once, or left out. */
  readonly missed: 'once' | 'skip';
};

export interface EntitySettings {
  /** One set of `list` parameters per variant; default: `[{}]`. */
  readonly variants: readonly Params[];
  /** Parent entities whose records lead to this one's partitions; the definition's defaults unless chosen. */
  readonly parents: readonly EntityName[];
  readonly fullEveryMs: number;
  /** The entity's, or else the connector's. */
  readonly freshWithinMs: number | null;
  /** What is done with a field that the definition does not declare. The entity's, or else the connector's. */
  readonly onSchemaChange: 'keepExtra' | 'evolve' | 'quarantine' | 'fail';
  /**
   * False: how many records a listing has, as the API counts them, is used for nothing. Absent: as the definition says.
   */
  readonly trustsTotal?: boolean;
}

/** A target of `publish`. */
export type PublishSettings = PublishPlace & {
  readonly name: string;
  /** Of one sink, because a publication shows one state of it. Not empty. */
  readonly connectors: readonly ConnectorSettings[];
  readonly when:
    | { readonly kind: 'after-sync' }
    | { readonly kind: 'every'; readonly everyMs: number }
    | { readonly kind: 'by-hand' };
  /**
   * The oldest that the newest snapshot may be before a publication has one; null: only those that somebody asks for.
   */
  readonly snapshotEveryMs: number | null;
  /** For how long a publication can be read after a newer one is there; null: for good. */
  readonly keepMs: number | null;
};

export type PublishPlace =
  | (PublishedFiles & { readonly type: 'files'; readonly directory: string })
  | (PublishedFiles & {
      readonly type: 's3';
      readonly bucket: string;
      /** Without a slash at its ends; empty: the bucket's root. */
      readonly prefix: string;
      readonly region: string | null;
      /** Of a server that is compatible; null: AWS. */
      readonly endpoint: string | null;
      /** Null: those that the AWS SDK finds. */
      readonly credentials: { readonly accessKeyId: string; readonly secretAccessKey: Secret } | null;
    })
  | {
      readonly type: 'postgres';
      readonly connection: PostgresAddress;
      readonly schema: string;
      /** What becomes of a row that is deleted: `_deleted` says so, or it is removed. */
      readonly deletes: 'mark' | 'remove';
    }
  | { readonly type: 'duckdb'; readonly path: string };

interface PublishedFiles {
  readonly format: 'parquet' | 'jsonl' | 'csv';
  /**
   * Path of a file below the root, without its ending; `{connector}`, `{entity}`, `{generation}`, `{kind}`, `{date}`,
   * `{publication}`, `{part}` stand for what they say.
   */
  readonly layout: string;
}
