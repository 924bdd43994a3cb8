import { randomBytes } from 'node:crypto';
import { unlink, opendir, stat } from 'node:fs/promises';
import { join } from 'node:path';

const pattern = /^\.[0-9a-f]{16}\.(\d{1,10})\.[0-9a-f]{8}\.part$/;
/** A process with that number may be another one by now, or one of another container; nobody is silent for so long. */
const abandonedMs = 60 * 60 * 1_000;

/** What a file is called while its bytes come in: who writes it is in the name. */
export function temporaryName(digits: string): string {
  return `.${digits}.${process.pid}.${randomBytes(4).toString('hex')}.part`;
}

/** Removes temporary files of a folder that no process writes any more. This one must not be writing any there. */
export async function removeLeftovers(folder: string, nowMs: number): Promise<number> {
  let removed = 0;
  for await (const { name } of await opendir(folder)) {
    const pid = pattern.exec(name)?.[1];
    if (pid === undefined) continue;
    const file = join(folder, name);
    if (isOtherAlive(Number(pid)) && !(await isOld(file, nowMs))) continue;
    await unlink(file).catch(ignoreMissing);
    removed += 1;
  }
  return removed;
}

function isOtherAlive(pid: number): boolean {
  if (pid === process.pid) return false;
  try {
    return process.kill(pid, 0);
  } catch (error) {
    // It is there, and somebody else's.
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}

async function isOld(file: string, nowMs: number): Promise<boolean> {
  const found = await stat(file).catch(ignoreMissing);
  return found === undefined || nowMs - found.mtimeMs > abandonedMs;
}

function ignoreMissing(error: unknown): undefined {
  if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return;
  throw error;
}
