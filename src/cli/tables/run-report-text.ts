import type { EntityName } from '../../core/names.ts';
import { addCounts, noCounts, type PageCounts } from '../../core/records.ts';
import type { EntityReport, FailureReport, RunReport } from '../../sinks/sink.ts';
import { printable } from '../../telemetry/printable.ts';
import { count, duration } from '../../telemetry/progress-text.ts';
import { jsonText } from '../json-text.ts';
import { textTable, type TableColumn } from './text-table.ts';

/** The kinds of proof with which an entity's walks were sealed in this run, as events told them. */
export type ProofsByEntity = ReadonlyMap<EntityName, ReadonlySet<string>>;

const shownFailures = 10;

const columns: readonly TableColumn[] = [
  { title: 'entity', align: 'left' },
  { title: 'rows', align: 'right' },
  { title: 'pages', align: 'right' },
  { title: 'inserted', align: 'right' },
  { title: 'updated', align: 'right' },
  { title: 'unchanged', align: 'right' },
  { title: 'proof', align: 'left' },
  { title: 'notes', align: 'left' },
];

/** A run for people: one line, a table by entity, what failed. */
export function runReportText(report: RunReport, proofs: ProofsByEntity = new Map()): readonly string[] {
  const total = report.entities.reduce((sum, { counts }) => addCounts(sum, counts), noCounts);
  const pages = report.entities.reduce((sum, entity) => sum + entity.pages, 0);
  const rows = [
    ...report.entities.map((entity) => entityRow(entity, proofs.get(entity.entity))),
    ['total', ...numbers(total, pages), '', ''],
  ];
  return [
    heading(report),
    ...textTable(columns, rows).map((line) => `  ${line}`),
    `  ${count(report.calls)} calls, ${count(report.retries)} retries, waited ${duration(report.waitedMs)}, ${count(Math.round(report.bytes / 1024))} KiB`,
    ...failureLines(report),
  ];
}

/** Rows that the run wrote: inserted and updated. */
export function rowsWritten(report: RunReport): number {
  return report.entities.reduce((sum, { counts }) => sum + counts.inserted + counts.updated, 0);
}

function heading(report: RunReport): string {
  const ms = Date.parse(report.finishedAt) - Date.parse(report.startedAt);
  const goesOn = report.continues === null ? '' : `, went on with ${report.continues}`;
  const error = report.error === null ? '' : ` (${report.error.code}: ${printable(report.error.message)})`;
  return `${report.connector}: ${report.outcome} in ${duration(ms)}${error}  run ${report.run}${goesOn}`;
}

function entityRow(entity: EntityReport, proofs: ReadonlySet<string> | undefined): readonly string[] {
  return [entity.entity, ...numbers(entity.counts, entity.pages), proofText(entity, proofs), notes(entity)];
}

function numbers(counts: PageCounts, pages: number): readonly string[] {
  return [counts.fetched, pages, counts.inserted, counts.updated, counts.unchanged].map(count);
}

function proofText(entity: EntityReport, proofs: ReadonlySet<string> | undefined): string {
  if (entity.sealed === 0) return '';
  const kinds = proofs === undefined || proofs.size === 0 ? 'sealed' : [...proofs].sort().join(' + ');
  return entity.sealed === 1 ? kinds : `${kinds} (${count(entity.sealed)} walks)`;
}

function notes({ counts, ...entity }: EntityReport): string {
  const facts: readonly (readonly [number, string])[] = [
    [entity.setAside, 'set aside'],
    [entity.unordered, 'in unknown order'],
    [counts.quarantined, 'quarantined'],
    [counts.duplicate, 'duplicate'],
    [counts.filtered, 'filtered'],
    [entity.extraFields, 'extra fields'],
    [entity.depthLimited, 'below the depth limit'],
  ];
  return facts.flatMap(([number, what]) => (number > 0 ? [`${count(number)} ${what}`] : [])).join(', ');
}

function failureLines(report: RunReport): readonly string[] {
  const shown = report.failures.slice(0, shownFailures);
  const omitted = report.failures.length + report.failuresOmitted - shown.length;
  return [
    ...shown.map((failure) => `  ! ${failureText(failure)}`),
    ...(omitted > 0 ? [`  ! and ${count(omitted)} more`] : []),
  ];
}

function failureText({ entity, params, code, message }: FailureReport): string {
  return `${entity} ${printable(jsonText(params))}: ${code}: ${printable(message)}`;
}
