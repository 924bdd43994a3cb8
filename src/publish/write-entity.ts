import { SyncError } from '../core/errors.ts';
import type { OfEntity } from '../core/names.ts';
import type { StoredRecord } from '../sinks/record-reader.ts';
import type { RecordReader } from '../sinks/sink-access.ts';
import type { PublishedFile } from './manifest.ts';
import type { EntityPlan } from './plan-publication.ts';
import type { OpenPublication, PlannedEntity, WrittenEntity } from './target.ts';

/** Reported after each batch of rows. */
export interface PublishProgress extends OfEntity {
  /** Of the entity so far, those of its snapshot included. */
  readonly rows: number;
}

interface WriteEntity {
  readonly reader: RecordReader;
  readonly signal: AbortSignal;
  readonly onProgress: (progress: PublishProgress) => void;
}

const nothing: WrittenEntity = { upserts: 0, deletes: 0, files: [], snapshot: null };

/**
 * Writes what the plan says of an entity, reading ahead. Rejects with ACCOUNTING unless what was written is what was
 * read.
 */
export async function writeEntity(
  publication: OpenPublication,
  { planned, hasSnapshot, hasNewColumns, isRemoved }: EntityPlan,
  { reader, signal, onProgress }: WriteEntity,
): Promise<WrittenEntity> {
  const { connector, entity, table, after } = planned;
  let rows = 0;
  const onRows = (more: number): void => {
    signal.throwIfAborted();
    rows += more;
    onProgress({ connector, entity, rows });
  };
  const stored = isRemoved ? noRows() : reader.changes(connector, table, after);
  const changes = tallied(stored, planned, onRows);
  const snapshot = tallied(live(reader.changes(connector, table, 0)), { ...planned, after: 0 }, onRows);
  const ahead = readAhead(changes.rows);
  try {
    const first = await ahead.next();
    if (first.done === true && !planned.isNewGeneration && !hasNewColumns && !hasSnapshot) return nothing;
    const written = await publication.write(planned, {
      changes: startingWith(first, ahead),
      snapshot: hasSnapshot ? readAhead(snapshot.rows) : null,
    });
    const wrong =
      wrongCounts(changes.tally, written) ??
      (planned.layout === null ? null : wrongFiles(changes.tally, written.files)) ??
      (hasSnapshot ? wrongSnapshot(snapshot.tally, written) : null);
    if (wrong !== null) throw accountingError(planned, wrong);
    return written;
  } finally {
    await ahead.return(undefined);
  }
}

async function* noRows(): AsyncGenerator<readonly StoredRecord[]> {
  yield* [];
}

/** What was read of an entity. */
type Tally = ReturnType<typeof tallied>['tally'];

type Span = Pick<PlannedEntity, 'connector' | 'entity' | 'after' | 'through'>;

function tallied(
  batches: AsyncIterable<readonly StoredRecord[]>,
  span: Span,
  onRows: (rows: number) => void,
) {
  /** Numbers of changes are 0 where there was no row. */
  const tally = { upserts: 0, deletes: 0, firstSeq: 0, lastSeq: 0, isRead: false };
  async function* rows(): AsyncGenerator<readonly StoredRecord[]> {
    let last = span.after;
    for await (const records of batches) {
      for (const { seq, isDeleted } of records) {
        if (seq <= last || seq > span.through) {
          throw accountingError(span, `change ${seq} came behind ${last}, expected up to ${span.through}`);
        }
        last = seq;
        if (tally.firstSeq === 0) tally.firstSeq = seq;
        tally.lastSeq = seq;
        tally[isDeleted ? 'deletes' : 'upserts'] += 1;
      }
      onRows(records.length);
      yield records;
    }
    tally.isRead = true;
  }
  return { tally, rows: rows() };
}

async function* live(
  batches: AsyncIterable<readonly StoredRecord[]>,
): AsyncGenerator<readonly StoredRecord[]> {
  for await (const records of batches) {
    const kept = records.filter(({ isDeleted }) => !isDeleted);
    if (kept.length > 0) yield kept;
  }
}

function wrongCounts({ upserts, deletes, isRead }: Tally, written: WrittenEntity): string | null {
  if (!isRead) return 'rows were left unread';
  if (upserts === written.upserts && deletes === written.deletes) return null;
  return `${upserts} rows and ${deletes} deletes were read, ${written.upserts} and ${written.deletes} were written`;
}

function wrongFiles(tally: Tally, files: readonly PublishedFile[]): string | null {
  const read = tally.upserts + tally.deletes;
  const rows = files.reduce((sum, file) => sum + file.rows, 0);
  if (rows !== read) return `${read} rows were read, the files have ${rows}`;
  if (read === 0) return null;
  const firstSeq = Math.min(...files.map((file) => file.firstSeq));
  const lastSeq = Math.max(...files.map((file) => file.lastSeq));
  if (firstSeq === tally.firstSeq && lastSeq === tally.lastSeq) return null;
  return `changes ${tally.firstSeq} to ${tally.lastSeq} were read, the files have ${firstSeq} to ${lastSeq}`;
}

function wrongSnapshot(tally: Tally, { snapshot }: WrittenEntity): string | null {
  if (!tally.isRead || snapshot === null) return 'the snapshot was not written';
  if (snapshot.rows !== tally.upserts) {
    return `${tally.upserts} rows of the snapshot were read, ${snapshot.rows} were written`;
  }
  return wrongFiles(tally, snapshot.files);
}

function accountingError({ connector, entity }: Pick<Span, 'connector' | 'entity'>, what: string): SyncError {
  return new SyncError(
    `${connector}/${entity} does not add up: ${what}. Nothing was published. Publish again; if it stays so, report it.`,
    { code: 'ACCOUNTING', recovery: 'stop', context: { connector, entity } },
  );
}

/** Reads a batch while the one before is being written. */
async function* readAhead<Batch>(batches: AsyncIterable<Batch>): AsyncGenerator<Batch, undefined> {
  const iterator = batches[Symbol.asyncIterator]();
  const ask = (): Promise<IteratorResult<Batch, unknown>> => {
    const asked = iterator.next();
    // The next caller gets its failure.
    asked.catch(() => undefined);
    return asked;
  };
  let next = ask();
  try {
    for (let result = await next; result.done !== true; result = await next) {
      next = ask();
      yield result.value;
    }
  } finally {
    await next.catch(() => undefined);
    await iterator.return?.();
  }
}

async function* startingWith<Batch>(
  first: IteratorResult<Batch, undefined>,
  others: AsyncIterable<Batch>,
): AsyncGenerator<Batch> {
  if (first.done === true) return;
  yield first.value;
  yield* others;
}
