import type { ErrorCode } from '../core/errors.ts';
import type { Health } from '../core/health.ts';
import type { BuiltInRecords, Config, ConnectorConfig, RecordShape } from './config.ts';

export type { BuiltInRecords, Config, ConnectorConfig, RecordShape } from './config.ts';

/** The connectors of a config, each with the name of its definition. */
export type ConnectorTypes = Readonly<Record<string, string>>;

/** A config as an object, of connectors of these types and sinks of these names. */
export type ConfigOf<Types extends ConnectorTypes, Sinks extends string = string> = Omit<
  Config,
  'connectors' | 'defaults' | 'sinks'
> & {
  readonly sinks: Readonly<Record<Sinks, Config['sinks'][string]>>;
  readonly defaults?: InSink<NoInfer<Sinks>, unknown> | undefined;
  readonly connectors?:
    | string
    | readonly string[]
    | { readonly [Name in keyof Types]: InSink<NoInfer<Sinks>, Types[Name]> }
    | undefined;
};

/** An entry of the config in one of these sinks. */
type InSink<Sinks extends string, Definition> = Omit<ConnectorConfig, 'definition' | 'include' | 'sink'> & {
  readonly definition?: Definition | undefined;
  readonly sink?: Sinks | undefined;
  /** Entities, or patterns such as `list*`. */
  readonly include?: readonly (EntityOf<NoInfer<Definition>> | `${string}*${string}`)[] | undefined;
};

/** The entities of a built-in connector type; of another type, any name. */
export type EntityOf<Definition> = Definition extends keyof BuiltInRecords
  ? Extract<keyof BuiltInRecords[Definition], string>
  : string;

/** Options of `openApp`. */
export interface OpenOptions<Types extends ConnectorTypes = ConnectorTypes, Sinks extends string = string> {
  /** Path of a config file, or its content as an object, with relative paths from the working directory. */
  readonly config: string | ConfigOf<Types, Sinks>;
  /** Values of `${VARIABLE}` in the config; `process.env` by default. No `.env` file is read. */
  readonly env?: Readonly<Record<string, string | undefined>>;
}

/** A checked config. It holds nothing open: there is nothing to close. */
export interface App<Types extends ConnectorTypes = ConnectorTypes> {
  /** The names of the config's connectors. */
  readonly connectors: readonly string[];
  /** For the compiler, which infers the records' shape from it; never set. */
  readonly types?: Types;
}

/** Any JSON value. */
export type Json = string | number | boolean | null | readonly Json[] | { readonly [name: string]: Json };

/** The records of an entity of a built-in connector type; of another type, fields of any name and value. */
export type ShapeOf<Definition, Entity> = Definition extends keyof BuiltInRecords
  ? Entity extends keyof BuiltInRecords[Definition]
    ? BuiltInRecords[Definition][Entity]
    : RecordShape
  : RecordShape;

/** `<connector>/<entity>`: every entity of these connectors. */
export type TargetOf<Types extends ConnectorTypes> = {
  [Name in keyof Types & string]: `${Name}/${EntityOf<Types[Name]>}`;
}[keyof Types & string];

/** The records of `<connector>/<entity>`. */
export type ShapeAt<
  Types extends ConnectorTypes,
  Target extends string,
> = Target extends `${infer Name}/${infer Entity}` ? ShapeOf<Types[Name], Entity> : RecordShape;

export interface SyncOptions<Types extends ConnectorTypes = ConnectorTypes> {
  /** Names from the config; all of them by default. */
  readonly connectors?: readonly (keyof Types & string)[];
  /** Read everything from the start, which also finds deleted records. */
  readonly full?: boolean;
  readonly signal?: AbortSignal;
  /** Called often, and never after `sync` has settled. It must not throw. */
  readonly onProgress?: (progress: Progress) => void;
}

export type Progress = { readonly connector: string } &
  /** A run begins. `resumes`: it continues one that did not end. */
  (
    | { readonly kind: 'started'; readonly run: string; readonly resumes: boolean }
    /** A page is stored: `read` records came, `written` of them were new or had changed. */
    | { readonly kind: 'stored'; readonly entity: string; readonly read: number; readonly written: number }
    /** The API states how many calls a second it takes, and they are made at that rate. */
    | { readonly kind: 'rate'; readonly requestsPerSecond: number }
    /** The API's rate limit: no call is made for `waitMs` milliseconds. */
    | { readonly kind: 'waiting'; readonly waitMs: number }
    /** Attempt `attempt` (from 1) of `attempts` failed; the next one is made after `waitMs` milliseconds. */
    | {
        readonly kind: 'retrying';
        readonly code: ErrorCode;
        readonly attempt: number;
        readonly attempts: number;
        readonly waitMs: number;
      }
    /** The last event of this connector. */
    | { readonly kind: 'ended'; readonly result: SyncResult }
  );

