import path from 'node:path';
import * as z from 'zod';
import type { JsonValue } from '../core/json.ts';
import { expectedKey, keyBytes, readKey, Secret } from '../core/secret.ts';
import type { Note } from '../definitions/check-names.ts';
import { jsonValue, strictObject, textAs } from '../definitions/schema-problems.ts';
import { expectedType } from '../definitions/suggest-name.ts';
import { isLoopbackHost } from '../http/guard-address.ts';
import { checkCron, checkTimezone } from './cron.ts';
import { mcpFile } from './mcp-settings.ts';
import { notifyFile } from './notify-settings.ts';
import { postgresAddress, postgresUrl, schemaOf, sinkFile } from './sink-settings.ts';
import {
  allowedHost,
  checkBaseUrl,
  checked,
  type Checked,
  checkRedirect,
  checkRedisUrl,
  duration,
  formatDuration,
  matching,
  missingHere,
  orNull,
  parseSize,
  secret,
  shortestEveryMs,
  wrong,
} from './texts.ts';

export type EntityMaskFile = z.output<typeof entityMask>;
export type MaskRuleFile = EntityMaskFile['fields'][string];

/** A key of 32 bytes. */
function secretKey() {
  return orNull(
    textAs((text, note) => {
      const key = text === missingHere ? Buffer.alloc(keyBytes).toString('base64') : text;
      if (readKey(key) === null) note(expectedKey);
      return new Secret(key);
    }),
  ).meta({ writeOnly: true });
}

const rule = z.union(
  [
    z.enum(['keep', 'drop', 'hash']),
    strictObject({ hash: strictObject({ as: z.enum(['text', 'email', 'phone']) }) }),
    strictObject({ truncate: z.int().min(1).max(1000) }),
  ],
  { error: 'expected keep, drop, hash, { hash: { as: email } }, { hash: { as: phone } } or { truncate: 3 }' },
);

const entityMask = strictObject({
  fields: z.record(z.string(), rule).default({}).meta({
    description:
      'Path -> keep, drop, hash, { hash: { as: email } }, { truncate: 3 }; * stands for any one name',
  }),
  unknownFields: z.enum(['keep', 'drop']).default('keep').meta({
    description: 'drop: only fields that a path covers are stored',
  }),
});

/** The masks of a connector, by entity. */
export const connectorMask = z.record(z.string(), entityMask).meta({
  description: 'Values that are never stored as they come, by entity and path',
});

/** Settings that all masks of the config share. */
export const maskFile = strictObject({
  key: secretKey().meta({
    description:
      'What values are hashed with; needed where a connector has a mask. Best as ${file:path} or ${VARIABLE}',
  }),
});

export type ConnectorFile = z.output<typeof connectorFile>;
export type DownloadsFile = NonNullable<ConnectorFile['downloads']>;
export type EntitySettingsFile = ConnectorFile['entities'][string];

const longestJitterMs = 86_400_000;
/** Runs delete versions, so a shorter time would promise more than they do. */
const shortestKeepMs = 86_400_000;

const timezone = textAs((name, note) => {
  const problem = checkTimezone(name);
  if (problem !== null) note(problem);
  return name;
});

const schedule = strictObject({
  cron: checked(checkCron).optional(),
  timezone: timezone.optional(),
  every: duration(shortestEveryMs).optional(),
  jitter: duration().optional(),
  missed: z.enum(['once', 'skip']).default('once'),
}).transform(({ cron, timezone, every, jitter, missed }, context) => {
  const refuse = (message: string, ...path: readonly string[]): void =>
    context.addIssue({ code: 'custom', message, path: [...path] });
  if ((cron === undefined) === (every === undefined)) {
    const got = cron === undefined ? 'neither' : 'both';
    refuse(`expected either cron or every, got ${got}`);
  }
  if (cron === undefined && timezone !== undefined) {
    refuse('belongs to cron: an interval is the same everywhere', 'timezone');
  }
  const longestMs = Math.min(every ?? longestJitterMs, longestJitterMs);
  if (jitter !== undefined && jitter > longestMs) {
    refuse(`expected at most ${formatDuration(longestMs)}`, 'jitter');
  }
  // The longest delay after the due time; each connector has a fixed delay below it. 0: none.
  const how = { jitterMs: jitter ?? 0, missed };
  return cron === undefined
    ? ({ kind: 'every', everyMs: every ?? 0, ...how } as const)
    : ({ kind: 'cron', pattern: cron, timezone: timezone ?? 'UTC', ...how } as const);
});

