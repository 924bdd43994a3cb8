import { type FlagsOf, command } from '../command.ts';
import { resolve, basename, dirname, join } from 'node:path';
import { randomBytes } from 'node:crypto';
import { constants, lstatSync, renameSync, unlinkSync } from 'node:fs';
import { open, type FileHandle } from 'node:fs/promises';
import type { EntityTable } from '../../core/records.ts';
import { usage } from '../../core/usage-error.ts';
import { csvFormat } from '../../export/csv-format.ts';
import { openChanges, type EntityChanges, type ExportEnd, type Written } from '../../export/open-changes.ts';
import { jsonlFormat, type RecordFormat } from '../../export/record-format.ts';
import { entityTarget, type EntityTarget } from '../../settings/entity-target.ts';
import { counted } from '../../telemetry/format.ts';
import type { CommandContext } from '../command-context.ts';
import { jsonText } from '../output/json-text.ts';
import { loadConfig } from '../load-config.ts';
import { writePrivateFile } from '../output/write-files.ts';
import { SyncError } from '../../core/errors.ts';
import { createPrivateDirectory, syncDirectory } from '../../files/private-file.ts';

const options = {
  '--since-seq <n>': { text: 'only changes after this number; 0: everything', default: '0' },
  '--format <format>': { text: 'jsonl or csv', default: 'jsonl' },
  '--output <file>': 'a file instead of standard output; written completely or not at all',
  '--next-file <file>': 'write the number for the next export here, as JSON',
  '--safe-for-spreadsheets':
    "CSV: put a ' before texts that a spreadsheet would run as formulas; it changes them, so not for programs",
} as const;

type ExportFlags = FlagsOf<typeof options>;

export const exportChanges = command({
  argument: ['<connector/entity>', 'such as newsletter/list_members'],
  options,
  help: `
Records come in the order of _seq, each once, in its newest state; _op is upsert or delete. It is a consistent snapshot,
even during a sync. The last line on standard error gives the --since-seq for the next time.

Examples:
  $ connector-sync export newsletter/list_members > members.jsonl
  $ connector-sync export newsletter/list_members --since-seq 48211 --format csv --output changes.csv --next-file next.json`,
  run: async (context, flags, name) => {
    const target = entityTarget(loadConfig(context), name);
    const since = sinceOf(flags);
    const formatOf = formatNamed(flags);
    const file = flags.output === undefined ? null : resolve(context.cwd, flags.output);
    await using changes = await openChanges(target, since);
    checkSince(changes, target, since);
    const format = formatOf(changes.table);
    const written = await writeTo(context, file, (write) =>
      writeRecords(format, changes.records(), write, context.signal),
    );
    // Whoever went away in the middle asks for the same again.
    if (written === null) return;
    await tellEnd(context, flags, file === null, () => changes.end(written));
  },
});

async function writeTo(
  { terminal }: CommandContext,
  file: string | null,
  work: (write: (text: string) => Promise<boolean>) => Promise<Written | null>,
): Promise<Written | null> {
  if (file === null) return await work((text) => terminal.printRecords(text));
  await using output = await openOutputFile(file);
  const written = await work(async (text) => {
    await output.write(text);
    return true;
  });
  if (written !== null) await output.keep();
  return written;
}

/** Only when the records are where they should be: a number that is ahead of them would lose some. */
async function tellEnd(
  { terminal, cwd }: CommandContext,
  flags: ExportFlags,
  isOnStdout: boolean,
  endOf: () => Promise<ExportEnd>,
): Promise<void> {
  if (isOnStdout && terminal.hasLostOutput()) return;
  const end = await endOf();
  if (flags.nextFile !== undefined) {
    await writePrivateFile(resolve(cwd, flags.nextFile), `${jsonText(end)}\n`, false);
  }
  if (!isOnStdout) terminal.printJson(end);
  terminal.note(terminal.isJson ? jsonText(end) : exportEndText(end));
}

function sinceOf({ sinceSeq }: ExportFlags): number {
  const since = Number(sinceSeq);
  if (/^\d+$/.test(sinceSeq) && Number.isSafeInteger(since)) return since;
  throw usage(`--since-seq: expected a whole number from 0, got "${sinceSeq}".`);
}

