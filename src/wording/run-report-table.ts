import { recordsRead, rowsWritten, tookMs } from '../app/run-totals.ts';
import { addCounts, noCounts, type PageCounts } from '../core/records.ts';
import { wholeJson } from '../engine/prepare/canonical-json.ts';
import { undatedText } from '../engine/prepare/find-children.ts';
import type { EntityReport, FailureReport, RunReport } from '../sinks/run-report.ts';
import { count, counted, duration, printable } from '../telemetry/format.ts';
import { completenessTexts, partMissingLines } from './completeness-text.ts';

/**
 * What a run did, a row for each entity and one for all. The numbers add up from left to right: read = inserted +
 * updated + unchanged + duplicate + what the notes name. Deleted rows are those that were not read. Of a failed run
 * without the entities that it did not come to; empty where there is no other.
 */
export function runTable(report: RunReport, isVerbose: boolean) {
  const total = report.entities.reduce((sum, { counts }) => addCounts(sum, counts), noCounts);
  const pages = report.entities.reduce((sum, entity) => sum + entity.pages, 0);
  const deleted = report.entities.reduce((sum, entity) => sum + entity.deleted, 0);
  const shown = report.entities.filter(
    (entity) => report.outcome !== 'failed' || entity.counts.fetched + entity.deleted + entity.pages > 0,
  );
  const rows = shown.map((entity) => entityRow(entity, report, isVerbose));
  return {
    columns,
    rows: rows.length === 0 ? [] : [...rows, ['total', ...numbers(total, deleted, pages), '', '', '']],
  };
}

const columns = [
  { title: 'entity', align: 'left' },
  ...(['read', 'inserted', 'updated', 'unchanged', 'duplicate', 'deleted', 'pages', 'listings'] as const).map(
    (title) => ({ title, align: 'right' }) as const,
  ),
  { title: 'complete', align: 'left' },
  { title: 'notes', align: 'left' },
] as const;

/** What else there is to know of it, but for deletes and failures: what it cost, what it left. */
export function runFacts(report: RunReport): readonly string[] {
  return [
    // A run that could not begin is not asked what it cost.
    ...(report.entities.length === 0 ? [] : [costs(report)]),
    ...fileLines(report),
    ...(report.resumeAt === null ? [] : [`! ${pauseOf(report)} ${report.resumeAt}; run it again then`]),
    ...leftLines(report),
    ...partMissingLines(report.partMissing),
    ...undatedLines(report.entities),
  ];
}

/** A line for each entity of which change values are no times, and what to do about it. */
export function undatedLines(entities: readonly EntityReport[]): readonly string[] {
  return entities.flatMap(({ entity, undated }) =>
    undated > 0 ? [`! ${entity}: ${counted(undated, 'record')} ${undatedText}`] : [],
  );
}

/** A run's end in one line: `ok in 1.2 s: 45,000 read, 12 written` (records and rows); what went wrong by its code. */
export function endText(report: RunReport): string {
  const error = report.error === null ? '' : ` (${report.error.code})`;
  const pause = report.resumeAt === null ? '' : `; ${pauseOf(report)} ${report.resumeAt}`;
  return `${report.outcome}${error} in ${duration(tookMs(report))}: ${count(recordsRead(report))} read, ${count(rowsWritten(report))} written${pause}`;
}

function pauseOf({ resumeBecause }: RunReport): string {
  return resumeBecause === undefined
    ? 'the API asked to wait until'
    : `${resumeBecause}, so no more calls are made until`;
}

/** Calls wait beside each other, so their waits may add up to more than the run took. */
function costs({ calls, retries, waitedMs, bytes, rate }: RunReport): string {
  return [
    counted(calls, 'call'),
    counted(retries, 'retry', 'retries'),
    ...(waitedMs > 0 ? [`rate-limit wait ${duration(waitedMs)} over all calls${rateText(rate)}`] : []),
    `${count(Math.round(bytes / 1024))} KiB received`,
  ].join(', ');
}

