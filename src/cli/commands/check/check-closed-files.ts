import { openClosedFiles } from '../../../app/reach-queues.ts';
import type { ConnectorName } from '../../../core/names.ts';
import type { LocalSettings, SinkSettings } from '../../../settings/settings.ts';
import {
  damageAdvice,
  damageText,
  type CheckedFiles,
  type ClosedFiles,
} from '../../../sinks/closed-files.ts';
import { count, counted } from '../../../telemetry/format.ts';
import {
  found,
  openCheckProgress,
  failed,
  passed,
  skipped,
  summarize,
  type CheckContext,
  type CheckResult,
} from './check-result.ts';

const mostNamed = 20;
const mebibyte = 1024 * 1024;

/**
 * For each connector of the sink a line (of many that are right one for all), and one for each damaged file. Rejects
 * when the command is interrupted.
 */
export async function checkClosedFiles(
  context: CheckContext,
  settings: Pick<LocalSettings, 'connectors'>,
  sink: SinkSettings,
  isDeep: boolean,
): Promise<readonly CheckResult[]> {
  await using closed = await openClosedFiles(sink);
  if (closed === null) {
    return isDeep ? [skipped(`files of ${sink.name}`, 'this sink closes none, so there are no hashes')] : [];
  }
  const sound: CheckResult[] = [];
  const damaged: CheckResult[] = [];
  for (const { name, sink: own } of settings.connectors.values()) {
    if (own.name !== sink.name) continue;
    const what = `files of ${name}`;
    try {
      const checked = isDeep ? await compareContents(context, closed, name) : await closed.check(name);
      const isSound = checked.damaged.length === 0;
      (isSound ? sound : damaged).push(...resultsOf(what, name, checked, context.program, isDeep));
    } catch (error) {
      context.signal.throwIfAborted();
      damaged.push(failed(what, error));
    }
  }
  return [...summarize(sound, `files of ${sink.name}`), ...damaged];
}

function resultsOf(
  what: string,
  connector: ConnectorName,
  { files, damaged }: CheckedFiles,
  program: string,
  isDeep: boolean,
): readonly CheckResult[] {
  const all = counted(files, 'closed file');
  if (damaged.length === 0) return [passed(what, `${all}, ${isDeep ? 'content' : 'length'} as stored`)];
  const bad = (detail: string): CheckResult => found({ what, state: 'failed', detail });
  const more = damaged.length - mostNamed;
  return [
    ...damaged.slice(0, mostNamed).map((file) => bad(damageText(file))),
    bad(
      `${count(damaged.length)} of ${all} damaged${more > 0 ? ` (${mostNamed} are named)` : ''}. ${damageAdvice(connector, program)}`,
    ),
  ];
}

async function compareContents(
  context: CheckContext,
  closed: ClosedFiles,
  connector: ConnectorName,
): Promise<CheckedFiles> {
  using shown = openCheckProgress(context);
  return await closed.check(connector, {
    signal: context.signal,
    onProgress: ({ files, allFiles, bytes, allBytes }) =>
      shown.tell(() => {
        const read = `${count(Math.floor(bytes / mebibyte))} of ${count(Math.ceil(allBytes / mebibyte))} MiB`;
        return `${connector}: ${count(files)} of ${counted(allFiles, 'closed file')} compared, ${read}`;
      }),
  });
}
