import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { expect, onTestFinished } from 'vitest';
import { it } from './support/it.ts';
import { openCliWorld } from './support/cli-world.ts';

const run = promisify(execFile);
const root = resolve(import.meta.dirname, '..');
let folder: string;
let installed: string;
let launcher: string;
/** What the compiler says of all programs of these tests, strict as a user may have it. */
let found: string;
const mebibyte = 1024 * 1024;
const document = readFileSync(join(root, 'docs/library.md'), 'utf8');
const programs = [...document.matchAll(/```ts\n([^]*?)```/g)].map(([, text = '']) => text);
const typos = [
  ['conectors', '{ sinks: {}, conectors: {} }'],
  ['snik', "{ sinks: {}, connectors: { a: { definition: 'b', snik: 'c' } } }"],
  ['burst', '{ sinks: {}, connectors: { a: { rateLimit: { requestsPerSecond: 3, burst: 2 } } } }'],
  ['pth', "{ sinks: { main: { type: 'sqlite', pth: './main.db' } } }"],
  [
    'copi',
    "{ sinks: { copy: { type: 'sqlite', path: './copy.db' } }, connectors: { a: { definition: 'b', sink: 'copi' } } }",
  ],
  ['campaign', "{ sinks: {}, connectors: { a: { definition: 'email-marketing', include: ['campaign'] } } }"],
] as const;
/** Mistakes in calls, each with what the compiler names. */
const mistakes = [
  [
    'connector',
    "sync(app, { connectors: ['newslettr'] })",
    /'"newslettr"' is not assignable to type '"newsletter"'/,
  ],
  [
    'filter',
    "search(app, 'newsletter/campaigns', { filter: { eq: { stauts: 'sent' } } })",
    /'stauts' does not exist/,
  ],
  [
    'sort',
    "search(app, 'newsletter/campaigns', { sort: [{ sendtime: 'asc' }] })",
    /'sendtime' does not exist/,
  ],
  [
    'entity',
    "readChanges(app, 'newsletter/campaign')",
    /'"newsletter\/campaign"' is not assignable to parameter of type .*"newsletter\/campaigns"/,
  ],
  [
    'searched',
    "search(app, 'newslettr/lists')",
    /'"newslettr\/lists"' is not assignable to parameter of type '"newsletter\//,
  ],
] as const;

/** As npm would install it, but for its dependencies, which are those of this checkout. */
it.beforeAll(async ({ fileFolder: made }) => {
  folder = made;
  const { name } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { name: string };
  installed = join(folder, 'node_modules', name);
  launcher = join(installed, 'src', 'launch.cjs');
  await run('npm', ['run', '--silent', 'build:types'], { cwd: root });
  await run('npm', ['pack', '--silent', '--ignore-scripts', '--pack-destination', folder], { cwd: root });
  mkdirSync(installed, { recursive: true });
  const [tarball = ''] = readdirSync(folder).filter((name) => name.endsWith('.tgz'));
  await run('tar', ['-xzf', join(folder, tarball), '-C', installed, '--strip-components', '1']);
  for (const library of readdirSync(join(root, 'node_modules'))) {
    symlinkSync(join(root, 'node_modules', library), join(folder, 'node_modules', library));
  }
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }');
  const texts = [
    ...programs.map((text, index) => [`program-${index}.ts`, text] as const),
    ...typos.map(
      ([typo, config]) =>
        [
          `typo-${typo}.ts`,
          `import { openApp } from '@connector-sync/cli';\nawait openApp({ config: ${config} });\n`,
        ] as const,
    ),
    ...mistakes.map(
      ([name, call]) =>
        [
          `mistake-${name}.ts`,
          `import { openApp, readChanges, search, sync } from '@connector-sync/cli';
const app = await openApp<{ newsletter: 'email-marketing' }>({ config: 'connector-sync.yaml' });
void [readChanges, search, sync];
await ${call};
`,
        ] as const,
    ),
    ['record.ts', recordProgram] as const,
  ];
  for (const [name, text] of texts) writeFileSync(join(folder, name), text);
  found = await compile(...texts.map(([name]) => name));
}, 120_000);

