import type { RunEnd } from '../../../app/app.ts';
import { hasCode } from '../../../core/errors.ts';
import { targetsAfterSync } from '../../../settings/choices.ts';
import type { LocalSettings } from '../../../settings/settings.ts';
import type { RunReport } from '../../../sinks/run-report.ts';
import type { CommandContext } from '../../command.ts';
import { errorDocument } from '../../output/exit-codes.ts';

/** Outcomes of runs that may have stored something. */
const hasRead: readonly RunReport['outcome'][] = ['ok', 'partial', 'degraded'];

/** Publications of what a command that syncs has read. */
export function openPublicationsAfterSync(context: CommandContext, settings: LocalSettings) {
  const { terminal, signal, program } = context;
  const read = new Set<string>();
  return {
    /** Called at the end of each run. */
    onRunEnd: (end: RunEnd): void => {
      if (end.kind === 'ended' && hasRead.includes(end.report.outcome)) read.add(end.connector.name);
    },
    /**
     * Once for each target that follows a connector of which something was read; none after an interrupt. Never
     * rejects: what was synced stays synced, and keeps its exit code.
     */
    async publish(): Promise<void> {
      for (const target of targetsAfterSync(settings, read)) {
        if (signal.aborted) return;
        try {
          // Loaded only here: most syncs publish nothing.
          const { showPublication } = await import('./show-publication.ts');
          await showPublication(context, settings, target, 'after-sync');
        } catch (error) {
          const document = errorDocument(error);
          terminal.printJson({ kind: 'publication-error', target: target.name, error: document });
          const why = hasCode(error, 'INTERRUPTED') ? 'interrupted' : document.message;
          terminal.note(
            `Warning: target ${target.name} was not published to, what was synced is stored: ${why}\n  To publish: ${program} publish ${target.name}`,
          );
        }
      }
    },
  };
}
