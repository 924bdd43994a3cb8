import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { findPostgres } from '../test/support/ensure-postgres.ts';
import { startPostgres, type PrivatePostgres } from '../test/support/postgres.ts';

/**
 * First load and unchanged re-sync of list members over HTTP, compared with a bare script. Each round runs all of them
 * in turn, so that a slowing machine affects all alike. `npm run bench -- [members] [rounds] [sqlite|postgres|all]`;
 * PostgreSQL is a server of the bench's own, on this machine, which waits for its disk. It cleans up (VACUUM ANALYZE)
 * after each measurement instead of at any moment of one, where its own write-ahead log would count as that of the one
 * that runs.
 */
const members = Number(process.argv[2] ?? 200_000);
const rounds = Number(process.argv[3] ?? 3);
const kinds = process.argv[4] ?? 'all';

interface Outcome {
  readonly rows: number;
  readonly written: number;
  readonly ms: number;
  readonly cpuMs: number;
  readonly rssMiB: number;
  /** Bytes of write-ahead log per member; PostgreSQL alone. */
  readonly walBytes?: number;
}

const folder = mkdtempSync(path.join(tmpdir(), 'connector-sync-bench-'));
const server = spawn(process.execPath, [programme('member-server'), String(members)], {
  stdio: ['ignore', 'pipe', 'inherit'],
});
const results = new Map<string, Outcome[]>();
await using postgres =
  kinds === 'sqlite' || findPostgres() === null
    ? null
    : await startPostgres({
        config: { fsync: 'on', shared_buffers: '256MB', max_wal_size: '4GB', autovacuum: 'off' },
      });
if (postgres === null && kinds !== 'sqlite') {
  process.stderr.write('PostgreSQL is left out: its programs are not here\n');
}
try {
  const [port] = (await once(createInterface({ input: server.stdout }), 'line')) as [string];
  const baseUrl = `http://127.0.0.1:${port}`;
  for (let round = 1; round <= rounds; round += 1) {
    if (kinds !== 'postgres') await measureFiles(baseUrl, round);
    if (postgres !== null) await measurePostgres(baseUrl, round, postgres);
    process.stderr.write(`round ${round} of ${rounds} done\n`);
  }
} finally {
  server.kill();
  rmSync(folder, { recursive: true, force: true });
}
print();

async function measureFiles(baseUrl: string, round: number): Promise<void> {
  for (const synchronous of ['NORMAL', 'FULL']) {
    const file = path.join(folder, `bare-${synchronous}-${round}.db`);
    await measure(`bare script, ${synchronous}, first load`, 'bare-script', [baseUrl, file, synchronous]);
    await measure(`bare script, ${synchronous}, again`, 'bare-script', [baseUrl, file, synchronous]);
  }
  for (const durability of ['normal', 'full']) {
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
    for (const sink of [sqlite, jsonl]) {
      const name = `connector-sync, ${sink.type}, ${durability}`;
      await measure(`${name}, first load`, 'sync-once', [baseUrl, JSON.stringify(sink)]);
      await measure(`${name}, re-sync`, 'sync-once', [baseUrl, JSON.stringify(sink)]);
    }
  }
}

