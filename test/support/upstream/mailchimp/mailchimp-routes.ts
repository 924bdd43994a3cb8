/** One kind of record: where it is listed, and where a single one is. */
export interface MailchimpRoute {
  readonly entity: string;
  readonly list: string;
  /** The member of a list's answer that holds the records. */
  readonly array: string;
  /** Members of a list's answer that repeat what is in its path: member -> name in the path. */
  readonly repeats: Readonly<Record<string, string>>;
  /** The last name of its path is the record's. */
  readonly get: string | null;
  /** Parameters of the query besides `fields`, `exclude_fields` and those of paging: name -> values it takes. */
  readonly query: Readonly<Record<string, readonly string[] | 'text' | 'time' | 'flag'>>;
  readonly isPaged: boolean;
}

const sortDir = ['ASC', 'DESC'];
const campaignType = ['regular', 'plaintext', 'absplit', 'rss', 'variate'];
const segmentFlags = {
  include_cleaned: 'flag',
  include_transactional: 'flag',
  include_unsubscribed: 'flag',
} as const;

function route(
  entity: string,
  list: string,
  array: string,
  rest: Partial<Pick<MailchimpRoute, 'repeats' | 'get' | 'query' | 'isPaged'>> = {},
): MailchimpRoute {
  return { entity, list, array, repeats: {}, get: null, query: {}, isPaged: true, ...rest };
}

const ofList = { list_id: 'list_id' };
const ofCampaign = { campaign_id: 'campaign_id' };

/** Every address of the Marketing API 3.0 that tells what one of the twelve entities holds. */
export const mailchimpRoutes: readonly MailchimpRoute[] = [
  route('lists', '/lists', 'lists', {
    get: '/lists/{list_id}',
    query: {
      before_date_created: 'time',
      since_date_created: 'time',
      before_campaign_last_sent: 'time',
      since_campaign_last_sent: 'time',
      email: 'text',
      sort_field: ['date_created'],
      sort_dir: sortDir,
      has_ecommerce_store: 'flag',
      include_total_contacts: 'flag',
    },
  }),
  route('campaigns', '/campaigns', 'campaigns', {
    get: '/campaigns/{campaign_id}',
    query: {
      type: campaignType,
      status: ['save', 'paused', 'schedule', 'sending', 'sent'],
      before_send_time: 'time',
      since_send_time: 'time',
      before_create_time: 'time',
      since_create_time: 'time',
      list_id: 'text',
      folder_id: 'text',
      sort_field: ['create_time', 'send_time'],
      sort_dir: sortDir,
    },
  }),
  route('automations', '/automations', 'automations', {
    get: '/automations/{workflow_id}',
    query: {
      before_create_time: 'time',
      since_create_time: 'time',
      before_start_time: 'time',
      since_start_time: 'time',
      status: ['save', 'paused', 'sending'],
    },
  }),
  route('reports', '/reports', 'reports', {
    get: '/reports/{campaign_id}',
    query: { type: campaignType, before_send_time: 'time', since_send_time: 'time' },
  }),
  route('list_members', '/lists/{list_id}/members', 'members', {
    repeats: ofList,
    get: '/lists/{list_id}/members/{subscriber_hash}',
    query: {
      email_type: 'text',
      status: ['subscribed', 'unsubscribed', 'cleaned', 'pending', 'transactional', 'archived'],
      since_timestamp_opt: 'time',
      before_timestamp_opt: 'time',
      since_last_changed: 'time',
      before_last_changed: 'time',
      unique_email_id: 'text',
      vip_only: 'flag',
      interest_category_id: 'text',
      interest_ids: 'text',
      interest_match: ['any', 'all', 'none'],
      sort_field: ['timestamp_opt', 'timestamp_signup', 'last_changed'],
      sort_dir: sortDir,
      since_last_campaign: 'flag',
    },
  }),
  // Everything at once, and no `_links` beside it.
  route('tags', '/lists/{list_id}/tag-search', 'tags', { query: { name: 'text' }, isPaged: false }),
  route('interest_categories', '/lists/{list_id}/interest-categories', 'categories', {
    repeats: ofList,
    get: '/lists/{list_id}/interest-categories/{interest_category_id}',
    query: { type: 'text' },
  }),
  route('interests', '/lists/{list_id}/interest-categories/{interest_category_id}/interests', 'interests', {
    repeats: { list_id: 'list_id', category_id: 'interest_category_id' },
    get: '/lists/{list_id}/interest-categories/{interest_category_id}/interests/{interest_id}',
  }),
  route('segments', '/lists/{list_id}/segments', 'segments', {
    repeats: ofList,
    get: '/lists/{list_id}/segments/{segment_id}',
    query: {
      type: 'text',
      since_created_at: 'time',
      before_created_at: 'time',
      since_updated_at: 'time',
      before_updated_at: 'time',
      ...segmentFlags,
    },
  }),
  route('segment_members', '/lists/{list_id}/segments/{segment_id}/members', 'members', {
    query: segmentFlags,
  }),
  route('email_activity', '/reports/{campaign_id}/email-activity', 'emails', {
    repeats: ofCampaign,
    query: { since: 'time' },
  }),
  route('unsubscribes', '/reports/{campaign_id}/unsubscribed', 'unsubscribes', { repeats: ofCampaign }),
];
