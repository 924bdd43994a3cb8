import { createHash } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import type { JsonObject } from '../core/json.ts';
import { accountOf, entityOf, remembered, Things } from './sample-account.ts';
import type { SampleAccount, SampleEntity, SampleSize, Thing } from './sample-account.ts';
import {
  dayMs,
  dayOf,
  diceFor,
  hourMs,
  isoSeconds,
  personAt,
  sampleStart,
  templatesOf,
  textOf,
  titleAt,
} from './sample-values.ts';

/** The library behind a document-library connector. What happens to an attachment edits its document. */
export function openLibraryAccount(seed: number, size: SampleSize, revision: number): SampleAccount {
  const library = new Things(seed, (kind, dice) => `${kind.slice(0, 3)}_${dice.hex(20)}`, ['documents']);
  fillLibrary(library, size === 'small' ? 'small' : 'tiny');
  library.play(revision, reviseLibrary);
  // The largest file takes a tenth of a second to hash.
  const checksumOf = remembered((attachment: Thing) => checksum(contentOf(library, attachment)));
  const record = (thing: Thing): JsonObject => recordOf(library, thing, checksumOf);
  const entity = (kind: string, id: string, below?: readonly [string, string]): SampleEntity =>
    entityOf(library, kind, record, { id, below, filters: ['status', 'updated_at'] });
  return {
    ...accountOf({
      folders: entity('folders', 'folder_id'),
      documents: entity('documents', 'document_id', ['folders', 'folder_id']),
      attachments: entity('attachments', 'attachment_id', ['documents', 'document_id']),
    }),
    file(name, params) {
      const attachment = library.named('attachments', textOf(params['attachment_id']));
      if (name !== 'attachments' || attachment === undefined) return null;
      const content = contentOf(library, attachment);
      const { type, size } = content;
      return { name: content.name, contentType: type, size, read: (signal) => fileBytes(content, signal) };
    },
  };
}

const shapes = {
  small: { folders: 9, documents: 160, crowded: 120, bigFiles: 1 },
  tiny: { folders: 3, documents: 6, crowded: 0, bigFiles: 0 },
} as const;
/** Files of the documents, in turns. */
const attachmentCounts = [2, 1, 0, 1, 3, 0];
/** The attachment that is more than any client should hold at once. */
const bigFile = { index: 50_000, size: 8 * 1024 * 1024 + 123 };

const folderNames = 'Contracts|Übersetzungen|週報|Invoices 2024|Идеи|Drafts|HR|R&D|Archive'.split('|');
const titles = (
  'Master services agreement|Reisekostenabrechnung März|第三四半期の売上報告|Политика конфиденциальности|' +
  'Quarterly “results”, draft|Résumé des décisions|Onboarding checklist ✅'
).split('|');

/** The library before all revisions. */
function fillLibrary(library: Things, size: keyof typeof shapes): void {
  const shape = shapes[size];
  const folders: Thing[] = [];
  for (let index = 0; index < shape.folders; index += 1) {
    // The first lies at the top, and so does every fourth; the others lie in one of those before them.
    const parent = index % 4 === 0 ? null : (folders[Math.floor((index - 1) / 2)] ?? null);
    const text = titleAt(folderNames, index);
    folders.push(
      library.add({ kind: 'folders', index, text, parent, createdAt: sampleStart + index * dayMs }),
    );
  }
  let files = 0;
  for (let index = 0; index < shape.documents; index += 1) {
    // One folder holds more than fits into a page of a listing.
    const folder = folders[index < shape.crowded ? 1 : index % folders.length] ?? null;
    // Every tenth time is that of the document before it.
    const source = index % 10 === 9 ? index - 1 : index;
    const createdAt = sampleStart + 30 * dayMs + source * 3 * hourMs + (source % 7) * 1_000;
    const text = titleAt(titles, index);
    const document = library.add({ kind: 'documents', index, text, parent: folder, createdAt });
    const addFile = (file: number): Thing =>
      library.add({ kind: 'attachments', index: file, text: fileName(file), parent: document, createdAt });
    const count = attachmentCounts[index % 6] ?? 0;
    for (let place = 0; place < count; place += 1, files += 1) addFile(files);
    if (index < shape.bigFiles) addFile(bigFile.index);
  }
}

