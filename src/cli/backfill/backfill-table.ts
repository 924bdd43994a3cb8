import { addCounts, noCounts } from '../../core/records.ts';
import type { Window } from '../../engine/run-options.ts';
import type { RunReport } from '../../sinks/run-report.ts';
import { count } from '../../telemetry/progress-text.ts';
import { fittingTable } from '../tables/fitting-table.ts';
import type { TableColumn } from '../tables/text-table.ts';
import { rangeText } from './window-shown.ts';

export interface EndedWindow {
  readonly window: Window;
  /** Null: it was done before. */
  readonly report: RunReport | null;
}

/** A line for each window, newest first, and their sum. */
export function backfillTable(windows: readonly EndedWindow[], width: number | null): readonly string[] {
  const reports = windows.flatMap(({ report }) => (report === null ? [] : [report]));
  const rows = windows.map(({ window, report }) => [
    rangeText(window),
    ...(report === null ? ['done before'] : [report.outcome, ...numbers([report])]),
  ]);
  return fittingTable(columns, [...rows, ['total', '', ...numbers(reports)]], width);
}

function numbers(reports: readonly RunReport[]): readonly string[] {
  const { fetched, inserted, updated, unchanged, duplicate } = reports
    .flatMap(({ entities }) => entities)
    .reduce((sum, { counts }) => addCounts(sum, counts), noCounts);
  const calls = reports.reduce((sum, report) => sum + report.calls, 0);
  return [fetched, inserted, updated, unchanged, duplicate, calls].map(count);
}

const columns: readonly TableColumn[] = [
  { title: 'window', align: 'left' },
  { title: 'outcome', align: 'left' },
  { title: 'read', align: 'right' },
  { title: 'inserted', align: 'right' },
  { title: 'updated', align: 'right' },
  { title: 'unchanged', align: 'right' },
  { title: 'duplicate', align: 'right' },
  { title: 'calls', align: 'right' },
];
