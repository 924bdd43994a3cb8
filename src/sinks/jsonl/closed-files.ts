import type { ConnectorName } from '../../core/names.ts';
import { explained } from '../../sql/explained.ts';
import type { CheckedFiles, ClosedFiles, ComparedContents, DamagedFile } from '../closed-files.ts';
import { openToRead } from '../sqlite/readers.ts';
import { toSinkError } from '../sqlite/open-database.ts';
import { entityDirectory, findOtherContent, findWrongLength, jsonlFormat, listedFiles } from './manifest.ts';
import type { ListedFile } from './manifest.ts';

/**
 * The files that a JSONL sink has closed: what the manifest says of them, against what lies in `directory`. Read only,
 * without a lease, beside a process that writes. Throws when there is no sink yet.
 */
export function openJsonlClosedFiles(directory: string, ledger: string): ClosedFiles {
  const { db } = openToRead({ file: ledger, format: jsonlFormat });

  const list = async (connector: ConnectorName): Promise<readonly ListedFile[]> =>
    await db.read(async (tx) => await listedFiles(tx, connector));

  const check = async (
    connector: ConnectorName,
    how: ComparedContents | undefined,
  ): Promise<CheckedFiles> => {
    const files = await list(connector);
    const found: { readonly file: ListedFile; readonly damage: DamagedFile }[] = [];
    const allBytes = files.reduce((sum, { length }) => sum + length, 0);
    let bytes = 0;
    for (const [index, file] of files.entries()) {
      how?.signal.throwIfAborted();
      const folder = entityDirectory(directory, connector, file.entity);
      const onRead = (read: number): void => {
        bytes += read;
        how?.onProgress({ files: index, allFiles: files.length, bytes, allBytes });
      };
      const damage =
        how === undefined
          ? findWrongLength(folder, file)
          : await findOtherContent(folder, file, { signal: how.signal, onRead });
      if (damage !== null) found.push({ file, damage });
    }
    // Without the files that another process has removed or written again since they were listed.
    const now = found.length === 0 ? new Set() : new Set((await list(connector)).map(identityOf));
    const damaged = found.filter(({ file }) => now.has(identityOf(file))).map(({ damage }) => damage);
    return { files: files.length, damaged };
  };

  return {
    check: async (connector, how) =>
      await explained(
        (error) => (how?.signal.aborted === true ? error : toSinkError(error, ledger)),
        async () => await check(connector, how),
      ),
    [Symbol.asyncDispose]: async () => await db[Symbol.asyncDispose](),
  };
}

function identityOf({ entity, firstSeq, length, hash }: ListedFile): string {
  return JSON.stringify([entity, firstSeq, length, hash]);
}
