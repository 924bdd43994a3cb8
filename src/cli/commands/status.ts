import { readStatuses } from '../../app/read-statuses.ts';
import { chosenConnectors } from '../../settings/chosen-connectors.ts';
import { command } from '../command.ts';
import { listOptions, openListPage } from '../list-page.ts';
import { exitCodes, gravestExitCode } from '../output/exit-codes.ts';
import { picked } from '../output/json-text.ts';
import { statusText } from '../output/status-text.ts';

export const status = command({
  argument: ['[connector...]', 'names from the config, * stands for any text (default: all)'],
  options: listOptions,
  help: `
Examples:
  $ connector-sync status newsletter
  $ connector-sync status 'customer-*' --failing      those whose newest run failed or left something out
  $ connector-sync status --stale --limit 0           everything older than its freshWithin`,
  run: async (context, flags, names) => {
    const chosen = chosenConnectors(await context.settings(), names);
    const page = await openListPage(chosen, flags, context.clock.now());
    const shown = await readStatuses(page.connectors, page.overviews);
    const { program, terminal } = context;
    terminal.printJson({
      connectors: shown.map(
        ({ connector, ledgerPlace: _place, status, quarantine, paused, ...troubles }) => ({
          connector: connector.name,
          sink: connector.sink.name,
          paused: paused === null ? null : picked(paused, 'since', 'reason'),
          status,
          ...troubles,
          // Without the records: they may be large, and personal.
          quarantine: quarantine.map(({ record: _record, ...row }) => row),
        }),
      ),
      ...page.sums,
      unreadableSinks: page.unreadableSinks,
    });
    const lines = shown.flatMap((one) => statusText(one, program, terminal.columns()));
    terminal.print(...lines);
    terminal.note(...page.remarks);
    const isDamaged = shown.some(({ damagedFiles }) => damagedFiles.length > 0);
    return gravestExitCode([isDamaged ? exitCodes.failed : exitCodes.ok, page.exitCode]);
  },
});
