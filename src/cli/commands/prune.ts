import { pruneConnector } from '../../app/apply-retention.ts';
import { cleanedText, cleanTargets } from '../../app/publish-target.ts';
import { chosenConnectors } from '../../settings/choices.ts';
import { count } from '../../telemetry/format.ts';
import { allowByAgeText, leftText, withheldByAgeText } from '../../wording/connector-text.ts';
import { command } from '../command.ts';
import { type ExitCode, exitCodes, gravestExitCode, reportFailureOf } from '../output/exit-codes.ts';
import { indentedTable, leftColumns, rightColumns } from '../output/text-table.ts';

export const prune = command({
  argument: ['[connector...]', 'names from the config, * stands for any text (default: all)'],
  options: {
    '--dry-run': 'only show what would be removed',
    '--allow-deletes': 'remove also what a guard keeps because it is so much at once',
  },
  help: `
Removes what is older than "retention" and "history" of the config keep, as every sync does once a day, and completes
purges that were killed. Deleted rows go only after every target of the config has published that they are deleted.
More than the share of "guards" at once stays, as on an old sink with a new setting: look with --dry-run, then allow it.

Examples:
  $ connector-sync prune --dry-run
  $ connector-sync prune newsletter
  $ connector-sync prune newsletter --allow-deletes`,
  run: async (context, { dryRun, allowDeletes }, names) => {
    const { terminal, clock, signal, program } = context;
    const settings = await context.settings();
    const codes: ExitCode[] = [];
    for (const connector of chosenConnectors(settings, names)) {
      try {
        const how = { clock, signal, isDryRun: dryRun, allowDeletes };
        const { entities, withheld, left } = await pruneConnector(settings, connector, how);
        const targets = dryRun ? [] : await cleanTargets(settings, connector, { clock, signal });
        terminal.printJson({
          connector: connector.name,
          isDone: !dryRun,
          entities,
          withheld: withheld.map(({ kind: _kind, ...one }) => one),
          left,
          targets: targets.map((one) => ({ ...one })),
        });
        const found = entities.filter((one) => one.rows + one.quarantined + one.files + one.versions > 0);
        const what = dryRun ? 'would be removed' : 'removed';
        if (found.length > 0) {
          const rows = found.map(({ entity, rows: deleted, quarantined, files, versions }) => [
            entity,
            ...[deleted, quarantined, files, versions].map(count),
          ]);
          terminal.print(`${connector.name}: ${what}`, ...indentedTable(columns, rows));
        } else if (withheld.length === 0) {
          terminal.print(`${connector.name}: nothing is older than the config keeps`);
        } else terminal.print(`${connector.name}: nothing ${what}`);
        terminal.print(...withheld.map((one) => `  ${withheldByAgeText(one)}`));
        if (withheld.length > 0) terminal.print(`  ${allowByAgeText(connector.name, program)}`);
        terminal.print(...[...left.map(leftText), ...targets.map(cleanedText)].map((line) => `  ${line}`));
        const isLeft = left.length > 0 || targets.some(({ problem }) => problem !== null);
        codes.push(isLeft ? exitCodes.degraded : exitCodes.ok);
        if (withheld.length > 0) codes.push(exitCodes.guard);
      } catch (error) {
        signal.throwIfAborted();
        codes.push(reportFailureOf(context, connector.name, error, { connector: connector.name }));
      }
    }
    return gravestExitCode(codes);
  },
});

const columns = [
  ...leftColumns('entity'),
  ...rightColumns('deleted rows', 'quarantined', 'files', 'versions'),
];
