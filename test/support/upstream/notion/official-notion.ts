import { Client, collectPaginatedAPI, LogLevel } from '@notionhq/client';
import type { JsonObject } from '../../../../src/core/json.ts';
import { textOf } from '../../../../src/sample/sample-values.ts';
import type { TruthRecord } from '../../sample-truth.ts';

/** Notion's own client. `origin`: it adds `/v1` itself. */
export function officialNotion(origin: string, token: string): Client {
  return new Client({
    auth: token,
    baseUrl: origin,
    notionVersion: '2025-09-03',
    retry: false,
    // Every refusal would be a line on the screen.
    logLevel: LogLevel.ERROR,
  });
}

/**
 * Everything of an entity, over all its parents, as the client's own pager returns it. Blocks and comments as
 * `sampleTruth` has them.
 */
export async function walkNotion(
  client: Client,
  entity: string,
  page_size = 100,
): Promise<readonly TruthRecord[]> {
  switch (entity) {
    case 'users':
      return withParams(await collectPaginatedAPI(client.users.list, { page_size }), {});
    case 'pages':
    case 'data_sources': {
      const value = entity === 'pages' ? 'page' : 'data_source';
      const filter = { property: 'object', value } as const;
      return withParams(await collectPaginatedAPI(client.search, { filter, page_size }), { filter });
    }
    case 'blocks': {
      const found: TruthRecord[] = [];
      for (const { record } of await walkNotion(client, 'pages', page_size)) {
        found.push(...(await blocksBelow(client, textOf(record['id']), page_size)));
      }
      return found;
    }
    case 'comments': {
      const pages = await walkNotion(client, 'pages', page_size);
      const blocks = (await walkNotion(client, 'blocks', page_size)).filter(
        ({ record }) => !notEntered.has(textOf(record['type'])),
      );
      const found: TruthRecord[] = [];
      for (const { record } of [...pages, ...blocks]) {
        const block_id = textOf(record['id']);
        const comments = await collectPaginatedAPI(client.comments.list, { block_id, page_size });
        found.push(...withParams(comments, { block_id }));
      }
      return found;
    }
    default:
      throw new Error(`no such entity: ${entity}`);
  }
}

/** A record by its id, as the client's own call returns it, without the id of the request. */
export async function getFromNotion(client: Client, entity: string, id: string): Promise<JsonObject> {
  const { request_id: _ofRequest, ...record } = plain(await got(client, entity, id));
  return record;
}

function got(client: Client, entity: string, id: string): Promise<object> {
  switch (entity) {
    case 'users':
      return client.users.retrieve({ user_id: id });
    case 'pages':
      return client.pages.retrieve({ page_id: id });
    case 'data_sources':
      return client.dataSources.retrieve({ data_source_id: id });
    case 'blocks':
      return client.blocks.retrieve({ block_id: id });
    case 'comments':
      return client.comments.retrieve({ comment_id: id });
    default:
      throw new Error(`no such entity: ${entity}`);
  }
}

/** Their children are pages and data sources of their own. */
const notEntered = new Set(['child_page', 'child_database']);

async function blocksBelow(client: Client, block_id: string, page_size: number): Promise<TruthRecord[]> {
  const found: TruthRecord[] = [];
  for (const block of await collectPaginatedAPI(client.blocks.children.list, { block_id, page_size })) {
    const record = plain(block);
    const { parent } = record;
    // A synced copy shows the blocks of its original: they belong to that.
    if (!Object.values(parent ?? {}).includes(block_id)) continue;
    found.push({ record, params: { block_id } });
    if (record['has_children'] === true && !notEntered.has(textOf(record['type']))) {
      found.push(...(await blocksBelow(client, textOf(record['id']), page_size)));
    }
  }
  return found;
}

function withParams(records: readonly object[], params: JsonObject): readonly TruthRecord[] {
  return records.map((record) => ({ record: plain(record), params }));
}

/** The client's types name every field; what is compared with the truth is JSON. */
function plain(record: object): JsonObject {
  return record as JsonObject;
}
