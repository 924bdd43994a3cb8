import * as z from 'zod';
import { strictObject } from '../definitions/schema-problems.ts';
import { expectedType } from '../definitions/suggest-name.ts';
import { durationExamples } from './parse-unit.ts';

const duration = z
  .string({ error: `expected a duration such as ${durationExamples}` })
  .meta({ description: `A duration such as ${durationExamples}` });
const durability = z
  .enum(['full', 'normal'])
  .default('full')
  .meta({ description: 'full survives a power loss; normal is faster and survives a crash of the program' });

const lockTimeout = duration.default('60s').meta({
  description: "How long to wait while another program holds the write lock of the sink's database",
});

const api = strictObject({
  baseUrl: z.string().meta({ description: 'https address of the API; http only on this machine' }),
  clientId: z.string(),
  clientSecret: z.string().meta({ description: 'Best as ${file:path} or ${VARIABLE}' }),
  organizationId: z.string().optional(),
  scopedToWorkspace: z
    .string()
    .optional()
    .meta({ description: 'Only a token of this workspace is used to read and write' }),
  lookups: strictObject({
    requestsPerSecond: z.number().positive().max(1000).default(50),
    concurrency: z.int().min(1).max(64).default(8),
    cacheFor: duration.default('1h'),
  })
    .prefault({})
    .meta({
      description: 'How connectors are looked up before their runs, and how long an answer is cached',
    }),
});

const sink = z.discriminatedUnion(
  'type',
  [
    strictObject({ type: z.literal('sqlite'), path: z.string().min(1), durability, lockTimeout }),
    strictObject({ type: z.literal('jsonl'), directory: z.string().min(1), durability, lockTimeout }),
    strictObject({
      type: z.literal('postgres'),
      url: z.string().min(1).meta({
        description:
          'postgresql://user@host:5432/database, several hosts with commas; sslmode=verify-full is the default except on this machine',
      }),
      password: z.string().min(1).optional().meta({ description: 'Best as ${file:path} or ${VARIABLE}' }),
      directUrl: z.string().min(1).optional().meta({
        description:
          'Where url leads to a pooler: the address of the server itself, for locks that belong to a session',
      }),
      schema: z.string().optional().meta({ description: "Default: the sink's name, - as _" }),
      connections: z.int().min(2).max(200).default(10).meta({
        description: 'Connections that one process opens at most, besides one for its locks',
      }),
      durability,
    }),
  ],
  { error: expectedType('sqlite', 'jsonl', 'postgres') },
);

const publishFormat = z.enum(['parquet', 'jsonl', 'csv']).default('parquet');

const layout = z.string().min(1).optional().meta({
  description:
    'Path of a file without its ending, of {connector} {entity} {generation} {kind} {date} {publication} {part}',
});

const publishing = {
  connectors: z.array(z.string()).min(1).optional().meta({
    description: 'Names of connectors of one sink; default: all, where there is one sink',
  }),
  when: z
    .union([z.literal('after-sync'), z.literal('by-hand'), strictObject({ every: duration })], {
      error: 'expected after-sync, by-hand or { every: 1h }',
    })
    .default('after-sync'),
  snapshotEvery: duration.optional(),
  keep: duration
    .optional()
    .meta({ description: 'How long an older publication can be read; default: without limit' }),
};

const publishTarget = z.discriminatedUnion(
  'type',
  [
    strictObject({
      type: z.literal('files'),
      directory: z.string().min(1),
      format: publishFormat,
      layout,
      ...publishing,
    }),
    strictObject({
      type: z.literal('s3'),
      bucket: z.string().min(1),
      prefix: z.string().default(''),
      region: z.string().min(1).optional(),
      endpoint: z.string().min(1).nullable().optional().meta({
        description: 'https address of a compatible server; http only on this machine',
      }),
      accessKeyId: z.string().min(1).optional(),
      secretAccessKey: z.string().min(1).optional().meta({
        description: 'Best as ${file:path} or ${VARIABLE}; without the two the AWS SDK looks for credentials',
      }),
      format: publishFormat,
      layout,
      ...publishing,
    }),
    strictObject({
      type: z.literal('postgres'),
      url: z.string().min(1),
      password: z.string().min(1).optional().meta({ description: 'Best as ${file:path} or ${VARIABLE}' }),
      schema: z.string().optional().meta({ description: "Default: the target's name, - as _" }),
      deletes: z.enum(['mark', 'remove']).default('mark'),
      ...publishing,
    }),
    strictObject({ type: z.literal('duckdb'), path: z.string().min(1), ...publishing }),
  ],
  { error: expectedType('files', 's3', 'postgres', 'duckdb') },
);

