import { diceFor } from '../dice.ts';
import { fileKindOf, type FileKind } from './file-kinds.ts';
import { fileNameAt } from './file-names.ts';

/** What is in a library, by id, in the order in which listings show it. Small enough to be kept. */
export interface Library {
  readonly folders: ReadonlyMap<string, Folder>;
  readonly documents: ReadonlyMap<string, LibraryDocument>;
  readonly attachments: ReadonlyMap<string, Attachment>;
}

export interface Folder {
  readonly id: string;
  readonly index: number;
  /** Null at the top. */
  readonly parentId: string | null;
  readonly name: string;
  readonly createdAt: number;
  readonly updatedAt: number;
}

export interface LibraryDocument {
  readonly id: string;
  readonly index: number;
  readonly folderId: string;
  readonly title: string;
  /** Counts what people did to its text. */
  readonly edits: number;
  readonly createdAt: number;
  readonly updatedAt: number;
}

export interface Attachment {
  readonly id: string;
  readonly index: number;
  readonly documentId: string;
  readonly name: string;
  readonly kind: FileKind;
  /** From 1; the bytes are others with each. */
  readonly version: number;
  /** In bytes. */
  readonly size: number;
  readonly createdAt: number;
  readonly updatedAt: number;
}

/** First throws of the dice, one per kind of thing. */
export const libraryKind = {
  folder: 41,
  document: 42,
  attachment: 43,
  bytes: 44,
  revision: 45,
} as const;

export function newFolder(seed: number, index: number, name: string, at: number): Folder {
  return { id: folderId(seed, index), index, parentId: null, name, createdAt: at, updatedAt: at };
}

export function folderId(seed: number, index: number): string {
  return `fol_${diceFor(seed, libraryKind.folder, index).hex(20)}`;
}

export function newDocument(seed: number, index: number, folder: string, at: number): LibraryDocument {
  const title = titles[index % titles.length] ?? '';
  return {
    id: `doc_${diceFor(seed, libraryKind.document, index).hex(20)}`,
    index,
    folderId: folder,
    title: index < titles.length ? title : `${title} ${index}`,
    edits: 0,
    createdAt: at,
    updatedAt: at,
  };
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

export function newAttachment(seed: number, index: number, documentId: string, at: number): Attachment {
  const dice = diceFor(seed, libraryKind.attachment, index);
  const id = `att_${dice.hex(20)}`;
  const name = fileNameAt(index);
  return {
    id,
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
