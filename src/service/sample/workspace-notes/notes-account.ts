import { randomUUID } from 'node:crypto';
import { isJsonObject, type JsonObject, type JsonValue } from '../../../core/json.ts';
import type { Params } from '../../../core/records.ts';
import { notFound, type ApiError } from '../../api-error.ts';
import { listingOf, type Listing } from '../listing.ts';
import type { SampleAccount } from '../sample-account.ts';
import { growBlockTree, pageAsBlock, type BlockTree } from './block-tree.ts';
import { commentsById } from './comment-records.ts';
import { planNotes, type NotesPlan } from './notes-plan.ts';
import { dataSourceRecord, pageRecord } from './page-records.ts';
import { userRecords } from './user-records.ts';
import { textOf } from '../text-of.ts';

/** The workspace behind a workspace-notes connector. Blocks and comments are written out when first asked for. */
export function openNotesAccount(seed: number, size: 'tiny' | 'small'): SampleAccount {
  const plan = planNotes(seed, size);
  const tree = once(() => growBlockTree(plan));
  const comments = once(() => commentsById(plan, tree()));

  return {
    list(entity, params): Listing {
      switch (entity) {
        case 'users':
          return listingOf(userRecords(plan));
        // Both are one search of the third party: what kind comes back is up to the filter alone.
        case 'pages':
        case 'data_sources':
          return listingOf(search(plan, params));
        case 'blocks': {
          const id = toId(params['block_id']);
          const children = tree().childrenOf(id);
          if (children === null) throw notShared('block', id);
          return listingOf(children);
        }
        case 'comments': {
          const id = toId(params['block_id']);
          if (tree().childrenOf(id) === null) throw notShared('block', id);
          return listingOf(comments().get(id) ?? []);
        }
        default:
          throw notFound(`The sample account has nothing under '${entity}'.`);
      }
    },
    get(entity, params) {
      const record = find(plan, tree, entity, params);
      // Another one in every answer, as in the live service: nothing to tell records apart by.
      return record === null ? null : { ...record, request_id: randomUUID() };
    },
  };
}

/** Newest edit first unless `sort` says otherwise; trashed pages are not found. */
function search(plan: NotesPlan, params: Params): readonly JsonObject[] {
  const wanted = memberOf(params['filter'], 'value');
  const isAscending = memberOf(params['sort'], 'direction') === 'ascending';
  const records = [
    ...(wanted === 'data_source'
      ? []
      : plan.pages.filter(({ isTrashed }) => !isTrashed).map((page) => pageRecord(plan, page))),
    ...(wanted === 'page' ? [] : plan.databases.map((database) => dataSourceRecord(plan, database))),
  ];
  const editedAt = (record: JsonObject): number => Date.parse(textOf(record['last_edited_time']));
  return records.sort((left, right) => (isAscending ? 1 : -1) * (editedAt(left) - editedAt(right)));
}

function find(plan: NotesPlan, tree: () => BlockTree, entity: string, params: Params): JsonObject | null {
  switch (entity) {
    case 'users': {
      const id = toId(params['user_id']);
      return userRecords(plan).find((record) => record['id'] === id) ?? null;
    }
    case 'pages': {
      const id = toId(params['page_id']);
      const page = plan.pages.find((candidate) => candidate.id === id);
      return page === undefined ? null : pageRecord(plan, page);
    }
    case 'data_sources': {
      const id = toId(params['data_source_id']);
      const database = plan.databases.find(({ dataSourceId }) => dataSourceId === id);
      return database === undefined ? null : dataSourceRecord(plan, database);
    }
    case 'blocks': {
      const id = toId(params['block_id']);
      const block = tree().blockById.get(id);
      if (block !== undefined) return block;
      const page = plan.pages.find((candidate) => candidate.id === id);
      return page === undefined ? null : pageAsBlock(page);
    }
    default:
      return null;
  }
}

/** Ids are taken with and without dashes, in any case. */
function toId(value: JsonValue | undefined): string {
  const hex = textOf(value).replaceAll('-', '').toLowerCase();
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
}

function memberOf(value: JsonValue | undefined, name: string): JsonValue | undefined {
  return isJsonObject(value) ? value[name] : undefined;
}

function notShared(what: string, id: string): ApiError {
  return notFound(
    `Could not find ${what} with ID: ${id.slice(0, 40)}. ` +
      'Make sure the relevant pages and databases are shared with your integration.',
  );
}

function once<Value>(make: () => Value): () => Value {
  let made: { readonly value: Value } | null = null;
  return () => (made ??= { value: make() }).value;
}
