import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { copyFile, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import * as z from 'zod';
import { parseDuration } from '../src/settings/texts.ts';
import { loadSettings } from '../src/settings/load-settings.ts';
import { it } from './support/it.ts';

const folder = 'docs/deployment';
const words = z.array(z.string());
const env = { CONNECTOR_API_URL: 'https://api.example.test', CONNECTOR_API_CLIENT_ID: 'me' };

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
const worker = z.object({
  ...hardened,
  ports: z.tuple([z.string().regex(/^127\.0\.0\.1:94\d\d:9400$/)]),
  depends_on: z.object({ redis: healthy, postgres: healthy }),
});

function readCompose(file: string): unknown {
  return parse(readFileSync(file, 'utf8'), { merge: true });
}

describe('compose of several machines', () => {
  const compose = z
    .object({
      services: z.object({
        'worker-a': worker,
        'worker-b': worker,
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
    .parse(readCompose(join(folder, 'compose.several-machines.yaml')));
  const { 'worker-a': first, 'worker-b': second, redis, postgres, serve } = compose.services;
  const docker = readFileSync(join(folder, 'connector-sync.several-machines.yaml'), 'utf8');

  it('has workers that differ by their port alone, and a host name each', () => {
    expect({ ...first, ports: [] }).toEqual({ ...second, ports: [] });
    expect(first.ports).not.toEqual(second.ports);
    expect(parseDuration(first.stop_grace_period)).toBeGreaterThanOrEqual(30_000);
  });

  it('has the Redis of compose.yaml', () => {
    const single = z
      .object({ services: z.looseObject({ redis: z.unknown() }) })
      .parse(readCompose('compose.yaml'));
    expect(redis).toEqual(single.services.redis);
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
    expect(Object.keys(compose.secrets).toSorted()).toEqual([...named].toSorted());
    for (const [name, { file }] of Object.entries(compose.secrets)) expect(file).toBe(`./secrets/${name}`);
    const volumes = [...services.flatMap((service) => service.volumes), 'redis:']
      .map((volume) => volume.split(':')[0] ?? '')
      .filter((source) => !source.startsWith('.'));
    expect(Object.keys(compose.volumes).toSorted()).toEqual([...new Set(volumes)].toSorted());
  });

  it('comes with a config that is right, whose database and Redis are those beside it', async ({
    folder: own,
  }) => {
    const secrets = join(own, 'secrets');
    await mkdir(secrets);
    for (const name of first.secrets) {
      await writeFile(join(secrets, name), `${name.replaceAll('_', '-')}-of-the-test\n`, { mode: 0o400 });
    }
    const file = join(own, 'config.yaml');
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
    expect(first.volumes).toEqual([`./${folder}:/config:ro`]);
    expect(existsSync(config.replace('/config', folder))).toBe(true);
    const variables = [...docker.matchAll(/\$\{([A-Z_]+)\}/g)].map(([, name = '']) => name);
    expect(Object.keys(first.environment).toSorted()).toEqual(
      ['CONNECTOR_SYNC_CONFIG', 'LOG_LEVEL', ...variables].toSorted(),
    );
  });
});

describe('the manifests for Kubernetes', () => {
  const labels = z.object({ app: z.literal('connector-sync') });
  const fromSecret = z.object({
    name: z.string(),
    valueFrom: z.object({ secretKeyRef: z.object({ name: z.literal('connector-sync'), key: z.string() }) }),
  });
  const probe = (path: string) =>
    z.looseObject({ httpGet: z.object({ path: z.literal(path), port: z.literal('http') }) });
  const text = readFileSync(join(folder, 'kubernetes.yaml'), 'utf8');
  const [config, deployment, budget] = z
    .tuple([
      z.object({
        apiVersion: z.literal('v1'),
        kind: z.literal('ConfigMap'),
        metadata: z.object({ name: z.string() }),
        data: z.object({ 'connector-sync.yaml': z.string() }),
      }),
      z.object({
        apiVersion: z.literal('apps/v1'),
        kind: z.literal('Deployment'),
        metadata: z.object({ name: z.string(), labels }),
        spec: z.object({
          replicas: z.int().min(2),
          selector: z.object({ matchLabels: labels }),
          strategy: z.object({ type: z.literal('Recreate') }),
          template: z.object({
            metadata: z.looseObject({ labels }),
            spec: z.object({
              terminationGracePeriodSeconds: z.int().min(30),
              automountServiceAccountToken: z.literal(false),
              securityContext: z.looseObject({ runAsNonRoot: z.literal(true), runAsUser: z.literal(1000) }),
              topologySpreadConstraints: z.array(z.looseObject({})),
              containers: z.tuple([
                z.object({
                  name: z.string(),
                  image: z.string(),
                  args: words,
                  ports: z.tuple([z.object({ name: z.literal('http'), containerPort: z.literal(9400) })]),
                  env: z.array(fromSecret),
                  livenessProbe: probe('/healthz'),
                  readinessProbe: probe('/readyz'),
                  resources: z.looseObject({ limits: z.object({ memory: z.string() }) }),
                  securityContext: z.object({
                    allowPrivilegeEscalation: z.literal(false),
                    readOnlyRootFilesystem: z.literal(true),
                    capabilities: z.object({ drop: z.tuple([z.literal('ALL')]) }),
                  }),
                  volumeMounts: z.array(
                    z.object({ name: z.string(), mountPath: z.string(), readOnly: z.boolean().optional() }),
                  ),
                }),
              ]),
              volumes: z.array(z.looseObject({ name: z.string() })),
            }),
          }),
        }),
      }),
      z.object({
        apiVersion: z.literal('policy/v1'),
        kind: z.literal('PodDisruptionBudget'),
        metadata: z.object({ name: z.string() }),
        spec: z.object({ maxUnavailable: z.literal(1), selector: z.object({ matchLabels: labels }) }),
      }),
    ])
    .parse(parseAllDocuments(text).map((document) => document.toJS() as unknown));

  it('run workers whose config is right, with secrets that are in variables alone', async ({
    folder: own,
  }) => {
    const { spec } = deployment.spec.template;
    const [container] = spec.containers;
    const file = join(own, 'connector-sync.yaml');
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
    expect(container.volumeMounts.map(({ name }) => name)).toEqual(spec.volumes.map(({ name }) => name));
    expect(container.args).toEqual(['worker', '--http', ':9400']);
    expect(budget.metadata.name).toBe(deployment.metadata.name);
  });
});

describe('the systemd unit', () => {
  const file = join(folder, 'connector-sync@.service');
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
      /interval '(\d+) seconds'/.exec(readFileSync('src/sinks/postgres/lease/lease-rows.ts', 'utf8')) ?? [];
    for (const [what, value] of [
      ['A lease lasts', Number(lasting)],
      ['It is renewed every', seconds('renewMs')],
      ['A holder stops writing without a renewal after', seconds('believedMs')],
    ] as const) {
      expect(document).toMatch(new RegExp(`\\| ${what} +\\| ${value} s `));
    }
  });
});
