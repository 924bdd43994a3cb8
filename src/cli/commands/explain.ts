import { explainRow } from '../../app/explain-row.ts';
import { parseRecordKey } from '../../app/stored-fields.ts';
import { entityTarget } from '../../settings/choices.ts';
import type { RunSummary } from '../../sinks/ledger-reader.ts';
import { printable } from '../../telemetry/format.ts';
import { explanationFacts } from '../../wording/explanation-facts.ts';
import { purgedText } from '../../wording/purged-text.ts';
import { command } from '../command.ts';
import { exitCodes } from '../output/exit-codes.ts';

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

/** What a run did to everything else is not asked for here: `runs <id>` shows that. */
function withoutReport(run: RunSummary | null): Omit<RunSummary, 'report'> | null {
  if (run === null) return null;
  const { report: _report, ...rest } = run;
  return rest;
}
