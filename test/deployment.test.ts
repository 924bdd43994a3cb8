import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { delimiter, dirname, join, posix } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { describe, expect } from 'vitest';
import { it } from './support/it.ts';
import { parse } from 'yaml';
import * as z from 'zod';
import { systemClock } from '../src/core/clock.ts';
import { Secret } from '../src/core/secret.ts';
import { examineRedis } from '../src/jobs/connect-redis.ts';
import { startMonitor } from '../src/monitor/start-monitor.ts';
import { loadSettings } from '../src/settings/load-settings.ts';
import { parseDuration } from '../src/settings/texts.ts';
import { execForm, readDockerfile, saidBy } from './support/dockerfile.ts';
import { findRedisServer } from './support/ensure-redis-server.ts';
import { freePort } from './support/redis.ts';
import { callCli, jsonLines } from './support/run-cli.ts';

const run = promisify(execFile);

const stages = readDockerfile('Dockerfile');
const [build, final] = stages;
if (build === undefined || final === undefined) throw new Error('expected a stage to build and one to run');

const words = z.array(z.string());
const compose = z
  .object({
    services: z.object({
      worker: z.object({
        environment: z.record(z.string(), z.string()),
        secrets: words,
        volumes: words,
        ports: words,
        hostname: z.string(),
        stop_grace_period: z.string(),
        read_only: z.literal(true),
        tmpfs: z.tuple([z.literal('/tmp')]),
        cap_drop: z.tuple([z.literal('ALL')]),
        security_opt: z.tuple([z.literal('no-new-privileges:true')]),
        restart: z.literal('unless-stopped'),
        depends_on: z.object({ redis: z.object({ condition: z.literal('service_healthy') }) }),
      }),
      redis: z
        .object({
          command: z.tuple([z.literal('sh'), z.literal('-c'), z.string()]),
          healthcheck: z.object({
            test: z.tuple([z.literal('CMD'), z.literal('sh'), z.literal('-c'), z.string()]),
          }),
          secrets: words,
          volumes: words,
          ports: z.never().optional(),
        })
        .loose(),
    }),
    volumes: z.record(z.string(), z.null()),
    secrets: z.record(z.string(), z.object({ file: z.string() })),
  })
  .parse(parse(readFileSync('compose.yaml', 'utf8')));
const { worker, redis } = compose.services;

const manifest = z
  .object({
    description: z.string(),
    license: z.string(),
    engines: z.object({ node: z.string() }),
    bin: z.record(z.string(), z.string()),
    scripts: z.record(z.string(), z.string()),
    dependencies: z.record(z.string(), z.string()),
    peerDependenciesMeta: z.record(z.string(), z.object({ optional: z.boolean() })),
  })
  .parse(JSON.parse(readFileSync('package.json', 'utf8')));

/** Where the program's config file is, inside the container. */
const configFile = /CONNECTOR_SYNC_CONFIG=(\S+)/.exec(saidBy(final, 'ENV').join(' '))?.[1] ?? '';

