import type { Command } from 'commander';
import { SyncError } from '../../core/errors.ts';
import type { JsonValue } from '../../core/json.ts';
import { wholeJson } from '../../engine/prepare/canonical-json.ts';
import { printable } from '../../telemetry/printable.ts';
import { counted } from '../../telemetry/progress-text.ts';
import type { CommandContext, Enter } from '../command-context.ts';
import { exitCodes, type ExitCode } from '../output/exit-codes.ts';
import { loadConfig } from '../load-config.ts';
import { readTarget } from '../read-target.ts';
import { openPatientApp } from '../output/tell-waits.ts';

type ReadAction = 'list' | 'get';

export function addList(command: Command, enter: Enter): void {
  addRead(command, enter, 'list', 'newsletter/list_members --param list_id=a1 --param count=5');
}

export function addGet(command: Command, enter: Enter): void {
  addRead(command, enter, 'get', 'newsletter/campaigns --param campaign_id=c1');
}

function addRead(command: Command, enter: Enter, action: ReadAction, example: string): void {
  command
    .argument('<connector/entity>', 'such as newsletter/campaigns')
    .option('-p, --param <name=value...>', 'a declared parameter; objects and arrays as JSON')
    .addHelpText('after', `\nExample:\n  $ connector-sync ${action} ${example}`)
    .action((target: string, flags: { readonly param?: readonly string[] }) =>
      enter((context) => read(context, action, target, flags.param ?? [])),
    );
}

async function read(
  context: CommandContext,
  action: ReadAction,
  target: string,
  paramTexts: readonly string[],
): Promise<ExitCode> {
  const settings = loadConfig(context, 'access');
  const { connector, entity, params } = readTarget(settings, action, target, paramTexts);
  const { terminal, signal } = context;
  await using app = await openPatientApp(context, settings, action);
  await using source = await app.openSource(connector, signal);
  if (action === 'get') {
    const record = await source.get({ entity: entity.name, params }, signal);
    if (record === null) {
      throw new SyncError(`${target}: there is no such record.`, { code: 'NOT_FOUND', recovery: 'stop' });
    }
    terminal.printJson({ record });
    terminal.print(recordLine(record));
    return exitCodes.ok;
  }
  const page = await source.list(
    { entity: entity.name, params, isRoot: entity.parents.length === 0 },
    signal,
  );
  terminal.printJson({ records: page.records, next: page.next });
  for (const record of page.records) terminal.print(recordLine(record));
  const more = page.next?.token ?? null;
  terminal.note(
    `${counted(page.records.length, 'record')}${more === null ? '' : `; the next page's token: ${printable(more)}`}`,
  );
  return exitCodes.ok;
}

/**
 * JSON escapes C0 controls; the others that steer a terminal are written as escapes too, so that the line stays exact.
 */
function recordLine(record: JsonValue): string {
  return wholeJson(record).replace(
    /[\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
