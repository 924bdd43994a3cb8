import { spawn, type ChildProcessByStdio } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { findPostgres } from '../test/support/ensure-postgres.ts';
import { startPostgres, type PrivatePostgres } from '../test/support/postgres.ts';

/**
 * First load and unchanged re-sync of list members over HTTP, compared with a bare script. Each round runs all of them
 * in turn, so that a slowing machine affects all alike. `npm run bench -- [members] [rounds] [kind]`, where the kind is
 * `normal` (every sink with that durability; the default), `sqlite`, `jsonl` or `postgres` (with both) or `all`.
 * PostgreSQL is a server of the bench's own, on this machine, which waits for its disk. It cleans up (VACUUM ANALYZE)
 * after each measurement instead of at any moment of one, where its own write-ahead log would count as that of the one
 * that runs.
 */
const members = Number(process.argv[2] ?? 200_000);
const rounds = Number(process.argv[3] ?? 3);
const kind = process.argv[4] ?? 'normal';
const kinds = ['normal', 'sqlite', 'jsonl', 'postgres', 'all'];
if (!kinds.includes(kind)) throw new Error(`Expected one of ${kinds.join(', ')}, got ${kind}.`);
const isMeasured = (sink: string): boolean => ['normal', 'all', sink].includes(kind);
const durabilities = kind === 'normal' ? ['normal'] : ['normal', 'full'];

/** Records a second of a first load and of a re-sync, as multiples of the bare script's first load. */
const goals: Readonly<Record<string, readonly [number, number]>> = {
  sqlite: [2, 4],
  jsonl: [1.5, 4],
  postgres: [1.3, 3],
};

/**
 * Ends the process with this one, however this one ends: then its input is closed. It must not keep a process alive
 * that is done.
 */
const endWithParent = `data:text/javascript,${encodeURIComponent(
  "process.stdin.on('end', () => process.exit(1)).resume().unref();",
)}`;

interface Outcome {
  readonly rows: number;
  readonly written: number;
  readonly ms: number;
  readonly cpuMs: number;
  readonly rssMiB: number;
  /** Processor time of PostgreSQL's server meanwhile. */
  readonly serverMs?: number;
  /** Bytes of write-ahead log per member; PostgreSQL alone. */
  readonly walBytes?: number;
}

const folder = mkdtempSync(path.join(tmpdir(), 'connector-sync-bench-'));
const server = start('member-server', [String(members)]);
const results = new Map<string, Outcome[]>();
await using postgres =
  !isMeasured('postgres') || findPostgres() === null
    ? null
    : await startPostgres({
        config: { fsync: 'on', shared_buffers: '256MB', max_wal_size: '4GB', autovacuum: 'off' },
      });
if (postgres === null && isMeasured('postgres')) {
  process.stderr.write('PostgreSQL is left out: its programs are not here\n');
}
try {
  const [port] = (await once(createInterface({ input: server.stdout }), 'line')) as [string];
  const baseUrl = `http://127.0.0.1:${port}`;
  for (let round = 1; round <= rounds; round += 1) {
    if (kind !== 'postgres') await measureFiles(baseUrl, round);
    if (postgres !== null) await measurePostgres(baseUrl, round, postgres);
    process.stderr.write(`round ${round} of ${rounds} done\n`);
  }
} finally {
  server.kill();
  rmSync(folder, { recursive: true, force: true });
}
print();

async function measureFiles(baseUrl: string, round: number): Promise<void> {
  for (const synchronous of durabilities.map((one) => one.toUpperCase())) {
    const file = path.join(folder, `bare-${synchronous}-${round}.db`);
    await measure(`bare script, ${synchronous}, first load`, 'bare-script', [baseUrl, file, synchronous]);
    await measure(`bare script, ${synchronous}, again`, 'bare-script', [baseUrl, file, synchronous]);
  }
  for (const durability of durabilities) {
    const sqlite = {
      type: 'sqlite',
      name: 'bench',
      path: path.join(folder, `${durability}-${round}.db`),
      durability,
    };
    const jsonl = {
      type: 'jsonl',
      name: 'bench',
      directory: path.join(folder, `${durability}-${round}`),
      durability,
    };
    for (const sink of [sqlite, jsonl].filter(({ type }) => isMeasured(type))) {
      const name = `connector-sync, ${sink.type}, ${durability}`;
      await measure(`${name}, first load`, 'sync-once', [baseUrl, JSON.stringify(sink)]);
      await measure(`${name}, re-sync`, 'sync-once', [baseUrl, JSON.stringify(sink)]);
    }
  }
}

