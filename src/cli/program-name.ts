import { basename, delimiter, dirname } from 'node:path';

/**
 * How a person calls this program again, for printed commands: by its name where a shell finds it, else through npx,
 * which also finds it in a clone and in a project's dependencies. Without --no-install npx would elsewhere fetch and
 * run whatever package has this name.
 */
export function programName(script: string, env: Readonly<Record<string, string | undefined>>): string {
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
