import { revisionClock } from '../revision-time.ts';
import type { MailingPlan } from './mailing-plan.ts';
import { finishWork, startWork, type MailingWork } from './mailing-work.ts';
import { reviseAutomations } from './revise-automations.ts';
import { reviseCampaigns } from './revise-campaigns.ts';
import { reviseInterests } from './revise-interests.ts';
import { reviseLists } from './revise-lists.ts';
import { memberShares, reviseMembers } from './revise-members.ts';
import { reviseTags, updateSegments } from './revise-tags.ts';

/**
 * The account as it is after so many revisions. Takes time and memory for what they change, not for the members that
 * there are; with 0 it is the plan itself.
 */
export function reviseMailing(plan: MailingPlan, revisions: number): MailingPlan {
  if (revisions === 0) return plan;
  const work = startWork(plan);
  for (let revision = 1; revision <= revisions; revision += 1) applyRevision(work, revision);
  return finishWork(work);
}

function applyRevision(work: MailingWork, revision: number): void {
  const clock = revisionClock(revision, expectedChanges(work), 1_000);
  const underWay = { revision, clock, departures: [] };
  for (const { book } of work.lists) book.beginRevision();
  reviseLists(work, underWay);
  reviseMembers(work, underWay);
  reviseTags(work, underWay);
  updateSegments(work, underWay);
  reviseInterests(work, underWay);
  reviseCampaigns(work, underWay);
  reviseAutomations(work, underWay);
}

/** Members and a little more: so that the changes spread over the hours of a revision. */
function expectedChanges(work: MailingWork): number {
  const shares = work.lists.flatMap(({ book }) => Object.values(memberShares(book.living)));
  return 250 + shares.reduce((sum, share) => sum + share, 0);
}
