import { existsSync, readFileSync, statSync } from 'node:fs';
import { basename, delimiter, dirname, join } from 'node:path';
import { parseEnv } from 'node:util';
import { SyncError } from '../core/errors.ts';
import { checkLogLevel, openLog, type Log } from '../telemetry/log.ts';
import type { Terminal } from './output/terminal.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * The environment, filled up from `.env` in the working directory; what is set already wins. Throws CONFIG_INVALID for
 * a file that cannot be read.
 */
export function withDotEnv(env: Environment, cwd: string) {
  const file = join(cwd, '.env');
  if (!existsSync(file)) return { env, warning: null };
  const mode = statSync(file).mode & 0o777;
  const isOpen = (mode & 0o044) !== 0 && process.platform !== 'win32';
  return {
    env: { ...parseEnv(readDotEnv(file)), ...env },
    warning: isOpen
      ? `Warning: ${file} can be read by others on this machine (mode ${mode.toString(8)}); where it holds credentials, run: chmod 600 .env`
      : null,
  };
}

function readDotEnv(file: string): string {
  const failed = (reason: string, cause: unknown): SyncError =>
    new SyncError(`${file} cannot be read (${reason}.`, {
      code: 'CONFIG_INVALID',
      recovery: 'stop',
      context: { file },
      cause,
    });
  let bytes: Buffer;
  try {
    bytes = readFileSync(file);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw failed(`${reason}). Run this as the user whose file it is, or in another working directory`, error);
  }
  try {
    // Editors and shells of Windows write UTF-16 with a byte order mark.
    const encoding = { fffe: 'utf-16le', feff: 'utf-16be' }[bytes.toString('hex', 0, 2)] ?? 'utf-8';
    const text = new TextDecoder(encoding, { fatal: true }).decode(bytes);
    if (text.includes('\0')) throw new TypeError('a NUL character');
    return text.replaceAll(assignment, keepHash);
  } catch (error) {
    throw failed('expected text in UTF-8, got other bytes). Save it in this encoding', error);
  }
}

/** Quoted values may have lines that look like assignments. */
const assignment =
  /^([^\S\n]*(?:export[^\S\n]+)?[\w.-]+[^\S\n]*=)(?:[^\S\n]*(?:"[^"]*"|'[^']*'|`[^`]*`)|([^\n]*))/gm;

/** Quotes a value with a `#` for the parser, to which each `#` begins a comment: to a shell only one behind a space. */
function keepHash(found: string, name: string, given: string | undefined): string {
  if (given?.includes('#') !== true) return found;
  const value = given.replace(/\s#.*/, '').trim();
  const quote = ["'", '`', '"'].find((one) => !value.includes(one));
  return quote === undefined ? found : `${name}${quote}${value}${quote}`;
}

/** $LOG_LEVEL; null where it is not set. Throws USAGE for an unknown one. */
export function logLevel(env: Environment): string | null {
  const level = env['LOG_LEVEL'] ?? '';
  return level === '' ? null : checkLogLevel(level);
}

interface LogWorld {
  readonly env: Environment;
  readonly terminal: Terminal;
}

/** A log on stderr, at $LOG_LEVEL; where that is not set at `otherwise`, or none at all for null. */
export async function stderrLog(world: LogWorld, otherwise: string): Promise<Log>;
export async function stderrLog(world: LogWorld, otherwise?: null): Promise<Log | null>;
export async function stderrLog({ env, terminal }: LogWorld, otherwise: string | null = null) {
  const level = logLevel(env) ?? otherwise;
  // Log lines bring their own line ends.
  return level === null ? null : await openLog({ level, write: (line) => terminal.note(line.trimEnd()) });
}

/**
 * How a person calls this program again, for printed commands: by its name where a shell finds it, else through npx,
 * which also finds it in a clone and in a project's dependencies. Without --no-install npx would elsewhere fetch and
 * run whatever package has this name.
 */
export function programName(script: string, env: Environment): string {
  // npm and npx put folders into PATH that the person's own shell does not have.
  const isUnderNpm = (env['npm_execpath'] ?? env['npm_command']) !== undefined;
  const isOnPath = (env['PATH'] ?? '').split(delimiter).includes(dirname(script));
  return !isUnderNpm && isOnPath && basename(script) === 'connector-sync'
    ? 'connector-sync'
    : 'npx --no-install connector-sync';
}

/** A word as a POSIX shell reads it back. */
export function shellWord(text: string): string {
  return /^[\w./:@%+=,-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`;
}
