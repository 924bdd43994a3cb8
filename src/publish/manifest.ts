import { createHash } from 'node:crypto';
import * as z from 'zod';
import { readJsonIfWhole } from '../core/json.ts';
import { isConnectorName, isPublishedName, isRunId } from '../core/names.ts';
import { binaryType } from '../sinks/postgres/column-types.ts';

/** Format of the manifests that this program writes and reads. */
export const manifestFormat = 1;

const sha256 = z.string().regex(/^[0-9a-f]{64}$/);
const instant = z.string().regex(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
const seq = z.int().min(0);
const count = z.int().min(0);
const number = z.int().min(1);

/** Relative to the root of the target, with `/`; never leads out of it. */
const path = z
  .string()
  .max(1024)
  .regex(/^(?!.*(?:^|\/)\.\.?(?:\/|$))[A-Za-z0-9_][A-Za-z0-9._=-]*(?:\/[A-Za-z0-9_][A-Za-z0-9._=-]*)*$/);

const file = z.strictObject({
  path,
  rows: count,
  bytes: count,
  sha256,
  firstSeq: seq.meta({ description: 'Lowest _seq of its rows' }),
  lastSeq: seq.meta({ description: 'Highest _seq of its rows' }),
});

const column = z.strictObject({
  name: z.string().min(1).meta({ description: 'In the files and tables of the target' }),
  field: z.string().min(1).meta({ description: 'In the sink' }),
  type: z.enum(['string', 'integer', 'number', 'boolean', 'object', 'array', 'any']).meta({
    description: 'In the sink; object, array and any are JSON text',
  }),
  as: z.enum(['timestamp', 'date', 'decimal', 'json']).optional().meta({
    description:
      'The type here, where it is another one: UTC with microseconds, and decimals of 38 digits, 9 after the point',
  }),
});

const entity = z.strictObject({
  connector: z.string().refine(isConnectorName),
  entity: z
    .string()
    .refine(isPublishedName)
    .meta({ description: '<entity>__history: each version of the rows of an entity, once' }),
  generation: number.meta({
    description:
      'Rows of another generation do not count: a new one begins where the old rows cannot be followed',
  }),
  base: number.meta({
    description:
      'The publication to begin reading with: its snapshot if it has one, else its files; then the files of the later ones',
  }),
  tableId: z.string().meta({ description: 'Of the table in the sink; another one after reset --data' }),
  schema: number.meta({ description: 'Counts up whenever the columns change' }),
  key: z
    .array(z.string())
    .min(1)
    .readonly()
    .meta({ description: 'Names of the columns that identify a row' }),
  columns: z.array(column).min(1).readonly(),
  layout: z.string().nullable().meta({
    description:
      'How the paths of its files are made, with their ending; null in tables. With another one a new generation begins',
  }),
  after: seq.meta({ description: 'The files hold each row whose newest change has a higher _seq' }),
  through: seq.meta({ description: 'Every change up to this _seq is in this publication or an earlier one' }),
  asOf: instant.nullable().meta({
    description:
      'What changed at the source before this time is in; null: the entity was never read completely',
  }),
  run: z
    .strictObject({
      run: z.string().refine(isRunId),
      startedAt: instant,
      finishedAt: instant.nullable().meta({ description: 'null: it was running, or was killed' }),
    })
    .nullable()
    .meta({ description: 'The newest run of the connector that the sink knew' }),
  upserts: count,
  deletes: count,
  files: z.array(file).readonly().meta({ description: 'The changes; of tables in a database none' }),
  snapshot: z
    .strictObject({ rows: count, files: z.array(file).readonly() })
    .nullable()
    .meta({ description: 'All rows that are not deleted, for readers that begin here' }),
});

/** Keeps what a manifest has of an entity, and nothing else. */
export const publishedEntity = entity.strip();

/** A publication: its content and its range of changes. Its files count only because of it. */
const manifest = z.strictObject({
  format: z.literal(manifestFormat),
  publication: number,
  previous: z.strictObject({ publication: number, sha256 }).nullable().meta({
    description: 'The publication before, and the SHA-256 of its manifest as bytes; null for the first',
  }),
  sink: z.string().min(1).meta({ description: 'Random id made with the sink' }),
  createdAt: instant,
  by: z.strictObject({ program: z.string(), host: z.string() }),
  entities: z.array(entity).readonly(),
});

export type Manifest = z.infer<typeof manifest>;
export type PublishedEntity = Manifest['entities'][number];
export type PublishedFile = PublishedEntity['files'][number];
export type PublishedColumn = PublishedEntity['columns'][number];

/** Columns that the program adds to each row, behind those of the record; in databases with these types. */
export const ownColumns = [
  {
    name: '_extra',
    type: 'json',
    isRequired: false,
    description: 'What the record has and no column takes: a JSON object, as text',
  },
  {
    name: '_seq',
    type: 'bigint',
    isRequired: true,
    description: 'Number of the newest change of the row: later changes have higher ones',
  },
  {
    name: '_changed_at',
    type: 'timestamptz',
    isRequired: true,
    description: 'When that change was stored',
  },
  { name: '_run_id', type: 'text', isRequired: true, description: 'The sync that stored it' },
  { name: '_deleted', type: 'boolean', isRequired: true, description: 'The record is gone at the source' },
  { name: '_deleted_at', type: 'timestamptz', isRequired: false, description: 'When that was found' },
] as const;

/** The types of databases that the sink does not have. */
const typeByAs = { timestamp: 'timestamptz', date: 'date', decimal: 'numeric', json: 'jsonb' } as const;

export function databaseType({ type, as }: Pick<PublishedColumn, 'type' | 'as'>) {
  return as === undefined ? binaryType[type] : typeByAs[as];
}

/** The columns of the record, and the names of those that identify a row. */
export interface TableShape extends Pick<PublishedEntity, 'key'> {
  readonly columns: readonly Pick<PublishedColumn, 'name' | 'type' | 'as'>[];
}

/** All columns of a table as a database has them: those of the record first, with types of DuckDB and PostgreSQL. */
export function columnsOf({ columns, key }: TableShape) {
  return [
    ...columns.map((column) => ({
      name: column.name,
      type: databaseType(column),
      isRequired: key.includes(column.name),
    })),
    ...ownColumns,
  ];
}

/** `connector/entity`, for people and as a key. */
export function entityName({ connector, entity }: { connector: string; entity: string }): string {
  return `${connector}/${entity}`;
}

/** Files of the publication's changes and snapshots. */
export function filesOf({ entities }: Manifest): readonly PublishedFile[] {
  return entities.flatMap(({ files, snapshot }) => [...files, ...(snapshot?.files ?? [])]);
}

/**
 * Files of a publication that readers of an entity need: they begin with the snapshot of its `base`, if that has one.
 */
export function neededFiles(publication: number, base: number, { files, snapshot }: PublishedEntity) {
  return publication === base ? (snapshot?.files ?? files) : files;
}

/** A manifest as it is stored, with the SHA-256 of its text. */
export interface StoredManifest {
  /** In the newest one, `asOf` and `run` may be those of `latestText`. */
  readonly manifest: Manifest;
  readonly sha256: string;
  /** When this publication was last known to hold all that the sink had. */
  readonly checkedAt: string;
}

/** How fresh a publication is. */
const latest = z.object({
  publication: number,
  /** Its name in a target of files. */
  manifest: z.string().optional(),
  sha256,
  checkedAt: instant,
  entities: z.array(entity.pick({ connector: true, entity: true, asOf: true, run: true }).strip()),
});

/**
 * Tells how fresh the newest publication is, beside its manifest: replaced with each publication, and where a run has
 * changed no row.
 */
export function latestText(
  { manifest: { publication, entities }, ...stored }: StoredManifest,
  name?: string,
) {
  return `${JSON.stringify(latest.parse({ ...stored, publication, manifest: name, entities }))}\n`;
}

/** Gives the newest publication the freshness in such a text; a text about another manifest does not count. */
export function withLatest(stored: StoredManifest, text: string): StoredManifest {
  const { data } = latest.safeParse(readJsonIfWhole(text));
  if (data?.sha256 !== stored.sha256) return stored;
  const told = new Map(data.entities.map((one) => [entityName(one), one]));
  const entities = stored.manifest.entities.map((one) => ({ ...one, ...told.get(entityName(one)) }));
  return { ...stored, checkedAt: data.checkedAt, manifest: { ...stored.manifest, entities } };
}

/** The text that is stored, and hashed: the same for the same manifest. */
export function manifestText(value: Manifest): string {
  return `${JSON.stringify(value, null, 1)}\n`;
}

/** Advice about a manifest that cannot be read and may be of another version. */
export const otherVersionAdvice =
  'If another version of connector-sync wrote it, use that one, or keep all of it and publish to another place.';

/**
 * Throws `Error` with a sentence that names the first thing that is wrong; the caller says which manifest it is.
 * `publication`: the number that it should have.
 */
export function readManifest(text: string, publication?: number): StoredManifest {
  const parsed = manifest.safeParse(JSON.parse(text));
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw new Error(`${issue?.path.join('.') ?? ''}: ${issue?.message ?? 'not a manifest'}`);
  }
  const { publication: own, createdAt: checkedAt } = parsed.data;
  if (own !== (publication ?? own)) throw new Error(`it says that it is publication ${own}`);
  return { manifest: parsed.data, sha256: createHash('sha256').update(text).digest('hex'), checkedAt };
}

