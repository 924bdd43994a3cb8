import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

/**
 * First load and unchanged re-sync of list members over HTTP, compared with a bare script. Each round runs all of them in
 * turn, so that a slowing machine affects all alike. `npm run bench -- [members] [rounds]`.
 */
const members = Number(process.argv[2] ?? 200_000);
const rounds = Number(process.argv[3] ?? 3);

interface Outcome {
  readonly rows: number;
  readonly written: number;
  readonly ms: number;
  readonly cpuMs: number;
  readonly rssMiB: number;
}

const folder = mkdtempSync(path.join(tmpdir(), 'connector-sync-bench-'));
const server = spawn(process.execPath, [programme('member-server'), String(members)], {
  stdio: ['ignore', 'pipe', 'inherit'],
});
const results = new Map<string, Outcome[]>();
try {
  const [port] = (await once(createInterface({ input: server.stdout }), 'line')) as [string];
  const baseUrl = `http://127.0.0.1:${port}`;
  for (let round = 1; round <= rounds; round += 1) {
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
    process.stderr.write(`round ${round} of ${rounds} done\n`);
  }
} finally {
  server.kill();
  rmSync(folder, { recursive: true, force: true });
}
print();

async function measure(name: string, file: string, args: readonly string[]): Promise<void> {
  const child = spawn(process.execPath, [programme(file), ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let output = '';
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
  const [code] = (await once(child, 'close')) as [number | null];
  if (code !== 0) throw new Error(`${name} ended with ${code}`);
  const outcome = JSON.parse(output) as Outcome;
  if (outcome.rows !== members) throw new Error(`${name} has ${outcome.rows} rows instead of ${members}`);
  results.set(name, [...(results.get(name) ?? []), outcome]);
}

function print(): void {
  const base = { NORMAL: bare('NORMAL'), FULL: bare('FULL') };
  process.stdout.write(
    `${members} members, ${rounds} rounds, ${cpus().length} cores, Node ${process.version}; medians\n\n`,
  );
  const head = ['', 'records/s', 'to bare NORMAL', 'to bare FULL', 'rows written', 'CPU s', 'peak RSS MiB'];
  const rows = [...results].map(([name, outcomes]) => {
    const ms = median(outcomes, 'ms');
    return [
      name,
      String(Math.round((members / ms) * 1000)),
      `${(base.NORMAL / ms).toFixed(2)}x`,
      `${(base.FULL / ms).toFixed(2)}x`,
      String(median(outcomes, 'written')),
      (median(outcomes, 'cpuMs') / 1000).toFixed(1),
      String(Math.round(median(outcomes, 'rssMiB'))),
    ];
  });
  const widths = head.map((_, column) => Math.max(...[head, ...rows].map((row) => row[column]?.length ?? 0)));
  for (const row of [head, ...rows]) {
    process.stdout.write(
      `${row.map((cell, column) => (column === 0 ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0))).join('  ')}\n`,
    );
  }
  process.stdout.write('\nTargets\n');
  for (const durability of ['normal', 'full'] as const) {
    const first = results.get(`connector-sync, sqlite, ${durability}, first load`) ?? [];
    const again = results.get(`connector-sync, sqlite, ${durability}, re-sync`) ?? [];
    const ratio = base[durability === 'full' ? 'FULL' : 'NORMAL'] / median(first, 'ms');
    const faster = median(first, 'ms') / median(again, 'ms');
    const rss = Math.max(median(first, 'rssMiB'), median(again, 'rssMiB'));
    target(
      `first load at least 1.0x of the bare script (sqlite, both ${durability})`,
      `${ratio.toFixed(2)}x`,
      ratio >= 1,
    );
    target(`re-sync faster than the first load (sqlite, ${durability})`, `${faster.toFixed(2)}x`, faster > 1);
    target(
      `re-sync writes no row (sqlite, ${durability})`,
      `${median(again, 'written')}`,
      median(again, 'written') === 0,
    );
    target(`peak RSS under 250 MiB (sqlite, ${durability})`, `${Math.round(rss)} MiB`, rss < 250);
  }
}

function bare(synchronous: 'NORMAL' | 'FULL'): number {
  return median(results.get(`bare script, ${synchronous}, first load`) ?? [], 'ms');
}

function target(what: string, measured: string, isMet: boolean): void {
  process.stdout.write(`  ${isMet ? 'met   ' : 'missed'}  ${what}: ${measured}\n`);
}

function median(outcomes: readonly Outcome[], part: keyof Outcome): number {
  const sorted = outcomes.map((outcome) => outcome[part]).toSorted((left, right) => left - right);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}

function programme(file: string): string {
  return fileURLToPath(new URL(`${file}.js`, import.meta.url));
}
