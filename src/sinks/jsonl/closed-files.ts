import type { ConnectorName } from '../../core/names.ts';
import type { CheckedFiles, ClosedFiles, ContentsOptions, DamagedFile } from '../closed-files.ts';
import { explained } from '../../sql/explained.ts';
import { openToRead } from '../sqlite/readers.ts';
import { toSinkError } from '../sqlite/sink-error.ts';
import { entityDirectory, findOtherContent, findWrongLength, jsonlFormat, listedFiles } from './manifest.ts';
import type { ListedFile } from './manifest.ts';

/** What the manifest says of closed files, against what lies in `directory`. Throws when there is no sink yet. */
export function openJsonlClosedFiles(directory: string, ledger: string): ClosedFiles {
  const { db } = openToRead({ file: ledger, format: jsonlFormat });

  const list = async (connector: ConnectorName): Promise<readonly ListedFile[]> =>
    await db.read(async (tx) => await listedFiles(tx, connector));

  /** Without the files that another process has removed or written again since they were listed. */
  const checked = async (
    connector: ConnectorName,
    files: readonly ListedFile[],
    found: readonly Found[],
  ): Promise<CheckedFiles> => {
    const now = found.length === 0 ? new Set() : new Set((await list(connector)).map(identityOf));
    const damaged = found.filter(({ file }) => now.has(identityOf(file))).map(({ damage }) => damage);
    return { files: files.length, damaged };
  };

  const lengths = async (connector: ConnectorName): Promise<CheckedFiles> => {
    const files = await list(connector);
    const found = files.flatMap((file) => {
      const damage = findWrongLength(entityDirectory(directory, connector, file.entity), file);
      return damage === null ? [] : [{ file, damage }];
    });
    return await checked(connector, files, found);
  };

  const contents = async (
    connector: ConnectorName,
    { signal, onProgress }: ContentsOptions,
  ): Promise<CheckedFiles> => {
    const files = await list(connector);
    const found: Found[] = [];
    const allBytes = files.reduce((sum, { length }) => sum + length, 0);
    let bytes = 0;
    for (const [index, file] of files.entries()) {
      signal.throwIfAborted();
      const onRead = (read: number): void => {
        bytes += read;
        onProgress({ files: index, allFiles: files.length, bytes, allBytes });
      };
      const folder = entityDirectory(directory, connector, file.entity);
      const damage = await findOtherContent(folder, file, { signal, onRead });
      if (damage !== null) found.push({ file, damage });
    }
    return await checked(connector, files, found);
  };

  const explain = (error: unknown): unknown => toSinkError(error, ledger);
  return {
    lengths: async (connector) => await explained(explain, async () => await lengths(connector)),
    contents: async (connector, how) =>
      await explained(
        (error) => (how.signal.aborted ? error : explain(error)),
        async () => await contents(connector, how),
      ),
    [Symbol.asyncDispose]: async () => await db[Symbol.asyncDispose](),
  };
}

interface Found {
  readonly file: ListedFile;
  readonly damage: DamagedFile;
}

function identityOf({ entity, firstSeq, length, hash }: ListedFile): string {
  return JSON.stringify([entity, firstSeq, length, hash]);
}
