import { diceFor } from '../dice.ts';
import { dayMs, sampleStart } from '../times.ts';
import { fileKindOf } from './file-kinds.ts';
import {
  folderId,
  libraryKind,
  newAttachment,
  newDocument,
  newFolder,
  type Folder,
  type Library,
} from './library.ts';

const shapes = {
  small: { folders: 9, documents: 160, crowded: 120 },
  tiny: { folders: 3, documents: 6, crowded: 0 },
} as const;

/** Of the attachment that `small` has one of: more than any client should hold at once. */
const bigFile = { documentIndex: 3, size: 8 * 1024 * 1024 + 123 };

export function planLibrary(seed: number, size: 'tiny' | 'small'): Library {
  const shape = shapes[size];
  const folders = Array.from({ length: shape.folders }, (_, index) => planFolder(seed, index));
  const documents = Array.from({ length: shape.documents }, (_, index) => {
    // One folder holds more than fits into a page of a listing.
    const folder = folders[index < shape.crowded ? 1 : index % folders.length];
    return newDocument(seed, index, folder?.id ?? '', documentTime(seed, index));
  });
  let attachmentIndex = 0;
  const attachments = documents.flatMap((document) =>
    Array.from({ length: attachmentCount(document.index) }, () => {
      const made = newAttachment(seed, attachmentIndex, document.id, document.createdAt);
      attachmentIndex += 1;
      const isBig = size === 'small' && made.documentId === documents[bigFile.documentIndex]?.id;
      return isBig ? { ...made, kind: fileKindOf('.bin'), size: bigFile.size } : made;
    }),
  );
  return { folders: byId(folders), documents: byId(documents), attachments: byId(attachments) };
}

/** Every third document has no file, some have several. */
function attachmentCount(index: number): number {
  if (index === bigFile.documentIndex) return 1;
  return [2, 1, 0, 1, 3, 0][index % 6] ?? 0;
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
function planFolder(seed: number, index: number): Folder {
  const createdAt = sampleStart + index * dayMs;
  const parentIndex = index % 4 === 0 ? null : Math.floor((index - 1) / 2);
  return {
    ...newFolder(seed, index, folderNames[index % folderNames.length] ?? '', createdAt),
    parentId: parentIndex === null ? null : folderId(seed, parentIndex),
  };
}

/** Before every revision, two hours and more apart; every tenth time is that of the document before it. */
function documentTime(seed: number, index: number): number {
  const source = index % 10 === 9 ? index - 1 : index;
  const jitterMs = diceFor(seed, libraryKind.document, source, 1).below(3_600) * 1_000;
  return sampleStart + 30 * dayMs + source * 3 * 3_600_000 + jitterMs;
}

function byId<Thing extends { readonly id: string }>(things: readonly Thing[]): ReadonlyMap<string, Thing> {
  return new Map(things.map((thing) => [thing.id, thing]));
}