const params: z.ZodType<Record<string, JsonValue>, Record<string, unknown>> = z.record(
  z.string(),
  jsonValue(),
);

const onSchemaChange = z.enum(['keepExtra', 'evolve', 'quarantine', 'fail']).meta({
  description: 'What is done with a field that the connector type does not declare',
});

const historyError = 'expected true, false or { keep: <duration> }';

const history = z
  .union([z.boolean(), strictObject({ keep: duration(shortestKeepMs) })], {
    error: ({ input }) => (typeof input === 'object' && input !== null ? undefined : historyError),
  })
  // How long a version is kept after it ended, null: for ever; a null setting: there are no versions.
  .transform((given) => (given === false ? null : given === true ? { keepMs: null } : { keepMs: given.keep }))
  .meta({ description: 'Keeps each version of a row' });

const retention = strictObject({
  deletedRows: duration().optional().meta({
    description: 'Deleted rows are removed this long after their delete, once every target has published it',
  }),
  quarantine: duration().optional().meta({ description: 'Quarantined records; never longer than 90d' }),
  downloads: duration().optional().meta({ description: 'Files of deleted records' }),
});

const entity = strictObject({
  params: params.optional(),
  variants: z.array(params).min(1).optional(),
  parents: z.array(z.string()).min(1).optional(),
  fullEvery: duration().optional(),
  freshWithin: duration().optional(),
  onSchemaChange: onSchemaChange.optional(),
  history: history.optional(),
  retention: retention.optional(),
  totals: z.enum(['trust', 'ignore']).optional().meta({ description: 'ignore: the API counts wrongly' }),
});

const downloads = strictObject({
  directory: z.string().min(1).meta({
    description: 'Files are stored in <directory>/<connector>/<entity>/',
  }),
  entities: z
    .array(z.string())
    .min(1)
    .optional()
    .meta({ description: 'Entities whose files are fetched; default: all entities with files' }),
  shared: z.boolean().default(false).meta({
    description:
      'The directory is one and the same on every machine that runs the connector, as a network share is',
  }),
  maxBytes: z
    .union([z.int().min(1), z.string()])
    .transform((size, context) => {
      const bytes = typeof size === 'number' ? size : parseSize(size);
      if (bytes !== null) return bytes;
      const message = `expected bytes, or a size such as 500MB or 1GB, got ${JSON.stringify(size)}`;
      context.addIssue({ code: 'custom', message });
      return z.NEVER;
    })
    .prefault('1GB')
    .meta({ description: 'The largest file that is fetched: bytes, or a size such as 500MB or 1GB' }),
});

const connectorFile = strictObject({
  definition: z.string(),
  id: z.string().optional(),
  workspace: z.string().min(1).optional(),
  credentials: z
    .record(z.string(), z.string().meta({ writeOnly: true }))
    .optional()
    .meta({
      description:
        'Reads the service itself with these, without the API. Fields of the connector type, all secret: best as ${VARIABLE} or ${file:path}',
    }),
  settings: z.record(z.string(), z.string()).optional().meta({
    description:
      'Settings of the connector type, such as an account; secret ones as ${VARIABLE} or ${file:path}. No API',
  }),
  sink: z.string(),
  schedule: schedule.optional(),
  freshWithin: duration().optional(),
  onSchemaChange: onSchemaChange.default('keepExtra'),
  history: history.optional(),
  concurrency: z.int().min(1).max(32).optional(),
  rateLimit: strictObject({ requestsPerSecond: z.number().positive().max(1000) }).optional(),
  include: z.array(z.string()).min(1).optional(),
  exclude: z.array(z.string()).default([]),
  entities: z.record(z.string(), entity).prefault({}),
  downloads: downloads.optional(),
  retention: retention.optional(),
  mask: connectorMask.default({}),
});

export type SettingsFile = z.output<typeof settingsFile>;

const toSecret = (text: string): Secret => new Secret(text);

