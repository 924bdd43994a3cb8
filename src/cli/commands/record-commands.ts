import { dirname, resolve } from 'node:path';
import { explainRow } from '../../app/explain-row.ts';
import { parseRecordKey } from '../../app/stored-fields.ts';
import { usage } from '../../core/errors.ts';
import type { EntityTable } from '../../core/records.ts';
import {
  csvFormat,
  jsonlFormat,
  type RecordFormat,
  checkSince,
  openChanges,
  type EntityChanges,
  type ExportEnd,
} from '../../export/exported-changes.ts';
import { createPrivateDirectory } from '../../files/private-file.ts';
import { entityTarget } from '../../settings/choices.ts';
import type { RunSummary } from '../../sinks/ledger-reader.ts';
import { counted, printable } from '../../telemetry/format.ts';
import { explanationFacts, purgedText } from '../../wording/connector-text.ts';
import { command, type CommandContext, oneOf, wholeNumber } from '../command.ts';
import { exitCodes } from '../output/exit-codes.ts';
import { jsonText, versioned } from '../output/json-text.ts';
import { isReplaceable, unwritable, writePrivateFile, writeStreamed } from '../output/write-files.ts';

export const explain = command({
  argument: ['<connector/entity>', 'such as newsletter/list_members'],
  options: { '-k, --key <name=value...>': 'every field of its key' },
  help: `
Reads the ledger alone: no call is made and nothing is written.

Example:
  $ connector-sync explain newsletter/list_members --key list_id=a1 --key id=62eeb292278cc15f5817cb78f7790b08`,
  run: async (context, { key: keyTexts }, name) => {
    const { terminal, program } = context;
    const target = entityTarget(await context.settings(), name);
    const key = parseRecordKey(target.table, keyTexts);
    const { explanation: found, purged } = await explainRow(target, key.keyText);
    terminal.printJson({
      target: name,
      key: key.keyText,
      isStored: found !== null,
      ...(purged === null ? {} : { purged }),
      ...found,
      ...(found === null
        ? {}
        : { changedBy: withoutReport(found.changedBy), lastSync: withoutReport(found.lastSync) }),
    });
    if (purged !== null) {
      terminal.print(`${name} ${printable(key.keyText)}: ${purgedText(purged)}`);
      return exitCodes.ok;
    }
    if (found === null) {
      terminal.print(
        `${name} ${key.keyText}: is not stored in sink ${target.connector.sink.name}. "${program} get" shows whether the service has it, "${program} status" what was read.`,
      );
      return exitCodes.degraded;
    }
    const facts = explanationFacts(target, found, program);
    terminal.print(
      `${name} ${printable(key.keyText)}`,
      ...facts.map(([what, text]) => `  ${`${what}:`.padEnd(14)}${text}`),
    );
    return exitCodes.ok;
  },
});

/** Leaves out the report, which covers everything that the run did: `runs <id>` shows it. */
function withoutReport(run: RunSummary | null): Omit<RunSummary, 'report'> | null {
  if (run === null) return null;
  const { report: _report, ...rest } = run;
  return rest;
}

export const exportChanges = command({
  argument: ['<connector/entity>', 'such as newsletter/list_members'],
  options: {
    '--since-seq <n>': { text: 'only changes after this number; 0: everything', default: '0' },
    '--format <format>': { text: 'jsonl or csv', default: 'jsonl' },
    '--output <file>': 'a file instead of standard output; written completely or not at all',
    '--next-file <file>': 'write the number for the next export here, as JSON',
    '--safe-for-spreadsheets':
      "CSV: put a ' before texts that a spreadsheet would run as formulas; it changes them, so not for programs",
  },
  help: `
Records come in the order of _seq, each once, in its newest state; _op is upsert or delete. It is a consistent snapshot,
even during a sync. The last line on standard error gives the --since-seq for the next time.

Examples:
  $ connector-sync export newsletter/list_members > members.jsonl
  $ connector-sync export newsletter/list_members --since-seq 48211 --format csv --output changes.csv --next-file next.json`,
  run: async (context, flags, name) => {
    const target = entityTarget(await context.settings(), name);
    const since = wholeNumber('--since-seq', flags.sinceSeq);
    const formatOf = formatNamed(flags.format, flags.safeForSpreadsheets);
    const file = flags.output === undefined ? null : resolve(context.cwd, flags.output);
    await using changes = await openChanges(target, since);
    checkSince(changes, target, since, '--since-seq');
    const written = { upserts: 0, deletes: 0 };
    const texts = textsOf(formatOf(changes.table), changes.records(), written, context.signal);
    // A reader that stopped in the middle requests the same records again.
    if (!(await writeTo(context, file, texts))) return;
    const { terminal, cwd } = context;
    // The number is reported only if the records were written: a number ahead of them would lose some.
    if (file === null && terminal.hasLostOutput()) return;
    const end = await changes.end(written);
    if (flags.nextFile !== undefined) {
      await writePrivateFile(resolve(cwd, flags.nextFile), `${jsonText(end)}\n`, false);
    }
    if (file !== null) terminal.printJson(end);
    terminal.note(terminal.isJson ? jsonText(versioned(end)) : exportEndText(end));
  },
});

/** False: the reader has stopped reading. */
async function writeTo({ terminal }: CommandContext, file: string | null, texts: AsyncIterable<string>) {
  if (file === null) {
    for await (const text of texts) if (!(await terminal.printRecords(text))) return false;
    return true;
  }
  const advice = 'Free space there, or name another place.';
  try {
    createPrivateDirectory(dirname(file));
  } catch (error) {
    throw unwritable(file, error, advice);
  }
  isReplaceable(file);
  await writeStreamed(file, bytesOf(texts), advice);
  return true;
}

async function* bytesOf(texts: AsyncIterable<string>): AsyncGenerator<Uint8Array> {
  for await (const text of texts) yield Buffer.from(text);
}

function formatNamed(format: string, isSafeForSpreadsheets: boolean): (table: EntityTable) => RecordFormat {
  const chosen = oneOf('--format', format, ['jsonl', 'csv']);
  if (chosen === 'csv') return (table) => csvFormat(table, { isSafeForSpreadsheets });
  if (isSafeForSpreadsheets) {
    throw usage('--safe-for-spreadsheets is for --format csv: spreadsheets run formulas in CSV files only.');
  }
  return jsonlFormat;
}

function exportEndText({ connector, entity, upserts, deletes, nextSeq, run, asOf }: ExportEnd): string {
  const what = `${connector}/${entity}: ${counted(upserts, 'row')}, ${counted(deletes, 'delete')}`;
  const age = asOf === null ? 'never read completely yet' : `fresh up to ${asOf}`;
  const last = run === null ? 'no successful sync yet' : `last successful sync ${run.run}`;
  return `${what}; ${age}; ${last}; next time: --since-seq ${nextSeq}`;
}

const batchChars = 64 * 1024;

/**
 * Reads one batch at a time, so that memory stays constant; counts the records in `written`. Throws the signal's reason
 * once it is aborted.
 */
async function* textsOf(
  format: RecordFormat,
  batches: ReturnType<EntityChanges['records']>,
  written: { upserts: number; deletes: number },
  signal: AbortSignal,
): AsyncGenerator<string> {
  let text = format.head;
  for await (const records of batches) {
    for (const record of records) {
      text += format.text(record);
      written[record.isDeleted ? 'deletes' : 'upserts'] += 1;
      if (text.length < batchChars) continue;
      yield text;
      signal.throwIfAborted();
      text = '';
    }
  }
  if (text !== '') yield text;
  signal.throwIfAborted();
}
