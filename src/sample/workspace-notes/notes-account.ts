import { randomUUID } from 'node:crypto';
import { isJsonObject, type JsonObject, type JsonValue } from '../../core/json.ts';
import type { Params } from '../../core/records.ts';
import { notFound } from '../../service/api-error.ts';
import { listingOf, type SampleAccount } from '../sample-account.ts';
import { textOf } from '../writing.ts';
import { planNotes } from './notes-plan.ts';
import { reviseNotes } from './revise-notes.ts';
import { startWork, type Workspace, writeWorkspace } from './workspace.ts';

/** The workspace behind a workspace-notes connector. It is written out when something is first asked for. */
export function openNotesAccount(seed: number, size: 'tiny' | 'small', revision: number): SampleAccount {
  let written: Workspace | null = null;
  const workspace = (): Workspace => (written ??= open(seed, size, revision));

  return {
    list(entity, params) {
      switch (entity) {
        case 'users':
          return listingOf(workspace().users);
        // Both are one search of the third party: what kind comes back is up to the filter alone.
        case 'pages':
        case 'data_sources':
          return listingOf(search(workspace(), params));
        case 'blocks': {
          const { blocks, children } = workspace();
          const ids = children.get(parentId(workspace(), params)) ?? [];
          return listingOf(ids.map((id) => blocks.get(id)).filter((block) => block !== undefined));
        }
        case 'comments':
          return listingOf(workspace().comments.get(parentId(workspace(), params)) ?? []);
        default:
          throw notFound(`The sample account has nothing under '${entity}'.`);
      }
    },
    get(entity, params) {
      const record = find(workspace(), entity, params);
      // Another one in every answer, as in the live service: nothing to tell records apart by.
      return record === undefined ? null : { ...record, request_id: randomUUID() };
    },
  };
}

function open(seed: number, size: 'tiny' | 'small', revision: number): Workspace {
  const work = startWork(planNotes(seed, size));
  reviseNotes(work, revision);
  return writeWorkspace(work);
}

/** Newest edit first unless `sort` says otherwise; trashed pages and data sources are not found. */
function search({ pages, dataSources }: Workspace, params: Params): readonly JsonObject[] {
  const wanted = memberOf(params['filter'], 'value');
  const sign = memberOf(params['sort'], 'direction') === 'ascending' ? 1 : -1;
  const records = [
    ...(wanted === 'data_source' ? [] : pages.values()),
    ...(wanted === 'page' ? [] : dataSources.values()),
  ].filter((record) => record['in_trash'] !== true);
  const editedAt = (record: JsonObject): number => Date.parse(textOf(record['last_edited_time']));
  return records.sort((left, right) => sign * (editedAt(left) - editedAt(right)));
}

function find(workspace: Workspace, entity: string, params: Params): JsonObject | undefined {
  switch (entity) {
    case 'users':
      return workspace.users.find(({ id }) => id === toId(params['user_id']));
    case 'pages':
      return workspace.pages.get(toId(params['page_id']));
    case 'data_sources':
      return workspace.dataSources.get(toId(params['data_source_id']));
    case 'blocks':
      return workspace.blocks.get(toId(params['block_id']));
    case 'comments':
      return [...workspace.comments.values()].flat().find(({ id }) => id === toId(params['comment_id']));
    default:
      return undefined;
  }
}

/** Of a page or block that is there; throws 404 for any other. */
function parentId({ children }: Workspace, params: Params): string {
  const id = toId(params['block_id']);
  if (children.has(id)) return id;
  throw notFound(
    `Could not find block with ID: ${id.slice(0, 40)}. ` +
      'Make sure the relevant pages and databases are shared with your integration.',
  );
}

/** Ids are taken with and without dashes, in any case. */
function toId(value: JsonValue | undefined): string {
  const hex = textOf(value).replaceAll('-', '').toLowerCase();
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
}

function memberOf(value: JsonValue | undefined, name: string): JsonValue | undefined {
  return isJsonObject(value) ? value[name] : undefined;
}
