import { instant } from '../../core/clock.ts';
import { SyncError, type ErrorCode } from '../../core/errors.ts';
import type { EntityName } from '../../core/names.ts';
import type { FileFailure, WantedFile } from '../../sinks/files.ts';
import { isBudgetSpent, type Run } from '../run.ts';
import { workPool } from '../work-pool.ts';
import type { FileOptions } from '../run-tally.ts';

type FilesRun = Run & { readonly files: FileOptions };

const batchFiles = 1_000;
/** Files of one entity in a row without an answer: its others would fare no better now. */
const mostUnanswered = 5;

/**
 * The entities whose files a run is to fetch: of those that it reads. Backfills bring records, and leave files to the
 * next sync.
 */
export function fetchedEntities({ files, plan }: Pick<Run, 'files' | 'plan'>): readonly EntityName[] {
  return plan.kind === 'sync' ? plan.entities.filter((entity) => files?.entities.has(entity) === true) : [];
}

/**
 * After the walks and the sweep: fetches files that are wanted and not stored, each noted by itself; failed ones are
 * set aside. Throws what must end the run.
 */
export async function fetchFiles(run: Run): Promise<void> {
  const { sink, lease, id, files, onEvent, signal } = run;
  const entities = fetchedEntities(run);
  if (files === null || entities.length === 0) return;
  const wanted = await sink.files.left(lease, id, entities);
  onEvent({ kind: 'files-started', files: wanted.reduce((sum, one) => sum + one.files, 0) });
  const fetching: FilesRun = { ...run, files };
  await removeReplaced(fetching);
  for (const entity of entities) {
    signal.throwIfAborted();
    await removeUnknown(fetching, entity);
    await fetchEntity(fetching, entity);
    // The file that a killed run stored under an earlier name has a second one beside it only now.
    await removeUnknown(fetching, entity);
  }
  await removeReplaced(fetching);
}

/** Files of earlier versions go when the new ones are there, not before. */
async function removeReplaced({ sink, lease, id, files }: FilesRun): Promise<void> {
  for (;;) {
    const replaced = await sink.files.replaced(lease, id, batchFiles);
    if (replaced.length === 0) return;
    for (const { entity, file, current } of replaced) await files.folder.remove(entity, file, current);
    await sink.files.removed(lease, id, replaced);
  }
}

/** A file whose name has changed twice since a killed run stored it is noted nowhere, and would stay for ever. */
async function removeUnknown({ sink, lease, id, files }: FilesRun, entity: EntityName): Promise<void> {
  const names = await files.folder.prepare(entity);
  if (names.length === 0) return;
  const unknown = await sink.files.unknown(lease, id, entity, names);
  for (const file of unknown) await files.folder.remove(entity, file, null);
}

async function fetchEntity(run: FilesRun, entity: EntityName): Promise<void> {
  const { sink, lease, id, concurrency } = run;
  const endings: unknown[] = [];
  const ending = new AbortController();
  const signal = AbortSignal.any([run.signal, ending.signal]);
  let unanswered = 0;
  await workPool<WantedFile>({
    concurrency,
    isOver: () => endings.length > 0 || signal.aborted || unanswered >= mostUnanswered,
    next: async (limit) => await sink.files.next(lease, id, entity, limit),
    work: async (wanted) => {
      const failure = await fetchOne(run, wanted, signal);
      unanswered = failure !== null && silent.has(failure.code) ? unanswered + 1 : 0;
    },
    onError: (error) => {
      if (ending.signal.aborted && error === ending.signal.reason) return;
      endings.push(error);
      // Open calls are paid for when the last one was spent.
      if (!isBudgetSpent(error)) ending.abort(error);
    },
  });
  // What has failed says more than that the calls were spent before.
  if (endings.length > 0) throw endings.find((error) => !isBudgetSpent(error)) ?? endings[0];
  run.signal.throwIfAborted();
}

/** Null: it is stored. Rejects with what must end the run. */
async function fetchOne(run: FilesRun, wanted: WantedFile, signal: AbortSignal): Promise<FileFailure | null> {
  const { sink, lease, id, files, fileTally: tally, clock, onEvent } = run;
  const { entity, keyText, params, size } = wanted;
  const { maxBytes } = files;
  const startedMs = clock.now();
  try {
    // Known without a call.
    if (size !== null && size > maxBytes) {
      throw new SyncError(
        `download ${entity}: its record says ${size} bytes, and at most ${maxBytes} are fetched; raise downloads.maxBytes to get it`,
        { code: 'BODY_TOO_LARGE', recovery: 'skip-partition' },
      );
    }
    const file = await files.source.download(
      { entity, params, size, maxBytes },
      async ({ name, contentType, bytes }) => ({
        ...(await files.folder.store({ entity, keyText, name: wanted.name ?? name, bytes })),
        contentType,
      }),
      signal,
    );
    await sink.files.stored(lease, id, wanted, file);
    tally.stored(entity, file.bytes);
    onEvent({ kind: 'file-stored', entity, bytes: file.bytes, ms: clock.now() - startedMs });
    return null;
  } catch (error) {
    if (!(error instanceof SyncError) || endsRun(error)) throw error;
    const { code, recovery, message } = error;
    const failure: FileFailure = { code, recovery, message, at: instant(clock.now()) };
    await sink.files.setAside(lease, id, wanted, failure);
    tally.setAside(entity, params, failure);
    onEvent({ kind: 'file-set-aside', entity, code, message });
    return failure;
  }
}

/** The place where files or their account are kept: what fails there fails for every file. */
const ofSink = new Set<ErrorCode>(['SINK_FULL', 'SINK_FAILED', 'SINK_INCOMPATIBLE', 'FENCED']);
/**
 * Of one file, whatever it means for other calls: it lies elsewhere, or its record was noted when the definition asked
 * for it in another way.
 */
const ofFile = new Set<ErrorCode>(['REDIRECTED', 'USAGE']);
/** The service did not answer, as far as is known, or redirected the call. */
const silent = new Set<ErrorCode>(['NETWORK', 'TIMEOUT', 'UPSTREAM', 'REDIRECTED']);

function endsRun({ code, recovery }: SyncError): boolean {
  return ofSink.has(code) || recovery === 'throttle' || (recovery === 'stop' && !ofFile.has(code));
}
