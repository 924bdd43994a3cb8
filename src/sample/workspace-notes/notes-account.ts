import { randomUUID } from 'node:crypto';
import { isJsonObject, type JsonObject, type JsonValue } from '../../core/json.ts';
import type { Params } from '../../core/records.ts';
import { notFound, type ApiError } from '../../service/api-error.ts';
import { listingOf, type Listing } from '../listing.ts';
import type { SampleAccount } from '../sample-account.ts';
import { pageAsBlock } from './block-tree.ts';
import { planNotes } from './notes-plan.ts';
import { reviseNotes } from './revise-notes.ts';
import { childrenOf, openWorkspace, type Workspace } from './workspace.ts';
import { textOf } from '../text-of.ts';

/** The workspace behind a workspace-notes connector. It is written out when something is first asked for. */
export function openNotesAccount(seed: number, size: 'tiny' | 'small', revision: number): SampleAccount {
  const workspace = once(() => {
    const plan = planNotes(seed, size);
    return reviseNotes(plan, openWorkspace(plan), revision);
  });

  return {
    list(entity, params): Listing {
      switch (entity) {
        case 'users':
          return listingOf([...workspace().users.values()]);
        // Both are one search of the third party: what kind comes back is up to the filter alone.
        case 'pages':
        case 'data_sources':
          return listingOf(search(workspace(), params));
        case 'blocks':
          return listingOf(childrenById(workspace(), params).children);
        case 'comments': {
          const { id } = childrenById(workspace(), params);
          return listingOf(workspace().comments.get(id) ?? []);
        }
        default:
          throw notFound(`The sample account has nothing under '${entity}'.`);
      }
    },
    get(entity, params) {
      const record = find(workspace(), entity, params);
      // Another one in every answer, as in the live service: nothing to tell records apart by.
      return record === null ? null : { ...record, request_id: randomUUID() };
    },
  };
}

/** Newest edit first unless `sort` says otherwise; trashed pages and data sources are not found. */
function search({ pages, dataSources }: Workspace, params: Params): readonly JsonObject[] {
  const wanted = memberOf(params['filter'], 'value');
  const isAscending = memberOf(params['sort'], 'direction') === 'ascending';
  const records = [
    ...(wanted === 'data_source' ? [] : pages.values()),
    ...(wanted === 'page' ? [] : dataSources.values()),
  ].filter((record) => record['in_trash'] !== true);
  const editedAt = (record: JsonObject): number => Date.parse(textOf(record['last_edited_time']));
  return records.sort((left, right) => (isAscending ? 1 : -1) * (editedAt(left) - editedAt(right)));
}

function find(workspace: Workspace, entity: string, params: Params): JsonObject | null {
  switch (entity) {
    case 'users':
      return workspace.users.get(toId(params['user_id'])) ?? null;
    case 'pages':
      return workspace.pages.get(toId(params['page_id'])) ?? null;
    case 'data_sources':
      return workspace.dataSources.get(toId(params['data_source_id'])) ?? null;
    case 'blocks': {
      const id = toId(params['block_id']);
      const block = workspace.blocks.get(id);
      if (block !== undefined) return block;
      const page = workspace.pages.get(id);
      return page === undefined ? null : pageAsBlock(page);
    }
    default:
      return null;
  }
}

function childrenById(
  workspace: Workspace,
  params: Params,
): { readonly id: string; readonly children: readonly JsonObject[] } {
  const id = toId(params['block_id']);
  const children = childrenOf(workspace, id);
  if (children === null) throw notShared('block', id);
  return { id, children };
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
