import { existsSync, rmdirSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { ConnectorName } from '../../core/names.ts';
import { syncDirectory } from '../ledger/private-file.ts';
import type { FileList } from './file-list.ts';
import { closedName, entityDirectory, growingName } from './file-name.ts';

/**
 * After the commit that dropped them: removes files and then forgets them, so that what a kill leaves is found at the next
 * acquire. What cannot be removed stays listed for then.
 */
export function removeDoomedFiles(files: FileList, directory: string, connector: ConnectorName): void {
  const doomed = files.doomed(connector);
  for (const entity of new Set(doomed.map((file) => file.entity))) {
    const folder = entityDirectory(directory, connector, entity);
    const ofEntity = doomed.filter((file) => file.entity === entity);
    try {
      for (const file of ofEntity) {
        rmSync(join(folder, closedName(file)), { force: true });
        rmSync(join(folder, growingName(file)), { force: true });
      }
      // A file that a power loss brought back after it was forgotten would be read for ever.
      if (existsSync(folder)) syncDirectory(folder);
      for (const file of ofEntity) files.drop({ connector, entity }, file);
      rmdirSync(folder);
      rmdirSync(dirname(folder));
    } catch {
      // A folder that holds other files stays; a file that could not be removed is tried again at the next acquire.
    }
  }
}
