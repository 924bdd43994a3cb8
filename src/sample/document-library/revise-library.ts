import { dayOf, revisionTime, titleAt } from '../writing.ts';
import {
  type Attachment,
  type Folder,
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
  const touch = (
    at: number,
    ...things: readonly (Folder | LibraryDocument | Attachment | undefined)[]
  ): void => {
    for (const thing of things) {
      if (thing === undefined) continue;
      thing.updatedAt = at;
      const ownerId = 'documentId' in thing ? thing.documentId : null;
      const owner = documents.find(({ id }) => id === ownerId);
      if (owner !== undefined) owner.updatedAt = at;
    }
  };

  for (let revision = 1; revision <= revisions; revision += 1) {
    const at = revisionTime(revision) + 60_000;
    const inTurn = <Thing>(things: readonly Thing[], ...places: readonly number[]): readonly Thing[] =>
      places.flatMap((place) => things[(revision * 11 + place) % things.length] ?? []);

    const folder = first.folders[revision % first.folders.length];
    if (folder !== undefined) folder.name = `${titleAt(folderNames, folder.index)} (${dayOf(revision)})`;
    touch(at, folder);
    if (revision % 3 === 1) {
      const added = planFolder(seed, 100_000 + revision);
      const name = `Tender of ${dayOf(revision)}`;
      folders.push({ ...added, parentId: null, name, createdAt: at, updatedAt: at });
      for (const index of [100_000 + revision * 10, 100_001 + revision * 10]) {
        const document = planDocument(seed, index, added.id, at);
        documents.push(document);
        attachments.push(planAttachment(seed, index, document.id, at));
      }
    } else if (revision % 3 === 2) {
      deletedIn.set(folderId(seed, 100_000 + revision - 1), revision);
    } else {
      const restored = folders.at(-1);
      touch(at, restored);
      deletedIn.delete(restored?.id ?? '');
    }
    for (const [id, since] of deletedIn) {
      if (since !== revision - 2) continue;
      deletedIn.delete(id);
      touch(at, ...[...documents, ...attachments].filter((one) => one.id === id));
    }

    for (const { id } of inTurn(first.documents, 0)) deletedIn.set(id, revision);
    for (const edited of inTurn(first.documents, 1, 2)) {
      edited.edits += 1;
      touch(at, edited);
    }
    for (const moved of inTurn(first.documents, 3)) {
      const place = first.folders.findIndex(({ id }) => id === moved.folderId);
      moved.folderId = first.folders[(place + 1) % first.folders.length]?.id ?? moved.folderId;
      touch(at, moved);
    }
    const host = inTurn(first.folders, 0)[0]?.id ?? '';
    documents.push(planDocument(seed, 200_000 + revision, host, at));

    for (const removed of inTurn(first.attachments, 0)) {
      deletedIn.set(removed.id, revision);
      touch(at, removed);
    }
    for (const replaced of inTurn(first.attachments, 1, 2)) {
      replaced.version += 1;
      replaced.size = sizeOf(seed, replaced.index, replaced.version);
      touch(at, replaced);
    }
    const owner = inTurn(first.documents, 4)[0]?.id ?? '';
    const added = planAttachment(seed, 300_000 + revision, owner, at);
    attachments.push(added);
    touch(at, added);
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
