import { revisionClock } from '../revision-time.ts';
import type { NotesPlan } from './notes-plan.ts';
import { finishNotesWork, startNotesWork, type NotesRevision } from './notes-work.ts';
import { reviseBlocks } from './revise-blocks.ts';
import { reviseComments } from './revise-comments.ts';
import { reviseDataSources } from './revise-data-sources.ts';
import { revisePages } from './revise-pages.ts';
import { reviseUsers } from './revise-users.ts';
import type { Workspace } from './workspace.ts';

/** Changes of one revision, at least in a workspace of the size `small`. */
const expectedChanges = 50;
const minuteMs = 60_000;

/** The workspace as it is after so many revisions; with 0 it is the one given. */
export function reviseNotes(plan: NotesPlan, workspace: Workspace, revisions: number): Workspace {
  if (revisions === 0) return workspace;
  const work = startNotesWork(plan, workspace);
  for (let revision = 1; revision <= revisions; revision += 1) {
    const clock = revisionClock(revision, expectedChanges, minuteMs);
    const underWay: NotesRevision = { revision, clock, busy: new Set() };
    reviseUsers(work, underWay);
    reviseDataSources(work, underWay);
    revisePages(work, underWay);
    reviseBlocks(work, underWay);
    reviseComments(work, underWay);
  }
  return finishNotesWork(work);
}
