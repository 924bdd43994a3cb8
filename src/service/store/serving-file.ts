import { closeSync, fsyncSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { deserialize, serialize } from 'node:v8';
import { SyncError } from '../../core/errors.ts';
import { programVersion } from '../../app/program-version.ts';
import { usage } from '../../core/usage-error.ts';
import type { Definition } from '../../definitions/definition.ts';
import { withoutMasks } from '../../definitions/mask/masked-definition.ts';
import { hasCode, isPrivateFileThere, openPrivateFile, syncDirectory } from '../../files/private-file.ts';
import { toStateError } from '../state/open-state-file.ts';
import { removeStore, storeFile, storeOrigin } from './store-file.ts';
import { readStoreLedger } from './store-ledger.ts';

/** What the last service on a folder serves, for programs that read the folder beside it or after it. */
export interface Serving {
  readonly programVersion: string;
  /** False: no stores are kept, whatever lies there. */
  readonly isIndexed: boolean;
  /** By name, as masks make them; a mask itself has functions, and is not in the file. */
  readonly definitions: ReadonlyMap<string, Definition>;
  /** By the name of a definition: see `storeOrigin`. */
  readonly origins: ReadonlyMap<string, string>;
}

interface Served {
  readonly folder: string;
  readonly isIndexed: boolean;
  readonly definitions: ReadonlyMap<string, Definition>;
  readonly connectors: readonly { readonly id: string; readonly definition: Definition }[];
}

/**
 * Writes down what a service serves, before it answers. A store that other masks have filled is removed first: what
 * is in the folder then holds no value that this service does not show, and may be read without knowing its masks.
 */
export async function writeServing({ folder, isIndexed, definitions, connectors }: Served): Promise<void> {
  const origins = new Map([...definitions].map(([name, one]) => [name, storeOrigin(one)]));
  const before = readWritten(folder)?.origins;
  for (const { id, definition } of connectors) {
    if (before?.get(definition.name) === origins.get(definition.name)) continue;
    const file = storeFile(folder, id);
    if (!(await hasItsMasks(file, definition))) await removeStore(file);
  }
  const serving: Serving = {
    programVersion: programVersion(),
    isIndexed,
    definitions: new Map([...definitions].map(([name, one]) => [name, withoutMasks(one)])),
    origins,
  };
  try {
    replaceFile(folder, serialize(serving));
  } catch (error) {
    throw toStateError(error, servingFile(folder));
  }
}

/** Throws `SyncError` USAGE where it is not there, or was written by another version of the program. */
export function readServing(folder: string): Serving {
  const found = readWritten(folder);
  const version = programVersion();
  if (found?.programVersion === version) return found;
  throw usage(
    found === null
      ? `Expected the data folder of "serve" (its --data), got ${folder}: what "serve" of this version (${version}) writes there when it starts was not found. Start "serve" on this folder once.`
      : `The last "serve" on ${folder} was of version ${found.programVersion}, and this is ${version}: start "serve" of this version on it once, or use that version.`,
  );
}

export function servingFile(folder: string): string {
  return join(folder, 'serving.bin');
}

/** Null: there is nothing that can be read. */
function readWritten(folder: string): Serving | null {
  const file = servingFile(folder);
  try {
    // `as`: only this program writes the file, and only its owner may read or write it.
    return isPrivateFileThere(file) ? (deserialize(readFileSync(file)) as Serving) : null;
  } catch (error) {
    if (error instanceof SyncError || hasCode(error, 'EACCES', 'EPERM')) throw toStateError(error, file);
    return null; // Cut off, or written by a newer Node.js: it is written again.
  }
}

/** False where that cannot be known: a store is derived data, and is made again. */
async function hasItsMasks(file: string, definition: Definition): Promise<boolean> {
  try {
    await readStoreLedger(file, definition, storeOrigin(definition));
    return true;
  } catch {
    return false; // The service says what was wrong when it fills the store again.
  }
}

/** One service at a time has the folder, so the name of the new file is free but for what a kill has left. */
function replaceFile(folder: string, bytes: Uint8Array): void {
  const file = servingFile(folder);
  rmSync(`${file}.new`, { force: true });
  const descriptor = openPrivateFile(`${file}.new`);
  try {
    writeFileSync(descriptor, bytes);
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
  renameSync(`${file}.new`, file);
  syncDirectory(folder);
}
