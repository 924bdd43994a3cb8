import { existsSync, readdirSync, renameSync, statSync, unlinkSync } from 'node:fs';
import { join } from 'node:path';
import type { ConnectorName } from '../../core/names.ts';
import { syncDirectory } from '../../files/private-file.ts';
import { closedName, readFileName, type FileList, type ListedFile } from './file-list.ts';

/** After acquire's commit: files whose transaction never ended go, closed ones get their final name. Other names stay. What fails is done at the next acquire. */
export function tidyDirectory(files: FileList, directory: string, connector: ConnectorName): void {
  const listed = new Map(files.all(connector).map((file) => [`${file.entity}/${closedName(file)}`, file]));
  try {
    for (const entity of readNames(join(directory, connector))) {
      tidyEntity(join(directory, connector, entity), (name) => listed.get(`${entity}/${name}`));
    }
  } catch {
    // Untidy files change nothing: readers are told to take closed names only, and the ledger says what counts.
  }
}

function tidyEntity(directory: string, find: (name: string) => ListedFile | undefined): void {
  const names = readNames(directory);
  for (const name of names) {
    const file = readFileName(name);
    if (file === null) continue;
    if (find(closedName(file)) === undefined) {
      // Only a growing file can be of a transaction that never ended; a closed one was committed.
      if (file.isGrowing) unlinkSync(join(directory, name));
    } else if (file.isGrowing) {
      renameSync(join(directory, name), join(directory, closedName(file)));
    }
  }
  if (names.length > 0) syncDirectory(directory);
}

function readNames(directory: string): readonly string[] {
  return existsSync(directory) && statSync(directory).isDirectory() ? readdirSync(directory) : [];
}
