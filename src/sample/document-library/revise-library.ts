import { dayOf, revisionTime, titleAt } from '../writing.ts';
import {
  type Attachment,
  folderId,
  folderNames,
  type Library,
  type LibraryDocument,
  planAttachment,
  planDocument,
  planFolder,
  sizeOf,
} from './library.ts';

/**
 * Every revision renames a folder, edits two documents, moves one and adds one, gives two attachments other bytes and
 * adds one. It deletes a document and an attachment, which the revision after the next brings back. A folder with two
 * documents is added, deleted and restored in turns of three. What happens to an attachment edits its document.
 */
export function reviseLibrary(seed: number, first: Library, revisions: number): Library {
  const folders = [...first.folders];
  const documents = [...first.documents];
  const attachments = [...first.attachments];
  /** Id -> the revision that deleted it last. */
  const deletedIn = new Map<string, number>();
  const documentById = new Map(documents.map((document) => [document.id, document]));
  const addDocument = (index: number, folder: string, at: number): LibraryDocument => {
    const document = planDocument(seed, index, folder, at);
    documents.push(document);
    documentById.set(document.id, document);
    return document;
  };
  const changeAttachment = (attachment: Attachment | undefined, at: number): void => {
    const document = documentById.get(attachment?.documentId ?? '');
    if (attachment !== undefined) attachment.updatedAt = at;
    if (document !== undefined) document.updatedAt = at;
  };

  for (let revision = 1; revision <= revisions; revision += 1) {
    const at = revisionTime(revision) + 60_000;
    const turn = <Thing>(things: readonly Thing[], place: number): Thing | undefined =>
      things[(revision * 11 + place) % things.length];

    const folder = first.folders[revision % first.folders.length];
    if (folder !== undefined) {
      folder.name = `${titleAt(folderNames, folder.index)} (${dayOf(revision)})`;
      folder.updatedAt = at;
    }
    if (revision % 3 === 1) {
      const added = planFolder(seed, 100_000 + revision);
      const name = `Tender of ${dayOf(revision)}`;
      folders.push({ ...added, parentId: null, name, createdAt: at, updatedAt: at });
      for (const place of [0, 1]) {
        const index = 100_000 + revision * 10 + place;
        const { id } = addDocument(index, added.id, at);
        attachments.push(planAttachment(seed, index, id, at));
      }
    } else if (revision % 3 === 2) {
      deletedIn.set(folderId(seed, 100_000 + revision - 1), revision);
    } else {
      const restored = folders.at(-1);
      if (restored !== undefined) restored.updatedAt = at;
      deletedIn.delete(restored?.id ?? '');
    }
    for (const [id, since] of deletedIn) {
      if (since !== revision - 2) continue;
      deletedIn.delete(id);
      const document = documentById.get(id);
      if (document !== undefined) document.updatedAt = at;
      changeAttachment(
        attachments.find((one) => one.id === id),
        at,
      );
    }

    const [deleted, moved] = [turn(first.documents, 0), turn(first.documents, 3)];
    if (deleted !== undefined) deletedIn.set(deleted.id, revision);
    for (const edited of [turn(first.documents, 1), turn(first.documents, 2)]) {
      if (edited === undefined) continue;
      edited.edits += 1;
      edited.updatedAt = at;
    }
    if (moved !== undefined) {
      const place = first.folders.findIndex(({ id }) => id === moved.folderId);
      moved.folderId = first.folders[(place + 1) % first.folders.length]?.id ?? moved.folderId;
      moved.updatedAt = at;
    }
    addDocument(200_000 + revision, turn(first.folders, 0)?.id ?? '', at);

    const removed = turn(first.attachments, 0);
    if (removed !== undefined) deletedIn.set(removed.id, revision);
    changeAttachment(removed, at);
    for (const replaced of [turn(first.attachments, 1), turn(first.attachments, 2)]) {
      if (replaced === undefined) continue;
      replaced.version += 1;
      replaced.size = sizeOf(seed, replaced.index, replaced.version);
      changeAttachment(replaced, at);
    }
    const added = planAttachment(seed, 300_000 + revision, turn(first.documents, 4)?.id ?? '', at);
    attachments.push(added);
    changeAttachment(added, at);
  }
  const isKept = ({ id }: { readonly id: string }): boolean => !deletedIn.has(id);
  const keptFolders = folders.filter(isKept);
  const folderIds = new Set(keptFolders.map(({ id }) => id));
  const keptDocuments = documents.filter((one) => isKept(one) && folderIds.has(one.folderId));
  const documentIds = new Set(keptDocuments.map(({ id }) => id));
  return {
    folders: keptFolders,
    documents: keptDocuments,
    attachments: attachments.filter((one) => isKept(one) && documentIds.has(one.documentId)),
  };
}