/**
 * Every revision renames a folder, edits two documents, moves one and adds one, gives two attachments other bytes and
 * adds one. It deletes a document and an attachment, which come back two revisions later.
 */
function reviseLibrary(library: Things): void {
  const { revision } = library;
  const addFile = (document: Thing | undefined, place: number): void => {
    if (document !== undefined) library.addNew('attachments', document, fileName(revision + place), place);
  };
  library.rename(library.turn('folders'));
  library.comeAndGo('folders', () => {
    const folder = library.addNew('folders', null, `Tender of ${dayOf(revision)}`);
    for (const place of [1, 2]) {
      addFile(library.addNew('documents', folder, titleAt(titles, place), place), place);
    }
  });
  library.take(library.turn('documents'));
  for (const place of [1, 2]) library.edit(library.turn('documents', place));
  library.move(library.turn('documents', 3), library.turn('folders', 2));
  library.addNew('documents', library.turn('folders', 3) ?? null, titleAt(titles, revision));
  library.take(library.turn('attachments'));
  for (const place of [1, 2]) library.edit(library.turn('attachments', place));
  addFile(library.turn('documents', 4), 0);
}

const descriptions = (
  'Agreement between the client and the supplier on deliveries, prices and penalties for every delay.||' +
  'Wie Reisen beantragt, gebucht und abgerechnet werden – mit Beispielen für Übernachtungen im Ausland.|' +
  'Что мы храним о клиентах, как долго, и кто это может прочитать.|第三四半期の売上、費用、来期の見通し。'
).split('|');
const tags = 'contract|finance|HR|vertraulich|公開|needs review'.split('|');

const template = templatesOf(`
folders: { id: $id, parent_folder_id: $parent, name: $text, color: $color, is_shared: maybe, owner: $person,
  created_at: $created, updated_at: $updated }
documents: { id: $id, folder_id: $parent, title: $text, description: $description, status: $status,
  language: en | de | ru | ja | fr, word_count: $words, rating: $rating, author: $person, tags: $tags,
  properties: { Client: Ångström & Co | Example GmbH | 例株式会社, Valid until: $until, Pages: <300, Confidential: maybe },
  attachments: $files, created_at: $created, updated_at: $updated }
attachments: { id: $id, document_id: $parent, file_name: $text, content_type: $content_type, size: $size, checksum: $checksum,
  created_at: $created, updated_at: $updated }
`);

function recordOf(library: Things, thing: Thing, checksumOf: (attachment: Thing) => string): JsonObject {
  const { kind, id, index, text, edits, parent, createdAt, editedAt } = thing;
  const dice = library.dice(thing, 1);
  const { name, email } = personAt(library.seed, 7_000_000 + dice.below(20));
  const description = descriptions[index % descriptions.length] ?? '';
  const values = {
    id,
    text,
    parent: parent?.id ?? null,
    person: { name, email },
    created: isoSeconds(createdAt),
    updated: isoSeconds(editedAt),
    color: dice.chance(30) ? null : dice.pick(['#0a7ea4', '#e07a5f', '#81b29a']),
    description: edits === 0 ? description : `${description} (version ${edits + 1})`.trim(),
    status: index % 4 === 3 ? 'draft' : index % 9 === 8 ? 'archived' : 'published',
    words: 100 + dice.below(2e4) + edits,
    rating: dice.chance(20) ? null : dice.below(50) / 10,
    tags: tags.filter(() => dice.chance(30)),
    until: isoSeconds(createdAt + dice.below(900) * dayMs).slice(0, 10),
    files: library.of('attachments', thing).map((file) => fileFields(library, file)),
    ...(kind === 'attachments' ? { ...fileFields(library, thing), checksum: checksumOf(thing) } : {}),
  };
  return template(kind, values, dice);
}

