import { resetConnector, wouldReset } from '../../app/control-connectors.ts';
import { usage } from '../../core/errors.ts';
import { connectorNamed, entityTarget } from '../../settings/choices.ts';
import type { LocalSettings } from '../../settings/settings.ts';
import { count, counted } from '../../telemetry/format.ts';
import { command, type CommandContext } from '../command.ts';
import { indentedTable, leftColumns, rightColumns } from '../output/text-table.ts';

export const reset = command({
  argument: ['<connector[/entity]>', 'such as newsletter or newsletter/list_members'],
  options: {
    '--data': 'drop the stored records too; consumers must reload',
    '--yes': 'do it; without this, only show what would be removed',
  },
  help: `
The next sync then reads it in full. Nothing else in the sink changes, and nothing at the API.

Examples:
  $ connector-sync reset newsletter/list_members          what would be discarded?
  $ connector-sync reset newsletter/list_members --yes
  $ connector-sync reset newsletter --data --yes          as if it had never been synced`,
  run: async (context, { data: withData, yes: isSure }, name) => {
    const { terminal } = context;
    const target = targetOf(await context.settings(), name);
    if (!isSure) return await showWhatWouldGo(context, target, withData);
    const went = await resetConnector(target, withData, context);
    if (went === null) throw usage(nothingText(target));
    terminal.printJson({ target: name, isDone: true, withData, ...went });
    const dropped = withData ? ` and ${counted(went.rows, 'row')} dropped` : '; its rows are kept';
    terminal.print(
      `${name}: progress of ${counted(went.partitions, 'listing')} discarded${dropped}. The next sync reads it in full.`,
    );
  },
});

type Target = ReturnType<typeof targetOf>;

function targetOf(settings: LocalSettings, name: string) {
  if (!name.includes('/')) {
    return { name, connector: connectorNamed(settings, name), scope: { entity: null, tables: [] } };
  }
  const { connector, entity, isExploded } = entityTarget(settings, name);
  if (isExploded) {
    throw usage(
      `${name} is made from the records of ${entity.name}; reset ${connector.name}/${entity.name} instead.`,
    );
  }
  const { table, explodedTable } = entity;
  const tables = explodedTable === null ? [table] : [table, explodedTable];
  return { name, connector, scope: { entity: entity.name, tables } };
}

/** Shows the effect without making the change: exit code 0. */
async function showWhatWouldGo({ terminal, program }: CommandContext, target: Target, withData: boolean) {
  const entities = await wouldReset(target);
  if (entities.length === 0) throw usage(nothingText(target));
  const command = `${program} reset ${target.name}${withData ? ' --data' : ''} --yes`;
  terminal.printJson({ target: target.name, isDone: false, withData, entities, command });
  terminal.print(
    `${target.name} in sink ${target.connector.sink.name}: this progress would be discarded${withData ? ', and all rows dropped' : '; rows are kept'}`,
  );
  const rows = entities.map(({ entity, partitions, rows: live, deleted }) => [
    entity,
    count(partitions),
    withData ? count(live + deleted) : '',
  ]);
  terminal.print(...indentedTable(columns, rows), `Nothing was changed. To do it: ${command}`);
}

function nothingText({ name, connector }: Target): string {
  return `Sink ${connector.sink.name} has no data of ${name}, so there is nothing to reset.`;
}

const columns = [...leftColumns('entity'), ...rightColumns('listings', 'rows')];
