/**
 * Locates a file that comes with the program, by its path from the folder of package.json. The result is the same from
 * the sources (tests) and from the build, wherever the bundler put this function.
 */
export function programFile(path: string): URL {
  return new URL(path, placeOfProgram().root);
}

/**
 * The file of a module that runs as a separate process, by its path below `src`, without its extension. When run from
 * the sources, this is the last build. `src/build-program.mjs` must have it among its entry points.
 */
export function builtModule(module: string): URL {
  const { root, folder } = placeOfProgram();
  return new URL(`${folder}/${module}.js`, root);
}

/** Locates a file that the build copies, by its path below `src`: in the sources or in the build. */
export function copiedFile(path: string): URL {
  const { root } = placeOfProgram();
  return new URL(`${import.meta.url.endsWith('.ts') ? 'src' : 'dist'}/${path}`, root);
}

/** Below the root, this module is in `src` or in `dist`; nothing in these has a folder of such a name. */
function placeOfProgram(): { readonly root: string; readonly folder: string } {
  const [, root = '', name = ''] = /^(.*\/)(src|dist)\//.exec(import.meta.url) ?? [];
  return { root, folder: import.meta.url.endsWith('.ts') ? 'dist' : name };
}
