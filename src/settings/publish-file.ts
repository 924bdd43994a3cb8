import path from 'node:path';
import * as z from 'zod';
import { Secret } from '../core/secret.ts';
import type { Note } from '../definitions/check-names.ts';
import { strictObject } from '../definitions/schema-problems.ts';
import { expectedType } from '../definitions/suggest-name.ts';
import { isLoopbackHost } from '../http/guard-address.ts';
import { postgresAddress, postgresUrl, schemaOf } from './sink-settings.ts';
import {
  wrong,
  checked,
  duration,
  matching,
  orNull,
  secret,
  shortestEveryMs,
  type Checked,
} from './texts.ts';

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
