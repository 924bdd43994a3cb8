import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { describe, expect } from 'vitest';
import { openCliWorld, type CliWorld } from './support/cli-world.ts';
import { readDockerfile, saidBy } from './support/dockerfile.ts';
import { it } from './support/it.ts';
import { fakePlace, startFakeS3 } from './support/publish/fake-s3.ts';
import { isLong } from './support/trials.ts';

const run = promisify(execFile);
const root = path.resolve(import.meta.dirname, '..');
const manifest = JSON.parse(readFileSync('package.json', 'utf8')) as {
  readonly name: string;
  readonly devDependencies: Readonly<Record<string, string>>;
  readonly peerDependencies: Readonly<Record<string, string>>;
};
const optional = Object.keys(manifest.peerDependencies).toSorted();

const unscoped = optional.filter((name) => !name.startsWith('@')).join('|');
const advised = new RegExp(String.raw`npm install((?: (?:(?:--|@)[\w./@-]*[\w/]|(?:${unscoped})\b))+)`, 'g');

/** `importOptional` tells people to install the package that its second argument names. */
const imported = /importOptional\(\s*'[^']*',\s*('[^']+')/g;

/** The words behind `npm install` in messages and documents, as they stand there. */
const advice = [...filesOf('src', '.ts'), ...filesOf('docs', '.md'), 'README.md'].flatMap((file) =>
  [
    ...readFileSync(file, 'utf8')
      .replaceAll(imported, (call, name: string) => `${call} npm install ${name.slice(1, -1)}`)
      .matchAll(advised),
  ].map(([, words = '']) => ({
    file,
    words: words.trim().split(' '),
  })),
);

describe('what messages and documents say to install', () => {
  it('are the packages that package.json lets users add, by their names', () => {
    for (const folder of ['src', 'docs']) {
      const words = advice.filter(({ file }) => file.startsWith(`${folder}/`)).flatMap((one) => one.words);
      const names = words
        .filter((word) => !word.startsWith('--'))
        .map((word) => word.replace(/(.)@latest$/, '$1'));
      expect([...new Set(names)].toSorted()).toEqual(optional);
    }
  });

  it('are versions that package.json takes, the tested one and later ones', () => {
    for (const [name, range] of Object.entries(manifest.peerDependencies)) {
      const tested = manifest.devDependencies[name] ?? '';
      const [, major, minor, prerelease] = /^\^?(\d+)\.(\d+)\.\d+(-.+)?$/.exec(tested) ?? [];
      // To npm no range has prereleases of a later version, and all releases of this package look like one.
      if (prerelease !== undefined) expect({ name, range }).toEqual({ name, range: '*' });
      else {
        const [, least] = new RegExp(`^\\^${major}\\.(\\d+)\\.0$`).exec(range) ?? [];
        expect(Number(least), `${name} ${range} has ${tested}`).toBeLessThanOrEqual(Number(minor));
      }
    }
  });
});

/** From the registry, which `npm test` does not need: in `node test/on-node.mjs 24` and `npm run test:long`. */
const isInstalling = isLong || process.env['TEST_INSTALL'] === '1';

