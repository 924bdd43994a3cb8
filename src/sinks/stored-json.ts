import * as z from 'zod';
import { type Column, type Params, derivedKinds, derivedType, type DescribedTable } from '../core/records.ts';
import {
  isJsonObject,
  type JsonObject,
  type JsonValue,
  readFields,
  readJson,
  writeJson,
} from '../core/json.ts';
import { SyncError } from '../core/errors.ts';
import type { EntityName } from '../core/names.ts';
import { completenessWords, type RunReport } from './run-report.ts';
import type { FileFailure } from './files.ts';
import {
  proofKinds,
  type Position,
  type StoredDoubt,
  type StoredProof,
  type WalkFailure,
} from './partition.ts';
import type { CopiedAway } from './requests.ts';
import type { Holder } from './lease.ts';

/*
 * JSON columns of a ledger, written and read back. Readers throw `SyncError` SINK_FAILED when the text is not in the
 * written form.
 */

export function parseParams(text: string): Params {
  return readObject(text, 'an object of parameters');
}

export function parsePosition(text: string): Position {
  const value = readObject(text, 'a position');
  if (typeof value['kind'] !== 'string') throw damaged('a position with a kind');
  return value as Position;
}

const maxPositionBytes = 64 * 1024;

/** Throws `SyncError` INTERNAL for a position that is too long to be written with every page. */
export function writePosition(position: Position): string {
  const text = writeJson(position);
  const bytes = Buffer.byteLength(text);
  if (bytes > maxPositionBytes) {
    throw new SyncError(
      `A position may take ${maxPositionBytes} bytes, but a "${position.kind}" one takes ${bytes}. Shorten what it keeps.`,
      { code: 'INTERNAL', recovery: 'stop', context: { bytes } },
    );
  }
  return text;
}

/** The place of a partition: its parameters, and what it injects, as the ledger holds them. */
export type PlaceTexts = Readonly<Record<'params' | 'inject', string>>;

export function parsePlace({ params, inject }: PlaceTexts) {
  return { params: parseParams(params), inject: parseParams(inject) };
}

export function writeColumns(columns: readonly Column[]): string {
  return JSON.stringify(columns.map(({ name, type }) => ({ name, type })));
}

/** Description of a table in a definition, without the table's name. */
export type StoredDescription = Omit<DescribedTable, 'entity'>;

export function writeDescribed({ description, columns, derived, joins }: StoredDescription): string {
  // Columns get the types that the catalogue shows.
  const typed = derived.map((column) => ({ ...column, type: derivedType(column.as) }));
  return JSON.stringify({ description, columns, derived: typed, joins });
}

const names = z.array(z.string());
const described = z.object({
  description: z.string().nullable().default(null),
  columns: z.record(z.string(), z.string()).default({}),
  derived: z
    .array(z.object({ name: z.string(), from: names, path: names, as: z.enum(derivedKinds) }))
    .default([]),
  joins: z.array(z.object({ columns: names, parent: z.string(), parentColumns: names })).default([]),
});

