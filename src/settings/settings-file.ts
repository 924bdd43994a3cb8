import * as z from 'zod';
import { Secret } from '../core/secret.ts';
import { strictObject, textAs } from '../definitions/schema-problems.ts';
import { expectedType } from '../definitions/suggest-name.ts';
import { allowedHost, checkBaseUrl, checkRedirect, checkRedisUrl } from './check-urls.ts';
import { connectorFile } from './connector-file.ts';
import { maskFile, secretKey } from './mask-file.ts';
import { mcpFile } from './mcp-file.ts';
import { notifyFile } from './notify-file.ts';
import { publishFile } from './publish-file.ts';
import { postgresUrl } from './postgres-address.ts';
import { checked, duration, matching, orNull, secret } from './texts.ts';

export type SettingsFile = z.output<typeof settingsFile>;
export type SinkFile = SettingsFile['sinks'][string];

const durability = z
  .enum(['full', 'normal'])
  .default('full')
  .meta({ description: 'full survives a power loss; normal is faster and survives a crash of the program' });

/** Of a sink in files. */
const inFiles = {
  durability,
  lockTimeout: duration().prefault('60s').meta({
    description: "How long to wait while another program holds the write lock of the sink's database",
  }),
};

/** For a secret that is missing here: secrets are hidden wherever they occur in output, and this occurs nowhere. */
const standInSecret = '<secret-that-is-missing-here>';
const toSecret = (text: string): Secret => new Secret(text);

/** What travels in bodies and headers without surprises. A line end is usually a slip in a secret file. */
const printable = matching(
  /^[^\p{Cc}\p{Zl}\p{Zp}]{1,4096}$/u,
  'expected 1 to 4096 characters without line ends and control characters',
  standInSecret,
);

const api = strictObject({
  baseUrl: checked('https://api.example.com', checkBaseUrl).meta({
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
  lookups: strictObject({
    requestsPerSecond: z.number().positive().max(1000).default(50),
    concurrency: z.int().min(1).max(64).default(8),
    cacheFor: duration().prefault('1h'),
  })
    .transform(({ cacheFor, ...rate }) => ({ ...rate, cacheForMs: cacheFor }))
    .prefault({})
    .meta({
      description: 'How connectors are looked up before their runs, and how long an answer is cached',
    }),
});

const sink = z.discriminatedUnion(
  'type',
  [
    strictObject({ type: z.literal('sqlite'), path: z.string().min(1), ...inFiles }).transform(
      ({ lockTimeout: lockTimeoutMs, ...rest }) => ({ ...rest, lockTimeoutMs }),
    ),
    strictObject({ type: z.literal('jsonl'), directory: z.string().min(1), ...inFiles }).transform(
      ({ lockTimeout: lockTimeoutMs, ...rest }) => ({ ...rest, lockTimeoutMs }),
    ),
    strictObject({
      type: z.literal('postgres'),
      url: postgresUrl().meta({
        description:
          'postgresql://user@host:5432/database, several hosts with commas; sslmode=verify-full is the default except on this machine',
      }),
      password: z.string().min(1).optional().meta(secret('Best as ${file:path} or ${VARIABLE}')),
      directUrl: postgresUrl().optional().meta({
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

const defaultRedis = { url: 'redis://127.0.0.1:6379', prefix: 'connector-sync' };

const redis = strictObject({
  url: checked(defaultRedis.url, checkRedisUrl).transform(toSecret).prefault(defaultRedis.url),
  // It becomes a part of every key and of queue names, where a colon has a meaning.
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
  standInSecret,
)
  .transform(toSecret)
  .meta({ writeOnly: true });

const namedToken = strictObject({
  token: accessToken.meta({ description: 'As http.token' }),
  may: z
    .enum(['read', 'act'])
    .default('read')
    .meta({ description: 'act: pause, run, cancel, undo and publish from the pages, too' }),
});

/** Who may ask a server of this program, and by which names it is reached. */
export const httpFile = strictObject({
  token: orNull(accessToken).meta({
    description:
      'Opens the board of worker --http, and its pages and those of ui, to read and to act. Best as ${file:path} or ${VARIABLE}',
  }),
  tokens: z
    .record(z.string(), namedToken)
    .prefault({})
    .meta({ description: 'Tokens of people, by name: the pages and "actions" say who did what' }),
  hosts: z.array(hostName).prefault([]).meta({
    description:
      'Names that browsers reach worker --http and ui by, besides those of this machine: of a proxy, say',
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
  redirect: checked(defaultRedirect, checkRedirect).prefault(defaultRedirect).meta({
    description: 'Where services send the browser back to after "login"; without a port, a free one',
  }),
});

const allowedHostText = textAs(
  'example.com',
  (text, note) => {
    const host = allowedHost(text);
    if (host === null) note('expected host or host:port, without scheme and path');
    return host ?? '';
  },
  z.string().min(1),
);

const defaults = connectorFile.partial().meta({
  description: 'Values for connectors that do not set their own',
});

/** Below `connectors`, where they are in separate files. */
export const connectorFiles = z.array(z.string().min(1)).min(1).meta({
  description:
    'Files, folders and patterns such as ./connectors/*.yaml, each file with connectors (and defaults)',
});

/** The format of such a file. What its connectors contain is checked once they have their defaults. */
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
  allowUpstreamHosts: z.array(allowedHostText).prefault([]).meta({
    description:
      'Hosts that connectors with credentials may reach at private addresses: host, by the scheme and port of the baseUrl of their definition; host:port, at this port too',
  }),
  signIns: signIns.prefault({}),
  mask: maskFile.prefault({}),
  definitions: z.array(z.string().min(1)).default([]),
  sinks: z.record(z.string(), sink),
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

/** A config as people write it: connectors may be in files, and `defaults` may say which type and sink they have. */
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
