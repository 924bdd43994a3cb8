import type { Command } from 'commander';
import { entityTarget } from '../../settings/entity-target.ts';
import type { CommandContext, Enter } from '../command-context.ts';
import { exitCodes, type ExitCode } from '../output/exit-codes.ts';
import { explanationText } from './explain/explanation-text.ts';
import { explainRow } from '../../app/explain-row.ts';
import type { RunSummary } from '../../sinks/ledger-reader.ts';
import { loadConfig } from '../load-config.ts';
import { parseRecordKey } from '../../app/record-key.ts';

export function addExplain(command: Command, enter: Enter): void {
  command
    .argument('<connector/entity>', 'such as newsletter/list_members')
    .option('-k, --key <name=value...>', 'every field of its key')
    .addHelpText(
      'after',
      `
Reads the ledger alone: no call is made and nothing is written.

Example:
  $ connector-sync explain newsletter/list_members --key list_id=a1 --key id=62eeb292278cc15f5817cb78f7790b08`,
    )
    .action((target: string, flags: { readonly key?: readonly string[] }) =>
      enter((context) => runExplain(context, target, flags.key ?? [])),
    );
}

async function runExplain(
  context: CommandContext,
  name: string,
  keyTexts: readonly string[],
): Promise<ExitCode> {
  const { terminal, program } = context;
  const target = entityTarget(loadConfig(context), name);
  const key = parseRecordKey(target.table, keyTexts);
  const found = await explainRow(target, key.keyText);
  terminal.printJson({
    target: name,
    key: key.keyText,
    isStored: found !== null,
    ...found,
    ...(found === null
      ? {}
      : { changedBy: withoutReport(found.changedBy), lastSync: withoutReport(found.lastSync) }),
  });
  if (found === null) {
    terminal.print(
      `${name} ${key.keyText}: is not stored in sink ${target.connector.sink.name}. "${program} get" shows whether the service has it, "${program} status" what was read.`,
    );
    return exitCodes.degraded;
  }
  for (const line of explanationText(target, key.keyText, found, program)) terminal.print(line);
  return exitCodes.ok;
}

/** What a run did to everything else is not asked for here: `runs <id>` tells that. */
function withoutReport(run: RunSummary | null): object | null {
  if (run === null) return null;
  const { report: _report, ...rest } = run;
  return rest;
}
