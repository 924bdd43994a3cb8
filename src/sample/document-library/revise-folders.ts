import { newAttachment, newDocument, newFolder } from './library.ts';
import { visible, type LibraryRevision, type LibraryWork } from './library-work.ts';

const firstNewIndex = 100_000;

/**
 * Every revision renames a folder. In turns of three, a folder comes with two documents and a file in each, is deleted with
 * all of it, and is restored.
 */
export function reviseFolders(work: LibraryWork, underWay: LibraryRevision): void {
  const { revision, clock } = underWay;
  renameOne(work, underWay);
  switch (revision % 3) {
    case 1:
      addOne(work, underWay);
      return;
    case 2:
      for (const id of work.passing) if (!work.gone.has(id)) work.gone.set(id, revision);
      return;
    default:
      for (const id of work.passing) {
        const folder = work.folders.get(id);
        if (folder === undefined || work.gone.get(id) !== revision - 1) continue;
        work.gone.delete(id);
        work.folders.set(id, { ...folder, updatedAt: clock.next() });
      }
      work.passing.clear();
  }
}

function renameOne(work: LibraryWork, { revision, clock }: LibraryRevision): void {
  const folders = [...visible(work).folders.values()];
  const folder = folders[revision % folders.length];
  if (folder === undefined) return;
  const [name = ''] = folder.name.split(' (since');
  work.folders.set(folder.id, { ...folder, name: `${name} (since ${revision})`, updatedAt: clock.next() });
}

function addOne(work: LibraryWork, { revision, clock }: LibraryRevision): void {
  const at = clock.next();
  const folder = newFolder(work.seed, firstNewIndex + revision, `Project of revision ${revision}`, at);
  work.folders.set(folder.id, folder);
  work.passing.add(folder.id);
  for (const place of [0, 1]) {
    const index = firstNewIndex + revision * 10 + place;
    const document = newDocument(work.seed, index, folder.id, at);
    const attachment = newAttachment(work.seed, index, document.id, at);
    work.documents.set(document.id, document);
    work.attachments.set(attachment.id, attachment);
  }
}
