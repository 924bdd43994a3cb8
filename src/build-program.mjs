// npm run build: the program as few files with what every start needs of zod and yaml inside, and its definitions
// already checked. docs/internals/decisions/0002-a-command-loads-only-what-it-needs.md says why.
import { cpSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { build } from 'esbuild';

const root = fileURLToPath(new URL('..', import.meta.url));
const dist = path.join(root, 'dist');
const { dependencies, optionalDependencies, peerDependencies } = JSON.parse(
  readFileSync(path.join(root, 'package.json'), 'utf8'),
);

const entryPoints = ['src/main.ts', 'src/library.ts'];
/**
 * Programs that `builtModule` starts as processes. Built apart from the program: in chunks that both have, each process
 * would load what only commands need, for longer than all else of its start.
 */
const processes = [
  'src/child/watch-parent.ts',
  'src/mcp/sql/sql-process.ts',
  'src/publish/duckdb-process.ts',
  'src/search/process/search-process.ts',
  'src/service/store/store-process.ts',
  'src/publish/parquet-process.ts',
];

export const shared = {
  absWorkingDir: root,
  bundle: true,
  format: 'esm',
  platform: 'node',
  target: 'node20.18',
  // Packages that npm installs beside the program stay outside; imported development dependencies are bundled.
  external: Object.keys({ ...dependencies, ...optionalDependencies, ...peerDependencies }),
  // The build of yaml for browsers is the one in the form of ES modules, which a bundler can take apart.
  alias: { yaml: path.join(root, 'node_modules/yaml/browser/dist/index.js') },
  logLevel: 'warning',
};

const program = {
  ...shared,
  outdir: dist,
  outbase: 'src',
  splitting: true,
  chunkNames: 'chunks/[name]-[hash]',
  sourcemap: true,
  metafile: true,
};

rmSync(dist, { recursive: true, force: true });
const { metafile: parts } = await build({ ...program, entryPoints, write: false });
const { metafile } = await build({ ...program, entryPoints, plugins: [joinCommonModules(parts)] });
const { metafile: ofProcesses } = await build({ ...program, entryPoints: processes });
for (const folder of ['page/files', 'sample/accounts']) {
  cpSync(path.join(root, 'src', folder), path.join(dist, folder), { recursive: true });
}
writeFileSync(
  path.join(dist, 'THIRD-PARTY-LICENSES.txt'),
  licensesOf(Object.keys({ ...metafile.inputs, ...ofProcesses.inputs })),
);
// Last: the tests take the time of this file for the time of the build.
writeFileSync(path.join(dist, 'definitions.json'), JSON.stringify(await preparedDefinitions()));

/**
 * esbuild makes a file of the modules that the same entry points reach, so the few that every command needs become
 * dozens of files, and finding a file takes longer than reading it. With all of them imported by each command they
 * become a few.
 */
function joinCommonModules({ inputs, outputs }) {
  const common = new Set();
  const add = (file) => {
    if (!file.startsWith('src/') || common.has(file)) return;
    common.add(file);
    for (const { path: imported, kind } of inputs[file].imports) {
      if (kind === 'import-statement') add(imported);
    }
  };
  add('src/main.ts');
  add('src/cli/load-config.ts');
  common.delete('src/main.ts');
  const imports = [...common].map((file) => `import ${JSON.stringify(path.join(root, file))};`).join('\n');
  const commands = Object.values(outputs).flatMap(({ entryPoint = 'src/main.ts' }) =>
    entryPoint === 'src/library.ts' || !entryPoints.includes(entryPoint) ? [path.join(root, entryPoint)] : [],
  );
  return {
    name: 'join-common-modules',
    setup({ onLoad }) {
      onLoad({ filter: /\.ts$/ }, ({ path: file }) =>
        commands.includes(file)
          ? { loader: 'ts', contents: `${readFileSync(file, 'utf8')}\n${imports}` }
          : undefined,
      );
    },
  };
}

/** The licence of each package that a file was taken from. */
function licensesOf(inputs) {
  const folders = inputs.flatMap((file) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(file)?.[0] ?? []);
  return [...new Set(folders)]
    .sort((a, b) => a.localeCompare(b))
    .map((folder) => {
      const { name, version } = JSON.parse(readFileSync(path.join(root, folder, 'package.json'), 'utf8'));
      const file = readdirSync(path.join(root, folder)).find((entry) => /^licen[cs]e/i.test(entry));
      if (file === undefined) throw new Error(`${name} has no licence file; the program may not contain it.`);
      return `${name} ${version}\n\n${readFileSync(path.join(root, folder, file), 'utf8').trim()}\n`;
    })
    .join(`\n${'-'.repeat(80)}\n\n`);
}

async function preparedDefinitions() {
  const outfile = path.join(dist, 'prepare-definitions.mjs');
  await build({ ...shared, entryPoints: ['src/definitions/load-definitions.ts'], outfile });
  const { prepareDefinitions } = await import(pathToFileURL(outfile).href);
  rmSync(outfile);
  return prepareDefinitions(path.join(root, 'config/definitions'));
}
