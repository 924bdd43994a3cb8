import type { Dice } from '../dice.ts';
import { newAttachment, sizeOf, type Attachment } from './library.ts';
import { takeGone, visible, type LibraryRevision, type LibraryWork } from './library-work.ts';

const firstNewIndex = 300_000;

/** One comes back, one is deleted, two get other bytes, and one comes. All of it edits the document that they are of. */
export function reviseAttachments(work: LibraryWork, { revision, clock, dice }: LibraryRevision): void {
  const chosen = new Set<string>();
  const restored = takeGone(work, work.attachments, revision, ({ documentId }) =>
    visible(work).documents.has(documentId),
  );
  if (restored !== undefined) {
    chosen.add(restored.id);
    put(work, restored, clock.next());
  }
  const deleted = chooseAttachment(work, dice, chosen);
  if (deleted !== undefined) {
    work.gone.set(deleted.id, revision);
    touch(work, deleted.documentId, clock.next());
  }
  for (const attachment of [chooseAttachment(work, dice, chosen), chooseAttachment(work, dice, chosen)]) {
    if (attachment === undefined) continue;
    const version = attachment.version + 1;
    put(work, { ...attachment, version, size: sizeOf(work.seed, attachment.index, version) }, clock.next());
  }
  const documents = [...visible(work).documents.values()];
  const owner = documents[dice.below(documents.length)];
  if (owner !== undefined) {
    const at = clock.next();
    put(work, newAttachment(work.seed, firstNewIndex + revision, owner.id, at), at);
  }
}

function put(work: LibraryWork, attachment: Attachment, at: number): void {
  work.attachments.set(attachment.id, { ...attachment, updatedAt: at });
  touch(work, attachment.documentId, at);
}

function touch(work: LibraryWork, documentId: string, at: number): void {
  const document = work.documents.get(documentId);
  if (document !== undefined) work.documents.set(documentId, { ...document, updatedAt: at });
}

/** One that is shown and was not chosen before in this revision. */
function chooseAttachment(work: LibraryWork, dice: Dice, chosen: Set<string>): Attachment | undefined {
  const attachments = [...visible(work).attachments.values()].filter(({ id }) => !chosen.has(id));
  const attachment = attachments[dice.below(attachments.length)];
  if (attachment !== undefined) chosen.add(attachment.id);
  return attachment;
}
