import { once } from 'node:events';
import { readFileSync, readdirSync } from 'node:fs';
import { cpus, loadavg } from 'node:os';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { openHostsWorld, type HostsWorld, type Shop } from './hosts/hosts-world.ts';
import { whyNoNetwork } from './hosts/network.ts';
import { differences, syncAll } from './hosts/sync-all.ts';

/**
 * The first syncs of many connectors with one, two and four hosts, each a network namespace with a worker of two runs
 * at a time. The service takes 50 ms for a call, so what is measured is whether hosts work beside each other; that
 * needs processor time to spare, so the share of it that all processes used together is printed too. `npm run
 * bench:hosts -- <connectors> <pages of each> <rounds>`. Linux and root only.
 */
const connectors = Number(process.argv[2] ?? 200);
const pagesEach = Number(process.argv[3] ?? 20);
const rounds = Number(process.argv[4] ?? 1);
/** Connectors that are read before the time is taken: each worker compiles its code with its first ones. */
const warmUps = 16;
const hostCounts = [1, 2, 4] as const;
const wantedFactors: ReadonlyMap<number, number> = new Map([
  [2, 1.8],
  [4, 3.2],
]);
const mostShare = 0.8;
/** From /proc/<pid>/stat. */
const ticksPerSecond = 100;

const why = whyNoNetwork();
if (why === null) await measureAll();
else process.stdout.write(`not measured: ${why}\n`);

async function measureAll(): Promise<void> {
  await using world = await openHostsWorld({
    hosts: 4,
    connectors: connectors + warmUps,
    accounts: 1,
    pagesEach,
    latencyMs: 50,
    requestsPerSecond: 1_000,
  });
  const loadBefore = loadavg()[0] ?? 0;
  const best = new Map<number, Measured>();
  for (let round = 0; round < rounds; round += 1) {
    for (const hosts of hostCounts) {
      const measured = await measure(world, hosts, `hosts_${hosts}_${round}`);
      tell(hosts, measured);
      const known = best.get(hosts);
      if (known === undefined || measured.tookS < known.tookS) best.set(hosts, measured);
    }
  }
  const alone = best.get(1)?.tookS ?? Number.NaN;
  let isEnough = true;
  for (const [hosts, wanted] of wantedFactors) {
    const { tookS = Number.NaN, ownShare = Number.NaN } = best.get(hosts) ?? {};
    const factor = alone / tookS;
    isEnough &&= factor >= wanted && ownShare < mostShare;
    process.stdout.write(
      `${hosts} hosts: ${factor.toFixed(2)} times as fast as one (wanted: ${wanted}), ${percent(ownShare)} of the processor time\n`,
    );
  }
  process.stdout.write(
    `${connectors} connectors of ${pagesEach} pages; Node.js ${process.versions.node}, ${cpus().length} cores, load before ${loadBefore.toFixed(1)}; best of ${rounds}\n`,
  );
  if (!isEnough) process.exitCode = 1;
}

interface Measured {
  readonly tookS: number;
  readonly calls: number;
  readonly cpuS: Cpu;
  /** Of all cores, what these processes used. */
  readonly ownShare: number;
  /** What every process of the machine used. */
  readonly wholeShare: number;
}

interface Cpu {
  readonly workers: number;
  readonly postgres: number;
  readonly redis: number;
  readonly service: number;
}

async function measure(world: HostsWorld, hosts: number, area: string): Promise<Measured> {
  const workers = await Promise.all(
    Array.from({ length: hosts }, async (_, host) => await world.startWorker(host, area)),
  );
  const used = async (): Promise<Cpu> => ({
    workers: workers.reduce((sum, { child }) => sum + cpuOf(child.pid ?? 0), 0),
    postgres: postgresCpu(world.postgres.data),
    redis: await redisCpu(world.redisUrl),
    service: cpuOf(world.service.pid ?? 0),
  });
  await runAll(world, world.connectors.slice(0, warmUps), area);
  await world.calls();
  const [before, wholeBefore] = [await used(), wholeCpu()];
  const startedMs = performance.now();
  await runAll(world, world.connectors.slice(warmUps), area);
  const tookS = (performance.now() - startedMs) / 1_000;
  const [after, wholeAfter] = [await used(), wholeCpu()];
  for (const { child } of workers) child.kill('SIGTERM');
  await Promise.all(workers.map(async ({ child }) => child.exitCode ?? (await once(child, 'exit'))));
  const wrong = await differences(world, area, pagesEach);
  if (wrong.length > 0) throw new Error(wrong.slice(0, 3).join('; '));
  const cpuS: Cpu = {
    workers: after.workers - before.workers,
    postgres: after.postgres - before.postgres,
    redis: after.redis - before.redis,
    service: after.service - before.service,
  };
  const sum = cpuS.workers + cpuS.postgres + cpuS.redis + cpuS.service;
  return {
    tookS,
    calls: (await world.calls()).length,
    cpuS,
    ownShare: sum / (tookS * cpus().length),
    wholeShare: (wholeAfter - wholeBefore) / (tookS * cpus().length),
  };
}

async function runAll(world: HostsWorld, shops: readonly Shop[], area: string): Promise<void> {
  await using jobs = await syncAll(world, shops, area);
  while ((await jobs.open()) > 0) await pause(100);
}

function tell(hosts: number, { tookS, calls, cpuS, ownShare, wholeShare }: Measured): void {
  const parts = Object.entries(cpuS).map(([name, seconds]) => `${name} ${Number(seconds).toFixed(1)} s`);
  process.stdout.write(
    `${hosts} host${hosts === 1 ? '' : 's'}: ${tookS.toFixed(1)} s, ${(calls / tookS).toFixed(0)} calls/s; processor: ${parts.join(', ')} = ` +
      `${percent(ownShare)} of ${cpus().length} cores (the whole machine ${percent(wholeShare)})\n`,
  );
}

function percent(share: number): string {
  return `${(100 * share).toFixed(0)} %`;
}

/** Of a process and of its children that have ended. */
function cpuOf(pid: number): number {
  // The program name may contain spaces, so count the fields after it.
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
  return [11, 12, 13, 14].reduce((sum, field) => sum + Number(fields[field]), 0) / ticksPerSecond;
}

function postgresCpu(data: string): number {
  const [first = ''] = readFileSync(path.join(data, 'postmaster.pid'), 'utf8').split('\n');
  let sum = cpuOf(Number(first));
  for (const pid of readdirSync('/proc')) {
    if (!/^\d+$/.test(pid)) continue;
    try {
      const parent = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ')[1];
      if (parent === first) sum += cpuOf(Number(pid));
    } catch {
      // It ended meanwhile: then the server's own figure has it.
    }
  }
  return sum;
}

async function redisCpu(url: string): Promise<number> {
  const client = new Redis(url);
  try {
    const info = await client.info('cpu');
    return [...info.matchAll(/^used_cpu_(?:sys|user):([\d.]+)/gm)].reduce((sum, [, s]) => sum + Number(s), 0);
  } finally {
    client.disconnect();
  }
}

/** Of all processes: what no core spent idle. */
function wholeCpu(): number {
  return cpus().reduce((sum, { times }) => sum + times.user + times.nice + times.sys + times.irq, 0) / 1_000;
}
