import { answerParent } from '../../child/answer-parent.ts';
import type { SyncError } from '../../core/errors.ts';
import { buildFile } from './build-file.ts';
import { toDuckdbError } from './open-duckdb.ts';
import { checkFile, lostInFile, readPublications } from './read-file.ts';
import type { DuckdbCalls } from './start-duckdb-process.ts';

/** The entry point of the process that uses DuckDB. */
process.umask(0o077);
type OpenFile = Awaited<ReturnType<typeof buildFile>>;
let build: { readonly path: string; readonly file: OpenFile } | null = null;

const calls: DuckdbCalls = {
  publications: readPublications,
  check: checkFile,
  lost: lostInFile,
  build: async (files) => {
    build = { path: files.to, file: await buildFile(files) };
  },
  entity: async (entity) => await opened().entity(entity),
  rows: async (rows) => await opened().rows(rows),
  merge: async () => await opened().merge(null),
  finish: async (end) => await opened().finish(end),
};

// Killed, the process frees every lock and leaves the file that is being built, which no reader opens.
answerParent(calls, { explain, end: 'kill' });

function explain(error: unknown, _name: string, given: unknown): SyncError {
  const { path = build?.path ?? '', to = path } = Object(given) as { path?: string; to?: string };
  return toDuckdbError(error, to.replace(/\.new-[0-9a-f]{8}$/, ''), build?.file.longest());
}

function opened(): OpenFile {
  if (build === null) throw new TypeError('Rows came before the file was made');
  return build.file;
}
