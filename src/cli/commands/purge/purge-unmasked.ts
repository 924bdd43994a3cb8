import { cleanTargets, type CleanedTarget } from '../../../app/clean-targets.ts';
import { lookAtUnmasked, maskStored } from '../../../app/mask-stored.ts';
import type { ConnectorSettings, LocalSettings } from '../../../settings/settings.ts';
import type { RewrittenOf } from '../../../sinks/masks.ts';
import type { LeftStep } from '../../../sinks/purges.ts';
import { count, counted } from '../../../telemetry/format.ts';
import type { CommandContext } from '../../command.ts';
import { exitCodes, type ExitCode } from '../../output/exit-codes.ts';
import { indentedTable, leftColumns, rightColumns } from '../../output/text-table.ts';

interface Asked {
  readonly settings: LocalSettings;
  readonly connector: ConnectorSettings;
  readonly isDryRun: boolean;
  readonly leftText: (left: LeftStep, program: string) => string;
  readonly targetText: (target: CleanedTarget) => string;
}

/** `purge --unmasked`: what is stored from before the masks of the config. */
export async function purgeUnmasked(
  { terminal, clock, signal, program }: CommandContext,
  { settings, connector, isDryRun, leftText, targetText }: Asked,
): Promise<ExitCode> {
  const { name } = connector;
  if (isDryRun) {
    const entities = await lookAtUnmasked(connector, { clock, signal });
    terminal.printJson({ connector: name, isDone: false, entities });
    terminal.print(`${name}: this would be rewritten as its masks say`, ...table(entities));
    terminal.print('Nothing was changed.');
    return exitCodes.ok;
  }
  const { entities, left } = await maskStored(connector, { clock, signal });
  // Also where nothing was rewritten: files of earlier publications may hold what a sync has rewritten since.
  const of = { connector: name, entities: entities.map(({ entity }) => entity) };
  const targets = await cleanTargets(settings, of, { clock, signal });
  terminal.printJson({
    connector: name,
    isDone: true,
    entities,
    left,
    targets: targets.map((one) => ({ ...one })),
  });
  const rows = entities.reduce((sum, one) => sum + one.rows + one.versions, 0);
  terminal.print(`${name}: ${counted(rows, 'row')} rewritten as its masks say`, ...table(entities));
  for (const one of left) terminal.print(leftText(one, program));
  terminal.print(...targets.map(targetText));
  terminal.note('Out of reach: copies that readers have made, backups and logs from before the masks.');
  const isDone = left.length === 0 && targets.every(({ problem }) => problem === null);
  return isDone ? exitCodes.ok : exitCodes.degraded;
}

const columns = [
  ...leftColumns('entity'),
  ...rightColumns('rows', 'versions', 'quarantined', 'files', 'lines', 'texts'),
];

function table(entities: readonly RewrittenOf[]): readonly string[] {
  const rows = entities.map(({ entity, ...counts }) => [
    entity,
    ...[counts.rows, counts.versions, counts.quarantined, counts.files, counts.lines, counts.texts].map(
      (one) => count(one),
    ),
  ]);
  return rows.length === 0 ? ['  nothing is older than the masks'] : indentedTable(columns, rows);
}
