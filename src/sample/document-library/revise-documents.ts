import type { Dice } from '../dice.ts';
import { newDocument, type LibraryDocument } from './library.ts';
import { takeGone, visible, type LibraryRevision, type LibraryWork } from './library-work.ts';

const firstNewIndex = 200_000;

/** One comes back, one is deleted, two are edited, one moves to another folder, and one comes. */
export function reviseDocuments(work: LibraryWork, { revision, clock, dice }: LibraryRevision): void {
  const chosen = new Set<string>();
  const choose = (): LibraryDocument | undefined => chooseDocument(work, dice, chosen);

  const restored = takeGone(work, work.documents, revision, () => true);
  if (restored !== undefined) {
    chosen.add(restored.id);
    work.documents.set(restored.id, { ...restored, updatedAt: clock.next() });
  }
  const deleted = choose();
  if (deleted !== undefined) work.gone.set(deleted.id, revision);
  for (const document of [choose(), choose()]) {
    if (document === undefined) continue;
    work.documents.set(document.id, { ...document, edits: document.edits + 1, updatedAt: clock.next() });
  }
  const moved = choose();
  if (moved !== undefined) {
    const folderId = chooseFolder(work, dice, moved.folderId);
    work.documents.set(moved.id, { ...moved, folderId, updatedAt: clock.next() });
  }
  const made = newDocument(work.seed, firstNewIndex + revision, chooseFolder(work, dice, ''), clock.next());
  work.documents.set(made.id, made);
}

/** One that is shown, lies where it may stay, and was not chosen before in this revision. */
function chooseDocument(work: LibraryWork, dice: Dice, chosen: Set<string>): LibraryDocument | undefined {
  const documents = [...visible(work).documents.values()].filter(
    ({ id, folderId }) => !chosen.has(id) && !work.passing.has(folderId),
  );
  const document = documents[dice.below(documents.length)];
  if (document !== undefined) chosen.add(document.id);
  return document;
}

function chooseFolder(work: LibraryWork, dice: Dice, other: string): string {
  const ids = [...visible(work).folders.keys()].filter((id) => id !== other && !work.passing.has(id));
  return ids[dice.below(ids.length)] ?? other;
}