/** Nothing where the config says the rate. */
function rateText(rate: RunReport['rate']): string {
  if (rate === undefined) return '';
  const most = ` (at most ${rate.requestsPerSecond} a second, `;
  return rate.by === 'api'
    ? `${most}as the API states)`
    : `${most}the limit of the connector type; rateLimit of the config changes it)`;
}

function entityRow(entity: EntityReport, report: RunReport, isVerbose: boolean): readonly string[] {
  const { counts, pages, proofs } = entity;
  const kinds = Object.entries(proofs).filter(([, ended]) => ended > 0);
  const listings = listingsOf(entity);
  const isQuiet = wasQuiet(entity, report);
  // Rows made of an entity's elements have neither pages nor listings.
  const hasListings = isListed(entity);
  const complete = isQuiet || !hasListings ? '' : completenessText(entity);
  return [
    entity.entity,
    ...numbers(counts, entity.deleted, pages).map((text, index) => (index === 6 && pages === 0 ? '' : text)),
    listings === 0 ? '' : count(listings),
    isVerbose && kinds.length > 0 ? `${complete} (${kinds.map(([kind]) => kind).join(', ')})` : complete,
    isQuiet ? 'nothing new to read' : hasListings ? notes(entity, report) : notesOfElements(entity, report),
  ];
}

function completenessText({ completeness, incremental }: EntityReport): string {
  return completeness === 'complete' && incremental > 0 ? 'changes only' : completenessTexts[completeness];
}

/**
 * A run that came to its end and had no reason to ask for the entity, not even for what is found through its parents.
 */
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

function notes({ counts, ...entity }: EntityReport, { partMissing }: RunReport): string {
  const found = partMissing.find((one) => one.entity === entity.entity)?.listings ?? 0;
  const { extraFields } = entity;
  const facts: readonly (readonly [number, string])[] = [
    [entity.setAside, 'failed'],
    [entity.withdrawn, 'missed an existing record, to be read again'],
    [found, 'part missing'],
    [entity.unordered, 'without a stable order'],
    [counts.quarantined, 'quarantined'],
    [counts.filtered, 'filtered'],
    [entity.partial, 'received in part, stored rows kept'],
    // Of each record each field that has no column: not how many fields there are, which `schema diff` shows.
    [extraFields, `${extraFields === 1 ? 'value' : 'values'} kept in _extra`],
    [entity.depthLimited, 'below the depth limit'],
    [entity.foreign, 'already stored under another parent'],
  ];
  const noted = facts.flatMap(([number, what]) => (number > 0 ? [`${count(number)} ${what}`] : []));
  return [...changesOnly(entity), ...noted].join(', ');
}

/** Where all were read so, the column `complete` shows it. */
function changesOnly(entity: Pick<EntityReport, 'incremental' | 'proofs'>): readonly string[] {
  const { incremental } = entity;
  const listings = listingsOf(entity);
  return incremental > 0 && incremental < listings
    ? [`${count(listings - incremental)} of ${counted(listings, 'listing')} in full`]
    : [];
}

/** Whether it has pages and listings. */
function isListed(entity: EntityReport): boolean {
  return listingsOf(entity) + entity.pages + entity.setAside > 0;
}

function listingsOf({ proofs }: Pick<EntityReport, 'proofs'>): number {
  return Object.values(proofs).reduce((sum, ended) => sum + ended, 0);
}

/** The entity whose records they were taken out of stands before them. */
function notesOfElements(entity: EntityReport, report: RunReport): string {
  const { entities } = report;
  const source = entities.slice(0, entities.indexOf(entity)).findLast(isListed);
  return entity.counts.fetched === 0 || source === undefined
    ? notes(entity, report)
    : [`derived from ${source.entity}`, notes(entity, report)].filter(Boolean).join(', ');
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
  const parts = left.map(({ entity, partitions }) => `${entity} (${counted(partitions, 'listing')})`);
  return [`left for the next run: ${parts.join(', ')}`];
}

type ShownFailure = Pick<FailureReport, 'entity' | 'params' | 'code' | 'message'>;

export function failureText({ entity, params, code, message }: ShownFailure): string {
  return `${entity} ${printable(wholeJson(params))}: ${code}: ${printable(message)}`;
}
