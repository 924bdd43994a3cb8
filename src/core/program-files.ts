/**
 * A file that comes with the program, by its path from the folder of package.json. The same from the sources (tests) and
 * from what was built of them, wherever the bundler put this function.
 */
export function programFile(path: string): URL {
  return new URL(path, placeOfProgram().root);
}

/**
 * The file of a module that is to run as a process of its own, by its path below `src`, without its ending. From the sources
 * it is what was last built. `src/build-program.mjs` must have it among its entry points.
 */
export function builtModule(module: string): URL {
  const { root, folder } = placeOfProgram();
  return new URL(`${folder}/${module}.js`, root);
}

/** Below the root, this module is in `src` or in `dist`; nothing in these has a folder of such a name. */
function placeOfProgram(): { readonly root: string; readonly folder: string } {
  const [, root = '', name = ''] = /^(.*\/)(src|dist)\//.exec(import.meta.url) ?? [];
  return { root, folder: import.meta.url.endsWith('.ts') ? 'dist' : name };
}
