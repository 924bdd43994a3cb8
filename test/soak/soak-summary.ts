import type { SoakOptions, SoakResult } from './run-soak.ts';

/** The failures that the soak found; empty: it passed. */
export function failuresOf(result: SoakResult): readonly string[] {
  const { compared } = result;
  const counted = [
    ['missing rows', compared.missing],
    ['different rows', compared.different],
    ['superfluous rows', compared.superfluous],
    ['duplicate rows', compared.doubled],
    ['overlapping runs', result.overlaps.length],
    ['connectors without a run after the last fault', result.notRecovered.length],
    ['workers that did not shut down cleanly', result.ends.filter((end) => end !== 0).length],
    [
      'workers that exited unexpectedly while Redis was up',
      result.unexpectedExits.filter(({ isRedisDown }) => !isRedisDown).length,
    ],
    ['output lines that are not log lines', result.stray.length],
  ] as const;
  return [
    ...counted.filter(([, count]) => count > 0).map(([what, count]) => `${count} ${what}`),
    ...(compared.rows === 0 ? ['nothing was stored'] : []),
    ...((result.runsByOutcome.get('ok') ?? 0) === 0 ? ['no run was ok'] : []),
  ];
}

/** The table that a soak prints at its end. */
export function soakSummary(result: SoakResult, options: Omit<SoakOptions, 'tell'>): string {
  const { compared } = result;
  const failures = failuresOf(result);
  const rows: readonly (readonly [string, string])[] = [
    ['seed', String(options.seed)],
    ['duration', `${(options.durationMs / 1000).toFixed(0)} s of faults`],
    ['connectors, workers', `${options.connectors}, ${options.workers}`],
    ...[...result.runsByOutcome].map(([outcome, runs]) => [`runs ${outcome}`, String(runs)] as const),
    [
      'slot to start',
      `p50 ${delayAt(result, 0.5)}, p99 ${delayAt(result, 0.99)} (${result.slotDelaysMs.length} runs)`,
    ],
    ...[...result.faultsByName].map(([name, count]) => [name, String(count)] as const),
    ...result.skipped.map((why) => ['skipped', why] as const),
    ['calls that the API rejected', String(result.callsRefused)],
    [
      'workers restarted',
      `${result.restarts}, ${result.unexpectedExits.length} of them after an unexpected exit`,
    ],
    ['last fault to all synced', `${(result.recoveryMs / 1000).toFixed(1)} s`],
    ['rows compared', String(compared.rows)],
    ['missing', String(compared.missing)],
    ['different', String(compared.different)],
    ['superfluous', String(compared.superfluous)],
    ['duplicate', String(compared.doubled)],
    ['overlapping runs', String(result.overlaps.length)],
    ['result', failures.length === 0 ? 'passed' : `failed: ${failures.join(', ')}`],
  ];
  const width = Math.max(...rows.map(([what]) => what.length));
  const details = [
    ...compared.examples,
    ...result.overlaps.slice(0, 20),
    ...result.notRecovered.map((name) => `not recovered: ${name}`),
    ...result.unexpectedExits.map((end) => `unexpected exit: ${JSON.stringify(end)}`),
    ...result.stray.slice(0, 20).map((line) => `stray: ${line}`),
  ];
  return [...rows.map(([what, value]) => `${what.padEnd(width)}  ${value}`), ...details, ''].join('\n');
}

function delayAt({ slotDelaysMs }: SoakResult, share: number): string {
  const ms = slotDelaysMs[Math.floor(share * (slotDelaysMs.length - 1))];
  return ms === undefined ? '-' : `${(ms / 1000).toFixed(2)} s`;
}