const schedule = strictObject({
  cron: z.string().optional(),
  timezone: z.string().optional(),
  every: duration.optional(),
  jitter: duration.optional(),
  missed: z.enum(['once', 'skip']).default('once'),
});

const params = z.record(z.string(), z.json());

const onSchemaChange = z.enum(['keepExtra', 'evolve', 'quarantine', 'fail']).meta({
  description: 'What is done with a field that the connector type does not declare',
});

const entity = strictObject({
  params: params.optional(),
  variants: z.array(params).min(1).optional(),
  parents: z.array(z.string()).min(1).optional(),
  fullEvery: duration.optional(),
  freshWithin: duration.optional(),
  onSchemaChange: onSchemaChange.optional(),
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
    .default('1GB')
    .meta({ description: 'The largest file that is fetched: bytes, or a size such as 500MB or 1GB' }),
});

const connector = strictObject({
  definition: z.string(),
  id: z.string().optional(),
  workspace: z.string().min(1).optional(),
  credentials: z.record(z.string(), z.string()).optional().meta({
    description:
      'Reads the service itself with these, without the API. Fields of the connector type, all secret: best as ${VARIABLE} or ${file:path}',
  }),
  sink: z.string(),
  schedule: schedule.optional(),
  freshWithin: duration.optional(),
  onSchemaChange: onSchemaChange.default('keepExtra'),
  concurrency: z.int().min(1).max(32).optional(),
  rateLimit: strictObject({ requestsPerSecond: z.number().positive().max(1000) }).optional(),
  include: z.array(z.string()).min(1).optional(),
  exclude: z.array(z.string()).default([]),
  entities: z.record(z.string(), entity).default({}),
  downloads: downloads.optional(),
});

const defaults = connector.partial().meta({
  description: 'Values for connectors that do not set their own',
});

/** Below `connectors`, where they are in files of their own. */
export const connectorFiles = z.array(z.string().min(1)).min(1).meta({
  description:
    'Files, folders and patterns such as ./connectors/*.yaml, each file with connectors (and defaults)',
});

/** The format of such a file. What its connectors say is looked at when they have their defaults. */
export const connectorsFile = strictObject({
  defaults: defaults.optional(),
  connectors: z.record(z.string(), z.unknown()),
});

/**
 * The format of the config file: shapes only; `loadSettings` holds the parts against each other. Connectors are those
 * of all files.
 */
export const settingsFile = strictObject({
  api: api.optional().meta({ description: 'Not needed where every connector has credentials of its own' }),
  allowUpstreamHosts: z.array(z.string().min(1)).default([]).meta({
    description:
      'Hosts that connectors with credentials may reach at private addresses: host, by the scheme and port of the baseUrl of their definition; host:port, at this port too',
  }),
  definitions: z.array(z.string().min(1)).default([]),
  sinks: z.record(z.string(), sink),
  redis: strictObject({
    url: z.string().default('redis://127.0.0.1:6379'),
    prefix: z.string().default('connector-sync').meta({ description: 'Begins every key in Redis' }),
  }).optional(),
  http: strictObject({
    token: z
      .string()
      .optional()
      .meta({ description: 'Opens the board of worker --http. Best as ${file:path} or ${VARIABLE}' }),
    connectorSeries: z
      .enum(['all', 'attention'])
      .default('all')
      .meta({ description: 'Which connectors have series of their own among the metrics' }),
  }).optional(),
  defaults: defaults.optional(),
  connectors: z.record(z.string(), connector).default({}),
  publish: z.record(z.string(), publishTarget).default({}).meta({
    description: 'Where what is stored is published to, for warehouses',
  }),
  guards: strictObject({
    maxDeleteShare: z.number().min(0).max(1).default(0.2),
    minDeleteRows: z.int().min(0).max(1_000_000_000).default(20),
  }).prefault({}),
});

export type SettingsFile = z.infer<typeof settingsFile>;
export type SinkFile = SettingsFile['sinks'][string];
export type ConnectorFile = SettingsFile['connectors'][string];
export type PublishFile = SettingsFile['publish'][string];
export type DownloadsFile = NonNullable<ConnectorFile['downloads']>;
export type EntitySettingsFile = ConnectorFile['entities'][string];

/** JSON Schema of the config file, for editors and `config schema`. */
export function settingsJsonSchema(): object {
  const connectors = z.union([settingsFile.shape.connectors, connectorFiles, z.string().min(1)]);
  return z.toJSONSchema(settingsFile.extend({ connectors }), { io: 'input' });
}
