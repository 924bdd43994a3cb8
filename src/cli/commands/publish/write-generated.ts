import { randomBytes } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { usage } from '../../../core/usage-error.ts';
import {
  generatedText,
  readGenerated,
  sha256,
  type GeneratedFile,
} from '../../../publish/schema/generated-file.ts';
import { unwritable } from '../../output/write-files.ts';

export interface WrittenFile {
  /** Relative to the folder. */
  readonly path: string;
  /**
   * `beside`: the file was edited, so the new text is in `<file>.new`. `edited`: the same, and the text has
   * not changed. `stale`: generated earlier, and no longer.
   */
  readonly outcome: 'written' | 'unchanged' | 'beside' | 'edited' | 'stale';
}

/**
 * Writes each file whole or not at all, with the rights that the umask gives. Throws USAGE where the place does not
 * allow it.
 */
export function writeGenerated(folder: string, files: readonly GeneratedFile[]): readonly WrittenFile[] {
  const written = files.map((file) => ({ path: file.path, outcome: writeOne(folder, file) }));
  const known = new Set(files.map((file) => file.path));
  const stale = staleFiles(folder, files).filter((name) => !known.has(name));
  return [...written, ...stale.map((name) => ({ path: name, outcome: 'stale' as const }))];
}

function writeOne(folder: string, file: GeneratedFile): WrittenFile['outcome'] {
  const place = path.join(folder, file.path);
  return explained(place, () => {
    const text = generatedText(file);
    const there = readThere(place);
    const stated = there === null ? null : readGenerated(there);
    if (there === text) return 'unchanged';
    if (there === null || stated?.isEdited === false) {
      replace(place, text);
      return 'written';
    }
    // What was edited was this same text.
    if (stated?.sha256 === sha256(file.body)) return 'edited';
    replace(`${place}.new`, text);
    return 'beside';
  });
}

/** Null where there is none. Line ends are as they were written, whatever a version control made of them. */
function readThere(place: string): string | null {
  const stats = statSync(place, { throwIfNoEntry: false });
  if (stats === undefined) return null;
  if (!stats.isFile()) throw usage(`${place} cannot be written: it is no file. ${advice}`);
  return readFileSync(place, 'utf8').replaceAll('\r\n', '\n');
}

/** Replaces a file whole or not at all, also one that was edited. Throws USAGE where the place does not allow it. */
export function writeWhole(place: string, text: string): void {
  explained(place, () => replace(place, text));
}

function replace(place: string, text: string): void {
  mkdirSync(path.dirname(place), { recursive: true });
  const partial = path.join(
    path.dirname(place),
    `.${path.basename(place)}.${randomBytes(4).toString('hex')}.partial`,
  );
  try {
    writeFileSync(partial, text, { flag: 'wx' });
    renameSync(partial, place);
  } finally {
    rmSync(partial, { force: true });
  }
}

/** Files with our first line that were not edited, in the folders that hold nothing but generated ones. */
function staleFiles(folder: string, files: readonly GeneratedFile[]): readonly string[] {
  const roots = new Set(
    files
      .map((file) => file.path.split('/').slice(0, 2))
      .filter(([, name]) => name === 'connector_sync')
      .map((parts) => parts.join('/')),
  );
  return [...roots].flatMap((root) => {
    const place = path.join(folder, root);
    if (!existsSync(place)) return [];
    return readdirSync(place, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && /\.(?:sql|yml)$/.test(entry.name))
      .map((entry) => path.join(entry.parentPath, entry.name))
      .filter(
        (file) => readGenerated(readFileSync(file, 'utf8').replaceAll('\r\n', '\n'))?.isEdited === false,
      )
      .map((file) => path.relative(folder, file).split(path.sep).join('/'));
  });
}

function explained<Result>(place: string, work: () => Result): Result {
  try {
    return work();
  } catch (error) {
    throw unwritable(place, error, advice);
  }
}

const advice = 'Name another folder with --output.';
