/**
 * The file of a module that is to run as a process of its own: beside its caller where that was built; where the caller runs
 * from its source (tests), what was last built of it. `caller` is its `import.meta.url`, `module` relative to it, as in an import.
 */
export function builtModule(caller: string, module: string): URL {
  const found = new URL(module, caller).href;
  return new URL(
    caller.endsWith('.ts')
      ? found.replace(/\/src\/(?!.*\/src\/)/, '/dist/').replace(/\.ts$/, '.js')
      : found.replace(/\.ts$/, '.js'),
  );
}
