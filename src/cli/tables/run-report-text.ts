import { addCounts, noCounts, type PageCounts } from '../../core/records.ts';
import type { EntityReport, FailureReport, RunReport } from '../../sinks/run-report.ts';
import { printable } from '../../telemetry/printable.ts';
import { count, counted, duration } from '../../telemetry/progress-text.ts';
import { jsonText } from '../json-text.ts';
import { deleteLines } from './deletes-text.ts';
import { fittingTable } from './fitting-table.ts';
import type { TableColumn } from './text-table.ts';
import { wrapped } from './wrapped.ts';

const shownFailures = 10;
const indent = '  ';

/**
 * The numbers add up from left to right: read = inserted + updated + unchanged + duplicate + what the notes name. Deleted rows
 * are those that were not read.
 */
const columns: readonly TableColumn[] = [
  { title: 'entity', align: 'left' },
  { title: 'read', align: 'right' },
  { title: 'inserted', align: 'right' },
  { title: 'updated', align: 'right' },
  { title: 'unchanged', align: 'right' },
  { title: 'duplicate', align: 'right' },
  { title: 'deleted', align: 'right' },
  { title: 'pages', align: 'right' },
  { title: 'walks', align: 'right' },
  { title: 'proof', align: 'left' },
  { title: 'notes', align: 'left' },
];

/**
 * A run for people: one line, a table by entity, how to go on, what failed. The table is whole where `width` is null;
 * `program` is how this one is called.
 */
export function runReportText(
  report: RunReport,
  width: number | null,
  program = 'connector-sync',
): readonly string[] {
  const total = report.entities.reduce((sum, { counts }) => addCounts(sum, counts), noCounts);
  const pages = report.entities.reduce((sum, entity) => sum + entity.pages, 0);
  const deleted = report.entities.reduce((sum, entity) => sum + entity.deleted, 0);
  const rows = [
    ...report.entities.map((entity) => entityRow(entity, report)),
    ['total', ...numbers(total, deleted, pages), '', '', ''],
  ];
  return [
    heading(report),
    ...fittingTable(columns, rows, width === null ? null : width - indent.length).map(
      (line) => `${indent}${line}`,
    ),
    `${indent}${costs(report)}`,
    ...fileLines(report).flatMap((line) => wrapped(`${indent}${line}`, width)),
    ...(report.resumeAt === null
      ? []
      : [`${indent}! the service asked to wait until ${report.resumeAt}; run it again then`]),
    ...leftLines(report).flatMap((line) => wrapped(`${indent}${line}`, width)),
    ...deleteLines(report, program).map((line) => `${indent}${line}`),
    ...failureLines(report),
  ];
}

/** Rows that the run wrote: inserted and updated. */
export function rowsWritten(report: RunReport): number {
  return report.entities.reduce((sum, { counts }) => sum + counts.inserted + counts.updated, 0);
}

function heading(report: RunReport): string {
  const ms = Date.parse(report.finishedAt) - Date.parse(report.startedAt);
  const goesOn =
    report.continues === null
      ? ''
      : `, went on with ${report.continues} (what that run had sealed is not read again)`;
  const error = report.error === null ? '' : ` (${report.error.code}: ${printable(report.error.message)})`;
  return `${report.connector}: ${report.outcome} in ${duration(ms)}${error}  run ${report.run}${goesOn}`;
}

/** Calls wait beside each other, so their waits may add up to more than the run took. */
function costs({ calls, retries, waitedMs, bytes }: RunReport): string {
  return [
    counted(calls, 'call'),
    counted(retries, 'retry', 'retries'),
    ...(waitedMs > 0 ? [`${duration(waitedMs)} of waiting over parallel calls`] : []),
    `${count(Math.round(bytes / 1024))} KiB`,
  ].join(', ');
}

function entityRow(entity: EntityReport, report: RunReport): readonly string[] {
  const { counts, pages, proofs } = entity;
  const kinds = Object.entries(proofs).filter(([, walks]) => walks > 0);
  const walks = kinds.reduce((sum, [, ended]) => sum + ended, 0);
  return [
    entity.entity,
    // Rows made of an entity's elements have no pages and no walks of their own.
    ...numbers(counts, entity.deleted, pages).map((text, index) => (index === 6 && pages === 0 ? '' : text)),
    walks === 0 ? '' : count(walks),
    kinds.map(([kind]) => kind).join(', '),
    wasQuiet(entity, report) ? 'nothing new to read' : notes(entity),
  ];
}

/** A run that came to its end and had no reason to ask for the entity, not even for what is found through its parents. */
function wasQuiet({ counts, pages, setAside, entity }: EntityReport, report: RunReport): boolean {
  return (
    report.kind === 'sync' &&
    report.outcome === 'ok' &&
    report.continues === null &&
    counts.fetched + pages + setAside === 0 &&
    report.left.every((part) => part.entity !== entity)
  );
}

function numbers(
  { fetched, inserted, updated, unchanged, duplicate }: PageCounts,
  deleted: number,
  pages: number,
): readonly string[] {
  return [fetched, inserted, updated, unchanged, duplicate, deleted, pages].map(count);
}

function notes({ counts, ...entity }: EntityReport): string {
  const facts: readonly (readonly [number, string])[] = [
    [entity.setAside, 'set aside'],
    [entity.incremental, 'only for what changed'],
    [entity.withdrawn, 'missed a record that is there, and will be read again'],
    [entity.unordered, 'in unknown order'],
    [counts.quarantined, 'quarantined'],
    [counts.filtered, 'filtered'],
    [entity.extraFields, 'fields in _extra'],
    [entity.depthLimited, 'below the depth limit'],
    [entity.foreign, 'copies of records kept elsewhere'],
  ];
  return facts.flatMap(([number, what]) => (number > 0 ? [`${count(number)} ${what}`] : [])).join(', ');
}

function fileLines({ files }: RunReport): readonly string[] {
  return files
    .filter(({ stored, failed, left }) => stored + failed + left > 0)
    .map(({ entity, stored, bytes, failed, left }) => {
      const parts = [
        `${counted(stored, 'file')} stored (${count(Math.round(bytes / 1024))} KiB)`,
        ...(failed > 0 ? [`${count(failed)} failed`] : []),
        ...(left > failed ? [`${count(left - failed)} left for the next run`] : []),
      ];
      return `${entity}: ${parts.join(', ')}`;
    });
}

function leftLines({ left }: RunReport): readonly string[] {
  if (left.length === 0) return [];
  const parts = left.map(({ entity, partitions }) => `${entity} (${counted(partitions, 'partition')})`);
  return [`left for the next run: ${parts.join(', ')}`];
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
