import { lookAtUnmasked, maskStored } from '../../../app/mask-stored.ts';
import { cleanTargets } from '../../../app/publish-target.ts';
import { targetsOfConnector } from '../../../settings/chosen-targets.ts';
import type { ConnectorSettings, LocalSettings } from '../../../settings/settings.ts';
import type { RewrittenOf } from '../../../sinks/masks.ts';
import { count, counted } from '../../../telemetry/format.ts';
import { cleanedText, leftText } from '../../../wording/purged-text.ts';
import type { CommandContext } from '../../command.ts';
import { exitCodes, type ExitCode } from '../../output/exit-codes.ts';
import { indentedTable, leftColumns, rightColumns } from '../../output/text-table.ts';

interface Asked {
  readonly settings: LocalSettings;
  readonly connector: ConnectorSettings;
  readonly isDryRun: boolean;
}

/** `purge --unmasked`: what is stored from before the masks of the config. */
export async function purgeUnmasked(
  { terminal, clock, signal }: CommandContext,
  { settings, connector, isDryRun }: Asked,
): Promise<ExitCode> {
  const { name } = connector;
  const names = targetsOfConnector(settings, name).map((one) => one.name);
  const how = { clock, signal, targets: names };
  if (isDryRun) {
    const entities = await lookAtUnmasked(connector, how);
    terminal.printJson({ connector: name, isDone: false, entities });
    terminal.print(`${name}: this would be rewritten as its masks say`, ...table(entities));
    terminal.print('Nothing was changed.');
    return exitCodes.ok;
  }
  const { entities, left } = await maskStored(connector, how);
  const targets = await cleanTargets(settings, connector, { clock, signal });
  terminal.printJson({
    connector: name,
    isDone: true,
    entities,
    left,
    targets: targets.map((one) => ({ ...one })),
  });
  const rows = entities.reduce((sum, one) => sum + one.rows + one.versions, 0);
  terminal.print(`${name}: ${counted(rows, 'row')} rewritten as its masks say`, ...table(entities));
  for (const one of left) terminal.print(leftText(one));
  terminal.print(...targets.map(cleanedText));
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
