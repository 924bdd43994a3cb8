import { randomBytes } from 'node:crypto';
import { constants, lstatSync, renameSync, unlinkSync } from 'node:fs';
import { open, type FileHandle } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { SyncError } from '../../../core/errors.ts';
import { usage } from '../../../core/usage-error.ts';
import { createPrivateDirectory, syncDirectory } from '../../../sinks/ledger/private-file.ts';

/** A file that is there whole or not at all: its text lies beside it under another name until `keep`. */
export interface OutputFile extends AsyncDisposable {
  write(text: string): Promise<void>;
  /** The text reaches the disk, then takes the file's name. Without it, disposing leaves everything as it was. */
  keep(): Promise<void>;
}

/** For its owner alone. Throws USAGE, in words, where `file` is something else than a file or its place does not allow it. */
export async function openOutputFile(file: string): Promise<OutputFile> {
  const partial = join(dirname(file), `.${basename(file)}.${randomBytes(4).toString('hex')}.partial`);
  const handle = await said(file, async () => {
    createPrivateDirectory(dirname(file));
    checkReplaceable(file);
    return await open(partial, constants.O_CREAT | constants.O_EXCL | constants.O_WRONLY, 0o600);
  });
  let isDone = false;
  return {
    write: async (text) => {
      await said(file, () => writeWhole(handle, text));
    },
    keep: async () => {
      await said(file, async () => {
        await handle.sync();
        await handle.close();
        renameSync(partial, file);
        isDone = true;
        syncDirectory(dirname(file));
      });
    },
    [Symbol.asyncDispose]: async () => {
      if (isDone) return;
      isDone = true;
      await handle.close();
      unlinkSync(partial);
    },
  };
}

async function writeWhole(handle: FileHandle, text: string): Promise<void> {
  const bytes = Buffer.from(text);
  for (let written = 0; written < bytes.length;) {
    written += (await handle.write(bytes, written)).bytesWritten;
  }
}

/** A device or a pipe would be replaced by a file. */
function checkReplaceable(file: string): void {
  const stats = lstatSync(file, { throwIfNoEntry: false });
  if (stats === undefined || stats.isFile()) return;
  throw usage(`${file} was expected to be a file, not a link, folder or device. Name another one.`);
}

async function said<Result>(file: string, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof Error && 'syscall' in error && 'code' in error)) throw error;
    throw new SyncError(
      `${file} cannot be written: ${error.message}. Free space there, or name another place.`,
      {
        code: 'USAGE',
        recovery: 'stop',
        context: { file },
        cause: error,
      },
    );
  }
}
