import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { appendFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { expect, it, onTestFinished } from 'vitest';
import { SyncError } from '../../../src/core/errors.ts';
import { ConnectorBusyError } from '../../../src/sinks/acquire-errors.ts';
import { openSink } from '../../../src/sinks/registry.ts';
import type { Sink } from '../../../src/sinks/sink-access.ts';
import type { Bench } from '../../contracts/sink/fixture.ts';
import { postgresSinkKind, postgresSinkKindOn } from '../../contracts/postgres-sink-kind.ts';
import { startPostgresProxy } from '../../support/postgres-proxy.ts';
import { sharedPostgres, startPostgres } from '../../support/postgres.ts';
import { seededRandom } from '../../support/seeded-random.ts';
import { atHost, atPort, PagedRun, rowsPerPage } from '../../support/sinks/paged-run.ts';
import { isLong, startSeed } from '../../support/trials.ts';
import { testProgram } from '../../support/ensure-built.ts';
import { benchOfTest } from '../../contracts/sink/use-bench.ts';

/* The server does not learn that a host has vanished: its lease runs out, and what it sends later is refused. */

const program = testProgram('sinks/postgres/host-process.mjs');
/** More than are stored before the test ends. */
const pages = 1_000_000;
const takenOverMs = 40_000;

interface Told {
  readonly kind: 'stored' | 'done' | 'failed';
  readonly epoch: number;
  readonly page?: number;
  readonly code?: string;
}

/** A host that walks the bench's connector when it gets it; `wrapper` is the command that it runs below. */
function startHost(
  bench: Bench,
  how: { readonly told: Told[]; readonly host: string; readonly port: number; readonly aheadMs: number },
  wrapper: readonly string[] = [],
): ChildProcess {
  const options = JSON.stringify(atHost(bench, how));
  const own = [process.execPath, program, options, String(pages), String(how.aheadMs)];
  const [command = '', ...args] = [...wrapper, ...own];
  const child = spawn(command, args, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  child.on('message', (message) => how.told.push(message as Told));
  onTestFinished(() => void child.kill('SIGKILL'));
  return child;
}

async function until(is: () => boolean): Promise<void> {
  while (!is()) await pause(20);
}

/**
 * Has the first of two hosts vanish in the middle of its walk and come back; gives how long no host held the connector.
 */
async function takeOver(
  bench: Bench,
  told: Told[],
  { vanish, comeBack }: { readonly vanish: () => unknown; readonly comeBack: () => unknown },
): Promise<number> {
  const storedBy = (epoch: number): number =>
    told.filter((one) => one.kind === 'stored' && one.epoch === epoch).length;
  await until(() => storedBy(1) > 20);
  await pause(seededRandom(startSeed())() * 1_000);
  vanish();
  const vanishedMs = performance.now();
  await until(() => storedBy(2) > 0);
  const takenMs = performance.now() - vanishedMs;
  console.log(`the other host stored its first page ${(takenMs / 1_000).toFixed(1)} s later`);
  comeBack();
  await until(() => told.some(({ kind }) => kind === 'failed'));
  expect(told.filter(({ kind }) => kind === 'failed')).toEqual([
    { kind: 'failed', epoch: 1, code: 'FENCED' },
  ]);
  const before = storedBy(2);
  await until(() => storedBy(2) > before + 20);
  const rows = (await bench.rows()).toSorted((one, other) => Number(one['_seq']) - Number(other['_seq']));
  expect(new Set(rows.map(({ _seq }) => _seq)).size, 'no number twice').toBe(rows.length);
  expect(rows.length % rowsPerPage, 'no page torn').toBe(0);
  const runs = rows.map(({ _run_id: run }) => run as string);
  expect(runs, 'nothing of the old one behind the new one').toEqual(runs.toSorted());
  const offsets = told.filter((one) => one.kind === 'stored').map((one) => one.page);
  expect(new Set(offsets).size, 'no page was told twice').toBe(offsets.length);
  return takenMs;
}

// Proves promise 11.1
it.runIf(isLong)(
  'takes over from a host that hangs within 40 s, though its clock is a minute ahead, and refuses its late commit',
  async () => {
    const postgres = await sharedPostgres();
    const bench = benchOfTest(await postgresSinkKindOn(postgres));
    await (await bench.open())[Symbol.asyncDispose]();
    const told: Told[] = [];
    const place = { told, host: '127.0.0.1', port: postgres.port };
    const first = startHost(bench, { ...place, aheadMs: 60_000 });
    await until(() => told.length > 0);
    startHost(bench, { ...place, aheadMs: 0 });
    const takenMs = await takeOver(bench, told, {
      vanish: () => first.kill('SIGSTOP'),
      comeBack: () => first.kill('SIGCONT'),
    });
    expect(takenMs).toBeGreaterThan(15_000);
    expect(takenMs).toBeLessThan(takenOverMs);
  },
  120_000,
);

/**
 * What the host has sent last of a commit, and how many bytes of these messages that are; -1: none of it is in them.
 */
const points: readonly (readonly [string, (messages: Buffer) => number])[] = [
  [
    'its first statements',
    (messages) => (messages.includes('BEGIN ISOLATION LEVEL READ COMMITTED\0') ? messages.length : -1),
  ],
  ['its last question', (messages) => (messages.includes('SELECT chunk, bits') ? messages.length : -1)],
  ['a part of its rows', (messages) => messages.indexOf('PGCOPY') + (messages.includes('PGCOPY') ? 200 : 0)],
  ['all but COMMIT', (messages) => messages.indexOf('COMMIT\0')],
];

// Proves promise 11.1
it.runIf(isLong)(
  'takes over within 40 s wherever in a transaction a host was cut off, and refuses what it sends again',
  async () => {
    const { port } = await sharedPostgres();
    const kind = await postgresSinkKind();
    const cutOff = async ([name, lastBytes]: (typeof points)[number]): Promise<unknown> => {
      const bench = benchOfTest(kind);
      const proxy = await startPostgresProxy(port);
      onTestFinished(() => proxy.close());
      const sink = await openSink(atPort(bench, proxy.port), { clock: bench.clock });
      onTestFinished(async () => await sink[Symbol.asyncDispose]());
      const run = await PagedRun.begin(bench, sink);
      await run.store();
      let isCut = false;
      proxy.rule(() => ({
        fromClient: (messages) => {
          const last = lastBytes(messages);
          if (isCut || last === -1) return messages.length;
          isCut = true;
          proxy.vanish();
          return last;
        },
        fromServer: ({ length }) => length,
      }));
      const late = run.store().catch((error: unknown) => error);
      await until(() => isCut);
      const vanishedMs = performance.now();
      const other = await bench.open();
      const next = await begunWhenFree(bench, other);
      const takenMs = performance.now() - vanishedMs;
      proxy.comeBack();
      const [refused] = await Promise.all([late, next.store()]);
      const rows = await bench.rows();
      const code = refused instanceof SyncError ? refused.code : refused;
      return { name, code, rows: rows.length, isInTime: takenMs < takenOverMs };
    };
    expect(await Promise.all(points.map(cutOff))).toEqual(
      points.map(([name]) => ({ name, code: 'FENCED', rows: 2 * rowsPerPage, isInTime: true })),
    );
  },
  120_000,
);

async function begunWhenFree(bench: Bench, sink: Sink): Promise<PagedRun> {
  for (;;) {
    try {
      return await PagedRun.begin(bench, sink);
    } catch (error) {
      if (!(error instanceof ConnectorBusyError)) throw error;
    }
    await pause(200);
  }
}

const network = `sync-${process.pid}`;
const canPlug = isLong && process.getuid?.() === 0 && hasNetwork();

it.skipIf(!canPlug)(
  'takes over within 40 s from a host whose cable was pulled, and refuses its late commit',
  async () => {
    const [device, theirs] = [`s${process.pid}a`, `s${process.pid}b`];
    const [address, theirAddress] = ['10.213.77.1', '10.213.77.2'];
    onTestFinished(() => ip('netns', 'del', network));
    ip('netns', 'add', network);
    ip('link', 'add', device, 'type', 'veth', 'peer', 'name', theirs, 'netns', network);
    ip('addr', 'add', `${address}/24`, 'dev', device);
    ip('link', 'set', device, 'up');
    ip('-n', network, 'addr', 'add', `${theirAddress}/24`, 'dev', theirs);
    ip('-n', network, 'link', 'set', theirs, 'up');
    const postgres = await startPostgres({ config: { listen_addresses: `127.0.0.1,${address}` } });
    onTestFinished(async () => await postgres.stop());
    appendFileSync(join(postgres.data, 'pg_hba.conf'), `host all all ${theirAddress}/32 trust\n`);
    await postgres.restart();
    const bench = benchOfTest(await postgresSinkKindOn(postgres));
    await (await bench.open())[Symbol.asyncDispose]();
    const told: Told[] = [];
    const place = { told, port: postgres.port };
    startHost(bench, { ...place, host: address, aheadMs: -60_000 }, ['ip', 'netns', 'exec', network]);
    await until(() => told.length > 0);
    startHost(bench, { ...place, host: '127.0.0.1', aheadMs: 0 });
    const takenMs = await takeOver(bench, told, {
      vanish: () => ip('link', 'set', device, 'down'),
      comeBack: () => {
        ip('link', 'set', device, 'up');
      },
    });
    expect(takenMs).toBeLessThan(takenOverMs);
  },
  240_000,
);

function ip(...args: readonly string[]): void {
  execFileSync('ip', args, { stdio: 'ignore' });
}

/** Containers may not make networks of their own. */
function hasNetwork(): boolean {
  try {
    ip('netns', 'add', `${network}-try`);
    ip('netns', 'del', `${network}-try`);
    return true;
  } catch {
    return false;
  }
}
