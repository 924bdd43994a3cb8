import { createRequire } from 'node:module';
import type { JsonObject, JsonValue } from '../../../../src/core/json.ts';
import { textOf } from '../../../../src/sample/sample-values.ts';
import type { TruthRecord } from '../../sample-truth.ts';
import { mailchimpRoutes } from './mailchimp-routes.ts';

type Call = (...args: (string | JsonObject)[]) => Promise<JsonObject>;
type Calls = Readonly<Record<string, Call>>;

/** Mailchimp's own client, of which there are no types. */
export interface OfficialMailchimp {
  basePath: string;
  setConfig(config: { readonly apiKey?: string; readonly accessToken?: string }): void;
  readonly ping: Calls;
  readonly root: Calls;
  readonly lists: Calls;
  readonly campaigns: Calls;
  readonly automations: Calls;
  readonly reports: Calls;
}

/** A client of its own, not the one that the package shares: several fakes may be walked at once. */
export function officialMailchimp(baseUrl: string, apiKey: string): OfficialMailchimp {
  const load = createRequire(import.meta.url);
  const ApiClient = load('@mailchimp/mailchimp_marketing/src/ApiClient') as new () => OfficialMailchimp;
  const client = new ApiClient();
  // Without a `server`: it would be put into the address.
  client.setConfig({ apiKey });
  client.basePath = baseUrl;
  return client;
}

/** Everything of an entity, over all its parents, as the client's own calls return it. */
export async function walkMailchimp(
  client: OfficialMailchimp,
  entity: string,
  pageSize = 1_000,
): Promise<readonly TruthRecord[]> {
  const { array, isPaged } = mailchimpRoutes.find((route) => route.entity === entity) ?? unknown(entity);
  const list = lists[entity] ?? unknown(entity);
  const found: TruthRecord[] = [];
  for (const parents of await parentsOf(client, entity, pageSize)) {
    const ids = Object.values(parents);
    for (let offset = 0; ; offset += pageSize) {
      const answer = await list(client, ids, isPaged ? { count: pageSize, offset } : {});
      const records = recordsIn(answer[array]);
      found.push(...records.map((record) => ({ record, params: parents })));
      if (!isPaged || offset + records.length >= Number(answer['total_items'])) break;
      if (records.length === 0) throw new Error(`${entity}: fewer records than its total_items`);
    }
  }
  return found;
}

/** A record by its key, as the client's own call returns it; null: the entity has no such call. */
export function getFromMailchimp(
  client: OfficialMailchimp,
  entity: string,
  { record, params }: TruthRecord,
): Promise<JsonObject> | null {
  const id = textOf(record['id']);
  const [first = '', second = ''] = Object.values(params).map(textOf);
  switch (entity) {
    case 'lists':
      return call(client.lists, 'getList', id);
    case 'campaigns':
      return call(client.campaigns, 'get', id);
    case 'automations':
      return call(client.automations, 'get', id);
    case 'reports':
      return call(client.reports, 'getCampaignReport', id);
    case 'list_members':
      return call(client.lists, 'getListMember', first, id);
    case 'interest_categories':
      return call(client.lists, 'getInterestCategory', first, id);
    case 'interests':
      return call(client.lists, 'getInterestCategoryInterest', first, second, id);
    case 'segments':
      return call(client.lists, 'getSegment', first, id);
    default:
      return null;
  }
}

type List = (client: OfficialMailchimp, ids: readonly string[], query: JsonObject) => Promise<JsonObject>;

const lists: Readonly<Record<string, List>> = {
  lists: ({ lists }, ids, query) => call(lists, 'getAllLists', ...ids, query),
  campaigns: ({ campaigns }, ids, query) => call(campaigns, 'list', ...ids, query),
  automations: ({ automations }, ids, query) => call(automations, 'list', ...ids, query),
  reports: ({ reports }, ids, query) => call(reports, 'getAllCampaignReports', ...ids, query),
  list_members: ({ lists }, ids, query) => call(lists, 'getListMembersInfo', ...ids, query),
  tags: ({ lists }, ids, query) => call(lists, 'tagSearch', ...ids, query),
  interest_categories: ({ lists }, ids, query) => call(lists, 'getListInterestCategories', ...ids, query),
  interests: ({ lists }, ids, query) => call(lists, 'listInterestCategoryInterests', ...ids, query),
  segments: ({ lists }, ids, query) => call(lists, 'listSegments', ...ids, query),
  segment_members: ({ lists }, ids, query) => call(lists, 'getSegmentMembersList', ...ids, query),
  email_activity: ({ reports }, ids, query) => call(reports, 'getEmailActivityForCampaign', ...ids, query),
  unsubscribes: ({ reports }, ids, query) => call(reports, 'getUnsubscribedListForCampaign', ...ids, query),
};

function call(calls: Calls, name: string, ...args: (string | JsonObject)[]): Promise<JsonObject> {
  const found = calls[name];
  if (found === undefined) throw new Error(`the official client has no ${name}`);
  // Its functions need their object.
  return found.apply(calls, args);
}

/** Names of the path and their values, for each listing of an entity. */
async function parentsOf(
  client: OfficialMailchimp,
  entity: string,
  pageSize: number,
): Promise<readonly Readonly<Record<string, string>>[]> {
  const walked = async (parent: string): Promise<readonly TruthRecord[]> =>
    await walkMailchimp(client, parent, pageSize);
  const field = (record: JsonObject, name: string): string => textOf(record[name]);
  switch (entity) {
    case 'lists':
    case 'campaigns':
    case 'automations':
    case 'reports':
      return [{}];
    case 'interests':
      return (await walked('interest_categories')).map(({ record }) => ({
        list_id: field(record, 'list_id'),
        interest_category_id: field(record, 'id'),
      }));
    case 'segment_members':
      return (await walked('segments')).map(({ record }) => ({
        list_id: field(record, 'list_id'),
        segment_id: field(record, 'id'),
      }));
    case 'email_activity':
    case 'unsubscribes':
      return (await walked('reports')).map(({ record }) => ({ campaign_id: field(record, 'id') }));
    default:
      return (await walked('lists')).map(({ record }) => ({ list_id: field(record, 'id') }));
  }
}

function recordsIn(value: JsonValue | undefined): readonly JsonObject[] {
  if (!Array.isArray(value)) throw new Error('the answer has no array of records');
  // `as`: what is compared with the truth needs no check before.
  return value as readonly JsonObject[];
}

function unknown(entity: string): never {
  throw new Error(`no such entity: ${entity}`);
}
