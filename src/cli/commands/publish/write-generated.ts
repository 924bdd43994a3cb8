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
    const stated = there === null ? null : statedOf(place, file, there);
    if (there === text) {
      // A person may have put the new text there.
      if (file.from === null && stated?.isEdited !== false) writeHash(place, text);
      return 'unchanged';
    }
    if (there === null || stated?.isEdited === false) {
      // Whichever of the two texts is there when this is killed, its hash is known.
      if (file.from === null) writeHash(place, text, ...(stated === null ? [] : [stated.sha256]));
      replace(place, text);
      if (file.from === null) writeHash(place, text);
      return 'written';
    }
    // What was edited was this same text.
    if (stated?.sha256 === sha256(file.body)) return 'edited';
    replace(`${place}.new`, text);
    return 'beside';
  });
}

/**
 * What is known of the text that was written last: from its first line or, where it can have none, from a file beside
 * it.
 */
function statedOf(place: string, { from }: GeneratedFile, there: string): ReturnType<typeof readGenerated> {
  if (from !== null) return readGenerated(there);
  const stated: readonly string[] = (readThere(hashFile(place)) ?? '').match(/^[0-9a-f]{64}/gm) ?? [];
  const own = sha256(there);
  const [newest] = stated;
  return newest === undefined
    ? null
    : { sha256: stated.includes(own) ? own : newest, isEdited: !stated.includes(own) };
}

function hashFile(place: string): string {
  return `${place}.sha256`;
}

/** As `sha256sum --check` reads it. */
function writeHash(place: string, text: string, ...others: readonly string[]): void {
  const lines = [sha256(text), ...others].map((hash) => `${hash}  ${path.basename(place)}\n`);
  replace(hashFile(place), lines.join(''));
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
