import { usage } from '../../../core/usage-error.ts';
import { withParts } from '../../../settings/load-settings.ts';
import type { ConnectorSettings, LocalSettings } from '../../../settings/settings.ts';
import type { CommandContext } from '../../command-context.ts';
import { exitCodes, type ExitCode } from '../../output/exit-codes.ts';
import { checkNotPaused, sinkIdOf, openQueuesOf } from '../../../app/reach-queues.ts';
import { writeRequest, type BackfillRequest } from '../../../app/backfill.ts';

/** Redis keeps a job's text within a few thousand characters. */
const maxRequestChars = 3000;

/** Throws QUEUE_UNAVAILABLE within two seconds, USAGE where no worker would take it; then nothing was asked for. */
export async function queueBackfill(
  context: CommandContext,
  settings: LocalSettings,
  connector: ConnectorSettings,
  request: BackfillRequest,
): Promise<ExitCode> {
  const { terminal, program } = context;
  const { name, sink } = connector;
  await checkNotPaused(connector, program);
  const text = writeRequest(request);
  if (text.length > maxRequestChars) {
    throw usage('Too many entities for one job; queue them in parts, with --select.');
  }
  await using queues = await openQueuesOf(withParts(settings, 'redis'));
  const sinkId = await sinkIdOf(sink, queues, program);
  const { isNew } = await queues.enqueueBackfill(sinkId, name, text);
  terminal.printJson({ connector: name, isNew, backfill: JSON.parse(text) as unknown });
  terminal.print(
    isNew
      ? `${name}: the backfill is queued for a worker; syncs of the connector go first.`
      : `${name}: another backfill is already waiting or running; nothing was added. Run the command again when it is done.`,
  );
  terminal.print(`\n"${program} runs --follow" shows its progress.`);
  return isNew ? exitCodes.ok : exitCodes.busy;
}
