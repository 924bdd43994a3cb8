import { newestActions } from '../../app/find-run.ts';
import { connectorNamed } from '../../settings/choices.ts';
import { toTheMinute } from '../../telemetry/format.ts';
import { actionDetail } from '../../wording/action-text.ts';
import { command, wholeNumber } from '../command.ts';
import { leftColumns, textTable } from '../output/text-table.ts';

const defaultLimit = 20;

export const actions = command({
  argument: ['[connector]', 'its name in the config (default: all)'],
  options: { '--limit <n>': { text: 'how many', default: String(defaultLimit) } },
  help: `
Pauses, cancelled runs, resets, adopted addresses, undone runs, refetches, copies, fields marked as known, syncs with --full or
--allow-deletes, and runs and publications that a worker was asked for; from commands and from the pages. Kept in the sink for 400 days.

Examples:
  $ connector-sync actions
  $ connector-sync actions newsletter --json | jq '.actions[] | select(.action == "pause")'`,
  run: async (context, flags, name) => {
    const settings = await context.settings();
    const limit = wholeNumber('--limit', flags.limit, undefined, 1);
    const only = name === undefined ? {} : { connector: connectorNamed(settings, name).name };
    const { actions: newest, unreadable } = await newestActions(settings, { limit, ...only });
    for (const error of unreadable) throw error;
    context.terminal.printJson({ actions: newest });
    const rows = newest.map((one) => [
      toTheMinute(one.at),
      one.who,
      one.action,
      one.entity === null ? (one.connector ?? '') : `${one.connector ?? ''}/${one.entity}`,
      one.run ?? '',
      actionDetail(one),
    ]);
    context.terminal.print(
      ...(rows.length === 0 ? ['Nothing was done by hand yet.'] : textTable(columns, rows)),
    );
  },
});

const columns = leftColumns('at', 'who', 'action', 'connector', 'run', 'detail');
