import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs';

const maxSecretBytes = 65_536;

type SecretText =
  { readonly ok: true; readonly value: string } | { readonly ok: false; readonly why: string };

/**
 * The text of a file that only its owner may touch, without its last line end. Not ok, with a reason that names the
 * file and quotes nothing of it, for one that cannot be read, that others may read or change, or that is no short text
 * in UTF-8.
 */
export function readSecretFile(file: string): SecretText {
  let descriptor: number | null = null;
  try {
    // Check the opened file, so that it cannot be replaced in between; do not wait for the writer of a pipe.
    descriptor = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK);
    const { mode, size } = fstatSync(descriptor);
    if ((mode & constants.S_IFMT) !== constants.S_IFREG) {
      return { ok: false, why: `expected a file, got something else: ${file}` };
    }
    if (process.platform !== 'win32' && (mode & 0o077) !== 0) {
      return { ok: false, why: `others may read or change the secret file ${file}: chmod 600 it` };
    }
    if (size > maxSecretBytes) {
      return { ok: false, why: `expected a secret of at most ${maxSecretBytes} bytes, ${file} has ${size}` };
    }
    const value = new TextDecoder('utf-8', { fatal: true }).decode(readFileSync(descriptor));
    return { ok: true, value: value.replace(/\r?\n$/, '') };
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'not a text in UTF-8';
    return { ok: false, why: `the secret file ${file} cannot be read (${code})` };
  } finally {
    if (descriptor !== null) closeSync(descriptor);
  }
}
