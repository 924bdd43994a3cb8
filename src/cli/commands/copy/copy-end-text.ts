import type { CopyEnd } from '../../../app/copy-connector.ts';
import { isSharedSink } from '../../../settings/build-sinks.ts';
import type { ConnectorSettings, SinkSettings } from '../../../settings/settings.ts';
import { count, counted } from '../../../telemetry/progress-text.ts';

interface EndedCopy {
  readonly connector: ConnectorSettings;
  readonly end: CopyEnd;
  readonly from: SinkSettings;
  readonly to: SinkSettings;
  readonly program: string;
}

/** What a copy has done, and what a person does next. */
export function copyEndText({ connector, end, from, to, program }: EndedCopy): readonly string[] {
  const { name } = connector;
  const isUsed = connector.sink.name === to.name;
  return [
    headline(end, from, to),
    `  Change numbers (_seq) are the same in ${to.name}, up to ${end.newestSeq}: consumers continue with the number they have.`,
    `  Only "sink" in the last line of export is another: ${end.toSink}`,
    ...filesText(connector, end, to),
    ...(end.isPaused
      ? [`  It is paused in ${to.name} too. To resume: ${program} schedule resume ${name}`]
      : []),
    ...(isUsed
      ? [`  Next: ${program} sync ${name}`]
      : [
          `  Next: set "sink: ${to.name}" for ${name} in the config, and restart its workers.`,
          '  Until then its syncs end with code 2: they would store changes that the new sink never gets.',
        ]),
    `  ${from.name} still holds ${name} as it was, and takes no more syncs of it. To go on there instead: ${program} copy --from ${from.name} --reopen ${name}`,
  ];
}

function headline(
  { connector, state, rows, deleted, entities }: CopyEnd,
  from: SinkSettings,
  to: SinkSettings,
): string {
  const what = `${counted(rows, 'row')} of ${counted(entities, 'table')}${deleted === 0 ? '' : `, ${count(deleted)} of them deleted`}`;
  if (state === 'done') {
    return `${connector}: was copied from ${from.name} to ${to.name} before, and ${from.name} has not changed since (${what})`;
  }
  return `${connector}: copied from ${from.name} to ${to.name}${state === 'resumed' ? ' (resumed)' : ''}: ${what}, and the sync state`;
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
  const told = `  ${counted(files, 'file')} stay in ${where}: they are not copied, and not fetched again.`;
  if (downloads === null || !isSharedSink(to.type)) return [told];
  return [
    told,
    `  Every machine that syncs it must see that folder: sink ${to.name} requires "shared: true" under "downloads".`,
  ];
}
