import type { ConnectorName } from '../../core/names.ts';
import type { CheckedFiles, ClosedFiles, ContentsOptions, DamagedFile } from '../closed-files.ts';
import { explained } from '../../sql/explained.ts';
import { openReadonlyDatabase } from '../sqlite/open-database.ts';
import { jsonlFormat } from './schema.ts';
import { toSinkError } from '../sqlite/sink-error.ts';
import { entityDirectory, listClosedFiles, type ListedFile } from './file-list.ts';
import { findOtherContent, findWrongLength } from './find-damage.ts';

/** What the ledger says of closed files, against what lies in `directory`. Throws when there is no sink yet. */
export function openJsonlClosedFiles(directory: string, ledger: string): ClosedFiles {
  const db = openReadonlyDatabase({ file: ledger, format: jsonlFormat });

  const explain = (error: unknown): unknown => toSinkError(error, ledger);
  const list = (connector: ConnectorName): readonly ListedFile[] => listClosedFiles(db, connector);

  /** Without the files that another process has removed or cut (a reset) since they were listed. */
  const confirmed = (connector: ConnectorName, found: readonly Found[]): readonly DamagedFile[] => {
    if (found.length === 0) return [];
    const now = new Set(list(connector).map(identityOf));
    return found.filter(({ file }) => now.has(identityOf(file))).map(({ damage }) => damage);
  };

  const checked = (connector: ConnectorName, files: readonly ListedFile[], found: readonly Found[]) => ({
    files: files.length,
    withoutHash: files.filter(({ hash }) => hash === null).length,
    partial: files.filter(({ isPartial }) => isPartial === 1).length,
    damaged: confirmed(connector, found),
  });

  const lengths = (connector: ConnectorName): CheckedFiles => {
    const files = list(connector);
    const found = files.flatMap((file) => {
      const damage = findWrongLength(entityDirectory(directory, connector, file.entity), file);
      return damage === null ? [] : [{ file, damage }];
    });
    return checked(connector, files, found);
  };

  const contents = async (
    connector: ConnectorName,
    { signal, onProgress }: ContentsOptions,
  ): Promise<CheckedFiles> => {
    const files = list(connector);
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
    return checked(connector, files, found);
  };

  return {
    lengths: async (connector) => await explained(explain, async () => lengths(connector)),
    contents: async (connector, options) =>
      await explained(
        (error) => (options.signal.aborted ? error : explain(error)),
        async () => await contents(connector, options),
      ),
    [Symbol.asyncDispose]: async () => void db.close(),
  };
}

interface Found {
  readonly file: ListedFile;
  readonly damage: DamagedFile;
}

function identityOf({ entity, epoch, number, length, hash }: ListedFile): string {
  return JSON.stringify([entity, epoch, number, length, hash]);
}
