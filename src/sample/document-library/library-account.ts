import { createHash } from 'node:crypto';
import type { JsonObject, JsonValue } from '../../core/json.ts';
import { notFound } from '../../service/api-error.ts';
import { diceFor } from '../dice.ts';
import { personAt } from '../people.ts';
import {
  accountOf,
  filterRecords,
  listingOf,
  type SampleAccount,
  type SampleSize,
} from '../sample-account.ts';
import { dayMs, libraryTime, textOf } from '../writing.ts';
import { fileBytes, fileChunks, type FileContent } from './file-bytes.ts';
import {
  type Attachment,
  type Folder,
  type LibraryDocument,
  libraryKind,
  planLibrary,
  reviseLibrary,
} from './library.ts';

/** The library behind a document-library connector. */
export function openLibraryAccount(seed: number, size: SampleSize, revision: number): SampleAccount {
  const { folders, documents, attachments } = reviseLibrary(seed, planLibrary(seed, size), revision);
  const toFolder = (folder: Folder): JsonObject => folderRecord(seed, folder);
  const attachmentsOf = (documentId: string): readonly Attachment[] =>
    attachments.filter((attachment) => attachment.documentId === documentId);
  const toDocument = (document: LibraryDocument): JsonObject =>
    documentRecord(seed, document, attachmentsOf(document.id));
  const toAttachment = (attachment: Attachment): JsonObject => attachmentRecord(seed, attachment);

  return {
    ...accountOf({
      folders: {
        list: () => listingOf(folders.map(toFolder)),
        get: ({ folder_id: id }) => folders.filter(isNamed(id)).map(toFolder)[0],
      },
      documents: {
        list: (params) => {
          const { id } = known(folders, 'folder', params['folder_id']);
          const records = documents.filter(({ folderId }) => folderId === id).map(toDocument);
          return listingOf(filterRecords(records, ['status', 'updated_at'], params));
        },
        get: ({ document_id: id }) => documents.filter(isNamed(id)).map(toDocument)[0],
      },
      attachments: {
        list: ({ document_id: id }) =>
          listingOf(attachmentsOf(known(documents, 'document', id).id).map(toAttachment)),
        get: ({ attachment_id: id }) => attachments.filter(isNamed(id)).map(toAttachment)[0],
      },
    }),
    file(entity, params) {
      const attachment = attachments.find(isNamed(params['attachment_id']));
      if (entity !== 'attachments' || attachment === undefined) return null;
      const { name, kind, size } = attachment;
      const content = contentOf(seed, attachment);
      return { name, contentType: kind.contentType, size, read: (signal) => fileBytes(content, signal) };
    },
  };
}

function isNamed(id: JsonValue | undefined): (thing: { readonly id: string }) => boolean {
  return (thing) => thing.id === id;
}

function known<Thing extends { readonly id: string }>(
  things: readonly Thing[],
  what: string,
  id: JsonValue | undefined,
): Thing {
  const thing = things.find(isNamed(id));
  if (thing !== undefined) return thing;
  throw notFound(`There is no ${what} with the id ${JSON.stringify(textOf(id).slice(0, 60))}.`);
}

function folderRecord(seed: number, folder: Folder): JsonObject {
  const dice = diceFor(seed, libraryKind.folder, folder.index, 1);
  return {
    id: folder.id,
    parent_folder_id: folder.parentId,
    name: folder.name,
    color: dice.chance(30) ? null : dice.pick(['#0a7ea4', '#e07a5f', '#81b29a']),
    is_shared: dice.chance(50),
    owner: person(seed, dice.below(20)),
    created_at: libraryTime(folder.createdAt),
    updated_at: libraryTime(folder.updatedAt),
  };
}

/** `attachments`: the document's own, in the order of their making. */
function documentRecord(
  seed: number,
  document: LibraryDocument,
  attachments: readonly Attachment[],
): JsonObject {
  const { index, edits } = document;
  const dice = diceFor(seed, libraryKind.document, index, 2);
  const text = descriptions[index % descriptions.length] ?? '';
  return {
    id: document.id,
    folder_id: document.folderId,
    title: document.title,
    description: edits === 0 ? text : `${text} (version ${edits + 1})`.trim(),
    status: index % 4 === 3 ? 'draft' : index % 9 === 8 ? 'archived' : 'published',
    language: dice.pick(['en', 'de', 'ru', 'ja', 'fr']),
    word_count: 100 + dice.below(20_000) + edits,
    rating: dice.chance(20) ? null : dice.below(50) / 10,
    author: person(seed, dice.below(20)),
    tags: tags.filter(() => dice.chance(30)),
    properties: {
      Client: dice.pick(['Ångström & Co', 'Example GmbH', '例株式会社']),
      'Valid until': libraryTime(document.createdAt + dice.below(900) * dayMs).slice(0, 10),
      Pages: 1 + dice.below(300),
      Confidential: dice.chance(25),
    },
    attachments: attachments.map(({ id, name, kind, size }) => ({
      id,
      file_name: name,
      content_type: kind.contentType,
      size,
    })),
    created_at: libraryTime(document.createdAt),
    updated_at: libraryTime(document.updatedAt),
  };
}

const descriptions = [
  'Agreement between the client and the supplier on deliveries, prices and penalties for every delay.',
  '',
  'Wie Reisen beantragt, gebucht und abgerechnet werden – mit Beispielen für Übernachtungen im Ausland.',
  'Что мы храним о клиентах, как долго, и кто это может прочитать.',
  '第三四半期の売上、費用、来期の見通し。',
  'What a new colleague needs in the first week: accounts, keys, people to meet, and where to find the rest.',
] as const;

const tags = ['contract', 'finance', 'HR', 'vertraulich', '公開', 'needs review'];

function attachmentRecord(seed: number, attachment: Attachment): JsonObject {
  return {
    id: attachment.id,
    document_id: attachment.documentId,
    file_name: attachment.name,
    content_type: attachment.kind.contentType,
    size: attachment.size,
    checksum: checksumOf(contentOf(seed, attachment)),
    created_at: libraryTime(attachment.createdAt),
    updated_at: libraryTime(attachment.updatedAt),
  };
}

/** What the attachment's bytes are made of: others for each version. */
function contentOf(seed: number, { index, version, kind, size }: Attachment): FileContent {
  return { seed: diceFor(seed, libraryKind.bytes, index, version).next(), kind, size };
}

/** By content, for all accounts: the largest file takes a tenth of a second to hash. Emptied when it is full. */
const checksums = new Map<string, string>();
const maxChecksums = 10_000;

/** SHA-256 of the bytes, in hex. */
function checksumOf(content: FileContent): string {
  const name = JSON.stringify([content.seed, content.kind.contentType, content.size]);
  const known = checksums.get(name);
  if (known !== undefined) return known;
  const hash = createHash('sha256');
  for (const chunk of fileChunks(content)) hash.update(chunk);
  const checksum = hash.digest('hex');
  if (checksums.size >= maxChecksums) checksums.clear();
  checksums.set(name, checksum);
  return checksum;
}

function person(seed: number, number: number): JsonObject {
  const { first, last, email } = personAt(seed, 7_000_000 + number);
  return { name: `${first} ${last}`.trim(), email };
}
