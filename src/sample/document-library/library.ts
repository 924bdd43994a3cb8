import { diceFor } from '../dice.ts';
import type { SampleSize } from '../sample-account.ts';
import { dayMs, dayOf, hourMs, revisionTime, sampleStart, titleAt } from '../writing.ts';
import { fileKindOf } from './file-bytes.ts';

/** What is in a library, in the order in which listings show it. Small enough to be kept. */
type Library = ReturnType<typeof planLibrary>;
export type Folder = ReturnType<typeof planFolder>;
export type LibraryDocument = ReturnType<typeof planDocument>;
export type Attachment = ReturnType<typeof planAttachment>;

/** First throws of the dice, one per kind of thing. */
export const libraryKind = { folder: 41, document: 42, attachment: 43, bytes: 44 } as const;

const shapes = {
  small: { folders: 9, documents: 160, crowded: 120 },
  tiny: { folders: 3, documents: 6, crowded: 0 },
} as const;

/** Of the attachment that `small` has one of: more than any client should hold at once. */
const bigFile = { documentIndex: 3, size: 8 * 1024 * 1024 + 123 };
/** Files of the documents, in turns. */
const attachmentCounts = [2, 1, 0, 1, 3, 0];

/** The library before all revisions. */
export function planLibrary(seed: number, size: SampleSize) {
  const shape = shapes[size === 'small' ? 'small' : 'tiny'];
  const folders = Array.from({ length: shape.folders }, (_, index) => planFolder(seed, index));
  const documents = Array.from({ length: shape.documents }, (_, index) => {
    // One folder holds more than fits into a page of a listing.
    const folder = folders[index < shape.crowded ? 1 : index % folders.length];
    return planDocument(seed, index, folder?.id ?? '', documentTime(seed, index));
  });
  const attachments: Attachment[] = [];
  for (const { id, index, createdAt } of documents) {
    const isBig = size === 'small' && index === bigFile.documentIndex;
    const count = index === bigFile.documentIndex ? 1 : (attachmentCounts[index % 6] ?? 0);
    for (let place = 0; place < count; place += 1) {
      const attachment = planAttachment(seed, attachments.length, id, createdAt);
      attachments.push(isBig ? { ...attachment, kind: fileKindOf('.bin'), size: bigFile.size } : attachment);
    }
  }
  return { folders, documents, attachments };
}

const folderNames = [
  'Contracts',
  'Übersetzungen',
  '週報',
  'Invoices 2024',
  'Идеи',
  'Drafts',
  'HR',
  'R&D',
  'Archive',
];

/** The first lies at the top, and so does every fourth; the others lie in one of those before them. */
function planFolder(seed: number, index: number) {
  const createdAt = sampleStart + index * dayMs;
  const parentId = index % 4 === 0 ? null : folderId(seed, Math.floor((index - 1) / 2));
  const name = titleAt(folderNames, index);
  return { id: folderId(seed, index), index, parentId, name, createdAt, updatedAt: createdAt };
}

function folderId(seed: number, index: number): string {
  return `fol_${diceFor(seed, libraryKind.folder, index).hex(20)}`;
}

const titles = [
  'Master services agreement',
  'Reisekostenabrechnung März',
  '第三四半期の売上報告',
  'Политика конфиденциальности',
  'Quarterly “results”, draft',
  'Résumé des décisions',
  'Onboarding checklist ✅',
];

/** `edits` counts what people did to its text. */
function planDocument(seed: number, index: number, folderId: string, at: number) {
  const id = `doc_${diceFor(seed, libraryKind.document, index).hex(20)}`;
  return { id, index, folderId, title: titleAt(titles, index), edits: 0, createdAt: at, updatedAt: at };
}

/** Before every revision, two hours and more apart; every tenth time is that of the document before it. */
function documentTime(seed: number, index: number): number {
  const source = index % 10 === 9 ? index - 1 : index;
  const jitterMs = diceFor(seed, libraryKind.document, source, 1).below(3_600) * 1_000;
  return sampleStart + 30 * dayMs + source * 3 * hourMs + jitterMs;
}

/** `version` counts from 1: the bytes are others with each. `size` is in bytes. */
function planAttachment(seed: number, index: number, documentId: string, at: number) {
  // A later file of one name is another file: nothing says that names differ.
  const name = names[index % names.length] ?? 'file';
  return {
    id: `att_${diceFor(seed, libraryKind.attachment, index).hex(20)}`,
    index,
    documentId,
    name,
    kind: fileKindOf(name),
    version: 1,
    size: sizeOf(seed, index, 1),
    createdAt: at,
    updatedAt: at,
  };
}

/** From 200 bytes to 40 KB; one in sixteen to half a megabyte. */
function sizeOf(seed: number, index: number, version: number): number {
  const dice = diceFor(seed, libraryKind.attachment, index, version);
  return 200 + dice.below(index % 16 === 7 ? 500_000 : 40_000);
}

/**
 * As people and programs name files. Some are paths, reserved on some system, or hold signs that end a header, a line
 * or a text: a client that stores files under their names has to survive all of them.
 */
const names: readonly string[] = [
  'Signed agreement (final) v2.pdf',
  'Überblick März.csv',
  'notes "draft", 100% done; really.txt',
  '../../etc/passwd',
  'CON',
  'two\r\nlines\u0000 and\ta \u001b[31mcolour\u0007.txt',
  'diagram.png',
  '週報 📝.txt',
  'archive 2024.zip',
  '..\\..\\Windows\\System32\\drivers\\etc\\hosts',
  'C:\\Users\\ada\\Desktop\\budget.csv',
  '/etc/shadow',
  'nul.txt',
  '.hidden',
  '..',
  ' spaces around .pdf ',
  'invoice\u202Efdp.txt',
  'e\u0301galite\u0301.txt',
  `${'a very long name '.repeat(20)}.pdf`,
  '?<>|*:.csv',
  'scan.png',
  "it's *here*'.txt",
];

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
