import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import pg from 'pg';
import { findPostgres } from '../test/support/ensure-servers.ts';
import { startPostgres, type PrivatePostgres } from '../test/support/postgres.ts';
import { firstLine, outputOf, start } from './children.ts';
import { printGrowth, printHistory, printResults, type Outcome, type Results } from './bench-results.ts';

/**
 * First load and unchanged re-sync of list members over HTTP, compared with a bare script. Each round runs all of them
 * in turn, so that a slowing machine affects all alike. `npm run bench -- [members] [rounds] [kind]`, where the kind is
 * `normal` (every sink with that durability; the default), `sqlite`, `jsonl` or `postgres` (with both), `all`, or
 * `shuffled`: SQLite is synced again from a service that gives the same records with their members in another order and
 * with newly signed links in every answer, and once more without looking for records by their bytes; or `history`:
 * SQLite and PostgreSQL, each without versions of rows and with them, and once more where every member has changed; it
 * leaves out the bare scripts, and prints after each round. Several numbers of members (`100000,1000000`) are measured
 * one after the other, with durability normal, and what a record costs of the first and of each other number is
 * compared. PostgreSQL is a server of the bench's own, on this machine, which waits
 * for its disk. It cleans up (VACUUM ANALYZE) after each measurement instead of at any moment of one, where its own
 * write-ahead log would count as that of the one that runs.
 */
const sizes = (process.argv[2] ?? '200000').split(',').map(Number);
const rounds = Number(process.argv[3] ?? 3);
const kind = process.argv[4] ?? 'normal';
const kinds = ['normal', 'sqlite', 'jsonl', 'postgres', 'all', 'shuffled', 'history'];
if (!kinds.includes(kind)) throw new Error(`Expected one of ${kinds.join(', ')}, got ${kind}.`);
const sinksOfKind: Readonly<Record<string, readonly string[]>> = {
  shuffled: ['sqlite'],
  history: ['sqlite', 'postgres'],
};
const isMeasured = (sink: string): boolean =>
  sinksOfKind[kind]?.includes(sink) ?? ['normal', 'all', sink].includes(kind);
const isNormal = ['normal', 'shuffled', 'history'].includes(kind) || sizes.length > 1;
const hasHistory = kind === 'history';
/** How `sync-once` is called besides. */
const ways = hasHistory ? [[], ['history']] : [[]];
/** How servers answer that a kind needs. */
const otherServers: Readonly<Record<string, readonly string[]>> = {
  shuffled: ['', 'shuffled'],
  history: ['', 'changed'],
};
const durabilities = isNormal ? ['normal'] : ['normal', 'full'];

const folder = mkdtempSync(path.join(tmpdir(), 'connector-sync-bench-'));
// The children end with this process.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => process.exit(1));
process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
const all: Results[] = [];
await using postgres =
  !isMeasured('postgres') || findPostgres() === null
    ? null
    : await startPostgres({
        config: { fsync: 'on', shared_buffers: '256MB', max_wal_size: '4GB', autovacuum: 'off' },
      });
if (postgres === null && isMeasured('postgres')) {
  process.stderr.write('PostgreSQL is left out: its programs are not here\n');
}
for (const members of sizes) {
  const results: Results = { members, outcomes: new Map() };
  const servers = (otherServers[kind] ?? ['']).map((how) => start('member-server', [String(members), how]));
  const [baseUrl = '', otherUrl] = await Promise.all(
    servers.map(async (server) => `http://127.0.0.1:${await firstLine(server)}`),
  );
  for (let round = 1; round <= rounds; round += 1) {
    if (kind !== 'postgres') await measureFiles(results, { baseUrl, otherUrl });
    if (postgres !== null) await measurePostgres(results, { baseUrl, otherUrl }, round, postgres);
    process.stderr.write(`round ${round} of ${rounds} done\n`);
    if (hasHistory) printHistory(results, round);
  }
  for (const server of servers) server.kill();
  if (!hasHistory) printResults(results, rounds, durabilities);
  all.push(results);
}
printGrowth(all);

interface Urls {
  readonly baseUrl: string;
  /** Of the server that answers otherwise. */
  readonly otherUrl: string | undefined;
}