describe('the image', () => {
  const copied = stages.flatMap((stage) =>
    saidBy(stage, 'COPY')
      .filter((rest) => !rest.startsWith('--from='))
      .flatMap((rest) => rest.split(' ').slice(0, -1)),
  );

  /** Paths of the repository or of the build that are in the image under the same path. */
  const taken = saidBy(final, 'COPY').map((rest) => {
    const [source = '', target = ''] = rest.replace(/^--from=\S+ /, '').split(' ');
    const path = source.replace(/^\/app\//, '');
    if (![path, './'].includes(posix.normalize(target))) throw new Error(`expected one path, got: ${rest}`);
    return path;
  });

  it('is built from what is in the repository, and from nothing else', () => {
    expect(copied.filter((path) => !existsSync(path))).toEqual([]);
    const [everything, ...letIn] = readFileSync('.dockerignore', 'utf8')
      .split('\n')
      .filter((line) => line !== '' && !line.startsWith('#'));
    expect(everything).toBe('*');
    expect(letIn.map((line) => line.replace(/^!/, '')).toSorted()).toEqual([...new Set(copied)].toSorted());
    expect(letIn.every((line) => line.startsWith('!'))).toBe(true);
  });

  it('is built by commands that are there', () => {
    const scripts = [
      ...saidBy(build, 'RUN')
        .join('\n')
        .matchAll(/npm run (\S+)/g),
    ].map(([, name = '']) => name);
    expect(scripts).toEqual(['build']);
    expect(scripts.filter((name) => manifest.scripts[name] === undefined)).toEqual([]);
    const builder = /^node (\S+)$/.exec(manifest.scripts['build'] ?? '')?.[1] ?? '';
    expect(copied).toContain(posix.dirname(builder));
    const read = [...readFileSync(builder, 'utf8').matchAll(/'(src|config)\/[^']*'/g)].map(([name]) =>
      name.slice(1, -1),
    );
    expect(read).toContain('config/definitions');
    expect(read.filter((name) => !copied.some((path) => `${name}/`.startsWith(`${path}/`)))).toEqual([]);
  });

  it('has a Node.js that the program runs on', () => {
    expect(final.base).toBe(build.base);
    const major = Number(/^node:(\d+)-slim$/.exec(final.base)?.[1]);
    const least = Number(/^>=(\d+)\./.exec(manifest.engines.node)?.[1]);
    expect(major).toBeGreaterThanOrEqual(least);
    const lock = z
      .object({ packages: z.record(z.string(), z.object({ version: z.string().optional() })) })
      .parse(JSON.parse(readFileSync('package-lock.json', 'utf8')));
    const sqlite = lock.packages['node_modules/better-sqlite3']?.version;
    // Version 13 brings its binaries; compiled for Node.js 24, version 12 ends the process when memory is collected.
    expect(Number.parseInt(sqlite ?? '', 10)).toBeGreaterThanOrEqual(13);
  });

  it('holds everything that the program reads beside itself', () => {
    const read = sourceFiles().flatMap(({ path, text }) =>
      [...text.matchAll(/\bprogramFile\('([^']+)'\)|new URL\([^)]*import\.meta\.url/g)].map(
        ([, name]) => name ?? path,
      ),
    );
    // `copiedFile`: what the build puts into dist.
    expect(read.toSorted()).toEqual([
      'config/definitions',
      'dist/definitions.json',
      'package.json',
      'src/core/program-files.ts',
    ]);
    const beside = read.filter((path) => path !== 'src/core/program-files.ts');
    expect(beside.filter((path) => !taken.some((folder) => `${path}/`.startsWith(`${folder}/`)))).toEqual([]);
    expect(taken).toContain('dist');
  });

  // Proves promise 19
  it('holds every library that the program imports', () => {
    const imported = sourceFiles().flatMap(({ text }) =>
      [...text.matchAll(/(?:\bfrom |\bimport\()'([^'.\s][^'\s]*)'/g)].map(([, name = '']) => name),
    );
    const libraries = imported
      .filter((name) => !name.startsWith('node:'))
      .map((name) => (name.startsWith('@') ? name.split('/').slice(0, 2).join('/') : name.split('/')[0]));
    expect(libraries.length).toBeGreaterThan(10);
    const putIn = [
      ...readFileSync('dist/THIRD-PARTY-LICENSES.txt', 'utf8').matchAll(/^(\S+) \d+\.\d+\.\d+$/gm),
    ].map(([, name = '']) => name);
    expect(putIn).toEqual(['@remix-run/html-template', 'hyparquet', 'hyparquet-writer', 'yaml', 'zod']);
    // Asked for by name where a target needs them, which says how to add them.
    const isOptional = (name: string): boolean => manifest.peerDependenciesMeta[name]?.optional === true;
    expect(
      libraries.filter(
        (name = '') =>
          manifest.dependencies[name] === undefined && !putIn.includes(name) && !isOptional(name),
      ),
    ).toEqual([]);
    expect(saidBy(build, 'RUN').at(-1)).toContain('npm pkg delete devDependencies && npm prune');
  });

  it('runs as a user without rights who owns only the data', () => {
    const [user, ...others] = saidBy(final, 'USER');
    expect([user, ...others]).toEqual(['node']);
    expect(saidBy(final, 'RUN').join('\n')).toContain(`install -d -o ${user} -g ${user} -m 0700 /data`);
    expect(saidBy(final, 'VOLUME')).toEqual(['/data']);
    expect(saidBy(final, 'COPY').join('\n')).not.toContain('--chown');
  });

  it('starts the worker, under an init that passes signals on', async () => {
    const [init, dashes, node, script, ...none] = execForm(final, 'ENTRYPOINT');
    expect([init, dashes, node, script, none]).toEqual(['tini', '--', 'node', 'dist/main.js', []]);
    expect(saidBy(final, 'RUN').join('\n')).toContain('apt-get install -y --no-install-recommends tini');
    // The image has its Node.js and is built: the launcher that npm links has nothing to check there.
    expect(manifest.bin['connector-sync']).toBe('src/launch.cjs');
    expect(saidBy(final, 'RUN').join('\n')).toContain(`ln -s /app/${script} /usr/local/bin/connector-sync`);
    expect(saidBy(build, 'RUN').join('\n')).toContain(`chmod +x ${script}`);
    expect(readFileSync('src/main.ts', 'utf8').startsWith('#!/usr/bin/env node\n')).toBe(true);
    expect(saidBy(final, 'STOPSIGNAL')).toEqual(['SIGTERM']);
    const args = execForm(final, 'CMD');
    expect(args[0]).toBe('worker');
    // A config that is missing is found out after the arguments have been understood.
    const result = await callCli(['--json', '--config', '/nowhere.yaml', ...args], { cwd: '/' });
    expect(jsonLines(result)).toMatchObject([{ error: { code: 'CONFIG_INVALID' } }]);
  });

  it('is healthy only while the worker answers', async () => {
    const [node = '', ...args] = execForm(final, 'HEALTHCHECK');
    expect(node).toBe('node');
    const port = /^:(\d+)$/.exec(execForm(final, 'CMD').at(-1) ?? '')?.[1] ?? '';
    expect(saidBy(final, 'EXPOSE')).toEqual([port]);
    expect(args.join(' ')).toContain(`http://127.0.0.1:${port}/`);
    const monitor = await startMonitor({
      listen: { host: '127.0.0.1', port: 0 },
      health: { worker: () => Promise.reject(new Error('Redis is away')), sinks: () => Promise.resolve([]) },
      metrics: () => Promise.resolve({ contentType: 'text/plain', text: '' }),
      log: { info: () => {}, warn: () => {}, error: () => {} },
    });
    const here = args.map((arg) => arg.replace(`http://127.0.0.1:${port}`, monitor.url.replace(/\/$/, '')));
    try {
      await run(process.execPath, here);
    } finally {
      await monitor[Symbol.asyncDispose]();
    }
    await expect(run(process.execPath, here)).rejects.toMatchObject({ code: 1 });
  });

  it('says what it is as package.json does', () => {
    const [labels = ''] = saidBy(final, 'LABEL');
    expect(labels).toContain(`title="connector-sync"`);
    expect(labels).toContain(`description="${manifest.description}"`);
    expect(labels).toContain(`licenses="${manifest.license}"`);
  });
});

describe('compose.yaml', () => {
  const docker = readFileSync('config/connector-sync.docker.yaml', 'utf8');

  it('gives the worker the variables and secrets that its config reads, and no other', () => {
    const read = [...docker.matchAll(/\$\{([^}]*)\}/g)].map(([, inner = '']) => inner);
    const files = read.filter((inner) => inner.startsWith('file:'));
    expect(Object.keys(worker.environment).toSorted()).toEqual(
      ['LOG_LEVEL', ...read.filter((inner) => !inner.startsWith('file:'))].toSorted(),
    );
    expect(files.toSorted()).toEqual(worker.secrets.map((name) => `file:/run/secrets/${name}`).toSorted());
    expect(Object.keys(compose.secrets).toSorted()).toEqual(worker.secrets.toSorted());
    expect(
      Object.entries(compose.secrets).filter(([name, { file }]) => file !== `./secrets/${name}`),
    ).toEqual([]);
  });

  it('comes with a config that is right, whose files are in the volume and whose Redis is the one beside it', async ({
    folder,
  }) => {
    const secrets = await writeSecrets(folder);
    const file = join(folder, 'config.yaml');
    await writeFile(file, docker.replaceAll('/run/secrets', secrets));
    const env = { CONNECTOR_API_URL: 'https://api.example.test', CONNECTOR_API_CLIENT_ID: 'me' };
    const settings = loadSettings({ file, env });
    const targets = new Map(
      worker.volumes.map((volume) => {
        const [source = '', target = '', mode = 'rw'] = volume.split(':');
        return [target, `${source}:${mode}`];
      }),
    );
    expect(targets).toEqual(
      new Map([
        [dirname(configFile), './config:ro'],
        [saidBy(final, 'VOLUME')[0], 'data:rw'],
      ]),
    );
    for (const sink of settings.sinks.values()) {
      expect(sink).toMatchObject({ type: 'sqlite', path: expect.stringMatching(/^\/data\/[^/]+$/) });
    }
    expect(Object.keys(compose.volumes)).toEqual(['data', 'redis']);
    const url = new URL(settings.redis.url.reveal());
    expect([url.hostname, url.port, url.password]).toEqual(['redis', '6379', 'redis-password-of-the-test']);
    expect([...settings.connectors.values()].every(({ schedule }) => schedule !== null)).toBe(true);
  });

  it('leaves the worker the time in which it ends in order', () => {
    const [, graceMs = ''] =
      /\bgraceMs = ([\d_]+)/.exec(readFileSync('src/jobs/start-worker.ts', 'utf8')) ?? [];
    expect(parseDuration(worker.stop_grace_period)).toBeGreaterThan(Number(graceMs.replaceAll('_', '')));
    expect(graceMs).not.toBe('');
  });

  it('exposes the worker to this machine only, and Redis not at all', () => {
    expect(worker.ports).toEqual(['127.0.0.1:9400:9400']);
    expect(redis.ports).toBeUndefined();
  });

  it('keeps the secrets out of the repository and out of the image', async () => {
    expect(await readFile('secrets/.gitignore', 'utf8')).toMatch(/^\*$/m);
    expect(docker).not.toMatch(/clientSecret: '[^$]/);
  });

  it('starts a Redis that passes check, whose password is in no command line', async ({ folder }) => {
    const port = await freePort();
    const env = await redisWorld(folder, port);
    const secrets = await writeSecrets(folder);
    const script = redis.command[2].replaceAll('$$', '$').replaceAll('/run/secrets', secrets);
    const server = spawn('sh', ['-c', script], { env, stdio: ['ignore', 'pipe', 'inherit'] });
    const exited = once(server, 'exit');
    try {
      for await (const line of createInterface({ input: server.stdout })) {
        if (line.includes('Ready to accept connections')) break;
      }
      const url = new URL(`redis://:redis-password-of-the-test@127.0.0.1:${port}`);
      const findings = await examineRedis({ url: new Secret(url.href), prefix: 'test' }, systemClock);
      expect(findings.length).toBeGreaterThan(2);
      expect(findings.filter(({ state }) => state !== 'ok')).toEqual([]);
      const test = redis.healthcheck.test[3].replaceAll('$$', '$').replaceAll('/run/secrets', secrets);
      await run('sh', ['-c', test.replace('redis-cli', `redis-cli -p ${port}`)], { env });
      const { stdout } = await run('ps', ['-ww', '-o', 'args=', '-p', String(server.pid)]);
      expect(stdout).toMatch(/redis-server/);
      expect(stdout).not.toContain('password');
    } finally {
      server.kill('SIGKILL');
      await exited;
    }
  });

  it('starts no Redis without a password', async ({ folder }) => {
    const env = await redisWorld(folder, await freePort());
    const script = redis.command[2].replaceAll('$$', '$').replaceAll('/run/secrets', folder);
    await expect(run('sh', ['-c', script], { env, timeout: 10_000 })).rejects.toMatchObject({ code: 1 });
  });
});

/** An entrypoint that adds what a test has to have its own way, and a PATH on which it is found. */
async function redisWorld(folder: string, port: number): Promise<NodeJS.ProcessEnv> {
  const bin = join(folder, 'bin');
  await mkdir(bin);
  const own = `--port ${port} --bind 127.0.0.1 --dir ${folder}`;
  await writeFile(join(bin, 'docker-entrypoint.sh'), `#!/bin/sh\nexec "$@" ${own}\n`, { mode: 0o755 });
  const server = findRedisServer();
  if (server === null) {
    throw new Error('This test needs a redis-server executable; see test/support/redis.ts.');
  }
  return { PATH: [bin, dirname(server), process.env['PATH'] ?? ''].join(delimiter) };
}

async function writeSecrets(folder: string): Promise<string> {
  const secrets = join(folder, 'secrets');
  await mkdir(secrets);
  for (const name of worker.secrets) {
    await writeFile(join(secrets, name), `${name.replaceAll('_', '-')}-of-the-test\n`, { mode: 0o400 });
  }
  return secrets;
}

function sourceFiles(): readonly { readonly path: string; readonly text: string }[] {
  return readdirSync('src', { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => posix.join('src', name))
    .map((path) => ({ path, text: readFileSync(path, 'utf8') }));
}
