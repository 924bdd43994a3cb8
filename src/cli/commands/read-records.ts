import { SyncError } from '../../core/errors.ts';
import type { JsonValue } from '../../core/json.ts';
import { wholeJson } from '../../engine/prepare/canonical-json.ts';
import { escaped, printable, counted } from '../../telemetry/format.ts';
import { command, type AddCommand } from '../command.ts';
import { openPatientApp } from '../output/show-run.ts';
import { shownToken, withOpenToken } from '../page-tokens.ts';
import { readTarget } from '../read-target.ts';

type ReadAction = 'list' | 'get';

export const list = readCommand('list', 'newsletter/list_members --param list_id=a1 --param count=5');

export const get = readCommand('get', 'newsletter/campaigns --param campaign_id=c1');

function readCommand(action: ReadAction, example: string): AddCommand {
  return command({
    argument: ['<connector/entity>', 'such as newsletter/campaigns'],
    options: { '-p, --param <name=value...>': 'a declared parameter; objects and arrays as JSON' },
    help: `\nExample:\n  $ connector-sync ${action} ${example}`,
    run: async (context, flags, target) => {
      const settings = await context.settings('access');
      const { connector, entity, params } = readTarget(
        settings,
        action,
        target,
        flags.param,
        context.clock.now(),
      );
      const { terminal, signal } = context;
      await using app = await openPatientApp(context, settings, action);
      await using source = await app.openSource(connector, signal);
      if (action === 'get') {
        const record = await source.get({ entity: entity.name, params }, signal);
        if (record === null) {
          throw new SyncError(`${target}: there is no such record.`, { code: 'NOT_FOUND', recovery: 'stop' });
        }
        terminal.printJson({ record });
        terminal.print(lineOf(record));
        return;
      }
      const page = await source.list(
        { entity: entity.name, params: withOpenToken(entity, params), isRoot: entity.parents.length === 0 },
        signal,
      );
      const token = page.next?.token ?? null;
      const more = token === null ? null : shownToken(entity, token);
      terminal.printJson({ records: [...page.records], next: page.next && { ...page.next, token: more } });
      for (const record of page.records) terminal.print(lineOf(record));
      terminal.note(
        `${counted(page.records.length, 'record')}${more === null ? '' : `; the next page's token: ${printable(more)}`}`,
      );
    },
  });
}

/** JSON escapes C0 controls; the others that steer a terminal become escapes too, so that the line stays exact. */
function lineOf(record: JsonValue): string {
  return escaped(wholeJson(record));
}
