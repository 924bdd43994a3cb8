import { ordinaryPublication, publishTarget, type AskedPublication } from '../../../app/publish-target.ts';
import type { Clock } from '../../../core/clock.ts';
import type { PublishEnd } from '../../../publish/publish-once.ts';
import type { PublishProgress } from '../../../publish/write-entity.ts';
import { checkTargets } from '../../../settings/load-settings.ts';
import type { LocalSettings, PublishSettings } from '../../../settings/settings.ts';
import { counted, duration } from '../../../telemetry/format.ts';
import { showLive, type ProgressScreen } from '../../../telemetry/show-progress.ts';
import type { CommandContext } from '../../command-context.ts';
import { publicationDocument, publicationText } from './publication-text.ts';

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
  await using progress = showRows(target.name, terminal, clock);
  const isAfterSync = asked === 'after-sync';
  const how = isAfterSync ? ordinaryPublication : asked;
  const end = await publishTarget(target, { ...how, clock, signal, onProgress: progress.onProgress });
  await progress[Symbol.asyncDispose]();
  const ms = clock.now() - startedMs;
  terminal.printJson(publicationDocument(target, end, ms));
  const texts = publicationText(target, end, ms, { ...context, isBrief: isAfterSync });
  terminal.print(...texts);
  const warnings = end.kind === 'published' ? end.warnings : [];
  for (const warning of warnings) terminal.note(`${target.name}: ${warning}`);
  return end;
}

interface RowsDisplay extends AsyncDisposable {
  readonly onProgress: (progress: PublishProgress) => void;
}

/** The newest ones: a target may have hundreds of entities. */
const mostLines = 8;

function showRows(target: string, screen: ProgressScreen, clock: Clock): RowsDisplay {
  const startedMs = clock.now();
  const rowsByEntity = new Map<string, number>();
  const heading = (): string => {
    const rows = [...rowsByEntity.values()].reduce((sum, some) => sum + some, 0);
    const ms = clock.now() - startedMs;
    const rate = counted(Math.round((rows * 1000) / Math.max(1, ms)), 'row');
    return `publishing ${target}  ${duration(ms)}: ${counted(rows, 'row')}, ${rate}/s`;
  };
  const live = showLive(screen, clock, {
    line: heading,
    lines: ({ columns }) => {
      const newest = [...rowsByEntity].slice(-mostLines);
      const all = [heading(), ...newest.map(([entity, rows]) => `  ${entity}  ${counted(rows, 'row')}`)];
      return all.map((line) => line.slice(0, columns - 1));
    },
  });
  return {
    onProgress: ({ connector, entity, rows }) => void rowsByEntity.set(`${connector}/${entity}`, rows),
    [Symbol.asyncDispose]: () => live[Symbol.asyncDispose](),
  };
}