async function measureFiles(results: Results, { baseUrl, otherUrl }: Urls): Promise<void> {
  for (const synchronous of hasHistory ? [] : durabilities.map((one) => one.toUpperCase())) {
    const name = `bare script, ${synchronous}`;
    const file = path.join(folder, `bare-${synchronous}.db`);
    await measure(results, `${name}, first load`, 'bare-script', [baseUrl, file, synchronous]);
    await measure(results, `${name}, again`, 'bare-script', [baseUrl, file, synchronous]);
    emptyFolder();
  }
  for (const durability of durabilities) {
    const sqlite = {
      type: 'sqlite',
      name: 'bench',
      path: path.join(folder, `${durability}.db`),
      durability,
    };
    const jsonl = {
      type: 'jsonl',
      name: 'bench',
      directory: path.join(folder, durability),
      durability,
    };
    const measured = [sqlite, jsonl].filter(({ type }) => isMeasured(type));
    for (const { sink, way } of measured.flatMap((one) => ways.map((way) => ({ sink: one, way })))) {
      const name = ['connector-sync', sink.type, durability, ...way].join(', ');
      const steps = [
        ['first load', baseUrl],
        ['re-sync', baseUrl],
        ...(otherUrl === undefined
          ? []
          : hasHistory
            ? ([['updates', otherUrl]] as const)
            : ([
                ['shuffled re-sync', otherUrl],
                ['re-sync, all read', otherUrl, 'read'],
              ] as const)),
      ] as const;
      for (const [step, url, ...how] of steps) {
        await measure(results, `${name}, ${step}`, 'sync-once', [url, JSON.stringify(sink), ...way, ...how]);
      }
      emptyFolder();
    }
  }
}

/** What was measured is of no more use, and millions of members take gigabytes. */
function emptyFolder(): void {
  for (const name of readdirSync(folder)) rmSync(path.join(folder, name), { recursive: true });
}

async function measurePostgres(
  results: Results,
  { baseUrl, otherUrl }: Urls,
  round: number,
  server: PrivatePostgres,
): Promise<void> {
  const { port, connection, url } = server;
  // Both ways lead through a proxy, so that they differ in the delay alone: a proxy on this machine costs processor
  // time.
  const proxies = ['0', '1'].map((ms) => start('delay-proxy', [String(port), ms]));
  try {
    const [passed = 0, delayed = 0] = (await Promise.all(proxies.map(firstLine))).map(Number);
    const run = `${results.members}_${round}`;
    for (const durability of hasHistory ? [] : durabilities) {
      const synchronous = durability === 'normal' ? 'off' : 'on';
      const args = [baseUrl, url, `bare_${synchronous}_${run}`, synchronous];
      await measure(
        results,
        `bare script, postgres, ${synchronous}, first load`,
        'bare-postgres',
        args,
        server,
      );
      await measure(results, `bare script, postgres, ${synchronous}, again`, 'bare-postgres', args, server);
    }
    const servers = [
      ['normal', 'normal', port],
      ['full', 'full', port],
      ['full, by a proxy', 'full', passed],
      ['full, 1 ms away', 'full', delayed],
    ] as const;
    const measured = servers.slice(0, isNormal ? 1 : servers.length);
    for (const { place, way } of measured.flatMap((one) => ways.map((way) => ({ place: one, way })))) {
      const [durable, durability, to] = place;
      const name = [durable, ...way].join(', ');
      const schema = [`sync_${durability}_${to}_${run}`, ...way].join('_');
      const at = { ...connection, hosts: [{ host: '127.0.0.1', port: to }] };
      const options = { type: 'postgres', name: 'bench', connection: at, direct: null, connections: 4 };
      const sink = JSON.stringify({ ...options, schema, durability });
      const steps = [
        ['first load', baseUrl],
        ['re-sync', baseUrl],
        ...(otherUrl === undefined ? [] : ([['updates', otherUrl]] as const)),
      ] as const;
      for (const [step, from] of steps) {
        const what = `connector-sync, postgres, ${name}, ${step}`;
        await measure(results, what, 'sync-once', [from, sink, ...way], server);
      }
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
  { members, outcomes }: Results,
  name: string,
  file: string,
  args: readonly string[],
  postgres?: PrivatePostgres,
): Promise<void> {
  const url = postgres?.url;
  const walBefore = url === undefined ? null : await walPosition(url);
  const serverBefore = postgres === undefined ? 0 : endedProcessesMs(postgres);
  const outcome = JSON.parse(await outputOf(start(file, args))) as Outcome;
  if (outcome.rows !== members) throw new Error(`${name} has ${outcome.rows} rows instead of ${members}`);
  const walBytes =
    url === undefined || walBefore === null
      ? {}
      : { walBytes: ((await walPosition(url)) - walBefore) / members };
  const serverMs = postgres === undefined ? {} : { serverMs: endedProcessesMs(postgres) - serverBefore };
  outcomes.set(name, [...(outcomes.get(name) ?? []), { ...outcome, ...walBytes, ...serverMs }]);
  if (url !== undefined) await ask(url, 'VACUUM ANALYZE');
}
