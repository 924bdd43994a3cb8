import type { OfEntity } from '../../core/names.ts';
import { createHash, type Hash } from 'node:crypto';
import {
  closeSync,
  existsSync,
  fdatasyncSync,
  ftruncateSync,
  renameSync,
  unlinkSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { createPrivateDirectory, openPrivateFile, syncDirectory } from '../../files/private-file.ts';
import { lineBytes } from './line-bytes.ts';
import { type FileList, closedName, growingName, type FileNumber } from './file-list.ts';

interface ChangeFileOptions extends OfEntity {
  readonly files: FileList;
  readonly directory: string;
  readonly epoch: number;
  readonly isDurable: boolean;
}

/** A file is closed after the commit that brings it to this size. */
const maxFileBytes = 64 * 1024 * 1024;

interface GrowingFile extends FileNumber {
  readonly descriptor: number;
  /** Committed; what follows it is cut or overwritten. */
  length: number;
  hash: Hash;
  isNew: boolean;
}

/**
 * The lines of one entity, appended to a file that only this writer's epoch has. `flush` is called before a
 * transaction's COMMIT, then exactly one of `settle` (it is stored) and `discard` (it is not).
 */
export class ChangeFile {
  readonly #options: ChangeFileOptions;
  #file: GrowingFile | null = null;
  #lastNumber = 0;
  readonly #lines = lineBytes();
  #firstSeq = 0;
  #lastSeq = 0;
  /** The file as this transaction leaves it; it counts once the ledger has committed. */
  #grownTo: { readonly length: number; readonly hash: Hash } | null = null;
  #isEnding = false;
  #isPartial = false;

  constructor(options: ChangeFileOptions) {
    this.#options = options;
  }

  append(line: string, seq: number): void {
    const isFirst = this.#lines.isEmpty();
    this.#firstSeq = isFirst ? seq : Math.min(seq, this.#firstSeq);
    this.#lastSeq = isFirst ? seq : Math.max(seq, this.#lastSeq);
    this.#lines.add(line);
  }

  /** What is appended in this transaction stands in for damaged lines, in a separate file. */
  endAsPartial(): void {
    this.#isPartial = true;
    this.#isEnding = true;
  }

  /** Writes the appended lines after the committed ones and notes the new length in the ledger. */
  flush(): void {
    if (!this.#lines.isEmpty()) {
      const file = this.#file ?? this.#create();
      let { length } = file;
      const hash = file.hash.copy();
      for (const bytes of this.#lines.chunks()) {
        writeFully(file.descriptor, bytes, length);
        hash.update(bytes);
        length += bytes.length;
      }
      if (this.#options.isDurable) fdatasyncSync(file.descriptor);
      this.#grownTo = { length, hash };
      this.#options.files.grow(this.#options, file, {
        length,
        firstSeq: this.#firstSeq,
        lastSeq: this.#lastSeq,
        hash: hash.copy().digest('hex'),
        isPartial: Number(this.#isPartial),
      });
      this.#isEnding ||= length >= maxFileBytes;
    }
    if (this.#isEnding && this.#file !== null) {
      ftruncateSync(this.#file.descriptor, this.#grownTo?.length ?? this.#file.length);
      fdatasyncSync(this.#file.descriptor);
      this.#options.files.close(this.#options, this.#file);
    }
  }

  /** The file is closed by this transaction: readers may take it afterwards. */
  end(): void {
    this.#isEnding = true;
  }

  get isEnding(): boolean {
    return this.#isEnding && this.#file !== null;
  }

  /** After the ledger's commit. The next acquire repeats a rename that fails here. */
  settle(): void {
    const file = this.#file;
    if (file !== null) {
      if (this.#grownTo !== null) Object.assign(file, this.#grownTo);
      file.isNew = false;
      if (this.#isEnding) {
        this.close();
        quietly(() => {
          const { directory } = this.#options;
          renameSync(join(directory, growingName(file)), join(directory, closedName(file)));
          syncDirectory(directory);
        });
      }
    }
    this.#forget();
  }

  /**
   * After a rollback. Bytes that cannot be cut off here are beyond the committed length: they are overwritten or cut
   * later.
   */
  discard(): void {
    const file = this.#file;
    if (file !== null && !this.#lines.isEmpty()) {
      // Synced, so that a power loss leaves a hole where the next lines belong, and never lines of this transaction.
      quietly(() => {
        ftruncateSync(file.descriptor, file.length);
        fdatasyncSync(file.descriptor);
      });
    }
    if (file?.isNew === true) {
      this.close();
      quietly(() => unlinkSync(join(this.#options.directory, growingName(file))));
    }
    this.#forget();
  }

  close(): void {
    if (this.#file !== null) {
      closeSync(this.#file.descriptor);
      this.#file = null;
    }
  }

  #create(): GrowingFile {
    const { directory, epoch } = this.#options;
    createPrivateDirectory(directory);
    // Another holder of this epoch may have written: who only repairs a connector leaves its epoch as it was.
    const known = this.#options.files.lastNumber(this.#options, epoch);
    this.#lastNumber = Math.max(known, this.#lastNumber) + 1;
    // A power loss can take back the commit that took this epoch, and leave a file that the list does not have.
    while (existsSync(join(directory, growingName({ epoch, number: this.#lastNumber })))) {
      this.#lastNumber += 1;
    }
    const number = { epoch, number: this.#lastNumber };
    const descriptor = openPrivateFile(join(directory, growingName(number)));
    this.#file = { ...number, descriptor, length: 0, hash: createHash('sha256'), isNew: true };
    syncDirectory(directory);
    return this.#file;
  }

  #forget(): void {
    this.#lines.clear();
    this.#grownTo = null;
    this.#isEnding = false;
    this.#isPartial = false;
  }
}

/** A full disk causes a short write first, and an error only at the next write. */
function writeFully(descriptor: number, bytes: Buffer, position: number): void {
  let written = 0;
  while (written < bytes.length) {
    written += writeSync(descriptor, bytes, written, bytes.length - written, position + written);
  }
}

function quietly(act: () => void): void {
  try {
    act();
  } catch {
    // The ledger alone says what counts; recovery at the next acquire brings the files in line with it.
  }
}