/** Text that is safe in bodies and headers. A line end is usually a slip in a secret file. */
const printable = matching(
  /^[^\p{Cc}\p{Zl}\p{Zp}]{1,4096}$/u,
  'expected 1 to 4096 characters without line ends and control characters',
);

const api = strictObject({
  baseUrl: checked(checkBaseUrl).meta({
    description: 'https address of the API; http only on this machine',
  }),
  clientId: printable,
  clientSecret: printable.transform(toSecret).meta(secret('Best as ${file:path} or ${VARIABLE}')),
  organizationId: orNull(
    matching(/^[A-Za-z0-9_-]{1,128}$/, 'expected letters, digits, "_" and "-", at most 128'),
  ),
  scopedToWorkspace: orNull(
    matching(
      /^[^\p{Cc}\p{Zl}\p{Zp}]{1,256}$/u,
      'expected 1 to 256 characters without line ends and control characters',
    ),
  ).meta({ description: 'Only a token of this workspace is used to read and write' }),
});

const defaultRedis = { url: 'redis://127.0.0.1:6379', prefix: 'connector-sync' };

const redis = strictObject({
  url: checked(checkRedisUrl).transform(toSecret).prefault(defaultRedis.url),
  // The prefix becomes part of every key and of queue names, where a colon has a meaning.
  prefix: matching(
    /^[a-z][a-z0-9_-]{0,39}$/,
    'expected a lower-case letter, then lower-case letters, digits, "_" and "-", at most 40 characters',
  )
    .prefault(defaultRedis.prefix)
    .meta({ description: 'Begins every key in Redis' }),
});

const hostName = matching(
  /^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$/,
  'expected the name or address of a host without port, such as status.example.com',
);

const accessToken = matching(
  /^[\x21-\x7e]{16,512}$/,
  'expected 16 to 512 visible ASCII characters without blanks',
)
  .transform(toSecret)
  .meta({ writeOnly: true });

type PageRight = 'pages' | 'data' | 'act';

/** Rights that a word stands for. */
const rightsOf = { read: ['pages'], act: ['pages', 'act'] } as const;

const pageRights = z
  .array(z.enum(['pages', 'data', 'act']))
  .refine((rights) => rights.includes('pages'), 'expected pages among them');

const namedToken = strictObject({
  token: accessToken.meta({ description: 'As http.token' }),
  may: z
    .union([z.enum(['read', 'act']), pageRights], 'expected read, act or a list such as [pages, data, act]')
    .prefault('read')
    .transform((may): readonly PageRight[] => (typeof may === 'string' ? rightsOf[may] : may))
    .meta({
      description:
        'Rights: pages (sees them), data (values of stored records, too), act (pause, run, cancel, undo, publish). read: [pages]; act: [pages, act]',
    }),
});

/** Access to the HTTP servers of this program, and the names that they are reached by. */
const httpFile = strictObject({
  token: orNull(accessToken).meta({
    description:
      'Opens the pages of ui and of worker --http, to read and to act, without values of records. Best as ${file:path} or ${VARIABLE}',
  }),
  tokens: z
    .record(z.string(), namedToken)
    .prefault({})
    .meta({ description: 'Tokens of people, by name: the pages and "actions" say who did what' }),
  hosts: z.array(hostName).prefault([]).meta({
    description:
      'Names that browsers reach worker --http and ui by, besides those of this machine: of a proxy, say',
  }),
  secretsFolder: orNull(z.string().min(1)).meta({
    description:
      'Folder for secret files of connectors that are added from the pages, and for credentials that a person types there',
  }),
  connectorSeries: z
    .enum(['all', 'attention'])
    .default('all')
    .meta({ description: 'Which connectors have series of their own among the metrics' }),
});

const defaultRedirect = 'http://127.0.0.1/callback';

const signIns = strictObject({
  key: secretKey().meta({
    description:
      'Seals what "login" stores; needed for a PostgreSQL sink. Best as ${file:path} or ${VARIABLE}',
  }),
  redirect: checked(checkRedirect).prefault(defaultRedirect).meta({
    description: 'Where services send the browser back to after "login"; without a port, a free one',
  }),
});