// Proves promise 19
it('holds what runs and its types, without tests, sources and source maps', () => {
  const files = readdirSync(installed, { recursive: true, withFileTypes: true }).filter((entry) =>
    entry.isFile(),
  );
  const other = files
    .map(({ parentPath, name }) => join(parentPath, name).slice(installed.length + 1))
    .filter((path) => !/^dist\/.*\.js$/.test(path));
  expect(other.filter((path) => !path.startsWith('config/definitions/')).sort()).toEqual([
    'LICENSE',
    'README.md',
    'config/connector-sync.example.yaml',
    'config/publication-1.schema.json',
    'dist/THIRD-PARTY-LICENSES.txt',
    'dist/core/errors.d.ts',
    'dist/core/health.d.ts',
    'dist/definitions.json',
    'dist/library.d.ts',
    'dist/library/calls.d.ts',
    'dist/library/config.d.ts',
    'dist/library/shapes.d.ts',
    'dist/page/files/icon.svg',
    'dist/page/files/style.css',
    'dist/sample/accounts/document-library.yaml',
    'dist/sample/accounts/email-marketing.yaml',
    'dist/sample/accounts/people.yaml',
    'dist/sample/accounts/workspace-notes.yaml',
    'docs/reference/json-output.schema.json',
    'package.json',
    'src/launch.cjs',
  ]);
  const [tarball = ''] = readdirSync(folder).filter((name) => name.endsWith('.tgz'));
  // Three quarters of it are this program's own code, so it grows; which packages are put in, deployment.test.ts holds.
  expect(readFileSync(join(folder, tarball)).byteLength).toBeLessThan(1.45 * mebibyte);
});

// Proves promise 19
it('runs from where npm installed it', async () => {
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string };
  expect((await run(process.execPath, [launcher, '--version'], { cwd: folder })).stdout).toBe(`${version}\n`);
  const help = await run(process.execPath, [launcher, 'demo', '--help'], { cwd: folder });
  expect(help.stdout).toContain('Usage: connector-sync demo');
});

// Proves promise 19
it('says which Node.js it needs, on one that is too old', async () => {
  const pretend = `Object.defineProperty(process, 'version', { value: 'v18.20.4' }); require(${JSON.stringify(launcher)})`;
  const ended = await run(process.execPath, ['-e', pretend]).catch((error: unknown) => error);
  expect(ended).toMatchObject({
    code: 2,
    stderr: `connector-sync needs Node.js 20.18.1 or later; this is v18.20.4 (${process.execPath}). Install a later one, for example from https://nodejs.org.\n`,
  });
});

// Proves promise 19
it('says which command builds it, in a clone that is not built', async () => {
  const clone = join(folder, 'clone');
  cpSync(join(root, 'package.json'), join(clone, 'package.json'));
  cpSync(join(root, 'src', 'launch.cjs'), join(clone, 'src', 'launch.cjs'));
  const ended = await run(process.execPath, [join(clone, 'src', 'launch.cjs'), 'status']).catch(
    (error: unknown) => error,
  );
  expect(ended).toMatchObject({
    code: 2,
    stderr: `connector-sync is not built yet. Run "npm run build" in ${clone} first.\n`,
  });
});

// Proves promise 19
it('says what SQLite needs, where npm has left it out', async () => {
  // Beside the folder, where no node_modules is found.
  const bare = `${folder}-bare`;
  onTestFinished(() => rmSync(bare, { recursive: true }));
  for (const part of ['package.json', 'src/launch.cjs', 'dist/main.js']) {
    cpSync(join(installed, part), join(bare, part));
  }
  const ended = await run(process.execPath, [join(bare, 'src', 'launch.cjs'), 'status'], {
    env: { NODE_PATH: '' },
  }).catch((error: unknown) => error);
  expect(ended).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(
      /^connector-sync needs better-sqlite3, .*apt-get install g\+\+ make python3/,
    ),
  });
});

// Proves promise 19
it('compiles and runs the programs of docs/library.md, one after another', async () => {
  expect(found.split('\n').filter((line) => !/^(typo|mistake|record|$| )/.test(line))).toEqual([]);
  await using world = await openCliWorld({ settings: '    include: [lists, campaigns]\n' });
  const config = readFileSync(world.config, 'utf8')
    .replace('sinks: {', 'sinks: { other: { type: sqlite, path: ./other.db },')
    .concat('publish: { lake: { type: files, directory: ./lake, format: jsonl } }\n');
  writeFileSync(join(folder, 'connector-sync.yaml'), config);
  const [, API_URL = ''] = /baseUrl: "([^"]+)"/.exec(config) ?? [];
  const env = { PATH: process.env['PATH'], API_URL, ...world.env };
  const printed: string[] = [];
  for (const [index] of programs.entries()) {
    const name = `program-${index}`;
    const { stdout, stderr } = await run(process.execPath, [`${name}.js`], { cwd: folder, env });
    expect({ name, stderr }).toEqual({ name, stderr: '' });
    printed.push(stdout);
  }
  expect(printed).toEqual([
    expect.stringMatching(
      /^lists [1-9]\d*\n(?:.*\n)*newsletter ok [1-9]\d*\nlake published\n(?:\S+ 20\S+\n)+$/,
    ),
    'ok no error\n',
    expect.stringMatching(
      /^\{ lists: [1-9]\d*, nextSeq: [1-9]\d*, asOf: '20[^']+' \}\nnewsletter campaigns [1-9]/,
    ),
    expect.stringMatching(
      /^everything is in place\n\S.*\n\S.*\nlake 2 [1-9]\d*\nnewsletter copied [1-9]\d*\n$/,
    ),
  ]);
}, 60_000);

