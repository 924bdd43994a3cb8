import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { open, unlink } from 'node:fs/promises';
import { toFileError } from './file-error.ts';
import type { RowFile } from './row-files.ts';
import type { RowText } from './row-text.ts';

/** Characters that are written together: enough for few writes, and turned to bytes within milliseconds. */
const chunkChars = 256 * 1024;

const createNew = constants.O_CREAT | constants.O_EXCL | constants.O_WRONLY | constants.O_NOFOLLOW;

/** Creates a file of lines for its owner alone; it must not exist. */
export async function createTextFile(path: string, { head, text }: RowText): Promise<RowFile> {
  const explained = async <Result>(work: Promise<Result>): Promise<Result> => {
    try {
      return await work;
    } catch (error) {
      throw toFileError(error, path);
    }
  };
  const handle = await explained(open(path, createNew, 0o600));
  const hash = createHash('sha256');
  let held = head;
  let bytes = 0;
  const flush = async (): Promise<void> => {
    const chunk = Buffer.from(held);
    held = '';
    hash.update(chunk);
    for (let at = 0; at < chunk.byteLength;) {
      at += (await explained(handle.write(chunk, at))).bytesWritten;
    }
    bytes += chunk.byteLength;
  };
  return {
    write: async (records) => {
      for (const record of records) {
        held += text(record);
        if (held.length >= chunkChars) await flush();
      }
    },
    bytes: () => bytes + held.length,
    close: async () => {
      await flush();
      await explained(handle.sync());
      await explained(handle.close());
      return { bytes, sha256: hash.digest('hex') };
    },
    remove: async () => {
      // Closed twice is no failure, and a file that is gone already is what was wanted.
      await handle.close().catch(() => undefined);
      await unlink(path).catch(() => undefined);
    },
  };
}
