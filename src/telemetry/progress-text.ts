import { printable, printableWithin } from './printable.ts';
import { pagesPerSecond, type EntityProgress, type FileProgress, type Progress } from './progress.ts';

export interface ProgressStyle {
  /** Characters a line may take. */
  readonly columns: number;
  readonly hasColor: boolean;
}

/** The run at a glance: a heading, one line per entity that has begun, and what the whole is waiting for. */
export function progressLines(progress: Progress, nowMs: number, style: ProgressStyle): readonly string[] {
  const begun = Array.from(progress.entities).filter(([, entity]) => hasBegun(entity));
  const nameWidth = Math.max(8, ...begun.map(([name]) => name.length));
  return [
    colored('bold', clip(heading(progress, nowMs), style), style),
    ...begun.map(([name, entity]) => entityLine(name, nameWidth, entity, style)),
    colored('dim', clip(totals(progress, nowMs), style), style),
  ];
}

/** The same in one line, for logs and pipes. */
export function progressSummary(progress: Progress, nowMs: number): string {
  const rows = Array.from(progress.entities.values()).reduce((sum, entity) => sum + entity.rows, 0);
  const open = Array.from(progress.entities).filter(([, entity]) => entity.open > 0);
  const reading = open.length === 0 ? '' : `, reading ${open.map(([name]) => printable(name)).join(', ')}`;
  return `${heading(progress, nowMs)}: ${counted(rows, 'record')}, ${totals(progress, nowMs)}${reading}`;
}

/** 1234567 as `1,234,567`, whatever the locale: the text is compared and searched. */
export function count(value: number): string {
  return String(value).replace(/\B(?=(\d{3})+$)/g, ',');
}

/** `1 call`, `1,200 calls`. */
export function counted(value: number, one: string, more = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : more}`;
}

/** `850 ms`, `4.2 s`, `3 min 20 s`, `2 h 5 min`. */
export function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
}

function heading(progress: Progress, nowMs: number): string {
  const goesOn = progress.continues === null ? '' : ` (goes on with ${progress.continues})`;
  return `${progress.connector}  ${duration(nowMs - progress.startedAtMs)}${goesOn}`;
}

function entityLine(name: string, nameWidth: number, entity: EntityProgress, style: ProgressStyle): string {
  const expected =
    entity.expectedRows === null || entity.expectedRows < entity.rows
      ? ''
      : ` of ~${count(entity.expectedRows)}`;
  const parts = [
    expected === '' ? counted(entity.rows, 'record') : `${count(entity.rows)}${expected} records`,
    counted(entity.pages, 'page'),
    ...(entity.waitedMs > 0 ? [`waited ${duration(entity.waitedMs)}`] : []),
    ...(entity.setAside > 0 ? [`${count(entity.setAside)} set aside`] : []),
  ];
  const mark = entity.open > 0 ? '>' : entity.setAside > 0 ? '!' : '·';
  const line = clip(`${mark} ${printable(name).padEnd(nameWidth)}  ${parts.join('  ')}`, style);
  return entity.setAside > 0 ? colored('yellow', line, style) : line;
}

function totals(progress: Progress, nowMs: number): string {
  const parts = [
    `walks ${count(progress.walksEnded)} of ${count(progress.walksKnown)} known`,
    counted(progress.pages, 'page'),
    `${pagesPerSecond(progress, nowMs).toFixed(1)} requests/s`,
    ...(progress.retries > 0 ? [counted(progress.retries, 'retry', 'retries')] : []),
    ...(progress.files === null ? [] : [filesText(progress.files)]),
    ...(progress.isSweeping && progress.files === null ? [sweepText(progress)] : []),
    ...(progress.waitingUntilMs > nowMs ? [`waiting ${duration(progress.waitingUntilMs - nowMs)}`] : []),
  ];
  return parts.join(', ');
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
  return entity.pages + entity.open + entity.sealed + entity.setAside > 0;
}

function clip(line: string, style: ProgressStyle): string {
  // One column less than there are: a full last column makes some terminals wrap, and then redrawing climbs too far.
  return printableWithin(line, style.columns - 1);
}

const codes = { bold: 1, dim: 2, yellow: 33 } as const;

function colored(color: keyof typeof codes, line: string, style: ProgressStyle): string {
  return style.hasColor ? `\u001b[${codes[color]}m${line}\u001b[0m` : line;
}
