import type { JsonObject } from '../../core/json.ts';
import { notFound, type ApiError } from '../../service/api-error.ts';
import { listingOf } from '../listing.ts';
import { before, equalTo, filterRecords, since, type RecordFilters } from '../record-filters.ts';
import type { SampleAccount, SampleFile } from '../sample-account.ts';
import { textOf } from '../text-of.ts';
import { contentOf } from './attachment-content.ts';
import { fileBytes } from './file-bytes.ts';
import { contentTypes } from './file-kinds.ts';
import type { Attachment, Folder, LibraryDocument } from './library.ts';
import { attachmentRecord, documentRecord, folderRecord } from './library-records.ts';
import { planLibrary } from './plan-library.ts';
import { reviseLibrary } from './revise-library.ts';

/** The library behind a document-library connector. It is planned when something is first asked for. */
export function openLibraryAccount(seed: number, size: 'tiny' | 'small', revision: number): SampleAccount {
  const open = once(() => {
    const library = reviseLibrary(seed, planLibrary(seed, size), revision);
    return {
      ...library,
      documentsByFolder: grouped(library.documents, ({ folderId }) => folderId),
      attachmentsByDocument: grouped(library.attachments, ({ documentId }) => documentId),
    };
  });
  const toFolder = (folder: Folder): JsonObject => folderRecord(seed, folder);
  const toDocument = (document: LibraryDocument): JsonObject =>
    documentRecord(seed, document, open().attachmentsByDocument.get(document.id) ?? []);
  const toAttachment = (attachment: Attachment): JsonObject => attachmentRecord(seed, attachment);

  return {
    list(entity, params) {
      switch (entity) {
        case 'folders':
          return listingOf([...open().folders.values()].map(toFolder));
        case 'documents': {
          const id = textOf(params['folder_id']);
          if (!open().folders.has(id)) throw missing('folder', id);
          const records = (open().documentsByFolder.get(id) ?? []).map(toDocument);
          return listingOf(filterRecords(records, documentFilters, params));
        }
        case 'attachments': {
          const id = textOf(params['document_id']);
          if (!open().documents.has(id)) throw missing('document', id);
          return listingOf((open().attachmentsByDocument.get(id) ?? []).map(toAttachment));
        }
        default:
          throw notFound(`The sample account has nothing under '${entity}'.`);
      }
    },
    get(entity, params) {
      switch (entity) {
        case 'folders':
          return shown(open().folders.get(textOf(params['folder_id'])), toFolder);
        case 'documents':
          return shown(open().documents.get(textOf(params['document_id'])), toDocument);
        case 'attachments':
          return shown(open().attachments.get(textOf(params['attachment_id'])), toAttachment);
        default:
          return null;
      }
    },
    file(entity, params) {
      if (entity !== 'attachments') return null;
      return shown(open().attachments.get(textOf(params['attachment_id'])), (attachment): SampleFile => ({
        name: attachment.name,
        contentType: contentTypes[attachment.kind],
        size: attachment.size,
        read: (signal) => fileBytes(contentOf(seed, attachment), signal),
      }));
    },
  };
}

const documentFilters: RecordFilters = {
  status: equalTo('status'),
  updated_since: since('updated_at'),
  updated_before: before('updated_at'),
};

/** In their order, by the id of what they lie in. */
function grouped<Thing>(
  things: ReadonlyMap<string, Thing>,
  ownerOf: (thing: Thing) => string,
): ReadonlyMap<string, readonly Thing[]> {
  const byOwner = new Map<string, Thing[]>();
  for (const thing of things.values()) {
    const owned = byOwner.get(ownerOf(thing)) ?? [];
    byOwner.set(ownerOf(thing), owned);
    owned.push(thing);
  }
  return byOwner;
}

function shown<Thing, Shown>(thing: Thing | undefined, show: (thing: Thing) => Shown): Shown | null {
  return thing === undefined ? null : show(thing);
}

function missing(what: string, id: string): ApiError {
  return notFound(`There is no ${what} with the id ${JSON.stringify(id.slice(0, 60))}.`);
}

function once<Value>(make: () => Value): () => Value {
  let made: { readonly value: Value } | null = null;
  return () => (made ??= { value: make() }).value;
}
