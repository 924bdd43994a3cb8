import { createHash } from 'node:crypto';
import { resolve } from 'node:path';
import { SyncError } from '../../core/errors.ts';
import { usage } from '../../core/usage-error.ts';
import { parseSize } from '../../settings/texts.ts';
import { safeBase } from '../../sinks/files/safe-file-name.ts';
import type { WrittenBytes } from '../../sinks/files/write-whole-file.ts';
import type { IncomingFile } from '../../source/source.ts';
import { printable, counted } from '../../telemetry/format.ts';
import { command } from '../command.ts';
import { openPatientApp } from '../output/show-run.ts';
import type { Terminal } from '../output/terminal.ts';
import { isReplaceable, writeStreamed } from '../output/write-files.ts';
import { readTarget } from '../read-target.ts';

interface Downloaded extends WrittenBytes {
  readonly name: string | null;
  readonly contentType: string | null;
  /** Null: standard output. */
  readonly file: string | null;
}

export const download = command({
  argument: ['<connector/entity>', 'such as library/attachments'],
  options: {
    '-p, --param <name=value...>': 'a declared parameter',
    '-o, --output <file>':
      "where to: a file, or - for standard output (default: the file's own name, in this folder)",
    '--force': 'replace the file of --output if it exists',
    '--max-bytes <size>': 'refuse a larger file: bytes, or a size such as 500MB (default: any size)',
  },
  help: `
A file is written completely or not at all. Standard output gets the bytes as they come: a transfer that breaks fails and is not retried.

Examples:
  $ connector-sync download library/attachments --param attachment_id=a1
  $ connector-sync download library/attachments --param attachment_id=a1 --output - | sha256sum`,
  run: async (context, flags, target) => {
    const { terminal, signal, cwd } = context;
    const settings = await context.settings('access');
    const { connector, entity, params } = readTarget(
      settings,
      'download',
      target,
      flags.param,
      context.clock.now(),
    );
    const maxBytes = maxBytesOf(flags.maxBytes);
    const receive =
      flags.output === '-' ? toStdout(terminal) : toFile(flags.output ?? null, cwd, flags.force);
    await using app = await openPatientApp(context, settings, 'download');
    await using source = await app.openSource(connector, signal);
    const done = await source.download(
      { entity: entity.name, params, size: null, maxBytes },
      receive,
      signal,
    );
    const { file, bytes, sha256 } = done;
    const facts = `${counted(bytes, 'byte')}  sha256 ${sha256}`;
    if (file === null) {
      terminal.note(`${printable(done.name ?? 'file')}  ${facts}`);
      return;
    }
    terminal.printJson(done);
    terminal.print(`${printable(file)}  ${facts}`);
  },
});

function maxBytesOf(maxBytes: string | undefined): number {
  if (maxBytes === undefined) return Number.MAX_SAFE_INTEGER;
  const bytes = /^\d+$/.test(maxBytes) ? Number(maxBytes) : parseSize(maxBytes);
  if (bytes !== null && Number.isSafeInteger(bytes) && bytes > 0) return bytes;
  throw usage(`--max-bytes: expected bytes, or a size such as 500MB, got "${maxBytes}".`);
}

/** Throws USAGE before any call where it is known that the file may not be written. */
function toFile(
  output: string | null,
  cwd: string,
  isForced: boolean,
): (file: IncomingFile) => Promise<Downloaded> {
  if (output !== null) checkFree(resolve(cwd, output), isForced);
  // The service would say which one.
  else if (isForced) throw usage('--force needs --output: name the file that may be replaced.');
  return async ({ name, contentType, bytes }) => {
    const file = resolve(cwd, output ?? safeBase(name ?? ''));
    checkFree(file, isForced);
    const checked = checkedAtEnd(bytes, () => checkFree(file, isForced));
    return { name, contentType, file, ...(await writeStreamed(file, checked, advice)) };
  };
}

function checkFree(file: string, isForced: boolean): void {
  if (!isReplaceable(file) || isForced) return;
  throw usage(
    `${file} already exists; not overwritten. Name another file with --output, or replace it with --force.`,
  );
}

const advice = 'Free space there, or name another place with --output.';

/** Another process may have made the file while its bytes came in. */
async function* checkedAtEnd(
  bytes: AsyncIterable<Uint8Array>,
  check: () => void,
): AsyncGenerator<Uint8Array> {
  yield* bytes;
  check();
}

/** What has been written there cannot be taken back: once bytes have been sent, there is no second attempt. */
function toStdout(terminal: Terminal): (file: IncomingFile) => Promise<Downloaded> {
  if (terminal.columns() !== null) {
    throw usage(
      'File contents are not shown on a terminal. Pipe them into a program, or name a file with --output.',
    );
  }
  let sent = 0;
  return async ({ name, contentType, bytes }) => {
    if (sent > 0) {
      throw new SyncError(
        `The file was cut after ${sent} bytes, which were already written to standard output. Discard them and try again; with --output <file> the download is retried.`,
        { code: 'FILE_INVALID', recovery: 'stop' },
      );
    }
    const hash = createHash('sha256');
    for await (const chunk of bytes) {
      hash.update(chunk);
      sent += chunk.byteLength;
      // The reader has closed the output, or its disk is full: the terminal knows which.
      if (!(await terminal.printBytes(chunk))) break;
    }
    return { name, contentType, file: null, bytes: sent, sha256: hash.digest('hex') };
  };
}