async function measurePostgres(baseUrl: string, round: number, server: PrivatePostgres): Promise<void> {
  const { port, connection, url } = server;
  // Both ways lead through a proxy, so that they differ in the delay alone: a proxy on this machine costs processor
  // time.
  const proxies = ['0', '1'].map((ms) => start('delay-proxy', [String(port), ms]));
  try {
    const lines = proxies.map(async ({ stdout }) => {
      const [line] = (await once(createInterface({ input: stdout }), 'line')) as [string];
      return Number(line);
    });
    const [passed = 0, delayed = 0] = await Promise.all(lines);
    for (const durability of durabilities) {
      const synchronous = durability === 'normal' ? 'off' : 'on';
      const args = [baseUrl, url, `bare_${synchronous}_${round}`, synchronous];
      await measure(`bare script, postgres, ${synchronous}, first load`, 'bare-postgres', args, server);
      await measure(`bare script, postgres, ${synchronous}, again`, 'bare-postgres', args, server);
    }
    const ways = [
      ['normal', 'normal', port],
      ['full', 'full', port],
      ['full, by a proxy', 'full', passed],
      ['full, 1 ms away', 'full', delayed],
    ] as const;
    for (const [name, durability, to] of ways.slice(0, kind === 'normal' ? 1 : ways.length)) {
      const schema = `sync_${durability}_${to}_${round}`;
      const at = { ...connection, hosts: [{ host: '127.0.0.1', port: to }] };
      const options = { type: 'postgres', name: 'bench', connection: at, direct: null, connections: 4 };
      const sink = JSON.stringify({ ...options, schema, durability });
      await measure(`connector-sync, postgres, ${name}, first load`, 'sync-once', [baseUrl, sink], server);
      await measure(`connector-sync, postgres, ${name}, re-sync`, 'sync-once', [baseUrl, sink], server);
    }
  } finally {
    for (const proxy of proxies) proxy.kill();
  }
}

async function ask(url: string, sql: string): Promise<Readonly<Record<string, string>> | undefined> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const { rows } = await client.query<Record<string, string>>(sql);
  await client.end();
  return rows[0];
}

/** Where the write-ahead log has come to, in bytes. */
async function walPosition(url: string): Promise<number> {
  return Number((await ask(url, "SELECT pg_current_wal_lsn() - '0/0'::pg_lsn AS bytes"))?.['bytes']);
}

/** Processor time of the server's processes that have ended: those of closed connections, and few others. */
function endedProcessesMs({ data }: PrivatePostgres): number {
  const [pid] = readFileSync(path.join(data, 'postmaster.pid'), 'utf8').split('\n');
  // The program name may contain spaces, so count the fields after it: ticks of 10 ms.
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
  return 10 * (Number(fields[13]) + Number(fields[14]));
}

async function measure(
  name: string,
  file: string,
  args: readonly string[],
  postgres?: PrivatePostgres,
): Promise<void> {
  const url = postgres?.url;
  const walBefore = url === undefined ? null : await walPosition(url);
  const serverBefore = postgres === undefined ? 0 : endedProcessesMs(postgres);
  const child = start(file, args);
  let output = '';
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
  const [code] = (await once(child, 'close')) as [number | null];
  if (code !== 0) throw new Error(`${name} ended with ${code}`);
  const outcome = JSON.parse(output) as Outcome;
  if (outcome.rows !== members) throw new Error(`${name} has ${outcome.rows} rows instead of ${members}`);
  const walBytes =
    url === undefined || walBefore === null
      ? {}
      : { walBytes: ((await walPosition(url)) - walBefore) / members };
  const serverMs = postgres === undefined ? {} : { serverMs: endedProcessesMs(postgres) - serverBefore };
  results.set(name, [...(results.get(name) ?? []), { ...outcome, ...walBytes, ...serverMs }]);
  if (url !== undefined) await ask(url, 'VACUUM ANALYZE');
}

function print(): void {
  process.stdout.write(
    `${members} members, ${rounds} rounds, ${cpus().length} cores, Node ${process.version}; medians\n\n`,
  );
  const head = [
    '',
    'records/s',
    'to bare script',
    'rows written',
    'CPU us/record',
    'of server',
    'peak RSS MiB',
    'WAL B/record',
  ];
  const rows = [...results].map(([name, outcomes]) => [
    name,
    String(Math.round((members / median(outcomes, 'ms')) * 1000)),
    ...[toBare(name, outcomes)].map((ratio) => `${ratio.toFixed(2)}x`),
    String(median(outcomes, 'written')),
    perRecord(median(outcomes, 'cpuMs')),
    outcomes[0]?.serverMs === undefined ? '' : perRecord(median(outcomes, 'serverMs')),
    String(Math.round(median(outcomes, 'rssMiB'))),
    outcomes[0]?.walBytes === undefined ? '' : median(outcomes, 'walBytes').toFixed(1),
  ]);
  const widths = head.map((_, column) => Math.max(...[head, ...rows].map((row) => row[column]?.length ?? 0)));
  for (const row of [head, ...rows]) {
    process.stdout.write(
      `${row.map((cell, column) => (column === 0 ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0))).join('  ')}\n`,
    );
  }
  process.stdout.write('\nTargets\n');
  for (const durability of durabilities) {
    for (const sink of ['sqlite', 'jsonl', 'postgres']) checkSink(sink, durability);
  }
  process.stdout.write(
    '\nQuoted, on such a machine: a pull of the same data by dlt 6300 records/s, a Singer tap with its target 3700.\n',
  );
}