const allowedHostText = textAs((text, note) => {
  const host = allowedHost(text);
  if (host === null) note('expected host or host:port, without scheme and path');
  return host ?? '';
}, z.string().min(1));

export type PublishFile = z.output<typeof publishFile>;

function checkEndpoint(text: string): Checked {
  const url = URL.canParse(text) ? new URL(text) : null;
  const isAllowed = url?.protocol === 'https:' || (url?.protocol === 'http:' && isLoopbackHost(url.hostname));
  return !isAllowed || url.username !== '' || url.search !== '' || url.hash !== ''
    ? wrong('expected an https address without a user, or http on this machine')
    : { ok: true, value: text };
}

const files = {
  format: z.enum(['parquet', 'jsonl', 'csv']).default('parquet'),
};

const publishing = {
  connectors: z.array(z.string()).min(1).optional().meta({
    description: 'Names of connectors of one sink; default: all, where there is one sink',
  }),
  when: z
    .union(
      [z.literal('after-sync'), z.literal('by-hand'), strictObject({ every: duration(shortestEveryMs) })],
      {
        error: 'expected after-sync, by-hand or { every: 1h }',
      },
    )
    .transform((when) =>
      typeof when === 'string' ? { kind: when } : { kind: 'every' as const, everyMs: when.every },
    )
    .prefault('after-sync'),
  // `text`: columns have the types of the sink.
  times: z.enum(['typed', 'text']).default('typed').meta({
    description:
      'Times, dates, decimals and JSON as types of the target, or as texts; files of jsonl and csv have texts',
  }),
  snapshotEvery: orNull(duration()),
  keep: z
    .union([z.literal('forever').transform(() => null), duration()], {
      error: 'expected a duration such as 30d, or forever',
    })
    .prefault('30d')
    .meta({ description: 'How long an older publication can be read' }),
};

