import { describe, expect, it } from 'vitest';
import { runsTable } from '../../../src/cli/commands/runs.ts';
import { instant } from '../../../src/core/clock.ts';
import type { ConnectorName, RunId } from '../../../src/core/names.ts';
import type { RunSummary } from '../../../src/sinks/ledger-reader.ts';

const runs: readonly RunSummary[] = (['sync', 'backfill'] as const).map((kind) => ({
  run: '20261121T152528492Z-4b72c77d' as RunId,
  kind,
  connector: 'newsletter' as ConnectorName,
  state: 'interrupted',
  startedAt: instant(0),
  finishedAt: instant(200_000),
  continues: null,
  report: null,
}));

describe('the table of runs', () => {
  it.each([null, 100, 80, 60, 45])('fits a screen of %s columns, and names each run', (width) => {
    const lines = runsTable(runs, width);
    expect(lines.filter((line) => line.length > (width ?? Infinity))).toEqual([]);
    expect(lines.filter((line) => line.includes('20261121T152528492Z-4b72c77d'))).toHaveLength(2);
    expect(lines.join('\n')).toContain('3 min 20 s');
  });
});
