import * as fs from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { usage } from '../core/errors.ts';
import { hasCode, syncDirectory } from './private-file.ts';

interface ReplacedText {
  /** Behind a link, the file that it leads to. */
  readonly file: string;
  /** Expected current content; null: the file must not exist. */
  readonly before: string | null;
  readonly after: string;
  /** An existing file whose owner and mode a new one gets; null: only this user can read it. */
  readonly like: string | null;
  readonly nowMs: number;
}

const createNew =
  fs.constants.O_CREAT | fs.constants.O_EXCL | fs.constants.O_WRONLY | fs.constants.O_NOFOLLOW;
/** An edit takes milliseconds. */
const abandonedMs = 60_000;

/**
 * Replaces the text of a file, whole or not at all, with its mode and owner kept. Throws USAGE where the file has
 * changed meanwhile or another process is replacing it, and the system's error where the place does not allow it.
 */
export function replaceText({ file, before, after, like, nowMs }: ReplacedText): void {
  const place = before === null ? file : fs.realpathSync(file);
  const model = before !== null ? fs.statSync(place) : like === null ? null : fs.statSync(like);
  // Its name is a lock: one process at a time replaces the file.
  const temporary = join(dirname(place), `.${basename(place)}.edit`);
  const descriptor = openAlone(temporary, place, nowMs);
  try {
    try {
      const { uid, gid } = fs.fstatSync(descriptor);
      if (model !== null) {
        if (uid !== model.uid || gid !== model.gid) fs.fchownSync(descriptor, model.uid, model.gid);
        fs.fchmodSync(descriptor, model.mode & 0o7777);
      }
      fs.writeFileSync(descriptor, after);
      fs.fsyncSync(descriptor);
    } finally {
      fs.closeSync(descriptor);
    }
    if (before === null) {
      fs.linkSync(temporary, place);
    } else {
      if (new TextDecoder().decode(fs.readFileSync(place)) !== before) throw changed(file);
      fs.renameSync(temporary, place);
    }
  } catch (error) {
    fs.unlinkSync(temporary);
    throw hasCode(error, 'EEXIST') ? changed(file) : error;
  }
  if (before === null) fs.unlinkSync(temporary);
  syncDirectory(dirname(place));
}

function openAlone(temporary: string, place: string, nowMs: number): number {
  const found = fs.statSync(temporary, { throwIfNoEntry: false });
  if (found !== undefined && nowMs - found.mtimeMs > abandonedMs) fs.unlinkSync(temporary);
  try {
    return fs.openSync(temporary, createNew, 0o600);
  } catch (error) {
    if (!hasCode(error, 'EEXIST')) throw error;
    throw usage(`Another process is editing ${place}. Nothing was changed; try again in a minute.`);
  }
}

function changed(file: string): Error {
  return usage(`${file} was changed by another process meanwhile. Nothing was written; try again.`);
}