const runs = z.number();
const doubt = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('total'), total: z.number(), shown: z.number(), runs }),
  z.object({ kind: z.enum(['repeats', 'behind', 'shuffled']), runs }),
  z.object({ kind: z.literal('cut'), by: z.string(), runs }),
  z.object({ kind: z.literal('unproven'), guesses: z.array(z.string()), runs }),
  z.object({ kind: z.literal('collision'), row: z.number(), other: z.number(), runs }),
]);
const pageLength = z.object({ size: z.number(), records: z.number() });
const proof = z.object({
  kind: z.enum(proofKinds),
  isOrdered: z.boolean(),
  isCounted: z.literal(true).exactOptional(),
  clockDifferences: z.array(z.number()).exactOptional(),
  reach: z.number().exactOptional(),
  lastPage: pageLength.exactOptional(),
  doubt: doubt.exactOptional(),
  doubtBefore: doubt.exactOptional(),
  readAt: z.string().nullable(),
});
const columnList = z.array(
  z.object({
    name: z.string(),
    type: z.enum(['string', 'integer', 'number', 'boolean', 'object', 'array', 'any']),
  }),
);
const holder = z.object({
  pid: z.number(),
  host: z.string(),
  command: z.string(),
  since: z.string(),
  work: z.object({ id: z.string(), asked: z.string() }).exactOptional(),
});
const copiedTo = z.object({ from: z.string(), to: z.string(), at: z.string() });
const listingsOf = z.looseObject({ entity: z.string(), listings: z.number() });
const report = z.looseObject({
  run: z.string(),
  kind: z.enum(['sync', 'backfill', 'refetch', 'undo']),
  connector: z.string(),
  outcome: z.enum(['ok', 'partial', 'degraded', 'failed', 'interrupted']),
  startedAt: z.string(),
  finishedAt: z.string(),
  entities: z.array(
    z.looseObject({
      entity: z.string(),
      proofs: z.record(z.string(), z.number()),
      completeness: z.enum(completenessWords),
    }),
  ),
  failures: z.array(z.looseObject({ entity: z.string() })),
  error: z.looseObject({ code: z.string(), recovery: z.string(), message: z.string() }).nullable(),
  resumeAt: z.string().nullable(),
  left: z.array(z.looseObject({ entity: z.string(), partitions: z.number() })),
  partMissing: z.array(listingsOf),
  unconfirmed: z.array(listingsOf),
  files: z.array(z.looseObject({ entity: z.string() })),
});
const failure = z.object({
  code: z.string(),
  recovery: z.string(),
  message: z.string(),
  at: z.string(),
  dropPosition: z.boolean(),
  dropWatermark: z.boolean(),
});
const fileFailure = failure.pick({ code: true, recovery: true, message: true, at: true });

function parserOf<Value>(schema: z.ZodType<Value>, expected: string): (text: string) => Value {
  return (text) => {
    const checked = schema.safeParse(readJson(text));
    if (!checked.success) throw damaged(expected, checked.error);
    return checked.data;
  };
}

export const parseHolder = parserOf<Holder>(holder, 'who held a connector');
export const parseCopiedTo = parserOf<Omit<CopiedAway, 'connector'>>(
  copiedTo,
  'where a connector was copied to',
);
export const parseReport = parserOf(report as unknown as z.ZodType<RunReport>, 'a run report');
/** The part of a report that says what its run has deleted: to be read of many runs. */
export const parseDeletes = parserOf(
  z.object({
    entities: z.array(
      z.object({ entity: z.string() as unknown as z.ZodType<EntityName>, deleted: z.number() }),
    ),
  }),
  'a run report',
);
export const parseFailure = parserOf(failure as z.ZodType as z.ZodType<WalkFailure>, 'why a walk failed');
export const parseFileFailure = parserOf(
  fileFailure as z.ZodType as z.ZodType<FileFailure>,
  'why a file did not come',
);
export const parseProof = parserOf<StoredProof>(proof, 'the proof of a walk');
export const parseDoubt = parserOf<StoredDoubt>(doubt, 'why a walk proved nothing');
export const parseColumns = parserOf<readonly Column[]>(columnList, 'the columns of a table');
export const parseNames = parserOf<readonly string[]>(names, 'a list of names');
/** `{}`: no definition has described the table yet. */
export const parseDescribed = parserOf(
  described as z.ZodType as z.ZodType<StoredDescription>,
  'the description of a table',
);

function readObject(text: string, expected: string): JsonObject {
  const value: JsonValue = readFields(text);
  if (!isJsonObject(value)) throw damaged(expected);
  return value;
}

function damaged(expected: string, cause?: unknown): SyncError {
  return new SyncError(
    `The ledger should hold ${expected} but holds something else. Restore it from a backup, or keep it and sync into a new sink.`,
    {
      code: 'SINK_FAILED',
      recovery: 'stop',
      cause,
    },
  );
}
