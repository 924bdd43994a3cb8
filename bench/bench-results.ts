import { cpus } from 'node:os';

export interface Outcome {
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

/** What was measured with a number of members: the outcome of every round, by what was measured. */
export interface Results {
  readonly members: number;
  readonly outcomes: Map<string, Outcome[]>;
}

/** Records a second of a first load and of a re-sync, as multiples of the bare script's first load. */
const goals: Readonly<Record<string, readonly [number, number]>> = {
  sqlite: [2, 4],
  jsonl: [1.5, 4],
  postgres: [1.3, 3],
};

/** Medians of the rounds as a table, and which targets they meet. */
export function printResults(results: Results, rounds: number, durabilities: readonly string[]): void {
  const { members } = results;
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
  const rows = [...results.outcomes].map(([name, outcomes]) => [
    name,
    String(Math.round((members / median(outcomes, 'ms')) * 1000)),
    `${toBare(results, name, outcomes).toFixed(2)}x`,
    String(median(outcomes, 'written')),
    perRecord(members, median(outcomes, 'cpuMs')),
    outcomes[0]?.serverMs === undefined ? '' : perRecord(members, median(outcomes, 'serverMs')),
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
    for (const sink of ['sqlite', 'jsonl', 'postgres']) checkSink(results, sink, durability);
  }
  process.stdout.write(
    '\nQuoted, on such a machine: a pull of the same data by dlt 6300 records/s, a Singer tap with its target 3700.\n',
  );
}

/** What versions of rows cost, by processor time, that of a server included: the machine may do other work. */
export function printHistory({ members, outcomes }: Results, rounds: number): void {
  process.stdout.write(
    `${members} members, ${rounds} rounds, ${cpus().length} cores, Node ${process.version}; medians of processor time\n\n`,
  );
  const cost = (name: string): number => {
    const of = outcomes.get(`connector-sync, ${name}`) ?? [];
    return median(of, 'cpuMs') + (of[0]?.serverMs === undefined ? 0 : median(of, 'serverMs'));
  };
  for (const sink of ['sqlite', 'postgres']) {
    for (const [step, most] of [
      ['first load', 1.4],
      ['re-sync', 1.1],
      ['updates', null],
    ] as const) {
      const [without, kept] = [cost(`${sink}, normal, ${step}`), cost(`${sink}, normal, history, ${step}`)];
      if (Number.isNaN(kept)) continue;
      const times = kept / without;
      const each = [without, kept].map((ms) => perRecord(members, ms)).join(' us/record without history, ');
      const measured = `${times.toFixed(2)}x (${each} with)`;
      if (most === null) process.stdout.write(`          ${sink}: ${step} cost ${measured}\n`);
      else target(`${sink}: ${step} at most ${most}x`, measured, times <= most);
    }
  }
}

/** How what a record costs, and the memory, grow with the number of members. */
export function printGrowth([small, ...larger]: readonly Results[]): void {
  if (small === undefined || larger.length === 0) return;
  process.stdout.write(`\nGrowth, compared with ${small.members} members\n`);
  for (const large of larger) {
    for (const [name, outcomes] of large.outcomes) {
      const before = small.outcomes.get(name) ?? [];
      if (!name.startsWith('connector-sync')) continue;
      const scale = large.members / small.members;
      const cost = median(outcomes, 'cpuMs') / median(before, 'cpuMs') / scale;
      const memory = median(outcomes, 'rssMiB') / median(before, 'rssMiB');
      const what = `${name}, ${large.members} members`;
      target(`${what}: a record costs at most 1.3x`, `${cost.toFixed(2)}x`, cost <= 1.3);
      target(`${what}: at most 10 % more memory`, `${(100 * (memory - 1)).toFixed(0)} %`, memory <= 1.1);
    }
  }
}

function perRecord(members: number, ms: number): string {
  return ((1000 * ms) / members).toFixed(1);
}

function checkSink(results: Results, type: string, durability: string): void {
  const sink = `${type}, ${durability}`;
  const [first, again, shuffled, read] = linesOf(results, sink);
  const bare = results.outcomes.get(bareOf(sink, 'first load')) ?? [];
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
  if (shuffled.length > 0) checkShuffled(sink, read, shuffled);
  if (type === 'postgres') checkServer(results, sink, again);
}

/** `read`: the same re-sync without looking for records by their bytes. */
function checkShuffled(sink: string, read: readonly Outcome[], shuffled: readonly Outcome[]): void {
  const written = median(shuffled, 'written');
  target(`${sink}: a shuffled re-sync writes no row`, String(written), written === 0);
  if (written > 0) process.exitCode = 1;
  const cost = median(shuffled, 'cpuMs') / median(read, 'cpuMs') - 1;
  target(
    `${sink}: a shuffled re-sync costs at most 5 % more than one that reads every record`,
    `${(100 * cost).toFixed(0)} %`,
    cost <= 0.05,
  );
}

/**
 * How a line compares with the script that stores the same page by page, in the same store, waiting for its disk as
 * often.
 */
function toBare({ outcomes: all }: Results, name: string, outcomes: readonly Outcome[]): number {
  const bare = bareOf(name, /re-sync|again/.test(name) ? 'again' : 'first load');
  return median(all.get(bare) ?? [], 'ms') / median(outcomes, 'ms');
}

function bareOf(name: string, step: 'first load' | 'again'): string {
  const isLoose = /NORMAL|normal|, off/.test(name);
  return name.includes('postgres')
    ? `bare script, postgres, ${isLoose ? 'off' : 'on'}, ${step}`
    : `bare script, ${isLoose ? 'NORMAL' : 'FULL'}, ${step}`;
}

function checkServer(results: Results, sink: string, again: readonly Outcome[]): void {
  const wal = median(again, 'walBytes');
  target(`${sink}: a re-sync costs at most 2 bytes of WAL a record`, wal.toFixed(1), wal <= 2);
  const [near] = linesOf(results, `${sink}, by a proxy`);
  const [far] = linesOf(results, `${sink}, 1 ms away`);
  if (far.length === 0) return;
  const cost = median(far, 'ms') / median(near, 'ms') - 1;
  target(
    `${sink}: a millisecond more to the server costs at most 15 %`,
    `${(100 * cost).toFixed(0)} %`,
    cost <= 0.15,
  );
}

function linesOf({ outcomes }: Results, sink: string) {
  const of = (step: string): readonly Outcome[] => outcomes.get(`connector-sync, ${sink}, ${step}`) ?? [];
  return [of('first load'), of('re-sync'), of('shuffled re-sync'), of('re-sync, all read')] as const;
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
