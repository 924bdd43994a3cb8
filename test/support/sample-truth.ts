import type { JsonObject, JsonValue } from '../../src/core/json.ts';
import type { Params } from '../../src/core/records.ts';
import type { SampleAccount } from '../../src/sample/sample-account.ts';
import { textOf } from '../../src/sample/sample-values.ts';

/** A record that a complete walk of an entity stores. */
export interface TruthRecord {
  readonly record: JsonObject;
  /**
   * The `list` parameters that it is met under; for a block also its place: `page_id`, `depth` (0 at the page's top)
   * and `position` in its listing (from 0).
   */
  readonly params: Params;
}

/**
 * Every record of an entity over all parents, in the order in which lists return them, without HTTP and without
 * paging: what a sync has to end up with. Blocks come once, in their own listing, and not again where a synced copy
 * shows them. Comments come for pages and for single blocks (`record.parent.type` tells which).
 */
export function* sampleTruth(account: SampleAccount, entity: string): Iterable<TruthRecord> {
  if (entity === 'blocks') {
    for (const page of ids(account, 'pages')) yield* blocksBelow(account, page, page, 0);
    return;
  }
  for (const params of partitions(account, entity)) {
    for (const record of recordsOf(account, entity, params)) yield { record, params };
  }
}

/** The parameter sets whose lists together hold every record of the entity. */
function* partitions(account: SampleAccount, entity: string): Iterable<Params> {
  switch (entity) {
    case 'pages':
      yield { filter: { property: 'object', value: 'page' } };
      return;
    case 'data_sources':
      yield { filter: { property: 'object', value: 'data_source' } };
      return;
    case 'documents':
      for (const folder_id of ids(account, 'folders')) yield { folder_id };
      return;
    case 'attachments':
      for (const document_id of ids(account, 'documents')) yield { document_id };
      return;
    case 'list_members':
    case 'tags':
    case 'interest_categories':
    case 'segments':
      for (const list_id of ids(account, 'lists')) yield { list_id };
      return;
    case 'interests':
      for (const { record } of sampleTruth(account, 'interest_categories')) {
        yield { list_id: record['list_id'] ?? null, interest_category_id: record['id'] ?? null };
      }
      return;
    case 'segment_members':
      for (const { record } of sampleTruth(account, 'segments')) {
        yield { list_id: record['list_id'] ?? null, segment_id: textOf(record['id']) };
      }
      return;
    case 'email_activity':
    case 'unsubscribes':
      // A campaign has them from the moment that it has a report.
      for (const campaign_id of ids(account, 'reports')) yield { campaign_id };
      return;
    case 'comments':
      for (const block_id of ids(account, 'pages')) yield { block_id };
      for (const { record } of sampleTruth(account, 'blocks')) {
        // A child page was asked about as a page.
        if (!notEntered.has(record['type'])) yield { block_id: record['id'] ?? null };
      }
      return;
    default:
      yield {};
  }
}

function* ids(account: SampleAccount, entity: string): Iterable<string> {
  for (const { record } of sampleTruth(account, entity)) yield textOf(record['id']);
}

const pageLength = 1_000;

function* recordsOf(account: SampleAccount, entity: string, params: Params): Iterable<JsonObject> {
  const listing = account.list(entity, params);
  for (let offset = 0; ; offset += pageLength) {
    const records = listing.slice(offset, pageLength);
    yield* records;
    if (records.length < pageLength) return;
  }
}

/** Their children are pages and data sources of their own. */
const notEntered = new Set<JsonValue | undefined>(['child_page', 'child_database']);

function* blocksBelow(
  account: SampleAccount,
  pageId: string,
  listingId: string,
  depth: number,
): Iterable<TruthRecord> {
  let position = 0;
  for (const record of recordsOf(account, 'blocks', { block_id: listingId })) {
    if (belongsTo(record, listingId)) {
      yield { record, params: { block_id: listingId, page_id: pageId, depth, position } };
      if (record['has_children'] === true && !notEntered.has(record['type'])) {
        yield* blocksBelow(account, pageId, textOf(record['id']), depth + 1);
      }
    }
    position += 1;
  }
}

function belongsTo(record: JsonObject, listingId: string): boolean {
  const parent = record['parent'];
  return (
    typeof parent === 'object' &&
    parent !== null &&
    Object.values(parent).some((value) => value === listingId)
  );
}
