import type { CopyEnd } from '../../../app/copy-connector.ts';
import { isSharedSink } from '../../../settings/build-sinks.ts';
import type { ConnectorSettings, SinkSettings } from '../../../settings/settings.ts';
import { count, counted } from '../../../telemetry/format.ts';

export interface EndedCopy {
  readonly connector: ConnectorSettings;
  readonly end: CopyEnd;
  readonly from: SinkSettings;
  readonly to: SinkSettings;
  readonly program: string;
}

/** What the copy of one connector has done. */
export function copiedText({ connector, end, from, to, program }: EndedCopy): readonly string[] {
  return [
    headline(end, from, to),
    ...filesText(connector, end, to),
    ...(end.isPaused
      ? [`  It is paused in ${to.name} too. To resume: ${program} schedule resume ${connector.name}`]
      : []),
  ];
}

/** What holds for all connectors that were copied, and what a person does next; empty where none was. */
export function copyEndText(copies: readonly EndedCopy[]): readonly string[] {
  const [first] = copies;
  if (first === undefined) return [];
  const { from, to, program, end } = first;
  const namesOf = (some: readonly EndedCopy[], between: string): string =>
    some.map(({ connector }) => connector.name).join(between);
  const used = copies.filter(({ connector }) => connector.sink.name === to.name);
  const unused = copies.filter((copy) => !used.includes(copy));
  return [
    `Change numbers (_seq) are the same in ${to.name}: consumers continue with the number they have, and see a new sink id (${end.toSink}).`,
    ...(used.length === 0 ? [] : [`Next: ${program} sync ${namesOf(used, ' ')}`]),
    ...(unused.length === 0
      ? []
      : [
          `Next: set "sink: ${to.name}" for ${namesOf(unused, ', ')} in the config, and restart the workers.`,
          'Until then syncs are refused (exit code 2).',
        ]),
    `What is in ${from.name} stays as it was, and is not synced there again. To continue there instead: ${program} copy --from ${from.name} --reopen ${namesOf(copies, ' ')}`,
  ];
}

function headline(
  { connector, state, rows, deleted, entities, newestSeq }: CopyEnd,
  from: SinkSettings,
  to: SinkSettings,
): string {
  const what = `${counted(rows, 'row')} of ${counted(entities, 'table')}${deleted === 0 ? '' : `, ${count(deleted)} of them deleted`}`;
  if (state === 'done') {
    return `${connector}: was copied from ${from.name} to ${to.name} before, and ${from.name} has not changed since (${what})`;
  }
  return `${connector}: copied from ${from.name} to ${to.name}${state === 'resumed' ? ' (resumed)' : ''}: ${what}, up to change number ${newestSeq}, and the sync state`;
}

/** Files lie in a folder of the config, whatever the sink is. */
function filesText(
  { downloads }: ConnectorSettings,
  { files }: CopyEnd,
  to: SinkSettings,
): readonly string[] {
  if (downloads === null && files === 0) return [];
  const where =
    downloads === null ? 'the folder that "downloads" named when they were fetched' : downloads.directory;
  const stay = `  ${counted(files, 'file')} stay in ${where}: they are not copied, and not fetched again.`;
  if (downloads === null || !isSharedSink(to.type)) return [stay];
  return [
    stay,
    `  Every machine that syncs it must see that folder: sink ${to.name} requires "shared: true" under "downloads".`,
  ];
}
