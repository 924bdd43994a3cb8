import { activeLists, takeTurns, type MailingWork, type RevisionUnderWay } from './mailing-work.ts';
import type { Automation, AutomationStatus } from './plan-automations.ts';

/** One is paused, or started and sends; in turns of three, one is added, deleted and brought back. */
export function reviseAutomations(work: MailingWork, { revision, clock }: RevisionUnderWay): void {
  const shown = work.automations.filter(({ index }) => !work.hidden.has(`automation ${index}`));
  const changed = shown[revision % Math.max(1, shown.length)];
  const at = clock.next();
  work.automations = work.automations.map((automation) =>
    automation === changed ? turned(automation, revision, at) : automation,
  );
  takeTurns(work, 'automation', revision, () => {
    const index = work.automations.length;
    const list = activeLists(work)[0]?.list ?? null;
    const createdAt = clock.next();
    work.automations = [
      ...work.automations,
      { seed: work.seed, index, list, status: 'save', createdAt, startedAt: null, sentSince: 0 },
    ];
    return [`automation ${index}`];
  });
}

const following = { save: 'sending', sending: 'paused', paused: 'sending' } as const satisfies Readonly<
  Record<AutomationStatus, AutomationStatus>
>;

function turned(automation: Automation, revision: number, at: number): Automation {
  return {
    ...automation,
    status: following[automation.status],
    startedAt: automation.startedAt ?? at,
    sentSince: automation.sentSince + revision,
  };
}