function perRecord(ms: number): string {
  return ((1000 * ms) / members).toFixed(1);
}

function checkSink(type: string, durability: string): void {
  const sink = `${type}, ${durability}`;
  const [first, again] = linesOf(sink);
  const bare = results.get(bareOf(sink, 'first load')) ?? [];
  if (first.length === 0) return;
  const [load = 0, same = 0] = goals[type] ?? [];
  const times = (outcomes: readonly Outcome[]): number => median(bare, 'ms') / median(outcomes, 'ms');
  const cpu = (outcomes: readonly Outcome[]): number => median(outcomes, 'cpuMs') / median(bare, 'cpuMs');
  const atLeast = (what: string, value: number, least: number): void =>
    target(`${sink}: ${what} at least ${least}x of the bare script`, `${value.toFixed(2)}x`, value >= least);
  const atMost = (what: string, value: number, most: number): void =>
    target(
      `${sink}: processor time of ${what} at most ${most.toFixed(2)}x of the bare script's`,
      `${value.toFixed(2)}x`,
      value <= most,
    );
  atLeast('first load', times(first), load);
  atLeast('re-sync', times(again), same);
  atMost('a first load', cpu(first), 1);
  atMost('a re-sync', cpu(again), 1 / 3);
  const rss = Math.max(median(first, 'rssMiB'), median(again, 'rssMiB'));
  const written = median(again, 'written');
  target(`${sink}: peak memory at most 200 MiB`, `${Math.round(rss)} MiB`, rss <= 200);
  target(`${sink}: a re-sync writes no row`, String(written), written === 0);
  if (type === 'postgres') checkServer(sink, again);
}

/**
 * How a line compares with the script that stores the same page by page, in the same store, waiting for its disk as
 * often.
 */
function toBare(name: string, outcomes: readonly Outcome[]): number {
  const bare = bareOf(name, /re-sync|again/.test(name) ? 'again' : 'first load');
  return median(results.get(bare) ?? [], 'ms') / median(outcomes, 'ms');
}

function bareOf(name: string, step: 'first load' | 'again'): string {
  const isLoose = /NORMAL|normal|, off/.test(name);
  return name.includes('postgres')
    ? `bare script, postgres, ${isLoose ? 'off' : 'on'}, ${step}`
    : `bare script, ${isLoose ? 'NORMAL' : 'FULL'}, ${step}`;
}

function checkServer(sink: string, again: readonly Outcome[]): void {
  const wal = median(again, 'walBytes');
  target(`${sink}: a re-sync costs at most 2 bytes of WAL a record`, wal.toFixed(1), wal <= 2);
  const [near] = linesOf(`${sink}, by a proxy`);
  const [far] = linesOf(`${sink}, 1 ms away`);
  if (far.length === 0) return;
  const cost = median(far, 'ms') / median(near, 'ms') - 1;
  target(
    `${sink}: a millisecond more to the server costs at most 15 %`,
    `${(100 * cost).toFixed(0)} %`,
    cost <= 0.15,
  );
}

function linesOf(sink: string): readonly [readonly Outcome[], readonly Outcome[]] {
  const of = (step: string): readonly Outcome[] => results.get(`connector-sync, ${sink}, ${step}`) ?? [];
  return [of('first load'), of('re-sync')];
}

function target(what: string, measured: string, isMet: boolean): void {
  process.stdout.write(`  ${isMet ? 'met   ' : 'missed'}  ${what}: ${measured}\n`);
}

function median(outcomes: readonly Outcome[], part: keyof Outcome): number {
  const sorted = outcomes
    .map((outcome) => outcome[part] ?? Number.NaN)
    .toSorted((left, right) => left - right);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}

/** A programme of the bench as a process. */
function start(file: string, args: readonly string[]): ChildProcessByStdio<Writable, Readable, null> {
  const script = fileURLToPath(new URL(`${file}.js`, import.meta.url));
  return spawn(process.execPath, ['--import', endWithParent, script, ...args], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
}
