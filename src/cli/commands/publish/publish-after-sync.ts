import { hasCode } from '../../../core/errors.ts';
import { targetsAfterSync } from '../../../settings/chosen-targets.ts';
import type { LocalSettings } from '../../../settings/settings.ts';
import type { RunReport } from '../../../sinks/run-report.ts';
import type { CommandContext } from '../../command-context.ts';
import { errorDocument } from '../../output/report-error.ts';

/** Outcomes of runs that may have stored something. */
const hasRead: readonly RunReport['outcome'][] = ['ok', 'partial', 'degraded'];

/** What a command that syncs has read, and which targets follow from that. */
export interface PublicationsAfterSync {
  /** Called at the end of each run. */
  ended(connector: string, report: RunReport): void;
  /**
   * Once for each target that follows a connector of which something was read. Never rejects: what was synced stays
   * synced, and keeps its exit code.
   */
  publish(): Promise<void>;
}

export function openPublicationsAfterSync(
  context: CommandContext,
  settings: LocalSettings,
): PublicationsAfterSync {
  const { terminal, signal, program } = context;
  const read = new Set<string>();
  return {
    ended: (connector, report) => {
      if (hasRead.includes(report.outcome)) read.add(connector);
    },
    async publish() {
      const targets = targetsAfterSync(settings, read);
      if (targets.length === 0) return;
      // Loaded only here: most syncs publish nothing.
      const { showPublication } = await import('./show-publication.ts');
      for (const target of targets) {
        if (signal.aborted) return;
        try {
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