async function measurePostgres(
  baseUrl: string,
  round: number,
  { url, port, connection }: PrivatePostgres,
): Promise<void> {
  // Both ways lead through a proxy, so that they differ in the delay alone: a proxy on this machine costs processor
  // time.
  const proxies = ['0', '1'].map((ms) =>
    spawn(process.execPath, [programme('delay-proxy'), String(port), ms], {
      stdio: ['ignore', 'pipe', 'inherit'],
    }),
  );
  try {
    const lines = proxies.map(async ({ stdout }) => {
      const [line] = (await once(createInterface({ input: stdout }), 'line')) as [string];
      return Number(line);
    });
    const [passed = 0, delayed = 0] = await Promise.all(lines);
    for (const synchronous of ['off', 'on']) {
      const args = [baseUrl, url, `bare_${synchronous}_${round}`, synchronous];
      await measure(`bare script, postgres, ${synchronous}, first load`, 'bare-postgres', args, url);
      await measure(`bare script, postgres, ${synchronous}, again`, 'bare-postgres', args, url);
    }
    const ways = [
      ['normal', 'normal', port],
      ['full', 'full', port],
      ['full, by a proxy', 'full', passed],
      ['full, 1 ms away', 'full', delayed],
    ] as const;
    for (const [name, durability, to] of ways) {
      const schema = `sync_${durability}_${to}_${round}`;
      const at = { ...connection, hosts: [{ host: '127.0.0.1', port: to }] };
      const options = { type: 'postgres', name: 'bench', connection: at, direct: null, connections: 4 };
      const sink = JSON.stringify({ ...options, schema, durability });
      await measure(`connector-sync, postgres, ${name}, first load`, 'sync-once', [baseUrl, sink], url);
      await measure(`connector-sync, postgres, ${name}, re-sync`, 'sync-once', [baseUrl, sink], url);
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

async function measure(name: string, file: string, args: readonly string[], url?: string): Promise<void> {
  const walBefore = url === undefined ? null : await walPosition(url);
  const child = spawn(process.execPath, [programme(file), ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
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
  results.set(name, [...(results.get(name) ?? []), { ...outcome, ...walBytes }]);
  if (url !== undefined) await ask(url, 'VACUUM ANALYZE');
}

function print(): void {
  process.stdout.write(
    `${members} members, ${rounds} rounds, ${cpus().length} cores, Node ${process.version}; medians\n\n`,
  );
  const head = ['', 'records/s', 'to bare script', 'rows written', 'CPU s', 'peak RSS MiB', 'WAL B/record'];
  const rows = [...results].map(([name, outcomes]) => [
    name,
    String(Math.round((members / median(outcomes, 'ms')) * 1000)),
    ...[toBare(name, outcomes)].map((ratio) => `${ratio.toFixed(2)}x`),
    String(median(outcomes, 'written')),
    (median(outcomes, 'cpuMs') / 1000).toFixed(1),
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
  for (const durability of ['normal', 'full']) {
    if (kinds !== 'postgres') checkFiles(`sqlite, ${durability}`);
    if (postgres !== null) checkServer(durability);
  }
}

/**
 * How a line compares with the script that stores the same page by page, in the same store, waiting for its disk as
 * often.
 */
function toBare(name: string, outcomes: readonly Outcome[]): number {
  const isLoose = /NORMAL|normal|, off/.test(name);
  const step = /re-sync|again/.test(name) ? 'again' : 'first load';
  const bare = name.includes('postgres')
    ? `bare script, postgres, ${isLoose ? 'off' : 'on'}, ${step}`
    : `bare script, ${isLoose ? 'NORMAL' : 'FULL'}, ${step}`;
  return median(results.get(bare) ?? [], 'ms') / median(outcomes, 'ms');
}

function checkFiles(sink: string): void {
  const [first, again] = linesOf(sink);
  const ratio = toBare(`connector-sync, ${sink}, first load`, first);
  const faster = median(first, 'ms') / median(again, 'ms');
  const written = median(again, 'written');
  const rss = Math.max(median(first, 'rssMiB'), median(again, 'rssMiB'));
  target(`first load at least 1.0x of the bare script (${sink})`, `${ratio.toFixed(2)}x`, ratio >= 1);
  target(`re-sync faster than the first load (${sink})`, `${faster.toFixed(2)}x`, faster > 1);
  target(`re-sync writes no row (${sink})`, String(written), written === 0);
  target(`peak RSS under 250 MiB (${sink})`, `${Math.round(rss)} MiB`, rss < 250);
}

function checkServer(durability: string): void {
  const [sink, first, again] = [`postgres, ${durability}`, ...linesOf(`postgres, ${durability}`)];
  const load = toBare(`connector-sync, ${sink}, first load`, first);
  const same = toBare(`connector-sync, ${sink}, re-sync`, again);
  const wal = median(again, 'walBytes');
  const [near] = linesOf(`${sink}, by a proxy`);
  const [far] = linesOf(`${sink}, 1 ms away`);
  target(`first load at least 0.8x of the bare script (${sink})`, `${load.toFixed(2)}x`, load >= 0.8);
  target(
    `re-sync at least 1.0x of the bare script's second time (${sink})`,
    `${same.toFixed(2)}x`,
    same >= 1,
  );
  target(`re-sync costs at most 2 bytes of WAL a record (${sink})`, wal.toFixed(1), wal <= 2);
  if (far.length === 0) return;
  const cost = median(far, 'ms') / median(near, 'ms') - 1;
  target(
    `a millisecond more to the server costs at most 15 % (${sink})`,
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

function programme(file: string): string {
  return fileURLToPath(new URL(`${file}.js`, import.meta.url));
}