describe.skipIf(!isInstalling)('a newcomer in an empty folder', () => {
  let app: string;
  let env: NodeJS.ProcessEnv;
  it.beforeAll(async ({ fileFolder }) => {
    // Without what vitest and the npm that started it have set.
    const kept = Object.entries(process.env).filter(
      ([name]) => !/^(?:npm_|NODE_ENV|NODE_OPTIONS|VITEST)/i.test(name),
    );
    env = Object.fromEntries(kept);
    await run('npm', ['run', '--silent', 'build:types'], { cwd: root });
    await run('npm', ['pack', '--silent', '--ignore-scripts', '--pack-destination', fileFolder], {
      cwd: root,
    });
    const [tarball = ''] = readdirSync(fileFolder).filter((name) => name.endsWith('.tgz'));
    app = path.join(fileFolder, 'app');
    mkdirSync(app);
    await npm(app, 'install', path.join(fileFolder, tarball));
  }, 300_000);

  async function npm(cwd: string, ...words: readonly string[]): Promise<void> {
    await run('npm', [...words, '--no-audit', '--no-fund'], { cwd, env });
  }

  /** Of the installed program; what it prints, and fails with. */
  async function program(world: CliWorld, ...words: readonly string[]): Promise<string> {
    const launcher = path.join(app, 'node_modules', manifest.name, 'src', 'launch.cjs');
    const asked = ['node', launcher, ...words, '--config', world.config] as const;
    const ended = await run('env', asked, { cwd: app, env: { ...env, ...world.env } }).catch(
      (error: unknown) => error as { stdout: string; stderr: string },
    );
    return ended.stdout + ended.stderr;
  }

  /** A world of samples that were synced, with a target in its config. */
  async function openWorld(target: string): Promise<CliWorld> {
    const world = await openCliWorld();
    writeFileSync(world.config, `publish: { desk: ${target} }\n`, { flag: 'a' });
    expect(await program(world, 'sync')).toContain('newsletter: ok');
    return world;
  }

  /** Runs the command that the check of the target gives; before it, the target fails. */
  async function followCheck(world: CliWorld): Promise<void> {
    const said = await program(world, 'check');
    expect(said).toMatch(/✗ target desk: /);
    const [, words = ''] =
      /✗ target desk: .*npm install ([\w@/.-]*[\w/])/.exec(said.replaceAll(/\n +/g, ' ')) ?? [];
    await npm(app, 'install', ...words.split(' '));
    expect(await program(world, 'check')).toMatch(/✓ target desk: /);
  }

  // Proves promise 19
  it('publishes to a DuckDB file after the command that check gives', async () => {
    await using world = await openWorld('{ type: duckdb, path: ./desk.duckdb }');
    await followCheck(world);
    expect(await program(world, 'publish')).toContain('desk: publication 1');
    const read = `const { DuckDBInstance } = require('@duckdb/node-api');
      DuckDBInstance.create(process.argv[1], { access_mode: 'READ_ONLY' }).then((file) => file.connect())
        .then((db) => db.runAndReadAll('SELECT count(*) AS lists FROM newsletter.lists'))
        .then((answer) => console.log(String(answer.getRowObjects()[0].lists)));`;
    const { stdout } = await run('node', ['-e', read, path.join(world.folder, 'desk.duckdb')], {
      cwd: app,
      env,
    });
    expect(Number(stdout)).toBeGreaterThan(0);
    // An older version does as well.
    await npm(app, 'install', '@duckdb/node-api@1.4.0-r.2');
    expect(await program(world, 'publish', '--new-generation')).toContain('desk: publication 2');
    expect(await program(world, 'publish', 'check')).toContain(': all as published');
  }, 300_000);

  // Proves promise 19
  it('publishes to a bucket after the command that check gives', async () => {
    await using fake = await startFakeS3();
    const { bucket, endpoint, credentials } = fakePlace(fake.endpoint);
    const keys = `accessKeyId: ${credentials?.accessKeyId}, secretAccessKey: ${credentials?.secretAccessKey.reveal()}`;
    await using world = await openWorld(
      `{ type: s3, bucket: ${bucket}, prefix: sync, endpoint: "${endpoint}", ${keys} }`,
    );
    await followCheck(world);
    expect(await program(world, 'publish')).toContain('desk: publication 1');
    expect(await program(world, 'publish', 'check')).toContain(': all as published');
    expect(fake.objects.has('sync/_latest.json')).toBe(true);
  }, 300_000);

  // Proves promise 19
  it('has an image without what only developers need, and adds packages to it as docs/operations/install.md says', async ({
    folder,
  }) => {
    for (const name of ['package.json', 'package-lock.json', 'node_modules']) {
      cpSync(name, path.join(folder, name), { recursive: true, verbatimSymlinks: true });
    }
    const [build] = readDockerfile('Dockerfile');
    const commands =
      saidBy(build ?? { base: '', name: null, instructions: [] }, 'RUN')
        .at(-1)
        ?.split('&&') ?? [];
    for (const words of commands.map((command) => command.trim().split(' '))) {
      if (/^npm (?:pkg|prune)/.test(words.join(' '))) await npm(folder, ...words.slice(1));
    }
    const modules = path.join(folder, 'node_modules');
    expect(readdirSync(modules)).not.toContain('typescript');
    expect(await megabytes(modules)).toBeLessThan(100);
    const production = { ...env, NODE_ENV: 'production' };
    const [added] = advice.filter(({ file }) => file === 'docs/operations/install.md');
    await run('npm', ['install', ...(added?.words ?? [])], { cwd: folder, env: production });
    for (const name of optional) {
      await run('node', ['-e', `require('${name}')`], { cwd: folder, env: production });
    }
  }, 300_000);
});

async function megabytes(folder: string): Promise<number> {
  return Number.parseInt((await run('du', ['-sm', folder])).stdout, 10);
}

function filesOf(folder: string, ending: string): readonly string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith(ending) && !name.includes('decisions/'))
    .map((name) => path.posix.join(folder, name));
}
