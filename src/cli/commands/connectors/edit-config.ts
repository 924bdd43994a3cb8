import { reachQueues } from '../../../app/reach-queues.ts';
import { ProblemsError } from '../../../core/problems.ts';
import { replaceText } from '../../../files/replace-text.ts';
import type { ConfigEdit } from '../../../settings/edit-connectors.ts';
import type { LocalSettings } from '../../../settings/settings.ts';
import type { CommandContext } from '../../command.ts';
import { configFile, registerSecrets } from '../../load-config.ts';
import { unwritable } from '../../output/write-files.ts';

/** The edit, which is valid. Where it is not, its problems are thrown, and a line before them says what they are of. */
export async function checkedHere(
  { terminal, scrubber }: CommandContext,
  plan: () => ConfigEdit,
): Promise<ConfigEdit> {
  try {
    const edit = plan();
    registerSecrets(edit.settings, scrubber);
    return await Promise.resolve(edit);
  } catch (error) {
    if (error instanceof ProblemsError) {
      terminal.note('Nothing was changed: the config would have these mistakes.');
    }
    throw error;
  }
}

export function writeEdit(context: CommandContext, { file, before, after }: ConfigEdit): void {
  try {
    replaceText({ file, before, after, like: configFile(context), nowMs: context.clock.now() });
  } catch (error) {
    throw unwritable(file, error, 'Nothing was changed. Edit it where it can be written.');
  }
}

/** What makes workers take over the config; none where they do by themselves. Null: no worker is known. */
export async function reloadCommands(settings: LocalSettings): Promise<readonly string[] | null> {
  await using reached = await reachQueues(settings);
  const workers = (await reached.queues?.workers()) ?? 0;
  if (workers === 0) return null;
  return settings.watch ? [] : ['reload'];
}