function formatNamed({
  format,
  safeForSpreadsheets: isSafeForSpreadsheets,
}: ExportFlags): (table: EntityTable) => RecordFormat {
  if (format === 'csv') return (table) => csvFormat(table, { isSafeForSpreadsheets });
  if (format !== 'jsonl') throw usage(`--format: expected jsonl or csv, got "${format}".`);
  if (isSafeForSpreadsheets) {
    throw usage('--safe-for-spreadsheets is for --format csv: spreadsheets run formulas in CSV files only.');
  }
  return jsonlFormat;
}

/** A number that this sink never gave: everything up to it would be taken for known. */
function checkSince(
  { newestSeq: newest }: EntityChanges,
  { name, connector }: EntityTarget,
  since: number,
): void {
  if (since <= newest) return;
  throw usage(
    `--since-seq ${since}: sink ${connector.sink.name} has numbers up to ${newest} only. The number is from another sink, or this sink was restored from an older backup. Reload ${name}: empty the table, then export with --since-seq 0.`,
  );
}

function exportEndText({ connector, entity, upserts, deletes, nextSeq, run, asOf }: ExportEnd): string {
  const what = `${connector}/${entity}: ${counted(upserts, 'row')}, ${counted(deletes, 'delete')}`;
  const age = asOf === null ? 'never read completely yet' : `fresh up to ${asOf}`;
  const last = run === null ? 'no successful sync yet' : `last successful sync ${run.run}`;
  return `${what}; ${age}; ${last}; next time: --since-seq ${nextSeq}`;
}

const batchChars = 64 * 1024;

/**
 * Writes a batch at a time, so that memory stays flat. Null: nobody takes any more. Throws the signal's reason once it
 * is aborted.
 */
async function writeRecords(
  format: RecordFormat,
  batches: ReturnType<EntityChanges['records']>,
  write: (text: string) => Promise<boolean>,
  signal: AbortSignal,
): Promise<Written | null> {
  const written = { upserts: 0, deletes: 0 };
  let text = format.head;
  for await (const records of batches) {
    for (const record of records) {
      text += format.text(record);
      written[record.isDeleted ? 'deletes' : 'upserts'] += 1;
      if (text.length < batchChars) continue;
      if (!(await write(text))) return null;
      signal.throwIfAborted();
      text = '';
    }
  }
  if (text !== '' && !(await write(text))) return null;
  signal.throwIfAborted();
  return written;
}

/** A file that is there whole or not at all: its text lies beside it under another name until `keep`. */
interface OutputFile extends AsyncDisposable {
  write(text: string): Promise<void>;
  /** The text reaches the disk, then takes the file's name. Without it, disposing leaves everything as it was. */
  keep(): Promise<void>;
}

/**
 * For its owner alone. Throws USAGE, in words, where `file` is something else than a file or its place does not allow
 * it.
 */
async function openOutputFile(file: string): Promise<OutputFile> {
  const partial = join(dirname(file), `.${basename(file)}.${randomBytes(4).toString('hex')}.partial`);
  const handle = await said(file, async () => {
    createPrivateDirectory(dirname(file));
    checkReplaceable(file);
    return await open(partial, constants.O_CREAT | constants.O_EXCL | constants.O_WRONLY, 0o600);
  });
  let isDone = false;
  return {
    write: async (text) => {
      await said(file, () => writeWhole(handle, text));
    },
    keep: async () => {
      await said(file, async () => {
        await handle.sync();
        await handle.close();
        renameSync(partial, file);
        isDone = true;
        syncDirectory(dirname(file));
      });
    },
    [Symbol.asyncDispose]: async () => {
      if (isDone) return;
      isDone = true;
      await handle.close();
      unlinkSync(partial);
    },
  };
}

async function writeWhole(handle: FileHandle, text: string): Promise<void> {
  const bytes = Buffer.from(text);
  for (let written = 0; written < bytes.length;) {
    written += (await handle.write(bytes, written)).bytesWritten;
  }
}

/** A device or a pipe would be replaced by a file. */
function checkReplaceable(file: string): void {
  const stats = lstatSync(file, { throwIfNoEntry: false });
  if (stats === undefined || stats.isFile()) return;
  throw usage(`${file} was expected to be a file, not a link, folder or device. Name another one.`);
}

async function said<Result>(file: string, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof Error && 'syscall' in error && 'code' in error)) throw error;
    throw new SyncError(
      `${file} cannot be written: ${error.message}. Free space there, or name another place.`,
      {
        code: 'USAGE',
        recovery: 'stop',
        context: { file },
        cause: error,
      },
    );
  }
}
