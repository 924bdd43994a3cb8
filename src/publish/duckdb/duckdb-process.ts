import { answerParent } from '../../child/start-child.ts';
import type { SyncError } from '../../core/errors.ts';
import { buildFile, checkFile, lostInFile, readPublications } from './build-file.ts';
import type { BuiltFiles, FileBuild } from './build-file.ts';
import { toDuckdbError } from './open-duckdb.ts';

/** The entry point of the process that uses DuckDB. */
process.umask(0o077);
let build: (FileBuild & { readonly path: string }) | null = null;

type Given<Name extends 'entity' | 'rows' | 'finish'> = Parameters<FileBuild[Name]>[0];

/** One call after the answer to the one before. */
const calls = {
  publications: readPublications,
  check: checkFile,
  lost: lostInFile,
  /** Keeps the file open for the next calls. */
  build: async (files: BuiltFiles): Promise<void> => {
    build = { path: files.to, ...(await buildFile(files)) };
  },
  entity: async (entity: Given<'entity'>) => await opened().entity(entity),
  rows: async (rows: Given<'rows'>) => await opened().rows(rows),
  merge: async (_none: null) => await opened().merge(),
  finish: async (end: Given<'finish'>) => await opened().finish(end),
};

export type DuckdbCalls = typeof calls;

// Killed, the process frees every lock and leaves the file that is being built, which no reader opens.
answerParent(calls, { explain, end: 'kill' });

function explain(error: unknown, _name: string, given: unknown): SyncError {
  const { path = build?.path ?? '', to = path } = Object(given) as { path?: string; to?: string };
  return toDuckdbError(error, to.replace(/\.new-[0-9a-f]{8}$/, ''));
}

function opened(): FileBuild {
  if (build === null) throw new TypeError('Rows came before the file was made');
  return build;
}