const s3 = strictObject({
  type: z.literal('s3'),
  bucket: matching(
    /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/,
    'expected the name of a bucket: 3 to 63 lower-case letters, digits, - and .',
    z.string().min(1),
  ),
  prefix: matching(
    /^\/*(?:[A-Za-z0-9_=-][A-Za-z0-9._=-]*(?:\/[A-Za-z0-9_=-][A-Za-z0-9._=-]*)*)?\/*$/,
    'expected names of letters, digits and . _ = - with / between them',
  )
    .transform((text) => text.replace(/^\/+|\/+$/g, ''))
    .prefault(''),
  region: orNull(z.string().min(1)),
  endpoint: orNull(checked(checkEndpoint, z.string().min(1)).nullable()).meta({
    description: 'https address of a compatible server; http only on this machine',
  }),
  accessKeyId: z.string().min(1).optional(),
  secretAccessKey: z
    .string()
    .min(1)
    .optional()
    .meta(secret('Best as ${file:path} or ${VARIABLE}; without the two the AWS SDK looks for credentials')),
  ...files,
  ...publishing,
});

export const publishFile = z
  .discriminatedUnion(
    'type',
    [
      strictObject({ type: z.literal('files'), directory: z.string().min(1), ...files, ...publishing }),
      s3,
      strictObject({
        type: z.literal('postgres'),
        url: postgresUrl(),
        password: z.string().min(1).optional().meta(secret('Best as ${file:path} or ${VARIABLE}')),
        schema: z.string().optional().meta({ description: "Default: the target's name, - as _" }),
        // Treatment of a row that is deleted: `mark` sets `_deleted`, `remove` deletes it.
        deletes: z.enum(['mark', 'remove']).default('mark'),
        ...publishing,
      }),
      strictObject({ type: z.literal('duckdb'), path: z.string().min(1), ...publishing }),
    ],
    { error: expectedType('files', 's3', 'postgres', 'duckdb') },
  )
  .transform(({ snapshotEvery, keep, ...target }) => ({
    ...target,
    // The age of the newest snapshot at which a publication includes a new one; null: only requested ones.
    snapshotEveryMs: snapshotEvery,
    // How long a publication can be read after a newer one exists; null: for ever.
    keepMs: keep,
  }));

const defaults = connectorFile.partial().meta({
  description: 'Values for connectors that do not set their own',
});

/** The value of `connectors` where they are in separate files. */
export const connectorFiles = z.array(z.string().min(1)).min(1).meta({
  description:
    'Files, and folders of YAML files such as ./connectors, each file with connectors (and defaults)',
});

/** The format of such a file. What its connectors contain is checked once they have their defaults. */
export const connectorsFile = strictObject({
  defaults: defaults.optional(),
  connectors: z.record(z.string(), z.unknown()),
});

/**
 * The format of the config file: shapes only; `loadSettings` checks the parts against each other. Connectors are those
 * of all files.
 */
export const settingsFile = strictObject({
  api: api.optional().meta({ description: 'Not needed where every connector has credentials of its own' }),
  allowUpstreamHosts: z.array(allowedHostText).prefault([]).meta({
    description:
      'Hosts that connectors with credentials may reach at private addresses: host, by the scheme and port of the baseUrl of their definition; host:port, at this port too',
  }),
  signIns: signIns.prefault({}),
  mask: maskFile.prefault({}),
  definitions: z.array(z.string().min(1)).default([]),
  sinks: z.record(z.string(), sinkFile, {
    error: 'expected where rows are stored, such as sinks: { main: { type: sqlite, path: ./data/main.db } }',
  }),
  redis: redis.prefault({}),
  http: httpFile.prefault({}),
  watch: z.boolean().default(false).meta({
    description: 'Workers read the config again by themselves when its files change',
  }),
  defaults: defaults.optional(),
  connectors: z.record(z.string(), connectorFile).prefault({}),
  publish: z.record(z.string(), publishFile).prefault({}).meta({
    description: 'Where what is stored is published to, for warehouses',
  }),
  notify: z.record(z.string(), notifyFile).prefault({}).meta({
    description: 'Who is notified when something is wrong',
  }),
  allowNotifyHosts: z.array(allowedHostText).prefault([]).meta({
    description:
      'Hosts of notify that may be at private addresses, and be reached without TLS and at other ports: host, or host:port',
  }),
  mcp: mcpFile.prefault({}).meta({ description: 'What mcp serves to agents' }),
  guards: strictObject({
    maxDeleteShare: z.number().min(0).max(1).default(0.2),
    minDeleteRows: z.int().min(0).max(1_000_000_000).default(20),
  }).prefault({}),
});

/** A config as people write it: connectors may be in files, and `defaults` may give their type and sink. */
export function writtenSettings() {
  const connector = connectorFile.partial({ definition: true, sink: true });
  const connectors = z.union([
    z.record(z.string(), connector).prefault({}),
    connectorFiles,
    z.string().min(1),
  ]);
  return settingsFile.extend({ connectors });
}

/** JSON Schema of the config file, for editors and `config schema`. */
export function settingsJsonSchema(): object {
  return z.toJSONSchema(writtenSettings(), { io: 'input' });
}

/**
 * Builds the place of a target. `file`: a target without its connectors and schedule. Relative paths begin at `folder`.
 */
export function buildPublishPlace(name: string, file: PlaceOf<PublishFile>, folder: string, note: Note) {
  const at = ['publish', name];
  switch (file.type) {
    case 'files':
      return { ...file, directory: path.resolve(folder, file.directory) };
    case 's3': {
      const { accessKeyId, secretAccessKey, ...bucket } = file;
      if ((accessKeyId === undefined) !== (secretAccessKey === undefined)) {
        note(at, 'expected both accessKeyId and secretAccessKey, or neither');
      }
      // Null: the credentials that the AWS SDK finds.
      const credentials =
        accessKeyId === undefined || secretAccessKey === undefined
          ? null
          : { accessKeyId, secretAccessKey: new Secret(secretAccessKey) };
      return { ...bucket, credentials };
    }
    case 'postgres': {
      const { type, url, password, deletes } = file;
      const schema = schemaOf(name, file.schema, [...at, 'schema'], note);
      return { type, connection: postgresAddress(url, password, folder), schema, deletes };
    }
    case 'duckdb':
      return { ...file, path: path.resolve(folder, file.path) };
  }
}

type PlaceOf<Target> = Target extends unknown
  ? Omit<Target, 'connectors' | 'when' | 'times' | 'snapshotEveryMs' | 'keepMs'>
  : never;
