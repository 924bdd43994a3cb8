import { createHash } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import type { JsonObject } from '../core/json.ts';
import { accountOf, entityOf, remembered, Things } from './sample-account.ts';
import type { SampleAccount, SampleSize, Thing } from './sample-account.ts';
import { dayMs, diceFor, hourMs, isoSeconds, personAt } from './sample-values.ts';
import { readSample, sampleStart, textOf } from './sample-values.ts';

const sample = readSample('document-library');

/** The library behind a document-library connector. What happens to an attachment edits its document. */
export function openLibraryAccount(seed: number, size: SampleSize, revision: number): SampleAccount {
  const library = new Things(seed, sample, (kind, dice) => `${kind.slice(0, 3)}_${dice.hex(20)}`, [
    'documents',
  ]);
  fillLibrary(library, size === 'small' ? 'small' : 'tiny');
  library.play(revision, reviseLibrary);
  // The largest file takes a tenth of a second to hash.
  const checksumOf = remembered((attachment: Thing) => checksum(contentOf(library, attachment)));
  const record = (thing: Thing): JsonObject => recordOf(library, thing, checksumOf);
  return {
    ...accountOf(
      Object.entries(sample.entities).map(([kind, options]) => [
        kind,
        entityOf(library, kind, record, options),
      ]),
    ),
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

/** The library before all revisions. */
function fillLibrary(library: Things, size: keyof typeof shapes): void {
  const shape = shapes[size];
  const folders: Thing[] = [];
  for (let index = 0; index < shape.folders; index += 1) {
    // The first lies at the top, and so does every fourth; the others lie in one of those before them.
    const parent = index % 4 === 0 ? null : (folders[Math.floor((index - 1) / 2)] ?? null);
    folders.push(library.add({ kind: 'folders', index, parent, createdAt: sampleStart + index * dayMs }));
  }
  const documents = library.fill('documents', shape.documents, (index) => {
    // Every tenth time is that of the document before it.
    const source = index % 10 === 9 ? index - 1 : index;
    const createdAt = sampleStart + 30 * dayMs + source * 3 * hourMs + (source % 7) * 1_000;
    // One folder holds more than fits into a page of a listing.
    return { parent: folders[index < shape.crowded ? 1 : index % folders.length] ?? null, createdAt };
  });
  let files = 0;
  for (const parent of documents) {
    const addFile = (index: number): void => {
      const text = fileName(index);
      library.add({ kind: 'attachments', index, text, parent, createdAt: parent.createdAt });
    };
    const count = attachmentCounts[parent.index % 6] ?? 0;
    for (let place = 0; place < count; place += 1, files += 1) addFile(files);
    if (parent.index < shape.bigFiles) addFile(bigFile.index);
  }
}

/**
 * Every revision renames a folder, edits two documents, moves one and adds one, gives two attachments other bytes and
 * adds one. It deletes a document and an attachment, which come back two revisions later.
 */
function reviseLibrary(library: Things): void {
  const { revision } = library;
  const addFile = (document: Thing | undefined, place: number): void => {
    if (document === undefined) return;
    library.addNew('attachments', document, fileName(revision + place), place);
  };
  library.rename(library.turn('folders'));
  library.comeAndGo('folders', () => {
    const folder = library.addNew('folders', null, `Tender of ${library.day}`);
    for (const place of [1, 2]) {
      addFile(library.addNew('documents', folder, sample.textAt('documents', place), place), place);
    }
  });
  library.take(library.turn('documents'));
  for (const place of [1, 2]) library.edit(library.turn('documents', place));
  library.move(library.turn('documents', 3), library.turn('folders', 2));
  library.addNew('documents', library.turn('folders', 3) ?? null);
  library.take(library.turn('attachments'));
  for (const place of [1, 2]) library.edit(library.turn('attachments', place));
  addFile(library.turn('documents', 4), 0);
}

function recordOf(library: Things, thing: Thing, checksumOf: (attachment: Thing) => string): JsonObject {
  const { kind, id, index, text, edits, parent, createdAt, editedAt } = thing;
  const dice = library.dice(thing, 1);
  const { name, email } = personAt(library.seed, 7_000_000 + dice.below(20));
  const descriptions = sample.texts('descriptions');
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
    tags: sample.texts('tags').filter(() => dice.chance(30)),
    until: isoSeconds(createdAt + dice.below(900) * dayMs).slice(0, 10),
    files: library.of('attachments', thing).map((file) => fileFields(library, file)),
    ...(kind === 'attachments' ? { ...fileFields(library, thing), checksum: checksumOf(thing) } : {}),
  };
  return sample.template(kind, values, dice);
}

function fileFields(library: Things, attachment: Thing) {
  const { name: file_name, type: content_type, size } = contentOf(library, attachment);
  return { id: attachment.id, file_name, content_type, size };
}

/** A later file of one name is another file: nothing says that names differ. */
function fileName(index: number): string {
  const names = sample.texts('attachments');
  return names[index % names.length] ?? '';
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