/**
 * Completeness of an entity. `not-yet`: listings failed or are still to be read. `part-missing`: the API may have
 * records that it did not show. `unconfirmed`: read to the end, and the API offers no proof. `complete`: proven.
 */
type Completeness = 'not-yet' | 'part-missing' | 'unconfirmed' | 'complete';

export interface SyncResult {
  readonly connector: string;
  /** Null: no run could begin, and `error` says why. */
  readonly run: string | null;
  /**
   * `ok`: everything was read. `partial`: the API asked to wait until `resumeAt`. `degraded`: parts could not be read.
   * `failed`: see `error`. `interrupted`: `signal` was aborted, or the run was cancelled. Stored records are kept in
   * every case.
   */
  readonly outcome: 'ok' | 'partial' | 'degraded' | 'failed' | 'interrupted';
  readonly calls: number;
  /** The highest number of calls a second, set by the connector type or by the API; absent: set by the config. */
  readonly rate?: { readonly requestsPerSecond: number; readonly by: 'definition' | 'api' };
  /** ISO 8601, UTC. */
  readonly resumeAt: string | null;
  readonly error: { readonly code: ErrorCode; readonly message: string } | null;
  readonly entities: readonly {
    readonly entity: string;
    readonly read: number;
    readonly written: number;
    /** Rows that are marked as deleted now. */
    readonly deleted: number;
    /** Rows that look deleted and are kept, because there are more of them than the config's guards let pass. */
    readonly withheld: number;
    /** Listings that are incomplete: the API counts more records than it showed, for example. */
    readonly partMissing: number;
    readonly completeness: Completeness;
  }[];
}

export interface ChangesOptions {
  /** The `nextSeq` of the last time; 0, the default, for everything. */
  readonly since?: number;
  /** Aborting it ends the iteration with the signal's reason. */
  readonly signal?: AbortSignal;
}

/**
 * Iterate over it to get each changed record once, in the order of `seq`. Store `nextSeq` when all of them are stored,
 * in the same transaction where there is one.
 */
export interface Changes<Shape extends RecordShape = RecordShape>
  extends AsyncIterable<Change<Shape>>, AsyncDisposable {
  /** Random id made with the sink; null: there is none yet. Another one than the last time: start again from 0. */
  readonly sink: string | null;
  /** The number to pass as `since` the next time. */
  readonly nextSeq: number;
  /**
   * Changes made in the service before this time (ISO 8601, UTC) are included; null: the entity was never read
   * completely.
   */
  readonly asOf: string | null;
  /** The same for every entity of the connector. */
  readonly entities: readonly { readonly entity: string; readonly asOf: string | null }[];
}

interface Changed {
  readonly seq: number;
  /** ISO 8601, UTC. */
  readonly changedAt: string;
}

/** Members that every changed record has in addition to its fields. */
interface Stamped<Op> {
  readonly _op: Op;
  readonly _seq: number;
  readonly _changed_at: string;
  readonly _run_id: string;
}

/** `record`: as a line of `connector-sync export`. Integers beyond 2^53 lose digits. */
export type Change<Shape extends RecordShape = RecordShape> =
  | (Changed & {
      readonly kind: 'upsert';
      /** `_extra`: values that have no field. */
      readonly record: Shape['stored'] & {
        readonly _extra?: Readonly<Record<string, Json>>;
      } & Stamped<'upsert'>;
    })
  | (Changed & {
      readonly kind: 'delete';
      /** The fields of the key alone. */
      readonly record: Pick<Shape['stored'], Shape['key'] & keyof Shape['stored']> & Stamped<'delete'>;
    });

export interface ConnectorStatus {
  readonly connector: string;
  /** The worst that is true of it, as `connector-sync status` says it. */
  readonly health: Health;
  /** Why, and what to do, as one line; null where that needs no reason. */
  readonly reason: string | null;
  /** The newest sync, also one that could not begin; null: none was tried. Times are ISO 8601, UTC. */
  readonly lastRun: {
    readonly run: string;
    readonly state: SyncResult['outcome'] | 'running';
    readonly startedAt: string;
    readonly finishedAt: string | null;
  } | null;
  readonly entities: readonly {
    readonly entity: string;
    /** Without deleted ones. */
    readonly rows: number;
    readonly deleted: number;
    /** Rows that look deleted and are kept until that is certain. */
    readonly missing: number;
    /** Listings that the next sync reads. */
    readonly due: number;
    /** Records that could not be stored as they are, and are kept whole. */
    readonly quarantined: number;
    /** Listings that were incomplete when they were last read. */
    readonly partMissing: number;
    /** The word for all its listings, as they stand now; null where it has none. */
    readonly completeness: Completeness | null;
  }[];
}

