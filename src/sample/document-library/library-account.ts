import type { JsonObject, JsonValue } from '../../core/json.ts';
import { notFound } from '../../service/api-error.ts';
import { filterRecords, listingOf } from '../listing.ts';
import type { SampleAccount } from '../sample-account.ts';
import { textOf } from '../writing.ts';
import { contentTypes, fileBytes } from './file-bytes.ts';
import { planLibrary, type LibraryDocument } from './library.ts';
import { attachmentRecord, contentOf, documentRecord, folderRecord } from './library-records.ts';
import { reviseLibrary } from './revise-library.ts';

/** The library behind a document-library connector. */
export function openLibraryAccount(seed: number, size: 'tiny' | 'small', revision: number): SampleAccount {
  const { folders, documents, attachments } = reviseLibrary(seed, planLibrary(seed, size), revision);
  const toDocument = (document: LibraryDocument): JsonObject =>
    documentRecord(
      seed,
      document,
      attachments.filter(({ documentId }) => documentId === document.id),
    );

  return {
    list(entity, params) {
      switch (entity) {
        case 'folders':
          return listingOf(folders.map((folder) => folderRecord(seed, folder)));
        case 'documents': {
          const { id } = known(folders, 'folder', params['folder_id']);
          const records = documents.filter(({ folderId }) => folderId === id).map(toDocument);
          return listingOf(filterRecords(records, { status: 'status', updated: 'updated_at' }, params));
        }
        case 'attachments': {
          const { id } = known(documents, 'document', params['document_id']);
          const own = attachments.filter(({ documentId }) => documentId === id);
          return listingOf(own.map((attachment) => attachmentRecord(seed, attachment)));
        }
        default:
          throw notFound(`The sample account has nothing under '${entity}'.`);
      }
    },
    get(entity, params) {
      switch (entity) {
        case 'folders':
          return shown(find(folders, params['folder_id']), (folder) => folderRecord(seed, folder));
        case 'documents':
          return shown(find(documents, params['document_id']), toDocument);
        case 'attachments':
          return shown(find(attachments, params['attachment_id']), (one) => attachmentRecord(seed, one));
        default:
          return null;
      }
    },
    file(entity, params) {
      if (entity !== 'attachments') return null;
      return shown(find(attachments, params['attachment_id']), (attachment) => {
        const content = contentOf(seed, attachment);
        return {
          name: attachment.name,
          contentType: contentTypes[attachment.kind],
          size: attachment.size,
          read: (signal: AbortSignal) => fileBytes(content, signal),
        };
      });
    },
  };
}

function find<Thing extends { readonly id: string }>(
  things: readonly Thing[],
  id: JsonValue | undefined,
): Thing | undefined {
  return things.find((thing) => thing.id === id);
}

function known<Thing extends { readonly id: string }>(
  things: readonly Thing[],
  what: string,
  id: JsonValue | undefined,
): Thing {
  const thing = find(things, id);
  if (thing !== undefined) return thing;
  throw notFound(`There is no ${what} with the id ${JSON.stringify(textOf(id).slice(0, 60))}.`);
}

function shown<Thing, Shown>(thing: Thing | undefined, show: (thing: Thing) => Shown): Shown | null {
  return thing === undefined ? null : show(thing);
}