// Proves promise 19
it('refuses to compile a typo in a config, wherever it is', () => {
  for (const [typo] of typos) {
    expect(found).toMatch(new RegExp(`^typo-${typo}.ts\\(2,\\d+\\): error TS[^]*?'"?${typo}"?'`, 'm'));
  }
});

// Proves promise 19
it.each(mistakes)('refuses to compile a mistake in a call: %s', (name, _, message) => {
  const [line = ''] = found.split('\n').filter((one) => one.startsWith(`mistake-${name}.ts(4,`));
  expect(line).toMatch(message);
});

// Proves promise 19
it('types the fields of a record, and what is stored of a deleted one', () => {
  expect(found).not.toContain('record.ts');
});

const recordProgram = `import { openApp, readChanges, search, type Change, type Config } from '@connector-sync/cli';
const app = await openApp<{ news: 'email-marketing'; own: 'my-type' }>({ config: 'connector-sync.yaml' });
await using changes = await readChanges(app, 'news/campaigns');
for await (const change of changes) {
  const id: string = change.record.id;
  // @ts-expect-error -- a deleted record has its key alone.
  console.log(change.record.status, id);
  if (change.kind === 'delete') continue;
  const status: string | null = change.record.status;
  // @ts-expect-error -- It has no such field.
  console.log(change.record.stats, status);
  // @ts-expect-error -- It may be null.
  const never: string = change.record.status;
  console.log(never);
}
const { records } = await search(app, 'news/lists');
const name: string | null | undefined = records[0]?.name;
// @ts-expect-error -- It is a text.
const rating: number | undefined = records[0]?.name;
await using any = await readChanges(app, 'own/things');
for await (const change of any) { const plain: Change = change; console.log(plain.record); }
const config: Config = { sinks: {}, guards: { maxDeleteShare: 0.1 } };
console.log(name, rating, await openApp({ config }));
`;

// Proves promise 19
it('has for a config the type that its schema has', async () => {
  writeFileSync(
    join(folder, 'same.ts'),
    `import type { Config, ConnectorConfig } from '@connector-sync/cli';
import type { Config as Read, ConnectorConfig as ReadConnector } from '${root}/src/library/config.ts';
type Loose<T> = T extends readonly (infer E)[] ? readonly Loose<E>[] : T extends object ? { readonly [K in keyof T]: Loose<T[K]> } : T;
export const a = (one: Loose<Config>): Loose<Read> => one;
export const b = (one: Loose<Read>): Loose<Config> => one;
export const c = (one: Loose<ConnectorConfig>): Loose<ReadConnector> => one;
export const d = (one: Loose<ReadConnector>): Loose<ConnectorConfig> => one;
`,
  );
  // What the sources are compiled with: they use more than the published types do.
  const ofSources = ['--lib', 'es2023,es2024.string,esnext.disposable,esnext.promise'];
  expect(
    await compile('--noEmit', '--skipLibCheck', '--allowImportingTsExtensions', ...ofSources, 'same.ts'),
  ).toBe('');
}, 60_000);

/** What the compiler says of these files, strict as a user may have it. */
async function compile(...words: readonly string[]): Promise<string> {
  const strict = ['--strict', '--skipLibCheck', 'false', '--exactOptionalPropertyTypes'];
  const target = ['--module', 'nodenext', '--target', 'es2023', '--lib', 'es2023,esnext.disposable'];
  const tsc = join(folder, 'node_modules', '.bin', 'tsc');
  return await run(tsc, [...strict, ...target, '--types', 'node', '--pretty', 'false', ...words], {
    cwd: folder,
  }).then(
    () => '',
    (error: unknown) => (error as { stdout: string }).stdout,
  );
}
