import type { SyncError } from '../../core/errors.ts';
import { buildFile, type FileBuild } from './build-file.ts';
import type { DuckdbAnswer, DuckdbRequest } from './messages.ts';
import { toDuckdbError } from './open-duckdb.ts';
import { checkFile, lostTables, readPublications } from './read-file.ts';

/** The entry point of the process that uses DuckDB: answers one request after the other until its parent is gone. */
process.umask(0o077);
let build: { readonly path: string; readonly file: FileBuild } | null = null;

// At once: the end of the process frees every lock and leaves the file that is being built, which nobody reads.
process.on('disconnect', () => void process.kill(process.pid, 'SIGKILL'));
// If the parent died while this process was loading, there is no 'disconnect' any more.
if (!process.connected) process.kill(process.pid, 'SIGKILL');
// Ctrl-C reaches every process of a terminal, and it is for the one that started this one to end it, in its time.
process.on('SIGINT', () => undefined);
process.on('SIGTERM', () => undefined);
process.on('message', (request: DuckdbRequest) => void answer(request));

async function answer(request: DuckdbRequest): Promise<void> {
  const path = 'path' in request ? request.path : request.kind === 'build' ? request.to : (build?.path ?? '');
  try {
    send(await answerOf(request));
  } catch (error) {
    const named = path.replace(/\.new-[0-9a-f]{8}$/, '');
    const { message, code, recovery, context }: SyncError = toDuckdbError(
      error,
      named,
      build?.file.longest(),
    );
    send({ kind: 'failed', error: { message, code, recovery, context } });
  }
}

async function answerOf(request: DuckdbRequest): Promise<DuckdbAnswer> {
  switch (request.kind) {
    case 'publications':
      return { kind: 'publications', publications: await readPublications(request) };
    case 'check':
      return { kind: 'checked', check: await checkFile(request.path) };
    case 'lost':
      return { kind: 'lost', lost: await lostTables(request) };
    case 'build':
      build = { path: request.to, file: await buildFile(request) };
      return { kind: 'done' };
    case 'entity':
      await opened().entity(request.entity);
      return { kind: 'done' };
    case 'rows':
      await opened().rows(request.rows);
      return { kind: 'done' };
    case 'merge':
      await opened().merge();
      return { kind: 'done' };
    case 'finish':
      return { kind: await opened().finish(request) };
  }
}

function opened(): FileBuild {
  if (build === null) throw new TypeError('Rows came before the file was made');
  return build.file;
}

/** Without a channel there is no reader of the answer. */
function send(message: DuckdbAnswer): void {
  if (process.connected) process.send?.(message);
}
