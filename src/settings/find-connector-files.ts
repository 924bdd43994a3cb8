import { readdirSync, statSync } from 'node:fs';
import path from 'node:path';
import { globPattern } from '../core/glob.ts';

type FoundFiles =
  { readonly ok: true; readonly files: readonly string[] } | { readonly ok: false; readonly why: string };

/**
 * The files that a line of `connectors` stands for, by name: a file, the `*.yaml` and `*.yml` files of a folder, or a pattern in
 * which `*` stands for any text within a name. Relative to `folder`. None at all is a mistake.
 */
export function findConnectorFiles(pattern: string, folder: string): FoundFiles {
  try {
    const files = pattern.includes('*')
      ? matching(path.resolve(folder, pattern))
      : inFolderOrItself(path.resolve(folder, pattern));
    return files.length > 0
      ? { ok: true, files }
      : {
          ok: false,
          why: `expected a file, a folder of YAML files or a pattern such as ./connectors/*.yaml, nothing is found: ${JSON.stringify(pattern)}`,
        };
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return { ok: false, why: `expected YAML files, they cannot be looked for: ${why}` };
  }
}

function inFolderOrItself(place: string): readonly string[] {
  if (kindOf(place) !== 'folder') return kindOf(place) === 'file' ? [place] : [];
  return matching(path.join(place, '*')).filter((name) => /\.ya?ml$/.test(name));
}

/** Name by name from the root on; what begins with a dot is found only by a pattern that does too. */
function matching(pattern: string): readonly string[] {
  const { root } = path.parse(pattern);
  const names = pattern.slice(root.length).split(path.sep);
  const found = names.reduce<readonly string[]>(
    (places, name) =>
      name.includes('*')
        ? places.flatMap((place) => entriesLike(place, name))
        : places.map((place) => path.join(place, name)),
    [root],
  );
  return found.filter((place) => kindOf(place) === 'file');
}

function entriesLike(folder: string, pattern: string): readonly string[] {
  if (kindOf(folder) !== 'folder') return [];
  const isLike = globPattern(pattern);
  return readdirSync(folder)
    .filter((name) => isLike.test(name) && (pattern.startsWith('.') || !name.startsWith('.')))
    .sort()
    .map((name) => path.join(folder, name));
}

function kindOf(place: string): 'file' | 'folder' | 'nothing' {
  try {
    const found = statSync(place);
    return found.isFile() ? 'file' : found.isDirectory() ? 'folder' : 'nothing';
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : null;
    if (code === 'ENOENT' || code === 'ENOTDIR') return 'nothing';
    throw error;
  }
}
