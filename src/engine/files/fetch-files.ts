import { instant, type Clock } from '../../core/clock.ts';
import { SyncError, type ErrorCode } from '../../core/errors.ts';
import type { OnRunEvent } from '../../core/events.ts';
import type { EntityName, RunId } from '../../core/names.ts';
import type { FileFolder, FileFailure, WantedFile } from '../../sinks/files.ts';
import type { Lease, Sink } from '../../sinks/sink.ts';
import type { FileSource } from '../../source/source.ts';
import { isBudgetSpent } from '../note-ending.ts';
import { newWake } from '../work-partitions.ts';
import type { FileTally } from './file-tally.ts';

/** Which files a run fetches, and where they go. */
export interface FileOptions {
  readonly source: FileSource;
  readonly folder: FileFolder;
  readonly entities: ReadonlySet<EntityName>;
  readonly maxBytes: number;
}

export interface FilesContext {
  readonly sink: Pick<Sink, 'files'>;
  readonly lease: Lease;
  readonly run: RunId;
  readonly files: FileOptions;
  /** Of `files.entities` those that this run reads. */
  readonly entities: readonly EntityName[];
  /** Files on their way at a time. */
  readonly concurrency: number;
  readonly tally: FileTally;
  readonly clock: Clock;
  readonly onEvent: OnRunEvent;
  readonly signal: AbortSignal;
}

const batchFiles = 1_000;
/** Files of one entity in a row that nobody answered for: its others would fare no better now. */
const mostUnanswered = 5;

/**
 * What comes after a run's walks and its sweep: fetches the files that are wanted and not stored. Each is noted by itself, so a later run goes on; one that
 * does not come is set aside. Throws what must end the run, after the files on their way have ended.
 */
export async function fetchFiles(context: FilesContext): Promise<void> {
  const { sink, lease, run, files, entities, onEvent, signal } = context;
  const wanted = await sink.files.left(lease, run, entities);
  onEvent({ kind: 'files-started', files: wanted.reduce((sum, one) => sum + one.files, 0) });
  await removeReplaced(context);
  for (const entity of entities) {
    signal.throwIfAborted();
    await removeUnknown(context, entity, await files.folder.prepare(entity));
    await fetchEntity(context, entity);
  }
  await removeReplaced(context);
}

/** Files of earlier versions go when the new ones are there, not before. */
async function removeReplaced({ sink, lease, run, files }: FilesContext): Promise<void> {
  for (;;) {
    const replaced = await sink.files.replaced(lease, run, batchFiles);
    if (replaced.length === 0) return;
    for (const { entity, file, current } of replaced) await files.folder.remove(entity, file, current);
    await sink.files.removed(lease, run, replaced);
  }
}

/** A file whose name has changed twice since a killed run stored it is noted nowhere, and would stay for ever. */
async function removeUnknown(
  { sink, lease, run, files }: FilesContext,
  entity: EntityName,
  names: readonly string[],
): Promise<void> {
  if (names.length === 0) return;
  const unknown = await sink.files.unknown(lease, run, entity, names);
  for (const file of unknown) await files.folder.remove(entity, file, null);
}

async function fetchEntity(context: FilesContext, entity: EntityName): Promise<void> {
  const { sink, lease, run, concurrency } = context;
  const open = new Map<number, Promise<void>>();
  const endings: unknown[] = [];
  const wake = newWake();
  const ending = new AbortController();
  const signal = AbortSignal.any([context.signal, ending.signal]);
  let unanswered = 0;
  const end = (error: unknown): void => {
    endings.push(error);
    // Calls on their way when the last one was spent are paid for.
    if (!isBudgetSpent(error)) ending.abort(error);
  };

  async function work(wanted: WantedFile): Promise<void> {
    try {
      const failure = await fetchOne(context, wanted, signal);
      unanswered = failure !== null && silent.has(failure.code) ? unanswered + 1 : 0;
    } catch (error) {
      if (ending.signal.aborted && error === ending.signal.reason) return;
      end(error);
    } finally {
      open.delete(wanted.id);
      wake.wake();
    }
  }

  const next = async (): Promise<readonly WantedFile[]> => {
    try {
      return await sink.files.next(lease, run, entity, concurrency);
    } catch (error) {
      end(error);
      return [];
    }
  };

  while (endings.length === 0 && !signal.aborted && unanswered < mostUnanswered) {
    const woken = wake.next();
    const free = concurrency - open.size;
    // What is open may be among the answers.
    const due = free > 0 ? await next() : [];
    for (const wanted of due.filter(({ id }) => !open.has(id)).slice(0, free)) {
      open.set(wanted.id, work(wanted));
    }
    if (open.size === 0) break;
    await woken;
  }
  await Promise.all(open.values());
  // What has failed says more than that the calls were spent before.
  if (endings.length > 0) throw endings.find((error) => !isBudgetSpent(error)) ?? endings[0];
  context.signal.throwIfAborted();
}

/** Null: it is stored. Rejects with what must end the run. */
async function fetchOne(
  context: FilesContext,
  wanted: WantedFile,
  signal: AbortSignal,
): Promise<FileFailure | null> {
  const { sink, lease, run, files, tally, clock, onEvent } = context;
  const { entity, keyText, params, size } = wanted;
  const { maxBytes } = files;
  const startedMs = clock.now();
  try {
    // Known without a call.
    if (size !== null && size > maxBytes) throw tooLarge(wanted, maxBytes);
    const file = await files.source.download(
      { entity, params, size, maxBytes },
      async ({ name, contentType, bytes }) => ({
        ...(await files.folder.store({ entity, keyText, name: wanted.name ?? name, bytes })),
        contentType,
      }),
      signal,
    );
    await sink.files.stored(lease, run, wanted, file);
    tally.stored(entity, file.bytes);
    onEvent({ kind: 'file-stored', entity, bytes: file.bytes, ms: clock.now() - startedMs });
    return null;
  } catch (error) {
    if (!(error instanceof SyncError) || endsRun(error)) throw error;
    const { code, recovery, message } = error;
    const failure: FileFailure = { code, recovery, message, at: instant(clock.now()) };
    await sink.files.setAside(lease, run, wanted, failure);
    tally.setAside(entity, params, failure);
    onEvent({ kind: 'file-set-aside', entity, code, message });
    return failure;
  }
}

function tooLarge({ entity, size }: WantedFile, maxBytes: number): SyncError {
  return new SyncError(
    `download ${entity}: its record says ${size} bytes, and at most ${maxBytes} are fetched; raise downloads.maxBytes to get it`,
    { code: 'BODY_TOO_LARGE', recovery: 'skip-partition' },
  );
}

/** The place where files or their account are kept: what fails there fails for every file. */
const ofSink: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'SINK_FULL',
  'SINK_FAILED',
  'SINK_INCOMPATIBLE',
  'FENCED',
]);
/** Of one file, whatever it means for other calls: it lies elsewhere, or its record was noted when the definition asked for it in another way. */
const ofFile: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['REDIRECTED', 'USAGE']);
/** Nobody has answered, as far as can be told, or somebody has sent us elsewhere. */
const silent: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['NETWORK', 'TIMEOUT', 'UPSTREAM', 'REDIRECTED']);

function endsRun({ code, recovery }: SyncError): boolean {
  return ofSink.has(code) || recovery === 'throttle' || (recovery === 'stop' && !ofFile.has(code));
}
