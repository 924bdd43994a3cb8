import type { LocalSettings, SinkSettings } from '../settings/settings.ts';
import type { ConnectorName } from '../core/names.ts';
import {
  damageAdvice,
  damageText,
  type CheckedFiles,
  type ClosedFiles,
  type ContentsProgress,
} from '../sinks/closed-files.ts';
import { openClosedFiles } from '../sinks/open-closed-files.ts';
import { count, counted } from '../telemetry/progress-text.ts';
import { failed, passed, skipped, type CheckResult } from './check-result.ts';
import type { CommandContext } from './command-context.ts';
import { exitCodes } from './exit-codes.ts';

const mostNamed = 20;
const mebibyte = 1024 * 1024;
const firstMs = 1_000;
const redrawMs = 100;
const lineMs = 10_000;

/** For each connector of the sink a line, and one for each damaged file. Rejects when the command is interrupted. */
export async function checkClosedFiles(
  context: CommandContext,
  settings: Pick<LocalSettings, 'connectors'>,
  sink: SinkSettings,
  isDeep: boolean,
): Promise<readonly CheckResult[]> {
  const results: CheckResult[] = [];
  using closed = openClosedFiles(sink);
  if (closed === null)
    return isDeep ? [skipped(`files of ${sink.name}`, 'this sink closes none, so there are no hashes')] : [];
  for (const { name, sink: own } of settings.connectors.values()) {
    if (own.name !== sink.name) continue;
    const what = `files of ${name}`;
    try {
      const checked = isDeep ? await compareContents(context, closed, name) : closed.lengths(name);
      results.push(...resultsOf(what, name, checked, context.program, isDeep));
    } catch (error) {
      context.signal.throwIfAborted();
      results.push(failed(what, error));
    }
  }
  return results;
}

function resultsOf(
  what: string,
  connector: ConnectorName,
  { files, withoutHash, damaged }: CheckedFiles,
  program: string,
  isDeep: boolean,
): readonly CheckResult[] {
  const all = counted(files, 'closed file');
  if (damaged.length === 0) {
    const unproven =
      isDeep && withoutHash > 0
        ? `; of ${count(withoutHash)} only the length: an earlier version closed them and recorded no hash`
        : '';
    return [passed(what, `${all}, ${isDeep ? 'content' : 'length'} as stored${unproven}`)];
  }
  const bad = (detail: string): CheckResult => ({
    what,
    state: 'failed',
    detail,
    exitCode: exitCodes.failed,
  });
  const more = damaged.length - mostNamed;
  return [
    ...damaged.slice(0, mostNamed).map((file) => bad(damageText(file))),
    bad(
      `${count(damaged.length)} of ${all} damaged${more > 0 ? ` (${mostNamed} are named)` : ''}. ${damageAdvice(connector, program)}`,
    ),
  ];
}

/** Many files take minutes: after a second their progress is redrawn on a terminal, and elsewhere a line every ten seconds. */
async function compareContents(
  { terminal, clock, signal }: CommandContext,
  closed: ClosedFiles,
  connector: ConnectorName,
): Promise<CheckedFiles> {
  const isLive = terminal.style !== null;
  let nextMs = clock.now() + firstMs;
  const onProgress = (progress: ContentsProgress): void => {
    if (clock.now() < nextMs) return;
    nextMs = clock.now() + (isLive ? redrawMs : lineMs);
    const line = progressText(connector, progress);
    if (isLive) terminal.redraw([line]);
    else terminal.addLine(line);
  };
  try {
    return await closed.contents(connector, { signal, onProgress });
  } finally {
    if (isLive) terminal.redraw([]);
  }
}

function progressText(
  connector: ConnectorName,
  { files, allFiles, bytes, allBytes }: ContentsProgress,
): string {
  const read = `${count(Math.floor(bytes / mebibyte))} of ${count(Math.ceil(allBytes / mebibyte))} MiB`;
  return `${connector}: ${count(files)} of ${counted(allFiles, 'closed file')} compared, ${read}`;
}
