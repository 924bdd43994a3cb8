import type { ErrorCode } from '../core/errors.ts';
import type { EntityName } from '../core/names.ts';
import { count, counted, duration, printable, printableWithin } from './format.ts';
import { expectedRecords, expectedText, remaining } from './expected-records.ts';
import type { EntityProgress, FileProgress, Progress, Retry } from './progress.ts';
import { rates } from './rates.ts';

export interface ProgressStyle {
  /** Characters a line may take. */
  readonly columns: number;
  readonly hasColor: boolean;
}

/** The run at a glance: a heading, one line per entity that has begun, sums, and what the whole is waiting for. */
export function progressLines(progress: Progress, nowMs: number, style: ProgressStyle): readonly string[] {
  const begun = Array.from(progress.entities).filter(([, entity]) => hasBegun(entity));
  const nameWidth = Math.max(8, ...begun.map(([name]) => name.length));
  const wait = waitText(progress, nowMs);
  const sums = progress.run === null ? [] : totals(progress, nowMs);
  return [
    colored('bold', clip(heading(progress, nowMs), style), style),
    ...begun.map(([name, entity]) => entityLine(name, nameWidth, entity, { progress, nowMs, style })),
    ...(sums.length === 0 ? [] : [colored('dim', fitting(sums, ', ', style), style)]),
    ...(wait === null ? [] : [colored('yellow', clip(wait, style), style)]),
  ];
}

/** The same in one line, for logs and pipes. */
export function progressSummary(progress: Progress, nowMs: number): string {
  const wait = waitText(progress, nowMs);
  if (progress.run === null) return `${heading(progress, nowMs)}: ${wait ?? ''}`;
  const rows = Array.from(progress.entities.values()).reduce((sum, entity) => sum + entity.rows, 0);
  const open = Array.from(progress.entities).filter(([, entity]) => entity.open > 0);
  const parts = [
    counted(rows, 'record'),
    ...totals(progress, nowMs),
    ...(open.length === 0
      ? []
      : [
          `reading ${open.map(([name, one]) => `${printable(name)} (${[recordsText(name, one, progress), ...pacedText(one)].join(', ')})`).join(', ')}`,
        ]),
    ...(wait === null ? [] : [wait]),
  ];
  return `${heading(progress, nowMs)}: ${parts.join(', ')}`;
}

/** `check the credentials: cannot reach us10.api.mailchimp.com: connection refused, attempt 3 of 6, next in 8 s`. */
export function retryText({ code, message, attempt, attempts, nextAtMs }: Retry, nowMs: number): string {
  const waitMs = nextAtMs - nowMs;
  const next = waitMs > 0 ? `next in ${Math.ceil(waitMs / 1000)} s` : 'next one now';
  return `${failureTexts[code] ?? message}, attempt ${attempt} of ${attempts}, ${next}`;
}

/** `PostgreSQL at db:5432/sync is read-only (...), trying for another 43 s`. */
export function sinkAwayText(message: string, leftMs: number): string {
  return `${message}, ${leftMs > 0 ? `trying for another ${Math.ceil(leftMs / 1000)} s` : 'last try now'}`;
}

/** Instead of the other side's message, which may be long. */
const failureTexts: Partial<Record<ErrorCode, string>> = {
  UPSTREAM: 'answered with an error',
  BODY_INVALID: 'unusable answer',
};

function heading(progress: Progress, nowMs: number): string {
  const resumed = progress.continues === null ? '' : ` (resumed ${progress.continues})`;
  return `${progress.connector}  ${duration(nowMs - progress.startedAtMs)}${resumed}`;
}

function entityLine(
  name: EntityName,
  nameWidth: number,
  entity: EntityProgress,
  {
    progress,
    nowMs,
    style,
  }: { readonly progress: Progress; readonly nowMs: number; readonly style: ProgressStyle },
): string {
  const { records } = rates({ arrivals: entity.arrivals, startedAtMs: progress.startedAtMs }, nowMs);
  const wait = entity.open > 0 ? entityWait(entity, progress, nowMs) : null;
  const mark = entity.open > 0 ? '>' : entity.setAside > 0 ? '!' : '·';
  const queued = entity.open > 0 ? 0 : Math.max(0, (entity.found ?? 0) - entity.begun);
  const parts = [
    `${mark} ${printable(name).padEnd(nameWidth)}`,
    recordsText(name, entity, progress),
    ...(wait === null ? [] : [wait]),
    ...(entity.setAside > 0 ? [`${count(entity.setAside)} failed`] : []),
    ...(entity.open > 0 && wait === null ? [`${count(Math.round(records))}/s`, ...pacedText(entity)] : []),
    ...(queued > 0 ? [`${counted(queued, 'listing')} wait for others`] : []),
    entity.pages === 0 && entity.earlierRows > 0 ? 'read before the resume' : counted(entity.pages, 'page'),
  ];
  const line = fitting(parts, '  ', style);
  return entity.setAside > 0 ? colored('yellow', line, style) : line;
}

