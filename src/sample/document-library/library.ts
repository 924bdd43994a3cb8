import { diceFor } from '../dice.ts';
import type { SampleSize } from '../sample-account.ts';
import { dayMs, hourMs, sampleStart, titleAt } from '../writing.ts';
import { fileKindOf } from './file-bytes.ts';

/** What is in a library, in the order in which listings show it. Small enough to be kept. */
export type Library = ReturnType<typeof planLibrary>;
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

export const folderNames = [
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
export function planFolder(seed: number, index: number) {
  const createdAt = sampleStart + index * dayMs;
  const parentId = index % 4 === 0 ? null : folderId(seed, Math.floor((index - 1) / 2));
  const name = titleAt(folderNames, index);
  return { id: folderId(seed, index), index, parentId, name, createdAt, updatedAt: createdAt };
}

export function folderId(seed: number, index: number): string {
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
export function planDocument(seed: number, index: number, folderId: string, at: number) {
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
export function planAttachment(seed: number, index: number, documentId: string, at: number) {
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
export function sizeOf(seed: number, index: number, version: number): number {
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
