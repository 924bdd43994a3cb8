import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { loadDefinitions } from '../src/definitions/load-definitions.ts';
import { findPostgres } from '../test/support/ensure-servers.ts';
import { startPostgres } from '../test/support/postgres.ts';
import { firstLine, outputOf, start } from './children.ts';
import { fillMemberSink } from './member-sink.ts';

/**
 * Where the processor time goes: the ten largest entries of the profiles of a first load and a re-sync into SQLite, of
 * first loads into JSONL and PostgreSQL, and of a Parquet publication, by the function that was running,
 * and what each room of the program takes, with what it calls outside of `src`.
 * `npm run bench:profile -- [members]`. `README.md` says why each of them stays.
 */
const members = Number(process.argv[2] ?? 100_000);
const folder = mkdtempSync(path.join(tmpdir(), 'connector-sync-bench-'));
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => process.exit(1));
process.once('exit', () => rmSync(folder, { recursive: true, force: true }));

const server = start('member-server', [String(members)]);
const baseUrl = `http://127.0.0.1:${await firstLine(server)}`;
const sqlite = { type: 'sqlite', name: 'bench', path: path.join(folder, 'sync.db'), durability: 'normal' };
const jsonl = { type: 'jsonl', name: 'bench', directory: path.join(folder, 'lines'), durability: 'normal' };
await profile('First load, SQLite', 'sync-once', [baseUrl, JSON.stringify(sqlite)]);
await profile('Re-sync, SQLite', 'sync-once', [baseUrl, JSON.stringify(sqlite)]);
await profile('First load, JSONL', 'sync-once', [baseUrl, JSON.stringify(jsonl)]);
if (findPostgres() === null) process.stderr.write('PostgreSQL is left out: its programs are not here\n');
else {
  await using postgres = await startPostgres({ config: { shared_buffers: '256MB', max_wal_size: '4GB' } });
  const { connection } = postgres;
  const place = { connection, direct: null, schema: 'profile', connections: 4, durability: 'normal' };
  const sink = { type: 'postgres', name: 'bench', ...place };
  await profile('First load, PostgreSQL', 'sync-once', [baseUrl, JSON.stringify(sink)]);
}
server.kill();
const definition = loadDefinitions(['config/definitions']).get('email-marketing');
if (definition === undefined) throw new Error('no definition email-marketing');
const source = path.join(folder, 'published.db');
await fillMemberSink(source, definition, members);
await profile('Publication, Parquet', 'publish/publish', [source, path.join(folder, 'parquet')]);

/** What Node.js writes, as far as it is read here. */
interface CpuProfile {
  readonly nodes: readonly {
    readonly id: number;
    readonly callFrame: { readonly functionName: string; readonly url: string };
    readonly children?: readonly number[];
  }[];
  readonly samples: readonly number[];
  /** Microseconds. */
  readonly timeDeltas: readonly number[];
}

/** The largest of the process's profiles counts: children that were started beside it have their own. */
async function profile(title: string, program: string, args: readonly string[]): Promise<void> {
  const into = path.join(folder, 'profile');
  const how = ['--cpu-prof', `--cpu-prof-dir=${into}`, '--cpu-prof-interval', '300'];
  await outputOf(start(program, args, how));
  const profiles = readdirSync(into).map(
    (name) => JSON.parse(readFileSync(path.join(into, name), 'utf8')) as CpuProfile,
  );
  rmSync(into, { recursive: true });
  const [largest] = profiles.toSorted((one, other) => other.samples.length - one.samples.length);
  if (largest === undefined) throw new Error(`${title} has no profile`);
  const { byEntry, byRoom, busyUs } = timesOf(largest);
  console.log(`\n${title}: ${(busyUs / members).toFixed(1)} us a record`);
  for (const [entry, us] of largestOf(byEntry)) {
    const share = `${((100 * us) / busyUs).toFixed(1)} %`;
    console.log(`${share.padStart(7)} ${(us / members).toFixed(1).padStart(6)} us  ${entry}`);
  }
  const rooms = largestOf(byRoom).map(([room, us]) => `${room} ${((100 * us) / busyUs).toFixed(0)} %`);
  console.log(`  rooms: ${rooms.join(', ')}`);
}

function largestOf(times: ReadonlyMap<string, number>): readonly (readonly [string, number])[] {
  return [...times].toSorted(([, one], [, other]) => other - one).slice(0, 10);
}

/** Time that a function was running itself, by its name and file, and by its room; waiting does not count. */
function timesOf({ nodes, samples, timeDeltas }: CpuProfile) {
  const entryOf = new Map<number, string>();
  const roomOf = new Map<number, string>();
  const byEntry = new Map<string, number>();
  const byRoom = new Map<string, number>();
  // Callers come before what they call.
  for (const { id, callFrame, children = [] } of nodes) {
    const { functionName, url } = callFrame;
    entryOf.set(id, `${functionName} ${shortPath(url)}`.trim());
    const room = functionName === '(garbage collector)' ? 'collection' : roomIn(url);
    roomOf.set(id, room ?? roomOf.get(id) ?? 'start and Node.js');
    for (const child of children) roomOf.set(child, roomOf.get(id) ?? '');
  }
  let busyUs = 0;
  for (const [index, id] of samples.entries()) {
    const entry = entryOf.get(id) ?? '';
    if (entry === '(idle)') continue;
    const us = timeDeltas[index] ?? 0;
    busyUs += us;
    byEntry.set(entry, (byEntry.get(entry) ?? 0) + us);
    const room = roomOf.get(id) ?? '';
    byRoom.set(room, (byRoom.get(room) ?? 0) + us);
  }
  return { byEntry, byRoom, busyUs };
}

/** `engine/prepare`, or the first folder in `src`. */
function roomIn(url: string): string | undefined {
  return /\/src\/(engine\/prepare|[^/]+)\//u.exec(url)?.[1];
}

function shortPath(url: string): string {
  return url.replace(/^.*\/(?:\.bench|node_modules)\//u, '').replace(/\.js$/u, '.ts');
}