/** `3,200 of ~12,000 records`: what is estimated has a tilde, what the service has counted has none. */
function recordsText(
  name: EntityName,
  { rows, isIncremental }: Pick<EntityProgress, 'rows' | 'isIncremental'>,
  progress: Progress,
): string {
  const all = expectedText(expectedRecords(progress, name), rows);
  const text = all === null ? counted(rows, 'record') : `${count(rows)} of ${all} records`;
  return isIncremental ? `${text} (changes only)` : text;
}

/** What the calls of an entity wait for; null while they go through. */
function entityWait({ retry }: EntityProgress, { throttledUntilMs }: Progress, nowMs: number): string | null {
  if (retry !== null && retry.nextAtMs > nowMs) {
    const seconds = Math.ceil((retry.nextAtMs - nowMs) / 1000);
    return `waits ${seconds} s: ${failureTexts[retry.code] ?? 'failed call'}, attempt ${retry.attempt} of ${retry.attempts}`;
  }
  if (throttledUntilMs > nowMs) return `waits ${Math.ceil((throttledUntilMs - nowMs) / 1000)} s: rate limit`;
  return null;
}

/** Nothing where calls need not wait: `rateLimit` is what a person may change. */
export function pacedText({ pacedMs }: Pick<EntityProgress, 'pacedMs'>): readonly string[] {
  return pacedMs === 0 ? [] : [`calls wait ${(pacedMs / 1000).toFixed(1)} s: rateLimit`];
}

/** The most important first: a narrow screen drops the last ones. */
function totals(progress: Progress, nowMs: number): readonly string[] {
  const { walksEnded, walksKnown, retries, files, isSweeping } = progress;
  const { records, pages } = rates(progress, nowMs);
  const left = remaining(progress, nowMs);
  if (files !== null) return [filesText(files)];
  if (isSweeping) return [sweepText(progress)];
  return [
    `${count(walksEnded)} of ${count(Math.max(walksKnown, walksEnded))} known listings read`,
    `${count(Math.round(records))} records/s`,
    ...(left === null ? [] : [`${left.isAtLeast ? 'at least' : 'about'} ${roughly(left.ms)} left`]),
    `${pages.toFixed(1)} requests/s`,
    ...(retries > 0 ? [counted(retries, 'retry', 'retries')] : []),
  ];
}

/** Null while calls go through. */
function waitText({ run, retry, throttledUntilMs, sinkAway }: Progress, nowMs: number): string | null {
  if (sinkAway !== null) return sinkAwayText(sinkAway.message, sinkAway.untilMs - nowMs);
  if (retry !== null) return retryText(retry, nowMs);
  if (throttledUntilMs > nowMs) {
    return `rate-limit wait, next call in ${Math.ceil((throttledUntilMs - nowMs) / 1000)} s`;
  }
  return run === null ? 'connecting' : null;
}

/** `40 s`, `3 min`, `2 h 10 min`: an estimate is no more exact than that. */
function roughly(ms: number): string {
  if (ms < 55_000) return `${Math.max(1, Math.round(ms / 10_000)) * 10} s`;
  const minutes = Math.round(ms / 60_000);
  return minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

function sweepText({ confirmed, deleted }: Progress): string {
  const parts = [
    ...(confirmed > 0 ? [`${count(confirmed)} asked for`] : []),
    ...(deleted > 0 ? [`${count(deleted)} marked`] : []),
  ];
  return `looking for deletes${parts.length === 0 ? '' : ` (${parts.join(', ')})`}`;
}

function filesText({ wanted, stored, bytes, failed }: FileProgress): string {
  const failures = failed > 0 ? `, ${count(failed)} failed` : '';
  return `files ${count(stored)} of ${count(wanted)} (${count(Math.round(bytes / 1024))} KiB${failures})`;
}

function hasBegun(entity: EntityProgress): boolean {
  return entity.begun + entity.pages + entity.earlierRows > 0;
}

/** As many of the parts as there is room for. */
function fitting([first = '', ...more]: readonly string[], between: string, style: ProgressStyle): string {
  let line = first;
  for (const part of more) {
    if (line.length + between.length + part.length >= style.columns) break;
    line += between + part;
  }
  return clip(line, style);
}

function clip(line: string, style: ProgressStyle): string {
  // One column less than there are: a full last column makes some terminals wrap, and then redrawing climbs too far.
  return printableWithin(line, style.columns - 1);
}

const codes = { bold: 1, dim: 2, yellow: 33 } as const;

function colored(color: keyof typeof codes, line: string, style: ProgressStyle): string {
  return style.hasColor ? `\u001b[${codes[color]}m${line}\u001b[0m` : line;
}