/** JSON Schema of a manifest, for readers in other languages. */
export function manifestJsonSchema(): object {
  return z.toJSONSchema(manifest);
}

export function missingPublications(first: number, last: number): string {
  return first === last ? `publication ${first} is missing` : `publications ${first} to ${last} are missing`;
}

/**
 * Problems of the chain between a publication and the one before it; `before` null: it is the oldest one that remains,
 * and may follow one that was pruned.
 */
export function gapsBetween(before: StoredManifest | null, stored: StoredManifest): readonly string[] {
  const { publication, previous } = stored.manifest;
  if (before === null) {
    return publication > 1 && previous === null ? [`publication ${publication} names none before it`] : [];
  }
  const last = before.manifest.publication;
  // The missing publications say where entities should continue.
  if (publication !== last + 1) return [missingPublications(last + 1, publication - 1)];
  return [...changedBefore(before, stored), ...continuationGaps(before, stored)];
}

export function changedBefore(before: StoredManifest | null, { manifest }: StoredManifest) {
  if (before === null || manifest.previous?.sha256 === before.sha256) return [];
  const { publication } = before.manifest;
  return [
    `the manifest of publication ${publication} was changed after publication ${publication + 1} named its hash`,
  ];
}

/** Every change is in exactly one publication: an entity continues where it ended, or starts from the beginning. */
function continuationGaps(
  { manifest: before }: StoredManifest,
  { manifest: { publication, entities } }: StoredManifest,
): readonly string[] {
  const lastByName = new Map(before.entities.map((one) => [entityName(one), one]));
  return entities.flatMap(({ generation, after, ...entity }) => {
    const name = entityName(entity);
    const last = lastByName.get(name);
    const expected = last?.generation === generation ? last.through : 0;
    if (after === expected) return [];
    return [`publication ${publication}: ${name} continues after change ${after}, expected ${expected}`];
  });
}
