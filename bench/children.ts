import { spawn, type ChildProcessByStdio } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';

/**
 * Ends the process with this one, however this one ends: then its input is closed. It must not keep a process alive
 * that is done.
 */
const endWithParent = `data:text/javascript,${encodeURIComponent(
  "process.stdin.on('end', () => process.exit(1)).resume().unref();",
)}`;

export type Child = ChildProcessByStdio<Writable, Readable, null>;

/** A program of the bench, compiled, as a process. */
export function start(file: string, args: readonly string[], options: readonly string[] = []): Child {
  const script = fileURLToPath(new URL(`${file}.js`, import.meta.url));
  return spawn(process.execPath, ['--import', endWithParent, ...options, script, ...args], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
}

export async function firstLine({ stdout }: Child): Promise<string> {
  const [line] = (await once(createInterface({ input: stdout }), 'line')) as [string];
  return line;
}

/** Waits for its end. Throws where that is not a good one. */
export async function outputOf(child: Child): Promise<string> {
  let output = '';
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
  const [code] = (await once(child, 'close')) as [number | null];
  if (code !== 0) throw new Error(`${child.spawnargs.join(' ')} ended with ${code}`);
  return output;
}
