import { spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { cpus, loadavg, tmpdir } from 'node:os';
import path from 'node:path';
import Database from 'better-sqlite3';
import { fillMemberSink } from './member-sink.ts';
import { loadDefinitions } from '../src/definitions/load-definitions.ts';

/**
 * Publishes list members from a SQLite sink as Parquet, and writes the same with a script that has none of the promises
 * (`publish/bare.ts`), one after the other. `npm run bench:publish -- [rows] [rounds]`. Processor time and memory come
 * from /proc, so it runs on Linux.
 */
const rows = Number(process.argv[2] ?? 300_000);
const rounds = Number(process.argv[3] ?? 1);
const seedRows = Math.min(rows, 10_000);

const definition = loadDefinitions(['config/definitions']).get('email-marketing');
if (definition === undefined) throw new Error('no definition email-marketing');
const folder = mkdtempSync(path.join(tmpdir(), 'connector-sync-bench-'));
try {
  const file = path.join(folder, 'bench.db');
  await fillMemberSink(file, definition, seedRows);
  multiply(file);
  const sinkMiB = Math.round(statSync(file).size / 2 ** 20);
  console.log(`Node.js ${process.version}, ${cpus().length} processors, ${rows} rows, sink ${sinkMiB} MiB`);
  console.log('what      wall s   CPU s (process + child)   peak MiB (process + child)   files MB   load');
  for (let round = 0; round < rounds; round += 1) {
    const bare = await measured('bare');
    const publish = await measured('publish');
    console.log(`publish takes ${(publish / bare).toFixed(2)} times the wall time of the bare script`);
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}

/** Copies of the synced members under other ids and numbers, because syncing millions takes long. */
function multiply(file: string): void {
  const db = new Database(file);
  const columns = db
    .prepare<[], { name: string }>(`SELECT name FROM pragma_table_info('bench__list_members')`)
    .all()
    .map(({ name }) => name)
    .filter((name) => name !== '_row');
  const selected = columns.map((name) => {
    if (name === 'id') return `substr("id", 9) || printf('%08x', ?)`;
    return name === '_seq' ? `_seq + ?` : `"${name}"`;
  });
  const names = columns.map((name) => `"${name}"`).join(', ');
  const copy = db.prepare(
    `INSERT INTO bench__list_members (${names}) SELECT ${selected.join(', ')} FROM bench__list_members WHERE _row <= ? ORDER BY _row`,
  );
  db.transaction(() => {
    for (let done = seedRows; done < rows; done += seedRows) {
      copy.run(done, done, Math.min(seedRows, rows - done));
    }
    db.prepare('UPDATE _sync_meta SET seq = (SELECT max(_seq) FROM bench__list_members)').run();
  })();
  db.close();
}

/** Runs one of the programs; gives its wall time in ms without the start of Node.js. */
async function measured(what: 'bare' | 'publish'): Promise<number> {
  const output = path.join(folder, what);
  const program = path.join(import.meta.dirname, 'publish', `${what}.ts`);
  const child = spawn(process.execPath, ['--import', 'tsx', program, path.join(folder, 'bench.db'), output], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let told = '';
  child.stdout.on('data', (chunk: Buffer) => (told += chunk.toString()));
  const seen = new Map<number, Usage>();
  const timer = setInterval(() => watch(child.pid ?? 0, seen), 100);
  const code = await new Promise((resolve) => child.once('close', resolve));
  clearInterval(timer);
  if (code !== 0) throw new Error(`${what} ended with ${String(code)}`);
  const wallMs = Number(told.trim().split('\n').at(-1));
  const own = seen.get(child.pid ?? 0);
  const others = [...seen].filter(([pid]) => pid !== child.pid).map(([, usage]) => usage);
  const writer = others.toSorted((left, right) => right.cpuS - left.cpuS)[0];
  const cells = [
    what.padEnd(9),
    (wallMs / 1000).toFixed(1).padStart(6),
    `${own?.cpuS.toFixed(1) ?? ''} + ${writer?.cpuS.toFixed(1) ?? '0'}`.padStart(25),
    `${own?.peakMiB ?? ''} + ${writer?.peakMiB ?? '0'}`.padStart(28),
    (bytesBelow(output) / 1e6).toFixed(1).padStart(10),
    loadavg()[0]?.toFixed(1).padStart(6),
  ];
  console.log(cells.join(' '));
  rmSync(output, { recursive: true, force: true });
  return wallMs;
}

interface Usage {
  readonly cpuS: number;
  readonly peakMiB: number;
}

/** A process and its children, as they are now. */
function watch(pid: number, seen: Map<number, Usage>): void {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ') ?? [];
    const status = readFileSync(`/proc/${pid}/status`, 'utf8');
    const peak = Number(/VmHWM:\s+(\d+)/.exec(status)?.[1] ?? 0);
    // In ticks of 10 ms.
    const cpuS = (Number(stat[11]) + Number(stat[12])) / 100;
    // Of one that has ended and was not asked for yet, the memory is 0.
    seen.set(pid, { cpuS, peakMiB: Math.max(seen.get(pid)?.peakMiB ?? 0, Math.round(peak / 1024)) });
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim();
    for (const child of children === '' ? [] : children.split(' ')) watch(Number(child), seen);
  } catch {
    // It has ended: what was seen last counts.
  }
}

function bytesBelow(output: string): number {
  return readdirSync(output, { recursive: true, encoding: 'utf8' })
    .map((name) => statSync(path.join(output, name)))
    .reduce((sum, stats) => sum + (stats.isFile() ? stats.size : 0), 0);
}
