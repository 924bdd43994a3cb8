import { describe, expect, it } from 'vitest';
import { runsTable, type ShownRun } from '../../../src/cli/commands/runs.ts';
import { instant } from '../../../src/core/clock.ts';
import type { ConnectorName, RunId } from '../../../src/core/names.ts';

const runs: readonly ShownRun[] = (['sync', 'backfill'] as const).map((kind) => ({
  run: '20261121T152528492Z-4b72c77d' as RunId,
  kind,
  connector: 'newsletter' as ConnectorName,
  sink: 'main',
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

  it('has the time of the start where it fits', () => {
    expect(runsTable(runs, null)[1]).toContain('1970-01-01T00:00:00.000Z');
    expect(runsTable(runs, 80).join('\n')).not.toContain('1970-');
  });

  it('names the sink of each run where there are several', () => {
    expect(runsTable(runs, null)[0]).not.toContain('sink');
    const [first, ...others] = runs;
    if (first === undefined) throw new TypeError('There should be a run');
    const lines = runsTable([{ ...first, sink: 'pg' }, ...others], null);
    expect(lines[0]).toMatch(/connector +sink +kind/);
    expect(lines.slice(1).map((line) => line.split(/ +/)[2])).toEqual(['pg', 'main']);
  });
});
