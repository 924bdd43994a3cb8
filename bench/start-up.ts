import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, loadavg, tmpdir } from 'node:os';
import path from 'node:path';

/**
 * The start-up cost of each command as a process, compared with `node -e 0`. `npm run bench:start-up -- [rounds]
 * [checkout...]` also measures other built checkouts, alternating with this one. CPU time is user plus system of the
 * bash builtin `time`.
 */
interface Measured {
  readonly name: string;
  readonly args: readonly string[];
  readonly code: number;
  readonly wallMs: number[];
  readonly cpuMs: number[];
}

const rounds = Number(process.argv[2] ?? 15);
const checkouts = [path.resolve(import.meta.dirname, '..'), ...process.argv.slice(3)];

const config = `api: { baseUrl: "https://api.example.com", clientId: a, clientSecret: b-long-enough-to-be-one }
sinks:
  main: { type: sqlite, path: ./main.db }
connectors:
  newsletter: { definition: email-marketing, id: c-news, sink: main }
`;

const folder = mkdtempSync(path.join(tmpdir(), 'start-up-'));
try {
  writeFileSync(path.join(folder, 'good.yaml'), config);
  writeFileSync(path.join(folder, 'schema.yaml'), config.replace('sink: main', 'sink: man'));
  writeFileSync(path.join(folder, 'yaml.yaml'), config.replace('api: {', 'api: {{'));
  const bare: Measured = { name: 'node -e 0', args: ['-e', '0'], code: 0, wallMs: [], cpuMs: [] };
  const measured = [bare, ...checkouts.flatMap(commandsOf)];
  for (const checkout of checkouts.slice(0, 1)) run([mainOf(checkout), 'demo', '--directory', 'demo'], 0);
  for (let round = 0; round < rounds; round += 1) for (const one of measured) measure(one);
  const [cpu] = cpus();
  console.log(
    `Node.js ${process.version}, ${cpus().length} x ${cpu?.model}, load ${loadavg()[0]?.toFixed(1)}, medians of ${rounds} runs\n`,
  );
  const width = Math.max(...measured.map(({ name }) => name.length));
  console.log(`${'command'.padEnd(width)}  wall ms  CPU ms  x node -e 0 (wall)  (CPU)`);
  for (const { name, wallMs, cpuMs } of measured) {
    const [wall, cpuTime] = [median(wallMs), median(cpuMs)];
    const times = [wall / median(bare.wallMs), cpuTime / median(bare.cpuMs)].map((n) => n.toFixed(2));
    console.log(
      `${name.padEnd(width)}  ${wall.toFixed(0).padStart(7)}  ${cpuTime.toFixed(0).padStart(6)}  ${times[0]?.padStart(18)}  ${times[1]?.padStart(5)}`,
    );
  }
} finally {
  rmSync(folder, { recursive: true });
}

function commandsOf(checkout: string): readonly Measured[] {
  const prefix = checkouts.length === 1 ? '' : `${path.basename(checkout)}: `;
  const command = (name: string, code: number, args: readonly string[]): Measured => ({
    name: `${prefix}${name}`,
    args: [mainOf(checkout), ...args],
    code,
    wallMs: [],
    cpuMs: [],
  });
  return [
    command('--version', 0, ['--version']),
    command('--help', 0, ['--help']),
    command('status, nothing synced', 0, ['status', '-c', 'good.yaml']),
    command('status, two connectors', 0, ['status', '-c', 'demo/connector-sync.yaml']),
    command('status, no config file', 2, ['status', '-c', 'none.yaml']),
    command('status, config with a YAML error', 2, ['status', '-c', 'yaml.yaml']),
    command('status, config with a schema error', 2, ['status', '-c', 'schema.yaml']),
    command('sync, config with a schema error', 2, ['sync', '-c', 'schema.yaml']),
  ];
}

function mainOf(checkout: string): string {
  return path.join(checkout, 'dist', 'main.js');
}

function measure({ args, code, wallMs, cpuMs }: Measured): void {
  const stderr = run(args, code);
  const [wall = 0, user = 0, system = 0] = stderr.trim().split(' ').map(Number);
  wallMs.push(wall * 1000);
  cpuMs.push((user + system) * 1000);
}

/**
 * Returns the times printed by bash. Throws on an unexpected exit code, so that an early failure does not count as
 * fast.
 */
function run(args: readonly string[], code: number): string {
  const script = 'TIMEFORMAT="%3R %3U %3S"; time "$@" > /dev/null 2> /dev/null';
  const ended = spawnSync('bash', ['-c', script, 'bash', process.execPath, ...args], {
    cwd: folder,
    encoding: 'utf8',
  });
  if (ended.status !== code) throw new Error(`${args.join(' ')} ended with ${ended.status}, not ${code}`);
  return ended.stderr;
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
}
