import type { Logger } from 'pino';
import { SyncError, usage } from '../core/errors.ts';
import type { RunEvent } from '../core/events.ts';
import type { ConnectorName } from '../core/names.ts';
import { escaped, printableWithin } from './format.ts';

export type Log = Logger;

/**
 * Structured log lines, one JSON object each or a text for people, handed to `write` at once: a line that was logged
 * before a crash is out.
 * Throws USAGE for an unknown level: unwanted silence or noise is noticed too late.
 */
export async function openLog(options: {
  readonly level: string;
  readonly format?: 'json' | 'text';
  readonly write: (line: string) => void;
}): Promise<Log> {
  const level = checkLogLevel(options.level);
  // Here, because most commands log nothing.
  const { pino } = await import('pino');
  return pino(
    {
      level,
      base: null,
      timestamp: () => `,"time":"${new Date().toISOString()}"`,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: describeError },
    },
    {
      write: (line: string) => options.write(options.format === 'text' ? lineForPeople(line) : line),
    },
  );
}

/** `14:03:07 warn  newsletter: run ended, outcome degraded, read 12`: facts for programs alone are left out. */
function lineForPeople(line: string): string {
  const { level, time, msg = '', connector, target, event: _, err, ...facts } = JSON.parse(line) as LogLine;
  const about = connector ?? target ?? '';
  const shown = Object.entries({ ...facts, because: err?.message }).flatMap(([name, value]) => {
    if (value === undefined || value === null) return [];
    return `${name} ${typeof value === 'string' ? value : JSON.stringify(value)}`;
  });
  const text = [`${about}${about === '' ? '' : ': '}${msg}`, ...shown].join(', ');
  const trace = err?.stack === undefined ? '' : `\n${escaped(err.stack)}`;
  return `${time.slice(11, 19)} ${level.padEnd(5)} ${printableWithin(text, mostOfLine)}${trace}`;
}

interface LogLine {
  readonly [fact: string]: unknown;
  readonly level: string;
  readonly time: string;
  readonly msg?: string;
  readonly connector?: string;
  readonly target?: string;
  readonly event?: string;
  readonly err?: { readonly message: string; readonly stack?: string };
}

/** Longer lines are of programs: lists of queues, of entities. */
const mostOfLine = 400;

/**
 * Selects the properties of an error that may be logged. An allow-list: clients hang configuration, headers and bodies
 * on their errors, and a list of forbidden names would always be one name behind.
 */
function describeError(error: unknown): Readonly<Record<string, unknown>> {
  if (!(error instanceof Error)) return { type: typeof error, message: String(error) };
  const code: unknown = 'code' in error ? error.code : undefined;
  return {
    type: error.name,
    message: error.message,
    ...(typeof code === 'string' ? { code } : {}),
    ...(error instanceof SyncError ? { recovery: error.recovery, context: error.context } : {}),
    // The message explains these errors; the stack does not help.
    ...(error.stack === undefined || error instanceof SyncError || error.name === 'ReplyError'
      ? {}
      : { stack: error.stack }),
  };
}

const levels: readonly string[] = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'];

/** The level as it was given. Throws USAGE, naming those there are, for an unknown one. */
export function checkLogLevel(level: string): string {
  if (levels.includes(level)) return level;
  throw usage(`LOG_LEVEL: expected one of ${levels.join(', ')}, got "${level}".`);
}

type Level = 'debug' | 'info' | 'warn' | 'error';

/** One log line per event: `event` names it, its facts are fields, and the level shows how urgent it is. */
export function logRunEvent(log: Log, connector: ConnectorName, event: RunEvent): void {
  const { kind, ...facts } = event;
  log[levelOf(event)]({ connector, event: kind, ...facts }, kind.replaceAll('-', ' '));
}

export function levelOf(event: RunEvent): Level {
  if (event.kind === 'run-finished') return levelByOutcome(event.outcome);
  return levelByKind[event.kind] ?? 'debug';
}

/** Levels by kind of event; other kinds are logged as debug. */
const levelByKind: Readonly<Partial<Record<RunEvent['kind'], Level>>> = {
  'run-started': 'info',
  'sweep-started': 'info',
  'rows-deleted': 'info',
  'files-started': 'info',
  'sink-back': 'info',
  'sink-made': 'info',
  'rate-stated': 'info',
  'walk-set-aside': 'warn',
  'part-missing': 'warn',
  'walk-restarted': 'warn',
  'call-retried': 'warn',
  throttled: 'warn',
  'deletes-withheld': 'warn',
  'retention-withheld': 'warn',
  'file-set-aside': 'warn',
  'sink-away': 'warn',
};

/** Level for the end of a run. */
export function levelByOutcome(outcome: string): Level {
  if (outcome === 'failed') return 'error';
  return outcome === 'degraded' ? 'warn' : 'info';
}
