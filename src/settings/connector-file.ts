import * as z from 'zod';
import type { JsonValue } from '../core/json.ts';
import { jsonValue, strictObject, textAs } from '../definitions/schema-problems.ts';
import { connectorMask } from './mask-file.ts';
import { checkCron, checkTimezone } from './cron.ts';
import { formatDuration, parseSize } from './parse-unit.ts';
import { checked, duration, shortestEveryMs } from './texts.ts';

export type ConnectorFile = z.output<typeof connectorFile>;
export type DownloadsFile = NonNullable<ConnectorFile['downloads']>;
export type EntitySettingsFile = ConnectorFile['entities'][string];

const longestJitterMs = 86_400_000;
/** Versions are deleted by runs: a shorter time would promise more than they do. */
const shortestKeepMs = 86_400_000;

const timezone = textAs('UTC', (name, note) => {
  const problem = checkTimezone(name);
  if (problem !== null) note(problem);
  return name;
});

const schedule = strictObject({
  cron: checked('0 0 * * *', checkCron).optional(),
  timezone: timezone.optional(),
  every: duration(shortestEveryMs).optional(),
  jitter: duration().optional(),
  missed: z.enum(['once', 'skip']).default('once'),
}).transform(({ cron, timezone, every, jitter, missed }, context) => {
  const refuse = (message: string, standIn: unknown, ...path: readonly string[]): void =>
    context.addIssue({ code: 'custom', message, path: [...path], params: { standIn } });
  if ((cron === undefined) === (every === undefined)) {
    const got = cron === undefined ? 'neither' : 'both';
    refuse(`expected either cron or every, got ${got}`, { every: '1h' });
  }
  if (cron === undefined && timezone !== undefined) {
    refuse('belongs to cron: an interval is the same everywhere', undefined, 'timezone');
  }
  const longestMs = Math.min(every ?? longestJitterMs, longestJitterMs);
  if (jitter !== undefined && jitter > longestMs) {
    refuse(`expected at most ${formatDuration(longestMs)}`, '1s', 'jitter');
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
  // How long a version is kept after it ended, null for ever; null: there are no versions.
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
      context.addIssue({ code: 'custom', message, params: { standIn: 1 } });
      return z.NEVER;
    })
    .prefault('1GB')
    .meta({ description: 'The largest file that is fetched: bytes, or a size such as 500MB or 1GB' }),
});

export const connectorFile = strictObject({
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
