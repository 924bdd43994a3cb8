import { pruneConnector } from '../../app/apply-retention.ts';
import { chosenConnectors } from '../../settings/chosen-connectors.ts';
import { count } from '../../telemetry/format.ts';
import { command } from '../command.ts';
import { type ExitCode, exitCodes, gravestExitCode, reportFailureOf } from '../output/exit-codes.ts';
import { indentedTable, leftColumns, rightColumns } from '../output/text-table.ts';

export const prune = command({
  argument: ['[connector...]', 'names from the config, * stands for any text (default: all)'],
  options: { '--dry-run': 'only show what would be removed' },
  help: `
Removes what is older than "retention" of the config, as every sync does once a day, and completes purges that were
killed. Deleted rows go only after every target of the config has published that they are deleted.

Examples:
  $ connector-sync prune --dry-run
  $ connector-sync prune newsletter`,
  run: async (context, { dryRun }, names) => {
    const { terminal, clock, signal } = context;
    const settings = await context.settings();
    const codes: ExitCode[] = [];
    for (const connector of chosenConnectors(settings, names)) {
      try {
        const { entities, left } = await pruneConnector(settings, connector, {
          clock,
          signal,
          isDryRun: dryRun,
        });
        terminal.printJson({ connector: connector.name, isDone: !dryRun, entities, left });
        const found = entities.filter(({ rows, quarantined, files }) => rows + quarantined + files > 0);
        const what = dryRun ? 'would be removed' : 'removed';
        if (found.length === 0) terminal.print(`${connector.name}: nothing is older than the config keeps`);
        else terminal.print(`${connector.name}: ${what}`, ...indentedTable(columns, found.map(rowOf)));
        const steps = left.map(({ entity, why }) => `  not done yet (${entity}): ${why ?? 'freed space'}`);
        terminal.print(...steps);
        codes.push(left.length > 0 ? exitCodes.degraded : exitCodes.ok);
      } catch (error) {
        signal.throwIfAborted();
        codes.push(reportFailureOf(context, connector.name, error, { connector: connector.name }));
      }
    }
    return gravestExitCode(codes);
  },
});

const columns = [...leftColumns('entity'), ...rightColumns('deleted rows', 'quarantined', 'files')];

function rowOf(one: {
  readonly entity: string;
  readonly rows: number;
  readonly quarantined: number;
  readonly files: number;
}): readonly string[] {
  return [one.entity, count(one.rows), count(one.quarantined), count(one.files)];
}
