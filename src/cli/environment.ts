import { existsSync, readFileSync, statSync } from 'node:fs';
import { basename, delimiter, dirname, join } from 'node:path';
import { parseEnv } from 'node:util';
import { SyncError } from '../core/errors.ts';
import { checkLogLevel, openLog, type Log } from '../telemetry/log.ts';
import type { CommandContext } from './command.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Completes the environment from `.env` in the working directory; variables that are set take precedence. Throws
 * CONFIG_INVALID for a file that cannot be read.
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

/** Quoted values may contain lines that look like assignments. */
const assignment =
  /^([^\S\n]*(?:export[^\S\n]+)?[\w.-]+[^\S\n]*=)(?:[^\S\n]*(?:"[^"]*"|'[^']*'|`[^`]*`)|([^\n]*))/gm;

/**
 * Quotes a value with a `#` for the parser, to which each `#` begins a comment. To a shell only one after a blank does.
 */
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

type LogWorld = Pick<CommandContext, 'env' | 'terminal' | 'logFormat'>;

/** Opens a log on stderr, at $LOG_LEVEL; if that is not set at `otherwise`, or no log for null. */
export async function stderrLog(world: LogWorld, otherwise: string): Promise<Log>;
export async function stderrLog(world: LogWorld, otherwise?: null): Promise<Log | null>;
export async function stderrLog(
  { env, terminal, logFormat: format }: LogWorld,
  otherwise: string | null = null,
) {
  const level = logLevel(env) ?? otherwise;
  // Log lines contain their line ends.
  return level === null
    ? null
    : await openLog({ level, format, write: (line) => terminal.note(line.trimEnd()) });
}

/**
 * The command that starts this program, for printed commands: its name where a shell finds it, else through npx, which
 * also finds it in a clone and in a project's dependencies. Without --no-install npx could fetch and run another
 * package of this name.
 */
export function programName(script: string, env: Environment): string {
  // npm and npx add folders to PATH that the person's shell does not have.
  const isUnderNpm = (env['npm_execpath'] ?? env['npm_command']) !== undefined;
  const isOnPath = (env['PATH'] ?? '').split(delimiter).includes(dirname(script));
  return !isUnderNpm && isOnPath && basename(script) === 'connector-sync'
    ? 'connector-sync'
    : 'npx --no-install connector-sync';
}

/** Quotes a word for a POSIX shell. */
export function shellWord(text: string): string {
  return /^[\w./:@%+=,-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`;
}
