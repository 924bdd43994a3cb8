import { ordinaryPublication, publishTarget, type AskedPublication } from '../../../app/publish-target.ts';
import type { PublishEnd } from '../../../publish/publish-once.ts';
import { checkTargets } from '../../../settings/load-settings.ts';
import type { LocalSettings, PublishSettings } from '../../../settings/settings.ts';
import { counted, duration } from '../../../telemetry/format.ts';
import { showLive } from '../../../telemetry/show-progress.ts';
import type { CommandContext } from '../../command.ts';
import { publicationDocument, publicationText } from './publication-text.ts';

/** The newest ones: a target may have hundreds of entities. */
const mostLines = 8;

/**
 * One publication, with its progress and, at the end, its result, without each entity after a sync.
 * Rejects where nothing was published.
 */
export async function showPublication(
  context: CommandContext,
  settings: LocalSettings,
  target: PublishSettings,
  asked: AskedPublication | 'after-sync',
): Promise<PublishEnd> {
  const { terminal, clock, signal } = context;
  checkTargets(settings, [target]);
  const startedMs = clock.now();
  const rowsByEntity = new Map<string, number>();
  const heading = (): string => {
    const rows = [...rowsByEntity.values()].reduce((sum, some) => sum + some, 0);
    const ms = clock.now() - startedMs;
    const rate = counted(Math.round((rows * 1000) / Math.max(1, ms)), 'row');
    return `publishing ${target.name}  ${duration(ms)}: ${counted(rows, 'row')}, ${rate}/s`;
  };
  await using progress = showLive(terminal, clock, {
    line: heading,
    linesBelow: () =>
      [...rowsByEntity].slice(-mostLines).map(([entity, rows]) => `  ${entity}  ${counted(rows, 'row')}`),
  });
  const isAfterSync = asked === 'after-sync';
  const end = await publishTarget(target, {
    ...(isAfterSync ? ordinaryPublication : asked),
    clock,
    signal,
    onProgress: ({ connector, entity, rows }) => void rowsByEntity.set(`${connector}/${entity}`, rows),
  });
  await progress[Symbol.asyncDispose]();
  const ms = clock.now() - startedMs;
  terminal.printJson(publicationDocument(target, end, ms));
  terminal.print(...publicationText(target, end, ms, context, isAfterSync));
  const warnings = end.kind === 'published' ? end.warnings : [];
  for (const warning of warnings) terminal.note(`${target.name}: ${warning}`);
  return end;
}
