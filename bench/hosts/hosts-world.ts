import { execFileSync, fork, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { startPostgres, type PrivatePostgres } from '../../test/support/postgres.ts';
import { startRedis, type PrivateRedis } from '../../test/support/redis.ts';
import { openNetwork, type Network } from './network.ts';
import { definitionName, definitionText } from './orders.ts';
import type { Call } from './slow-service.ts';

const main = fileURLToPath(new URL('../../dist/main.js', import.meta.url));
const service = fileURLToPath(new URL('slow-service.ts', import.meta.url));
const shiftedClock = fileURLToPath(new URL('shift-clock.mjs', import.meta.url));
const redisPassword = 'redis-password-of-this-test';
export const sinkName = 'warehouse';

export interface HostsWorldOptions {
  readonly hosts: number;
  readonly connectors: number;
  /** Each has one budget for all of its connectors. */
  readonly accounts: number;
  readonly pagesEach: number;
  readonly latencyMs: number;
  readonly requestsPerSecond: number;
}

/** Hosts with addresses of their own, and what they share: a service, a Redis, a PostgreSQL; no worker yet. */
export interface HostsWorld extends AsyncDisposable {
  readonly network: Network;
  readonly redis: PrivateRedis;
  readonly redisUrl: string;
  readonly postgres: PrivatePostgres;
  readonly service: ChildProcess;
  readonly connectors: readonly Shop[];
  /**
   * Starts `connector-sync worker` on a host; resolves when it takes jobs. `area`: those of one schema and one Redis
   * prefix share their work.
   */
  startWorker(host: number, area: string, aheadMs?: number): Promise<HostWorker>;
  /** The calls that have come since this was asked last. */
  calls(): Promise<readonly Call[]>;
}

export interface Shop {
  readonly connector: string;
  readonly account: string;
  readonly shop: string;
}

export interface HostWorker {
  readonly address: string;
  readonly child: ChildProcess;
  /** Its newest lines, for what went wrong. */
  readonly lines: readonly string[];
  readonly ended: Promise<unknown>;
}

export async function openHostsWorld(options: HostsWorldOptions): Promise<HostsWorld> {
  const closers: (() => Promise<unknown> | void)[] = [];
  const dispose = async (): Promise<void> => {
    for (const close of closers.splice(0).toReversed()) await close();
  };
  try {
    return await open(options, closers, dispose);
  } catch (error) {
    await dispose();
    throw error;
  }
}

async function open(
  options: HostsWorldOptions,
  closers: (() => Promise<unknown> | void)[],
  dispose: () => Promise<void>,
): Promise<HostsWorld> {
  const network = openNetwork(options.hosts);
  closers.push(() => network[Symbol.dispose]());
  const { addresses } = network;
  const folder = mkdtempSync(path.join(tmpdir(), 'connector-sync-hosts-'));
  closers.push(() => rmSync(folder, { recursive: true, force: true }));
  mkdirSync(path.join(folder, 'definitions'));
  writeFileSync(path.join(folder, 'definitions', 'order-book.yaml'), definitionText);
  const redis = await startRedis({ password: redisPassword, config: { bind: addresses.redis } });
  closers.push(() => redis.stop());
  const postgres = await startPostgres({
    config: { listen_addresses: `127.0.0.1,${addresses.postgres}`, max_connections: '200' },
  });
  closers.push(() => postgres.stop());
  appendFileSync(path.join(postgres.data, 'pg_hba.conf'), `host all all ${network.subnet} trust\n`);
  await postgres.restart();
  const certificate = makeCertificate(folder, addresses.service);
  const served = fork(
    service,
    [
      addresses.service,
      certificate.key,
      certificate.file,
      String(options.pagesEach),
      String(options.latencyMs),
    ],
    { execArgv: ['--import', 'tsx'] },
  );
  closers.push(() => void served.kill('SIGKILL'));
  const { port } = await told<{ readonly port: number }>(served);
  const connectors = Array.from({ length: options.connectors }, (_, index): Shop => {
    const account = `account-${index % options.accounts}`;
    return { connector: `shop-${index}`, account, shop: `${account}-${index}` };
  });
  const redisUrl = `redis://:${redisPassword}@${addresses.redis}:${redis.port}`;
  const postgresUrl = `postgresql://sync@${addresses.postgres}:${postgres.port}/postgres?sslmode=disable`;
  const configOf = (area: string): string =>
    [
      `api: { baseUrl: "https://${addresses.service}:${port}", clientId: hosts, clientSecret: secret-of-the-test }`,
      `redis: { url: "${redisUrl}", prefix: ${area} }`,
      'definitions: [./definitions]',
      `sinks: { ${sinkName}: { type: postgres, url: "${postgresUrl}", schema: ${area}, connections: 4 } }`,
      `defaults: { definition: ${definitionName}, sink: ${sinkName}, rateLimit: { requestsPerSecond: ${options.requestsPerSecond} }, concurrency: 32 }`,
      'connectors:',
      ...connectors.map(
        ({ connector, account, shop }) =>
          `  ${connector}: { id: ${account}, entities: { orders: { params: { shop: ${shop} } } } }`,
      ),
      '',
    ].join('\n');
  const workers = new Set<HostWorker>();
  closers.push(async () => {
    for (const { child } of workers) child.kill('SIGKILL');
    await Promise.all([...workers].map(({ ended }) => ended));
  });
  return {
    network,
    redis,
    redisUrl,
    postgres,
    service: served,
    connectors,
    calls: async () => {
      const answer = told<{ readonly calls: readonly Call[] }>(served);
      served.send('calls');
      return (await answer).calls;
    },
    startWorker: async (index, area, aheadMs = 0) => {
      const host = network.hosts[index];
      if (host === undefined) throw new RangeError(`there is no host ${index}`);
      const config = path.join(folder, `host-${index}-${area}.yaml`);
      writeFileSync(config, configOf(area));
      const clock = aheadMs === 0 ? [] : ['--import', shiftedClock];
      const [command, ...args] = [
        ...host.wrapper,
        process.execPath,
        ...clock,
        main,
        'worker',
        '--concurrency',
        '2',
        '--config',
        config,
      ];
      const child = spawn(command, args, {
        stdio: ['ignore', 'ignore', 'pipe'],
        env: {
          PATH: process.env['PATH'] ?? '',
          NODE_EXTRA_CA_CERTS: certificate.file,
          CLOCK_AHEAD_MS: String(aheadMs),
        },
      });
      const worker = await ready(child, host.address);
      workers.add(worker);
      return worker;
    },
    [Symbol.asyncDispose]: dispose,
  };
}

const keptLines = 20;

async function ready(child: ChildProcess, address: string): Promise<HostWorker> {
  if (child.stderr === null) throw new TypeError('The log of a worker should be piped');
  const lines: string[] = [];
  const ended = once(child, 'close');
  await new Promise<void>((resolve, reject) => {
    createInterface({ input: child.stderr ?? process.stdin }).on('line', (line) => {
      lines.push(line);
      lines.splice(0, lines.length - keptLines);
      if (line.includes('"ready for scheduled runs"')) resolve();
    });
    void ended.then(() => reject(new Error(`the worker ended: ${lines.join('\n').slice(0, 4_000)}`)));
  });
  return { address, child, lines, ended };
}

/** The API is asked over https where it is not on the same machine. */
function makeCertificate(folder: string, address: string): { readonly key: string; readonly file: string } {
  const [key, file] = [path.join(folder, 'service.key'), path.join(folder, 'service.pem')];
  const kind = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
  const names = ['-subj', '/CN=service of a test', '-addext', `subjectAltName=IP:${address}`];
  execFileSync('openssl', [...kind, '-days', '2', '-keyout', key, '-out', file, ...names], {
    stdio: 'ignore',
  });
  return { key, file };
}

async function told<Message>(child: ChildProcess): Promise<Message> {
  const [message] = (await once(child, 'message')) as [Message];
  return message;
}
