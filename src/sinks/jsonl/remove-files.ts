import { rmdirSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { ConnectorName } from '../../core/names.ts';
import type { FileList } from './file-list.ts';
import { closedName, entityDirectory, growingName } from './file-name.ts';

/**
 * After the commit that dropped them: removes files and then forgets them, so that what a kill leaves is found at the next
 * acquire. What cannot be removed stays listed for then.
 */
export function removeDoomedFiles(files: FileList, directory: string, connector: ConnectorName): void {
  for (const file of files.doomed(connector)) {
    const folder = entityDirectory(directory, connector, file.entity);
    try {
      for (const name of [closedName(file), growingName(file)]) {
        rmSync(join(folder, name), { force: true });
      }
      files.drop({ connector, entity: file.entity }, file);
      rmdirSync(folder);
      rmdirSync(dirname(folder));
    } catch {
      // A folder that holds other files stays; a file that could not be removed is tried again at the next acquire.
    }
  }
}