function fileFields(library: Things, attachment: Thing) {
  const { name: file_name, type: content_type, size } = contentOf(library, attachment);
  return { id: attachment.id, file_name, content_type, size };
}

/**
 * Names as people and programs give them to files. Some are paths, reserved on some system, or hold signs that end a
 * header, a line or a text: a client that stores files under their names has to survive all of them.
 */
const fileNames = (
  'Signed agreement (final) v2.pdf¦Überblick März.csv¦notes "draft", 100% done; really.txt¦../../etc/passwd¦CON¦' +
  'two\r\nlines\u0000 and\ta \u001b[31mcolour\u0007.txt¦diagram.png¦週報 📝.txt¦archive 2024.zip¦' +
  '..\\..\\Windows\\System32\\drivers\\etc\\hosts¦C:\\Users\\ada\\Desktop\\budget.csv¦/etc/shadow¦nul.txt¦' +
  `.hidden¦..¦ spaces around .pdf ¦invoice\u202Efdp.txt¦e\u0301galite\u0301.txt¦${'a very long name '.repeat(20)}.pdf¦` +
  "?<>|*:.csv¦scan.png¦it's *here*'.txt"
).split('¦');

/** A later file of one name is another file: nothing says that names differ. */
function fileName(index: number): string {
  return fileNames[index % fileNames.length] ?? '';
}

/** Media type of a file by the end of its name. Whatever it is, it has lines of text. */
const fileTypes: Readonly<Record<string, string>> = {
  txt: 'text/plain; charset=utf-8',
  csv: 'text/csv',
  png: 'image/png',
  pdf: 'application/pdf',
  zip: 'application/zip',
};

type FileContent = ReturnType<typeof contentOf>;

/** The size is 200 bytes to 40 KB; of one in sixteen up to half a megabyte. Every edit brings other bytes. */
function contentOf(library: Things, attachment: Thing) {
  const { index, text: name, edits } = attachment;
  const dice = library.dice(attachment, 1 + edits);
  const end = index === bigFile.index ? '' : (name.toLowerCase().split('.').at(-1) ?? '');
  const type = fileTypes[end] ?? 'application/octet-stream';
  const size = index === bigFile.index ? bigFile.size : 200 + dice.below(index % 16 === 7 ? 500_000 : 40_000);
  return { name, type, size, seed: dice.next() };
}

/** SHA-256 of the bytes, in hex. */
function checksum(content: FileContent): string {
  const hash = createHash('sha256');
  for (const chunk of fileChunks(content)) hash.update(chunk);
  return hash.digest('hex');
}

const chunkSize = 64 * 1024;

/** The bytes of a file, chunk by chunk. Rejects with the signal's reason when that is aborted. */
async function* fileBytes(content: FileContent, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  for (const chunk of fileChunks(content)) {
    // Between two chunks others get their turn, as they do with bytes from a network.
    await setImmediate();
    signal.throwIfAborted();
    yield chunk;
  }
}

/** Each chunk has whole lines and ends with one, so that a text is a text wherever it is cut. */
function* fileChunks({ size, seed }: FileContent): Generator<Uint8Array> {
  let left = size;
  for (let index = 0; left > 0; index += 1) {
    const line = Buffer.from(`${diceFor(seed, index).hex(8)},"größer, отчёт 会議",${index}\n`);
    const chunk = Buffer.alloc(Math.min(chunkSize, left), '.');
    chunk.fill(line, 0, chunk.length - (chunk.length % line.length));
    chunk.write('\n', chunk.length - 1);
    yield chunk;
    left -= chunk.length;
  }
}