/** A condition in the language of docs/search.md, on these fields and on paths into them. */
export type Filter<Field extends string = string> = {
  readonly [
    Operator in
      'eq' | 'neq' | 'gt' | 'gte' | 'lt' | 'lte' | 'in' | 'like' | 'contains' | 'keyword' | 'fuzzy' | 'any'
  ]?: ByField<Field, Json>;
} & {
  readonly and?: readonly Filter<Field>[];
  readonly or?: readonly Filter<Field>[];
  readonly not?: Filter<Field>;
};

type ByField<Field extends string, Value> = { readonly [Name in Field | `${Field}.${string}`]?: Value };

/** A query in the language of docs/search.md. */
export interface SearchQuery<Shape extends RecordShape = RecordShape> {
  /** Such as `{ eq: { status: 'sent' } }`; default: every record. */
  readonly filter?: Filter<FieldOf<Shape>>;
  /** Such as `[{ send_time: 'desc' }]`; default: by rank, else in the order in which they came. */
  readonly sort?: readonly ByField<FieldOf<Shape>, 'asc' | 'desc'>[];
  /** 1 to 1000; default: 1000. */
  readonly limit?: number;
  /** The `cursor` of the previous page, with the same query. */
  readonly cursor?: string;
  readonly signal?: AbortSignal;
}

/** The searchable fields; any name, where they are not known. */
type FieldOf<Shape extends RecordShape> = [keyof Shape['found']] extends [never]
  ? string
  : keyof Shape['found'] & string;

export interface Found<Shape extends RecordShape = RecordShape> {
  /** The entity's searchable fields. Integers beyond 2^53 lose digits. */
  readonly records: readonly Shape['found'][];
  /** For the next page; null: there is none. */
  readonly cursor: string | null;
}

export interface PublishOptions {
  /** Names of targets of the config; all of them by default. */
  readonly targets?: readonly string[];
  /** Publishes all rows again: earlier publications no longer count. */
  readonly newGeneration?: boolean;
  readonly signal?: AbortSignal;
  /** Called often. It must not throw. */
  readonly onProgress?: (progress: {
    readonly target: string;
    readonly connector: string;
    readonly entity: string;
    readonly rows: number;
  }) => void;
}

export interface Publication {
  readonly target: string;
  /** `unchanged`: nothing was new; `nothing-stored`: no sync has stored anything yet; `failed`: see `error`. */
  readonly result: 'published' | 'unchanged' | 'nothing-stored' | 'failed';
  /** The number of the newest publication in the target, and when it was made (ISO 8601, UTC); null: none is known. */
  readonly publication: number | null;
  readonly createdAt: string | null;
  /** Rows that this publication has added to the target. */
  readonly upserts: number;
  readonly deletes: number;
  readonly error: { readonly code: ErrorCode; readonly message: string } | null;
}

export interface CopyOptions<Types extends ConnectorTypes = ConnectorTypes> {
  /** Names of sinks of the config. */
  readonly from: string;
  readonly to: string;
  /** Names from the config; by default all that are stored in `from`, and whose sink it is in the config. */
  readonly connectors?: readonly (keyof Types & string)[];
  readonly signal?: AbortSignal;
  /** Called often, with the rows of the connector that are copied. It must not throw. */
  readonly onProgress?: (progress: {
    readonly connector: string;
    readonly rows: number;
    readonly allRows: number;
  }) => void;
}

export interface Copied {
  readonly connector: string;
  /** `done`: it was copied before, and nothing has changed since; `failed`: see `error`. */
  readonly state: 'copied' | 'resumed' | 'done' | 'failed';
  /** Rows in `to`, deleted ones included. */
  readonly rows: number;
  readonly error: { readonly code: ErrorCode; readonly message: string } | null;
}

export interface CheckOptions {
  /** Read every closed file of a JSONL sink, and compare its hash. */
  readonly deep?: boolean;
  readonly signal?: AbortSignal;
}

export interface Checks {
  /** False: at least one check has failed. */
  readonly ok: boolean;
  readonly checks: readonly {
    readonly what: string;
    readonly state: 'ok' | 'warning' | 'failed' | 'skipped';
    readonly detail: string;
    /** Only for a failure. */
    readonly code?: string;
  }[];
}
